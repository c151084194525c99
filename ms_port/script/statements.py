"""Statements of a script in MindSpore: blocks are put together from their statements' text, comments between them kept."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.script import buffers
from ms_port.script.apis import apis, is_foreign, normal
from ms_port.script.expressions import Expressions, expression_children
from ms_port.script.kinds import is_module, is_tensor
from ms_port.script.methods import may_be_sequential, root_of
from ms_port.script.project import FOREIGN, Class, Function
from ms_port.script.regions import Finder, Refusal, Region, backward_of
from ms_port.script.source import dotted, shifted
from ms_port.script.sources import Sources
from ms_port.script.steps import Steps
from ms_port.script.syntax import blocks, targets

IMPORTS_HERE = "__imports_of_ms_port__"

SETTINGS = ("momentum", "eps", "p")
"""Settings of BatchNorm and Dropout that may be written later."""
BUILT_IN = ("stride", "padding", "dilation", "groups", "padding_mode", "kernel_size", "negative_slope", "scale_factor")


class Statements:
    """Renders one file."""

    def __init__(
        self,
        expressions: Expressions,
        classes: dict[ast.ClassDef, Class],
        functions: dict[ast.AST, Function],
        parallel: bool,
        sources: Sources,
    ) -> None:
        self.e, self.classes, self.functions = expressions, classes, functions
        self.source = expressions.source
        self.steps = Steps(self, parallel)
        self.sources = sources
        self.imported = False
        self.starts: dict[ast.stmt, Region] = {}
        self.backwards: dict[ast.stmt, Region] = {}
        self.refusals: dict[ast.stmt, Refusal] = {}
        self.plain: set[ast.stmt] = set()
        """Statements that are rendered without their region (copies inside a function)."""

    def file(self) -> str:
        """The text of the whole file."""
        tree = self.source.tree
        if not tree.body:
            return self.source.text
        self.scope(tree.body)
        start, end = self.source.span(tree.body[0])[0], self.source.span(tree.body[-1])[1]
        body = self.block(tree.body, "")
        if "unsupported(" not in body:  # the statements around all such places raise
            self.e.needs.used.pop("unsupported", None)
        return self.source.between(0, start) + body + self.source.between(end, len(self.source.data))

    def scope(self, body: Sequence[ast.stmt]) -> None:
        """Find the regions of a scope before it is rendered."""
        incoming = self.sources.of(self.e.function)
        regions, refused = Finder(body, self.e.inference, incoming, self.sources.effects).regions()
        for region in regions:
            place = region.block[region.first] if region.first <= region.last else region.backwards[0].statement
            self.starts.setdefault(place, region)
            for backward in region.backwards:
                self.backwards[backward.statement] = region
        for refusal in refused:
            self.refusals[refusal.backward.statement] = refusal
        self.steps.scope(list(body), regions)
        reason = "which parameters it trains is not clear: neither an optimizer nor a module is known here"
        for region in self.steps.untrained():
            self.starts = {place: r for place, r in self.starts.items() if r is not region}
            for backward in region.backwards:
                del self.backwards[backward.statement]
                self.refusals[backward.statement] = Refusal(backward, reason)

    # blocks

    def block(self, body: Sequence[ast.stmt], indent: str, inline: bool = False) -> str:
        """The text of a statement list, from the first one's start to the last one's end."""
        pieces: list[tuple[str, str]] = []
        """(what stands before, text)"""
        index, position = 0, self.source.span(body[0])[0]
        while index < len(body):
            statement = body[index]
            gap = self.source.between(position, self.source.span(statement)[0])
            region = self.starts.get(statement)
            if (
                region is not None
                and statement not in self.plain
                and region.block is not None
                and any(s is statement for s in body)
            ):
                last = index if region.last < region.first else index + region.last - region.first
                position = self.source.span(body[last])[1]
                tail = self.source.between(position, self._line_end(position))
                comment = tail.strip() if tail.strip().startswith("#") and region.last >= region.first else ""
                text: str | None = self.steps.region(region, indent, comment)
                index, position = last + 1, self._line_end(position) if comment else position
            else:
                text = self.statement(statement, indent)
                index, position = index + 1, self.source.span(statement)[1]
                if (
                    text is None
                    and self.source.between(position, self._line_end(position)).strip().startswith("#")
                    and index < len(body)
                ):
                    position = self._line_end(position)  # the comment was about what is gone
            pieces.append((gap, self.steps.unset(statement, indent) + (text or "")))
        return self._joined(pieces, indent, inline)

    def _line_end(self, position: int) -> int:
        end = self.source.data.find(b"\n", position)
        return len(self.source.data) if end < 0 else end

    def _joined(self, pieces: list[tuple[str, str]], indent: str, inline: bool) -> str:
        kept = [(gap, text) for gap, text in pieces if text]
        if not kept:
            return "pass"
        several = any("\n" in text and not text.lstrip().startswith(('"', "'")) for _, text in kept)
        if inline and several:
            return "\n" + "\n".join(f"{indent}{text}" for _, text in kept)
        out = ""
        waiting = ""
        for number, (gap, text) in enumerate(pieces):
            if ";" in gap and "#" not in gap and "\n" not in gap and several:
                gap = f"\n{indent}"
            if number == 0:
                gap = ""
            if not text:
                waiting += _comments(gap) if number else ""
                continue
            if out or waiting:
                joint = _merged(waiting, gap, bool(out))
                out += joint
            out += text
            waiting = ""
        return out + waiting.rstrip()

    # statements

    def statement(self, node: ast.stmt, indent: str) -> str | None:
        """The text of one statement; None where it is left out."""
        outer, self.e.refused = self.e.refused, []
        try:
            text = self._statement(node, indent)
            if self.e.refused and not list(blocks(node)) and text is not None:
                return self._raise(node, indent)
            if self.e.refused and isinstance(node, (ast.If, ast.For, ast.While, ast.With)):
                self.e.refused = []
            return text
        finally:
            self.e.refused = outer

    def _raise(self, node: ast.stmt, indent: str) -> str:
        """``raise`` in the place of a statement, whose text stays as a comment."""
        rule, api, reason = self.e.refused[0]
        quoted = [f"# {line}" for line in shifted(self.source.segment(node), indent, "").split("\n")]
        return f"\n{indent}".join([*quoted, f"raise NotImplementedError({f'{rule}: {api}: {reason}'!r})"])

    def _statement(self, node: ast.stmt, indent: str) -> str | None:
        if isinstance(node, ast.Assign) and any(self._grows(target, node.value) for target in node.targets):
            self.e.needs.name("sequential_as_torch")
        match node:
            case ast.Import() | ast.ImportFrom():
                return self._import(node)
            case ast.ClassDef():
                return self._class(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._function(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node, indent)
            case ast.Expr():
                return self._expression(node, indent)
            case ast.Assign() | ast.AugAssign() if (text := buffers.written(self.e, node)) is not None:
                return text
            case ast.AugAssign():
                return self._augmented(node)
            case ast.Assign(targets=[ast.Attribute(value=holder)]) if node in self.e.inference.trained:
                return f"{self.e.render(holder)} = {self.e.needs.name('Parameter')}({self.e.render(holder)})"
            case ast.Assign() if self._left_out(node):
                return None
            case ast.Assign(targets=[ast.Attribute(attr="data", value=holder)], value=value) if self._tensor(holder):
                return f"{self.e.needs.name('assign')}({self.e.render(holder)}, {self.e.render(value)})"
            case ast.Assign(targets=[ast.Attribute() as target], value=value) if self._of_layer(target):
                return self._layer_written(node, target, value)
            case ast.Assign() if (inner := self._gradient_call(node)) is not None:
                return self._gradient(node, inner, indent)
            case ast.Assign(targets=[target]):
                text = self._compound(node)
                # `data = data.to(device)` leaves `data = data`
                made = text[self._value_start(node) :].strip()
                return None if made == self.source.segment(target) and text != self.source.segment(node) else text
        return self._compound(node)

    def _grows(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether a Sequential, or what is derived from it, may get another cell."""
        kind, made = (self.e.inference.of(n) for n in (getattr(target, "value", target), value))
        if kind is None and isinstance(target, ast.Attribute) and is_module(made):  # of an argument, say
            return self.e._says("Sequential")
        return isinstance(target, ast.Attribute) and may_be_sequential(kind) and (made is None or is_module(made))

    def _of_layer(self, target: ast.Attribute) -> bool:
        """Whether what is written is a layer's setting: MindSpore's layers have built it into an operation."""
        if target.attr not in (*SETTINGS, *BUILT_IN):
            return False
        kind, name = self.e.inference.of(target.value), dotted(target.value) or ast.unparse(target.value)
        if kind == "module" or (isinstance(kind, tuple) and kind[0] == "layer"):
            return name != "self"
        return kind is None and target.attr in BUILT_IN and name != "self"

    def _layer_written(self, node: ast.Assign, target: ast.Attribute, value: ast.expr) -> str:
        if target.attr in BUILT_IN and self.e.inference.of(target.value) is not None:
            reason = f"the {target.attr} of a layer that is made: give it to the layer's constructor"
            self.e.refuse(node, "MSP602", f"torch.nn.Module.{target.attr}", reason)
            return self.source.segment(node)
        text = f"{self.e.needs.name('set_attribute')}({self.e.render(target.value)}, {target.attr!r}, {self.e.render(value)})"
        self.e.change(node, "MSP607", text, f"torch.nn.Module.{target.attr}")
        return text

    def _gradient_call(self, node: ast.Assign) -> ast.Call | None:
        """The ``autograd.grad`` of an assignment."""
        for call in ast.walk(node.value):
            if isinstance(call, ast.Call) and self.e.api_name(call.func) == "torch.autograd.grad":
                return call
        return None

    def _gradient(self, node: ast.Assign, call: ast.Call, indent: str) -> str:
        """``autograd.grad(outputs, inputs)``: the statements between the two become a function of the inputs."""
        given = {k.arg: k.value for k in call.keywords} | dict(
            zip(("outputs", "inputs", "grad_outputs"), call.args, strict=False)
        )
        output, wanted = given.get("outputs"), given.get("inputs")
        inputs = wanted.elts if isinstance(wanted, (ast.List, ast.Tuple)) else [wanted]
        names = [item.id for item in inputs if isinstance(item, ast.Name)]
        parent = self.source.parents[node]
        block = next((b for b in blocks(parent) if any(s is node for s in b)), [])
        body = self._between(block, node, output, names) if output is not None and len(names) == len(inputs) else None
        if body is None or output is None:
            self.e.refuse(
                node, "MSP604", "torch.autograd.grad", "write the function of its inputs and take ms.grad of it"
            )
            return self.source.segment(node)
        inner = indent + "    "
        outer, self.e.in_region = self.e.in_region, True
        try:
            lines = [shifted(text, indent, inner) for s in body if (text := self._copy(s, indent))]
            lines.append(f"return {self.e.render(output)}")
        finally:
            self.e.in_region = outer
        base = dotted(output) or "output"
        name = f"{base.replace('.', '_')}_of_inputs"
        weight = given.get("grad_outputs")
        weight_text = (
            ""
            if weight is None or (isinstance(weight, ast.Constant) and weight.value is None)
            else f", {self.e.render(weight)}"
        )
        made = f"{self.e.needs.name('gradient_of')}({name}, ({', '.join(names)},){weight_text})"
        start, end = self.source.span(node)
        first, last = self.source.span(call)
        self.e._line = node.lineno
        self.e.change(call, "MSP604", made, "torch.autograd.grad")
        if body:
            again = "; ".join(self.source.segment(s).split("\n")[0] for s in body)
            self.e.note("MSP606", again, "computed a second time", "", "warning", "torch.autograd.grad")
        definition = f"def {name}({', '.join(names)}):\n" + "\n".join(f"{inner}{line}" for line in lines)
        return f"{definition}\n\n{indent}{self.source.between(start, first)}{made}{self.source.between(last, end)}"

    def _copy(self, statement: ast.stmt, indent: str) -> str | None:
        self.plain.add(statement)
        return self.statement(statement, indent)

    def _between(
        self, block: Sequence[ast.stmt], node: ast.stmt, output: ast.expr, names: list[str]
    ) -> list[ast.stmt] | None:
        """Statements that make ``output`` out of the inputs; None where the inputs are not met."""
        needed = {n.id for n in ast.walk(output) if isinstance(n, ast.Name)}
        met = bool(needed & set(names))
        chosen: list[ast.stmt] = []
        for statement in reversed(block[: list(block).index(node)]):
            made = targets(statement)
            if made & set(names):
                break
            if made & needed:
                chosen.insert(0, statement)
                read = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
                met = met or bool(read & set(names))
                needed |= read
        return chosen if met else None

    def _value_start(self, node: ast.Assign) -> int:
        """Where the value begins in the text of ``target = value`` (its target is never rewritten to another length here)."""
        return len(self.source.between(self.source.span(node)[0], self.source.span(node.value)[0]))

    def _tensor(self, node: ast.expr) -> bool:
        kind = self.e.inference.of(node)
        return is_tensor(kind) or (kind is None and isinstance(node, (ast.Name, ast.Attribute)))

    def _left_out(self, node: ast.Assign) -> bool:
        """``torch.backends.cudnn.benchmark = True``."""
        name = self.e.api_name(node.targets[0])
        if name is None or not isinstance(node.targets[0], ast.Attribute):
            return False
        self.e.render(node.value)
        self.e.change(node, "MSP603", "", name)
        return True

    def _compound(self, node: ast.stmt) -> str:
        """Any statement: its expressions rewritten, its blocks rendered as blocks."""
        start, end = self.source.span(node)
        pieces: list[str] = []
        position = start
        done: set[ast.AST] = set()
        units: list[tuple[int, int, ast.AST | list[ast.stmt]]] = []
        for body in _all_blocks(node):
            units.append((self.source.span(body[0])[0], self.source.span(body[-1])[1], body))
            done.update(body)
        for child in expression_children(node):
            if child in done or isinstance(child, ast.stmt):
                continue
            units.append((*self.source.span(child), child))
        for first, last, unit in sorted(units, key=lambda u: u[:2]):
            if first < position:
                continue
            pieces.append(self.source.between(position, first))
            pieces.append(self._unit(node, unit))
            position = last
        pieces.append(self.source.between(position, end))
        return "".join(pieces)

    def _unit(self, parent: ast.stmt, unit: ast.AST | list[ast.stmt]) -> str:
        if isinstance(unit, list):
            own_line = self.source.leads_line(unit[0])
            indent = self.source.indent(unit[0]) if own_line else self.source.indent(parent) + "    "
            return self.block(unit, indent, not own_line)
        return self.e.render(unit)

    def _import(self, node: ast.Import | ast.ImportFrom) -> str | None:
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == 0 and module.split(".")[0] in FOREIGN:
                kept = [a for a in node.names if a.name != "*" and not is_foreign(f"{module}.{a.name}")]
                marker = self._place(node)
                names = ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in kept)
                rest = f"from {module} import {names}" if kept else None
                return f"{rest}\n{marker}" if marker and rest else rest or marker
            return self.source.segment(node)
        kept = [a for a in node.names if a.name.split(".")[0] not in FOREIGN]
        if len(kept) == len(node.names):
            return self.source.segment(node)
        rest = f"import {', '.join(a.name + (f' as {a.asname}' if a.asname else '') for a in kept)}" if kept else None
        marker = self._place(node)
        if marker and rest:
            return f"{rest}\n{marker}"
        return rest or marker

    def _place(self, node: ast.stmt) -> str | None:
        """The first torch import of the file is where the new imports stand."""
        self.e._line = node.lineno
        self.e.change(node, "MSP601", "", "import")
        if self.imported or self.source.parents.get(node) is not self.source.tree:
            return None
        self.imported = True
        return IMPORTS_HERE

    # definitions

    def _class(self, node: ast.ClassDef) -> str:
        found = self.classes.get(node)
        outer = self.e.in_cell
        self.e.in_cell = found is not None and is_module(("inst", found))
        try:
            return self._compound(node)
        finally:
            self.e.in_cell = outer

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        function = self.functions.get(node)
        outer, outer_region = self.e.function, self.e.in_region
        self.e.function = function or outer
        self.e.in_region = False
        held = self.steps.saved()
        self.scope(node.body)
        try:
            text = self._compound(node)
        finally:
            self.e.function, self.e.in_region = outer, outer_region
            self.steps.restore(held)
        text = self._decorators(node, text)
        if (
            function is not None
            and function.owner is not None
            and node.name == "forward"
            and is_module(("inst", function.owner))
        ):
            text = text.replace("def forward(", "def construct(", 1)
            self.e._line = node.lineno
            self.e.note("MSP601", "def forward", "def construct", "", "info", "torch.nn.Module.forward")
        return text

    def _decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef, text: str) -> str:
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self.e.api_name(target)
            if name is None:
                continue
            line = text.index("\n")
            if normal(name) in apis().contexts | apis().identity and text.startswith("@"):
                text = text[line + 1 :].lstrip(" \t")
        return text

    # with, expressions, updates

    def _with(self, node: ast.With | ast.AsyncWith, indent: str) -> str:
        kept: list[ast.withitem] = []
        quiet = False
        for item in node.items:
            target = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
            name = self.e.api_name(target)
            name = normal(name) if name else None
            sync = isinstance(target, ast.Attribute) and target.attr in ("no_sync",)
            if (name in apis().contexts or sync) and item.optional_vars is None:
                self.e._line = node.lineno
                quiet = quiet or str(name).endswith("no_grad") or str(name).endswith("inference_mode")
                self._context(node, item, str(name))
            else:
                kept.append(item)
        if len(kept) == len(node.items):
            return self._compound(node)
        if quiet and (self.e.in_region or self.e.in_cell) and not kept:
            start = self.source.span(node)[0]
            head = self.source.between(start, self.source.span(node.body[0])[0])
            colon = head.index(":", head.rindex(")") if ")" in head else 0)
            return f"with {self.e.needs.name('ms')}._no_grad(){head[colon:]}{self._unit(node, list(node.body))}"
        if kept:
            head = ", ".join(
                self.e.render(i.context_expr) + (f" as {self.e.render(i.optional_vars)}" if i.optional_vars else "")
                for i in kept
            )
            return f"with {head}:\n{self.source.indent(node.body[0]) or indent + '    '}{self._unit(node, list(node.body))}"
        inner = self.source.indent(node.body[0]) if self.source.leads_line(node.body[0]) else indent
        body = self.block(node.body, inner, not self.source.leads_line(node.body[0]))
        first = self.source.span(node.body[0])[0]
        comments = _comments(self.source.between(self._head_end(node), first))
        lead = "".join(f"{line.strip()}\n{indent}" for line in comments.split("\n") if line.strip())
        return lead + shifted(body.lstrip("\n"), inner, indent)

    def _head_end(self, node: ast.With | ast.AsyncWith) -> int:
        item = node.items[-1].optional_vars or node.items[-1].context_expr
        return self.source.span(item)[1]

    def _context(self, node: ast.stmt, item: ast.withitem, name: str) -> None:
        if "autocast" in name:
            self.e.note("MSP605", self.source.segment(item.context_expr), "left out: float32", "", "warning", name)
        else:
            self.e.note("MSP603", self.source.segment(item.context_expr), "", "", "info", name)

    def _expression(self, node: ast.Expr, indent: str) -> str | None:
        refusal = self.refusals.get(node)
        if refusal is not None:
            self.e._line = node.lineno
            self.e.refuse(node, "MSP604", "backward", refusal.reason)
            return self.source.segment(node)
        if node in self.backwards:
            return self.steps.backward(node)
        if self.steps.left_out(node):
            return None
        replaced = self.steps.replaced(node)
        if replaced is not None:
            return replaced
        value = node.value
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr == "requires_grad_"
        ):
            held = self._trains(node, value, value.func)
            if held is not None:
                return held
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and self._gradient_in_place(value):
            return self._write_gradient(value)
        text = self._rebound(value) if isinstance(value, ast.Call) else None
        if text is not None:
            return text
        text = self.e.render(value)
        if value in self.e.dropped:
            return None
        if isinstance(value, ast.Call) and text != self.source.segment(value) and _idle(text) and self._pure(value):
            return None
        return text

    def _trains(self, node: ast.Expr, value: ast.Call, func: ast.Attribute) -> str | None:
        """``p.requires_grad_(False)`` as a statement."""
        kind = self.e.inference.of(func.value)
        if node in self.e.inference.trained:
            name = self.e.render(func.value)
            return f"{name} = {self.e.needs.name('Parameter')}({name})"
        if is_module(kind):
            return None
        given = [*value.args, *(k.value for k in value.keywords)]
        return f"{self.e.render(func.value)}.requires_grad = {self.e.render(given[0]) if given else 'True'}"

    def _pure(self, value: ast.Call) -> bool:
        """``model.to(device)`` as a statement: nothing is left of it."""
        return isinstance(value.func, ast.Attribute) and value.func.attr in (
            "to",
            "cuda",
            "cpu",
            "float",
            "double",
            "half",
            "requires_grad_",
            "share_memory",
            "contiguous",
            "npu",
            "share_memory_",
        )

    def _rebound(self, value: ast.Call) -> str | None:
        """In a cell or a differentiated function an in-place method on a name makes a new value under that name."""
        if (
            not isinstance(value.func, ast.Attribute)
            or not value.func.attr.endswith("_")
            or value.func.attr.startswith("_")
        ):
            return None
        root, calls = root_of(value)
        kind = self.e.inference.of(root)
        shape = value.func.attr in ("unsqueeze_", "squeeze_", "detach_", "t_", "transpose_")
        if not isinstance(root, ast.Name) or not is_tensor(kind) or kind == "parameter" or not calls:
            return None
        if not (
            shape
            or self.e.in_region
            or (self.e.in_cell and self.e.function is not None and self.e.function.name == "forward")
        ):
            return None
        if value.func.attr == "detach_":
            return f"{root.id} = {self.e.needs.name('ops')}.stop_gradient({root.id})"
        text = self.e.render(value)
        if text.startswith(f"({root.id} := "):
            return f"{root.id} = {text[len(root.id) + 5 : -1]}"
        head = f"{self.e.needs.name('assign')}({root.id}, "
        if not text.startswith(head):
            return None
        inner = text[len(head) : -1]
        if calls[-1].func.attr in ("copy_", "zero_", "fill_"):  # type: ignore[attr-defined]
            return f"{root.id} = {self.e.needs.name('ops')}.zeros_like({root.id}) + {inner}"
        return f"{root.id} = {inner}"

    def _gradient_in_place(self, value: ast.Call) -> bool:
        root, calls = root_of(value)
        return bool(calls) and isinstance(root, ast.Attribute) and root.attr == "grad"

    def _write_gradient(self, value: ast.Call) -> str:
        """``p.grad.clamp_(...)``: the attribute gets a new value."""
        root, _ = root_of(value)
        text = self.e.render(value)
        target = self.e.render(root)
        head = f"{self.e.needs.name('assign')}({target}, "
        if text.startswith(head):
            inner = text[len(head) : -1]
            return f"{target} = {'None' if inner == '0' else inner}"
        return text

    def _augmented(self, node: ast.AugAssign) -> str:
        """``p -= lr * g`` on a parameter writes into it; MindSpore would bind the name to a new tensor."""
        target = node.target
        if isinstance(target, ast.Attribute) and target.attr == "data":
            target = target.value  # type: ignore[assignment]
        elif self.e.inference.of(node.target) != "parameter":
            return self._compound(node)
        start = self.source.span(node.target)[1]
        operator = self.source.between(start, self.source.span(node.value)[0]).strip().rstrip("( ").rstrip("=")
        name = self.e.render(target)
        return f"{self.e.needs.name('assign')}({name}, {name} {operator} {self.e.atom(node.value)})"


def _idle(text: str) -> bool:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return dotted(node) is not None or isinstance(node, ast.Constant)


def _comments(gap: str) -> str:
    """Comment lines of a gap, each on its line."""
    lines = [line for line in gap.split("\n")[1:] if line.strip().startswith("#")]
    return "".join(f"\n{line}" for line in lines)


def _merged(waiting: str, gap: str, after: bool) -> str:
    """What stands between two statements once those between them are gone."""
    if not after:
        return (waiting + gap).lstrip("\n").lstrip() if "\n" in gap or waiting else ""
    return waiting + gap


def _all_blocks(node: ast.AST) -> list[list[ast.stmt]]:
    return list(blocks(node))


__all__ = ["IMPORTS_HERE", "Statements", "backward_of"]
