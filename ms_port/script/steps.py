"""The training step: a region becomes ``forward_fn`` and its gradient, a ``backward()`` hands the gradients on, ``step()`` takes them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ms_port.script.assignment import before, bound, exposed, in_loop
from ms_port.script.kinds import is_module, is_optimizer, is_tensor
from ms_port.script.regions import Backward, Region, backward_of
from ms_port.script.source import dotted, shifted
from ms_port.script.syntax import comprehended, statements, targets

if TYPE_CHECKING:
    from ms_port.script.statements import Statements


@dataclass(eq=False)
class Plan:
    """How one region is written. ``weights`` is empty where no trained parameter is known."""

    name: str
    gradients: str
    weights: str
    loss: str
    """What receives the loss."""
    given: list[str]
    """Other names that the function gives back."""
    arguments: list[str]
    """Names that the function reads before it assigns them."""
    shared: list[str]
    """Names that are global or nonlocal in the scope."""
    direct: str | None
    """The optimizer that is called at once."""


@dataclass
class Scope:
    """One function's body, or a file's top level."""

    body: list[ast.stmt] = field(default_factory=list)
    plans: dict[Region, Plan] = field(default_factory=dict)
    dropped: set[ast.stmt] = field(default_factory=set)
    replaced: dict[ast.stmt, str] = field(default_factory=dict)
    unset: dict[ast.stmt, list[str]] = field(default_factory=dict)
    """Names that get None before a statement of ``body``: some way to the gradient's function leaves them without a value."""


class Steps:
    """Writes the regions of one file."""

    def __init__(self, statements_: Statements, parallel: bool) -> None:
        self.s, self.parallel = statements_, parallel
        self.current = Scope()

    def saved(self) -> Scope:
        return self.current

    def restore(self, scope: Scope) -> None:
        self.current = scope

    def scope(self, body: list[ast.stmt], regions: list[Region]) -> None:
        self.current = Scope(body)
        taken = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)} | self.s.e.module.bound
        for number, region in enumerate(regions):
            self.current.plans[region] = plan = self._plan(region, number, len(regions), taken)
            self._unset(region, plan)

    def untrained(self) -> list[Region]:
        """Regions of the scope whose gradient would be taken of nothing."""
        return [region for region, plan in self.current.plans.items() if not plan.weights]

    def _unset(self, region: Region, plan: Plan) -> None:
        """Names that the function takes or gives back, and that not every way to them has set."""
        start = region.first if region.first <= region.last else region.first - 1
        function = self.s.e.function
        known = before(self.current.body, region.block, max(start, 0)) if start >= 0 else set()
        known |= {a.arg for a in ast.walk(function.node.args) if isinstance(a, ast.arg)} if function else set()
        made = known | bound([*region.again, *region.body])
        late = [n for n in plan.given if n not in made and n not in plan.shared and n not in plan.arguments]
        plan.arguments += late
        for name in plan.arguments:
            first = next((s for s in self.current.body if name in targets(s)), None)
            if name not in known and first is not None:
                self.current.unset.setdefault(first, []).append(name)

    def unset(self, node: ast.stmt, indent: str) -> str:
        """What stands before a statement so that such names have a value."""
        names = dict.fromkeys(self.current.unset.get(node, ()))
        return "".join(f"{name} = None\n{indent}" for name in names)

    # planning

    def _plan(self, region: Region, number: int, count: int, taken: set[str]) -> Plan:
        backward = region.backwards[0]
        plain = isinstance(backward.loss, (ast.Name, ast.Attribute)) and dotted(backward.loss) is not None
        base = (dotted(backward.loss) or f"loss_{number + 1}").replace("self.", "").replace(".", "_")
        name = "forward_fn" if count == 1 else f"{base}_fn"
        while name in taken:
            name = f"{name}_{number + 1}"
        taken.add(name)
        gradients = "gradients" if count == 1 else f"{base}_gradients"
        while gradients in taken:
            gradients += "_"
        taken.add(gradients)
        optimizers = self._optimizers(region)
        sure = [] if any(map(self._optional, optimizers)) else optimizers
        weights = " + ".join(self._parameters_of(o, region) for o in sure) or self._trainable(region)
        arguments, shared = self._arguments(region)
        again = arguments if in_loop(self.current.body, region.block) else []  # what one round leaves to the next
        given = [n for n in self._given(region, again) if not plain or n != dotted(backward.loss)]
        loss = dotted(backward.loss) if plain and isinstance(backward.loss, ast.Name) else None
        direct = self._direct(region, sure)
        return Plan(name, gradients, weights, loss or "_", given, arguments, shared, direct)

    def _parameters_of(self, optimizer: str, region: Region) -> str:
        """What an optimizer trains; of all those that a loop steps through after the backward: ``for o in optimizers: o.step()``."""
        mine = region.backwards[-1].statement
        for loop in (node for statement in self.current.body for node in ast.walk(statement)):
            if not isinstance(loop, (ast.For, ast.comprehension)) or any(node is mine for node in ast.walk(loop)):
                continue
            if optimizer in {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}:
                target, held = ast.unparse(loop.target).strip("()"), self.s.e.render(loop.iter)
                return f"[p for {target} in {held} for p in {optimizer}.parameters]"
        return f"{optimizer}.parameters"

    def _optimizers(self, region: Region) -> list[str]:
        """Optimizers that step behind this backward before their gradients are cleared, in the order of the source."""
        order = list(statements(self.current.body))
        mine = region.backwards[-1].statement
        after = order[order.index(mine) + 1 :] + order[: order.index(mine)]
        decided: dict[str, bool] = {}
        for statement in after:
            for call in self._calls(statement):
                assert isinstance(call.func, ast.Attribute)
                holder, method = dotted(call.func.value), call.func.attr
                if holder is None:
                    continue
                kind = self.s.e.inference.of(call.func.value)
                if method == "step" and (is_optimizer(kind) or (kind is None and "optim" in holder.lower())):
                    decided.setdefault(holder, True)
                elif method == "step" and kind == "scaler" and call.args and dotted(call.args[0]):
                    decided.setdefault(str(dotted(call.args[0])), True)
                elif method == "zero_grad":
                    decided.setdefault(holder, False)
                    for optimizer, owner in self.s.e.inference.owners.items():
                        if owner == holder:
                            decided.setdefault(optimizer, False)
        order_of_calls = [
            dotted(c.func.value) for s in order for c in self._calls(s) if isinstance(c.func, ast.Attribute)
        ]
        names = [name for name, wanted in decided.items() if wanted]
        return sorted(names, key=lambda n: order_of_calls.index(n) if n in order_of_calls else 0)

    def _optional(self, optimizer: str) -> bool:
        """Whether an optimizer is made under a condition only: ``if args.use_optimizer: optimizer = ...``."""
        for scope in (self.current.body, self.s.source.tree.body):
            body = [inner for s in scope for inner in (s.body if _is_main(s) else [s])]  # type: ignore[attr-defined]
            plain = [s for s in body if not isinstance(s, (ast.FunctionDef, ast.ClassDef))]
            made = [
                n
                for s in plain
                for n in ast.walk(s)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == optimizer
            ]
            if made:
                return len(made) == 1 and optimizer not in bound(body)
        return False

    def _calls(self, statement: ast.stmt) -> list[ast.Call]:
        value = getattr(statement, "value", None)
        if (
            isinstance(statement, (ast.Expr, ast.Assign))
            and isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
        ):
            return [value]
        return []

    def _trainable(self, region: Region) -> str:
        """Where no optimizer is at hand: the parameters of the modules that the region calls, and those that it names."""
        modules: dict[str, None] = {}
        parameters: dict[str, None] = {}
        for statement in [*region.again, *region.body, *(b.statement for b in region.backwards)]:
            loops = [n.target for n in ast.walk(statement) if isinstance(n, ast.For)]
            own = {dotted(n) for n in [*comprehended(statement), *loops]}
            for node in ast.walk(statement):
                kind = self.s.e.inference.of(node)
                name = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
                if name is None or not isinstance(getattr(node, "ctx", None), ast.Load):
                    continue
                if kind == "parameter" and isinstance(node, ast.Name) and name not in own:
                    parameters[name] = None
                elif is_module(kind):
                    modules[name] = None
        modules = {m: None for m in modules if not any(m.startswith(f"{other}.") for other in modules)}
        found = f"{self.s.e.needs.name('trainable')}({', '.join(modules)})" if modules else ""
        return " + ".join(filter(None, [found, f"[{', '.join(parameters)}]" if parameters else ""]))

    def _given(self, region: Region, again: list[str]) -> list[str]:
        """Names that the region assigns and that are read outside it or in its next round, in order."""
        made: dict[str, None] = {}
        for statement in region.body:
            own = comprehended(statement)
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in own:
                    made[node.id] = None
                elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    made[node.name] = None
        inside = {id(n) for s in region.body for n in ast.walk(s)}
        inside |= {id(n) for b in region.backwards for n in ast.walk(b.statement)}
        outside = self.current.body if self.s.e.function is not None else self.s.source.tree.body
        read = {
            n.id
            for s in outside
            for n in ast.walk(s)
            if isinstance(n, ast.Name) and id(n) not in inside and isinstance(n.ctx, (ast.Load, ast.Del))
        }
        several = len(region.backwards) > 1
        loss = dotted(region.backwards[0].loss)
        read |= set(again)
        return [name for name in made if name in read or (several and name == loss)]

    def _arguments(self, region: Region) -> tuple[list[str], list[str]]:
        """Names that the function assigns and may read before that; names that belong to an outer scope."""
        body = [*region.again, *region.body]
        made = {n for statement in body for n in targets(statement) if "." not in n}
        shared = {
            n
            for s in self.current.body
            for node in ast.walk(s)
            if isinstance(node, (ast.Global, ast.Nonlocal))
            for n in node.names
        }
        plainly = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        read = exposed([*body, region.backwards[0].statement], set())
        return sorted(made & plainly & read - shared), sorted(shared & made)

    def _direct(self, region: Region, optimizers: list[str]) -> str | None:
        """``zero_grad``, ``backward``, ``step`` in a row on one optimizer, and nobody looks at ``.grad``: it is called with the gradients."""
        backward = region.backwards[0]
        if len(optimizers) != 1 or len(region.backwards) != 1 or backward.scaler is not None or region.again:
            return None
        optimizer = optimizers[0]
        block = list(region.block)
        if not any(s is backward.statement for s in block):
            return None
        index = next(i for i, s in enumerate(block) if s is backward.statement)
        if index + 1 >= len(block) or (
            index - region.last > 1 and any(self._touches(s) for s in block[region.last + 1 : index])
        ):
            return None
        follow = block[index + 1]
        calls = self._calls(follow)
        if not (isinstance(follow, ast.Expr) and calls and isinstance(calls[0].func, ast.Attribute)):
            return None
        call = calls[0]
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr != "step" or dotted(call.func.value) != optimizer or call.args or call.keywords:
            return None
        text = self.s.source.text
        if ".grad" in text or "clip_grad" in text:
            return None
        clears = [s for s in statements(self.current.body) if self._clears(s, optimizer)]
        if not any(s in block for s in clears):
            return None
        for statement in clears:
            if statement in block:
                self.current.dropped.add(statement)
        self.current.dropped.add(backward.statement)
        self.current.replaced[follow] = optimizer
        return optimizer

    def _touches(self, statement: ast.stmt) -> bool:
        return not isinstance(statement, ast.Expr)

    def _clears(self, statement: ast.stmt, optimizer: str) -> bool:
        for call in self._calls(statement):
            assert isinstance(call.func, ast.Attribute)
            holder = dotted(call.func.value)
            if (
                call.func.attr == "zero_grad"
                and holder is not None
                and (holder == optimizer or self.s.e.inference.owners.get(optimizer) == holder)
            ):
                return True
        return False

    # writing

    def region(self, region: Region, indent: str, tail: str = "") -> str:
        """The function, and the call of its gradient. ``tail`` is a comment behind the last statement."""
        plan = self.current.plans[region]
        e = self.s.e
        inner = indent + "    "
        outer, e.in_region = e.in_region, True
        lines: list[str] = []
        hoisted: list[str] = []
        try:
            for statement in region.again:
                self.s.plain.add(statement)
                own = self.s.source.indent(statement)
                text = self.s.statement(statement, own)
                if text:
                    lines.append(shifted(text, own, inner))
            if region.first <= region.last:
                lines += self._body(region, indent, inner, hoisted)
                if tail and lines:
                    lines[-1] += f"  {tail}"
            backward = region.backwards[0]
            loss = e.render(backward.loss)
            if backward.call.args and backward.call.args[0] is not backward.loss:
                loss = f"({loss} * {e.atom(backward.call.args[0])}).sum()"
            if backward.scaler is not None and len(region.backwards) == 1:
                loss = f"{e.render(backward.scaler)}.scale({loss})"
        finally:
            e.in_region = outer
        if region.again:
            e._line = backward.statement.lineno
            again = "; ".join(self.s.source.segment(s).split("\n")[0] for s in region.again)
            e.note("MSP606", again, "computed a second time", "", "warning", "backward")
        head = self._declared(plan.shared)
        given = [n for n in plan.given if n not in plan.shared]
        received = plan.loss
        if backward.scaler is not None and len(region.backwards) == 1:
            received, given = (
                "_",
                list(
                    dict.fromkeys(
                        [*([plan.loss] if plan.loss != "_" and plan.loss in self._made(region) else []), *given]
                    )
                ),
            )
        arguments = ", ".join(f"{n}={n}" for n in plan.arguments)
        given = self._packed(region, given)
        result = ", ".join([loss, *given])
        lines = [*head, *lines, f"return {result}"]
        definition = f"def {plan.name}({arguments}):\n" + "\n".join(f"{inner}{line}" for line in lines)
        e.change(backward.statement, "MSP604", f"value_and_grad({plan.name})", "torch.Tensor.backward")
        text = (
            "".join(f"{line}\n{indent}" for line in hoisted)
            + definition
            + f"\n\n{indent}"
            + self._call(region, plan, received, given, indent)
        )
        if (
            backward.statement in region.block and region.first > region.last
        ):  # nothing stands before the backward: it was the region's own statement
            rest = None if plan.direct else self.backward(backward.statement)
            text += f"\n{indent}{rest}" if rest else ""
        return text

    def _packed(self, region: Region, given: list[str]) -> list[str]:
        """What stands beside the loss; where none of it is a tensor or container for certain, MindSpore 2.10 wants a tuple of it."""
        if not given or any(self._tensors(region, name) for name in given):
            return given
        return [f"({', '.join(given)}{',' if len(given) == 1 else ''})"]

    def _tensors(self, region: Region, name: str) -> bool:
        """Whether a name holds a tensor or a container whenever the region is left."""
        if any(name in names for names in self.current.unset.values()):
            return False
        stores = [
            self.s.e.inference.of(n)
            for s in region.body
            for n in ast.walk(s)
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        ]
        return all(is_tensor(k) or (isinstance(k, tuple) and k[0] in ("list", "tuple", "dict")) for k in stores)

    def _declared(self, shared: list[str]) -> list[str]:
        """``global`` and ``nonlocal`` lines of the function, as its scope has them."""
        found: list[str] = []
        for kind, word in ((ast.Global, "global"), (ast.Nonlocal, "nonlocal")):
            said = {n for s in self.current.body for node in ast.walk(s) if isinstance(node, kind) for n in node.names}
            names = [name for name in shared if name in said]
            found += [f"{word} {', '.join(names)}"] if names else []
        return found

    def _made(self, region: Region) -> set[str]:
        return {n for s in region.body for n in targets(s)}

    def _body(self, region: Region, indent: str, inner: str, hoisted: list[str]) -> list[str]:
        """The region's statements with what stands between them, moved in by one level."""
        kept: list[ast.stmt] = []
        for statement in region.body:
            if self.left_out(statement):
                continue
            if self._is_zero_grad(statement):
                hoisted.append(self.s.statement(statement, indent) or "")
                continue
            kept.append(statement)
        lines: list[str] = []
        position = None
        for statement in kept:
            start, end = self.s.source.span(statement)
            if position is not None:
                gap = self.s.source.between(position, start)
                blank = gap.count("\n") > 1 and not gap.strip()
                lines += [""] if blank else []
                tail = gap.split("\n")[0].strip()
                if tail.startswith("#") and lines:
                    lines[-1] += f"  {tail}"
                lines += [line.strip() for line in gap.split("\n")[1:] if line.strip().startswith("#")]
            self.s.plain.add(statement)
            text = self.s.statement(statement, indent)
            if text:
                lines.append(shifted(text, indent, inner))
            position = end
        return lines

    def _is_zero_grad(self, statement: ast.stmt) -> bool:
        return any(isinstance(c.func, ast.Attribute) and c.func.attr == "zero_grad" for c in self._calls(statement))

    def _call(self, region: Region, plan: Plan, received: str, given: list[str], indent: str) -> str:
        ms = self.s.e.needs.name("ms")
        if given:
            taken = f"({', '.join([received, *given])}), {plan.gradients} = {ms}.value_and_grad({plan.name}, None, {plan.weights}, has_aux=True)()"
            without = f"{', '.join([received, *given])} = {plan.name}()"
        else:
            taken = f"{received}, {plan.gradients} = {ms}.value_and_grad({plan.name}, None, {plan.weights})()"
            without = f"{received} = {plan.name}()"
        if region.test is None:
            return taken
        test = self.s.e.render(region.test)
        return f"if {test}:\n{indent}    {taken}\n{indent}else:\n{indent}    {without}"

    def backward(self, node: ast.stmt) -> str | None:
        """What stands in the place of a ``backward()``: the gradients go to the parameters."""
        if node in self.current.dropped:
            return None
        region = self.s.backwards[node]
        plan = self.current.plans[region]
        backward = next(b for b in region.backwards if b.statement is node)
        gradients = plan.gradients
        if backward.scaler is not None and len(region.backwards) > 1:
            gradients = f"[{self.s.e.render(backward.scaler)}.scale(g) for g in {gradients}]"
        if self.parallel:
            gradients = f"{self.s.e.needs.name('reduce_gradients')}({plan.weights}, {gradients})"
        return f"{self.s.e.needs.name('accumulate')}({plan.weights}, {gradients})"

    def left_out(self, node: ast.stmt) -> bool:
        return node in self.current.dropped

    def replaced(self, node: ast.stmt) -> str | None:
        """``optimizer.step()`` that became a call with the gradients."""
        optimizer = self.current.replaced.get(node)
        if optimizer is None:
            return None
        plan = next(p for p in self.current.plans.values() if p.direct == optimizer and self._follows(p, node))
        gradients = plan.gradients
        if self.parallel:
            gradients = f"{self.s.e.needs.name('reduce_gradients')}({plan.weights}, {gradients})"
        return f"{optimizer}({gradients})"

    def _follows(self, plan: Plan, node: ast.stmt) -> bool:
        region = next(r for r, p in self.current.plans.items() if p is plan)
        block = list(region.block)
        index = next((i for i, s in enumerate(block) if s is region.backwards[0].statement), None)
        return index is not None and index + 1 < len(block) and block[index + 1] is node


def _is_main(statement: ast.stmt) -> bool:
    """``if __name__ == "__main__":``."""
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


__all__ = ["Backward", "Steps", "backward_of"]
