"""Which statements compute the loss of a ``backward()``: they become the function whose gradient MindSpore takes.

MindSpore differentiates functions. The statements on which a loss depends by way of parameters are gathered, in their order, with
what stands between them; what they assign and is read elsewhere is given back beside the loss.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from ms_port.script.flow import VALUES, builtin, computes, flows, gives_detached, plain_layer, returns, thing
from ms_port.script.inference import Inference
from ms_port.script.kinds import is_module, is_optimizer, is_tensor
from ms_port.script.source import dotted
from ms_port.script.syntax import blocks, own_nodes, targets


@dataclass(eq=False)
class Backward:
    """One ``backward()``: its statement, the expression that is differentiated, and the scale around it."""

    statement: ast.stmt
    call: ast.Call
    loss: ast.expr
    scaler: ast.expr | None = None


@dataclass(eq=False)
class Region:
    """The statements ``block[first:last + 1]`` become a function, with copies of ``again`` before them."""

    block: Sequence[ast.stmt]
    first: int
    last: int
    backwards: list[Backward]
    again: list[ast.stmt] = field(default_factory=list)
    test: ast.expr | None = None
    """Condition under which the gradient is needed, where it is known before the loss is."""

    @property
    def body(self) -> list[ast.stmt]:
        return list(self.block[self.first : self.last + 1])


@dataclass(eq=False)
class Refusal:
    """A backward whose computation could not be gathered."""

    backward: Backward
    reason: str


def backward_of(node: ast.AST, inference: Inference) -> Backward | None:
    """The backward that a statement makes."""
    if not (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
    ):
        return None
    call, func = node.value, node.value.func
    if func.attr in ("manual_backward",) and call.args:
        return Backward(node, call, call.args[0])
    if func.attr != "backward":
        return None
    held = func.value
    if call.args and not is_tensor(inference.of(held)) and "accelerat" in ast.unparse(held):
        return Backward(node, call, call.args[0])
    if isinstance(held, ast.Call) and isinstance(held.func, ast.Attribute) and held.func.attr == "scale" and held.args:
        return Backward(node, call, held.args[0], held.func.value)
    return Backward(node, call, held)


@dataclass(eq=False)
class Effects:
    """What functions set with a gradient."""

    set_by: dict[ast.AST, set[str]] = field(default_factory=dict)
    """Function -> dotted names (``self.fake``, ``policy.saved_log_probs``)."""
    held: set[str] = field(default_factory=set)
    """Names of the attributes among them."""
    by_models: set[str] = field(default_factory=set)
    """What any call of a model may set: ``*.loss`` (an attribute that some ``forward`` sets), or a name that a forward hook writes."""

    def read_as(self, name: str) -> set[str]:
        """The names under which a model's call may have set what is read by a dotted name."""
        wide = f"*.{name.rpartition('.')[2]}" if "." in name else name
        return {name, wide} if wide in self.by_models else {name}


def _overlap(one: Region, other: Region) -> bool:
    return one.block is other.block and one.first <= one.last and one.first <= other.last and other.first <= one.last


ELSEWHERE = "the loss is computed in another function than its backward"


class Finder:
    """Regions of one scope (a function's body or a file's top level)."""

    def __init__(
        self,
        body: Sequence[ast.stmt],
        inference: Inference,
        incoming: Set[str] = frozenset(),
        effects: Effects | None = None,
        any_call: bool = False,
    ) -> None:
        """``incoming`` are names that bring a gradient from other functions; ``effects`` what functions set.

        With ``any_call`` a gradient may come out of each call of which nothing is known, and of each function of the project.
        """
        self.any_call = any_call
        self.body, self.inference, self.incoming = list(body), inference, incoming
        self.effects = effects or Effects()
        self.carrying: dict[ast.stmt, set[str]] = {}
        self.paths: dict[ast.stmt, list[tuple[list[ast.stmt], int]]] = {}
        self.passed: list[tuple[ast.Call, dict[str, bool]]] = []
        """Calls of functions of the project, with what carried a gradient then."""
        self.carry: dict[str, bool] = dict.fromkeys(incoming, True)
        self._walk(self.body, [], self.carry)

    def regions(self) -> tuple[list[Region], list[Refusal]]:
        """All regions, and what could not be gathered."""
        found: list[Region] = []
        refused: list[Refusal] = []
        for statement in self.paths:
            backward = backward_of(statement, self.inference)
            if backward is None:
                continue
            region = self._region(backward)
            if isinstance(region, Refusal) and region.reason == ELSEWHERE and not self.any_call:
                region = self._wider()._region(backward)
            if isinstance(region, Refusal):
                refused.append(region)
                continue
            same = [r for r in found if r.block is region.block and (r.first, r.last) == (region.first, region.last)]
            if same and ast.dump(same[0].backwards[0].loss) == ast.dump(backward.loss) and region.last >= region.first:
                same[0].backwards.append(backward)
                same[0].test = None if same[0].test is None or region.test is None else same[0].test
            elif region.last >= region.first and any(_overlap(r, region) for r in found):
                region.again, region.first = [*region.again, *region.body], region.last + 1
                found.append(region)
            else:
                found.append(region)
        return found, refused

    def _wider(self) -> Finder:
        return Finder(self.body, self.inference, self.incoming, self.effects, any_call=True)

    # what carries a gradient

    def _walk(self, body: list[ast.stmt], path: list[tuple[list[ast.stmt], int]], carry: dict[str, bool]) -> None:
        for index, statement in enumerate(body):
            here = [*path, (body, index)]
            self.paths[statement] = here
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            if isinstance(statement, (ast.With, ast.AsyncWith)) and any(
                "no_grad" in ast.unparse(i.context_expr) for i in statement.items
            ):
                quiet: dict[str, bool] = {}
                self._walk(statement.body, here, quiet)
                for inner in ast.walk(statement):
                    if isinstance(inner, ast.stmt):
                        self.carrying[inner] = set()
                continue
            before = dict(carry)
            if isinstance(statement, (ast.For, ast.AsyncFor)) and self.carries(statement.iter, carry):
                carry.update({n.id: True for n in ast.walk(statement.target) if isinstance(n, ast.Name)})
            for inner_body in blocks(statement):
                self._walk(inner_body, here, carry)
            self.carrying[statement] = self._carried(statement, carry, before)

    def _carried(self, statement: ast.stmt, carry: dict[str, bool], before: dict[str, bool]) -> set[str]:
        """Names that hold a value with a gradient after a statement; ``carry`` is brought up to date."""
        inner = (
            set().union(*(self.carrying.get(s, set()) for b in blocks(statement) for s in b))
            if any(True for _ in blocks(statement))
            else set()
        )
        if inner or any(True for _ in blocks(statement)):
            return inner
        value: ast.AST | None = getattr(statement, "value", None)
        names = targets(statement)
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and (call.args or call.keywords):
                kind = self.inference.of(call.func)
                if isinstance(kind, tuple) and kind[0] == "func":
                    self.passed.append((call, dict(carry)))
        called = self._effects_of(statement)
        carry.update(dict.fromkeys(called, True))
        collected = _collects(statement)
        if collected is not None:
            if any(self.carries(argument, carry) for argument in collected.args):
                carry.update(dict.fromkeys(names, True))
                return names | called
            return called
        if isinstance(statement, ast.Expr):
            return called
        if value is None or not names:
            return called
        carries = not thing(self.inference.of(value)) and self.carries(value, carry)
        if isinstance(statement, ast.AugAssign):
            carries = carries or any(carry.get(name) for name in names)
        for name in names:
            carry[name] = carries or (carry.get(name, False) and not isinstance(statement, ast.Assign))
        return names | called if carries else called

    def _effects_of(self, statement: ast.stmt) -> set[str]:
        """Names with a gradient that the functions set which a statement calls: ``self.forward()``, ``select_action(state)``."""
        found: set[str] = set()
        for call in ast.walk(statement):
            if not isinstance(call, ast.Call):
                continue
            kind = self.inference.of(call.func)
            node: ast.AST | None = None
            receiver = dotted(call.func)
            if isinstance(kind, tuple) and kind[0] == "func":
                node = kind[1].node
                receiver = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else None
            elif isinstance(kind, tuple) and kind[0] == "inst" and "forward" in kind[1].methods:
                node = kind[1].methods["forward"].node
            if self.effects.by_models and self._runs(call):
                found |= self.effects.by_models
            for name in self.effects.set_by.get(node, ()) if node is not None else ():
                if name.startswith("self."):
                    found |= {f"{receiver}{name[4:]}"} if receiver else set()
                else:
                    found.add(name)
        return found

    def _runs(self, call: ast.Call) -> bool:
        """Whether a call runs a model as far as is known: no method of one."""
        if isinstance(call.func, ast.Attribute) and is_module(self.inference.of(call.func.value)):
            return is_module(self.inference.of(call.func))
        kind = self.inference.of(call.func)
        return (kind is None or is_module(kind)) and self._through(call)

    def carries(self, value: ast.AST, carry: dict[str, bool]) -> bool:
        """Whether an expression depends on parameters."""
        for node in flows(value, self._cuts):
            if isinstance(node, ast.Call) and self._through(node):
                return True
            if isinstance(node, (ast.Name, ast.Attribute)):
                kind = self.inference.of(node)
                if kind == "parameter":
                    return True
                if kind in VALUES:
                    continue
                name = dotted(node)
                if name is not None and carry.get(name, self._held(name)):
                    return True
        return False

    def _held(self, name: str) -> bool:
        """Whether a dotted name is one that some function sets with a gradient."""
        wide = self.effects.read_as(name)
        return len(wide) > 1 or ("." in name and name.rpartition(".")[2] in self.effects.held)

    def _cuts(self, node: ast.Call) -> bool:
        """Whether a call gives no gradient on: arrays and numbers, or detached values (``repackage_hidden``)."""
        if self.inference.of(node) in VALUES:
            return True
        kind = self.inference.of(node.func)
        if not (isinstance(kind, tuple) and kind[0] == "func"):
            return False
        return gives_detached(kind[1].node) and not computes(kind[1].node, self.inference, set())

    def _through(self, node: ast.Call) -> bool:
        """Whether a call may run a model: a module, a function of the project, something unknown on tensors."""
        kind = self.inference.of(node.func)
        if is_module(kind):
            return not (isinstance(kind, tuple) and kind[0] == "layer" and plain_layer(str(kind[1])))
        if isinstance(kind, tuple) and kind[0] == "func":
            return returns(kind[1].node) and (self.any_call or computes(kind[1].node, self.inference, set()))
        if isinstance(kind, tuple) and kind[0] == "inst":
            return True
        if isinstance(node.func, ast.Attribute) and is_module(self.inference.of(node.func.value)):
            return node.func.attr not in (
                "parameters",
                "state_dict",
                "train",
                "eval",
                "zero_grad",
                "named_parameters",
                "to",
                "load_state_dict",
                "modules",
                "children",
            )
        given = [*node.args, *(k.value for k in node.keywords)]
        unknown = (
            kind is None and isinstance(node.func, (ast.Name, ast.Attribute, ast.Subscript)) and not builtin(node.func)
        )
        if unknown and isinstance(node.func, ast.Attribute) and is_tensor(self.inference.of(node.func.value)):
            return False
        if not unknown or not given:
            return False
        if self.any_call:
            return True
        kinds = [self.inference.of(a) for a in given]
        if any(map(is_tensor, kinds)):
            return True
        return None in kinds and self._may_be_module(node.func)  # what it gets may be a tensor, and what it is a model

    def _may_be_module(self, func: ast.expr) -> bool:
        """Whether a callee of which nothing is known is a variable, an item, or an attribute of ``self``: no method, no import."""
        if isinstance(func, ast.Subscript):
            return True
        name = dotted(func) or ""
        root, _, rest = name.partition(".")
        if hasattr(builtins, root):
            return False
        return not rest or (root == "self" and "." not in rest)

    # one region

    def _region(self, backward: Backward) -> Region | Refusal:
        path = self.paths[backward.statement]
        level = len(path) - 1
        needed = self._reads(backward.loss)
        included: dict[int, set[int]] = {}
        home, first, last = level, path[level][1], path[level][1] - 1
        resolved = False
        again: list[ast.stmt] = []
        while level >= 0:
            block, index = path[level]
            chosen: list[int] = []
            for position in range(index - 1, -1, -1):
                statement = block[position]
                if self._barrier(statement):
                    needed -= (
                        self.effects.by_models
                    )  # what a model left behind before an update has no gradient any more
                hit = self.carrying.get(statement, set()) & needed
                if not hit or self._replaced(hit, path[level:home]):
                    if isinstance(statement, ast.Assign) and all(map(_binds, statement.targets)):
                        needed -= targets(statement)  # bound anew: what was under the name before is not meant
                    continue
                chosen.append(position)
                needed |= self._reads(statement)
                if isinstance(statement, ast.Expr) and _collects(statement) is None:  # a call sets its names anew
                    needed -= hit - self.effects.by_models
                if isinstance(statement, ast.Assign) and all(map(_binds, statement.targets)):
                    needed -= hit - self._reads(statement.value) - self.effects.by_models  # of several models
            if any(self.carrying[block[i]] & self.effects.by_models for i in chosen):
                needed -= self.effects.by_models
            if chosen:
                crossed = any(
                    isinstance(path[k][0][path[k][1]], (ast.For, ast.While, ast.AsyncFor)) for k in range(level, home)
                )
                if crossed or included:
                    # computed before a loop or branch that computes on: the function does it again
                    again = [block[i] for i in sorted(chosen)] + again
                else:
                    home, first, last, resolved = level, min(chosen), max(chosen), True
                    included[level] = set(chosen)
            level -= 1
        if not resolved and not self.carries(backward.loss, {}) and not again:
            return Refusal(backward, ELSEWHERE)
        if not resolved:
            home, first, last = len(path) - 1, path[-1][1], path[-1][1] - 1
        block, index = path[home]
        region = Region(block, first, last, [backward], again, self._test(path, home))
        made = {name for s in [*again, *region.body] for name in targets(s) | self._effects_of(s)}
        outside = sorted(
            n
            for n in needed - self.effects.by_models
            if (n in self.incoming or self._held(n)) and not any(_covered(w, made) for w in self.effects.read_as(n))
        )
        if outside:
            return Refusal(backward, f"{', '.join(outside)} is computed in another function, with a gradient")
        return self._checked(region, included.get(home, set()))

    def _replaced(self, names: set[str], way: list[tuple[list[ast.stmt], int]]) -> bool:
        """Whether a loop on the way binds the names anew: what stands before it is the first round's value only.

        A gradient never goes into an earlier round: torch would have to keep that round's graph.
        """
        loops = [block[index] for block, index in way]
        return any(
            isinstance(loop, (ast.For, ast.While, ast.AsyncFor))
            and names <= {name for s in ast.walk(loop) if isinstance(s, ast.Assign) for name in targets(s)}
            for loop in loops
        )

    def _checked(self, region: Region, chosen: set[int]) -> Region | Refusal:
        """Cut the region behind the last update or backward inside it; what lies before is computed again."""
        backward = region.backwards[0]
        barriers = [i for i in range(region.first, region.last + 1) if self._barrier(region.block[i])]
        if barriers:
            cut = barriers[-1]
            region.again = [*region.again, *(region.block[i] for i in sorted(chosen) if i < cut)]
            later = [i for i in sorted(chosen) if i > cut]
            region.first, region.last = (later[0], later[-1]) if later else (region.last + 1, region.last)
        for statement in region.body:
            for node in own_nodes(statement):
                if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)):
                    return Refusal(backward, "a return or yield stands inside the computation of the loss")
                if isinstance(node, (ast.Break, ast.Continue)) and not _in_loop(statement, node):
                    return Refusal(backward, "a break or continue stands inside the computation of the loss")
        return region

    def _barrier(self, statement: ast.stmt) -> bool:
        for node in own_nodes(statement):
            if backward_of(node, self.inference):
                return True
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                kind = self.inference.of(node.func.value)
                if is_optimizer(kind) or kind == "scaler" or "optim" in ast.unparse(node.func.value).lower():
                    return True
        return False

    def _test(self, path: list[tuple[list[ast.stmt], int]], home: int) -> ast.expr | None:
        """The condition of the branch that holds the backward, where it reads nothing that the region makes."""
        if len(path) - 1 != home + 1:
            return None
        holder = path[home][0][path[home][1]]
        if not (isinstance(holder, ast.If) and path[home + 1][0] is holder.body):
            return None
        simple = (
            ast.Name,
            ast.Attribute,
            ast.Compare,
            ast.Constant,
            ast.BoolOp,
            ast.UnaryOp,
            ast.cmpop,
            ast.boolop,
            ast.unaryop,
            ast.expr_context,
        )
        if not all(isinstance(node, simple) for node in ast.walk(holder.test)):
            return None
        made = {name for s in path[home][0][: path[home][1]] for name in self.carrying.get(s, set())}
        read = {dotted(n) for n in ast.walk(holder.test) if isinstance(n, (ast.Name, ast.Attribute))}
        return None if made & read else holder.test

    def _reads(self, node: ast.AST) -> set[str]:
        """Dotted names through which a gradient may come into a node."""
        found: set[str] = set()
        for inner in flows(node, self._cuts):
            if isinstance(inner, (ast.Name, ast.Attribute)) and isinstance(inner.ctx, ast.Load):
                found |= self.effects.read_as(dotted(inner) or "")
            elif isinstance(inner, ast.AugAssign):
                found.add(dotted(inner.target) or "")
        return found - {""}


def _collects(statement: ast.stmt) -> ast.Call | None:
    """``losses.append(x)``."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value if value.func.attr in ("append", "extend", "insert", "update", "add") else None
    return None


def _binds(target: ast.expr) -> bool:
    """Whether a target gives names new values, and writes into nothing: ``a``, ``(a, b)``."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return all(isinstance(part, ast.Name) for part in parts)


def _covered(name: str, made: set[str]) -> bool:
    """Whether a dotted name, or what it is a part of, is made."""
    parts = name.split(".")
    return any(".".join(parts[:n]) in made for n in range(1, len(parts) + 1))


def _in_loop(statement: ast.stmt, node: ast.AST) -> bool:
    return any(isinstance(loop, (ast.For, ast.While)) and node in set(ast.walk(loop)) for loop in ast.walk(statement))
