"""Expressions of a script in MindSpore: calls by rows of the op map and by ``apis.yaml``, everything else as it stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ms_port.opmap import RANDOM_NAME, Call, NoLowering, OpMap
from ms_port.script import chosen, classes, derived, library, methods
from ms_port.script.apis import apis, is_foreign, normal
from ms_port.script.inference import Inference
from ms_port.script.kinds import is_module, is_tensor
from ms_port.script.needs import Needs, Note
from ms_port.script.partials import BUILDERS, as_lambda, partial
from ms_port.script.placeholders import ASSUMED, ATOMS, DTYPE_NAMES, Placeholders, literal, wrapped
from ms_port.script.project import Class, Function, Kind, Module
from ms_port.script.results import api_kind
from ms_port.script.source import Source, dotted
from ms_port.script.special import SPECIAL

IGNORED_KEYWORDS = frozenset(
    {
        "device",
        "requires_grad",
        "pin_memory",
        "generator",
        "layout",
        "memory_format",
        "non_blocking",
        "out",
        "volatile",
    }
)
PACKED = {f"torch.nn.{n}": f"Packed{n}" for n in ("LSTM", "GRU", "RNN")}
"""Layers that take packed sequences as well."""
CLASS_NAMES = {
    "Linear": "Dense",
    "ConvTranspose": "Transpose",
    **{f"ConvTranspose{n}d": f"Conv{n}dTranspose" for n in (1, 2, 3)},
    "ModuleList": "CellList",
    "Sequential": "SequentialCell",
}
"""Classes by whose name scripts choose what to do with a layer."""
_FIELD = re.compile(r"\{([^{}]+)\}")


class Expressions:
    """Renders expressions of one file. ``refused`` collects, a statement at a time, what has no form."""

    def __init__(self, module: Module, inference: Inference, op_map: OpMap, needs: Needs, notes: list[Note]) -> None:
        self.module, self.inference, self.op_map, self.needs, self.notes = module, inference, op_map, needs, notes
        self.source: Source = module.source
        self.function: Function | None = None
        self.refused: list[tuple[str, str, str]] = []
        """(rule, API, reason) of the statement at hand."""
        self.dropped: set[ast.AST] = set()
        self.library: Library | None = None
        self.in_cell = self.in_region = False
        self._line = 0
        self._inside_layers = 0

    # text

    def render(self, node: ast.AST) -> str:
        """The text of a node, rewritten where needed."""
        if hasattr(node, "lineno") and self.source is self.module.source:
            self._line = node.lineno
        new = self.rewrite(node) if isinstance(node, ast.expr) else None
        return self.splice(node) if new is None else new

    def splice(self, node: ast.AST) -> str:
        """A node's own text with its changed children put in."""
        start, end = self.source.span(node)
        return self.spliced(start, end, expression_children(node))

    def spliced(self, start: int, end: int, children: Iterator[ast.AST] | Sequence[ast.AST]) -> str:
        pieces: list[str] = []
        position = start
        for child in sorted(children, key=self.source.span):
            first, last = self.source.span(child)
            if first < position:
                continue  # shares its text with what was rendered (``lambda`` defaults and the like)
            pieces += [self.source.between(position, first), self._operand(child)]
            position = last
        pieces.append(self.source.between(position, end))
        return "".join(pieces)

    def _operand(self, node: ast.AST) -> str:
        """As render; an expression that became a looser one keeps together beside an operator, a dot or an index."""
        text = self.render(node)
        place = self.source.parents.get(node)
        held = isinstance(place, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Await))
        held = held or (isinstance(place, (ast.Attribute, ast.Subscript)) and place.value is node)
        held = held or (isinstance(place, ast.Call) and place.func is node)
        if not held or not isinstance(node, ATOMS) or text == self.source.segment(node):
            return text
        return f"({text})" if _loose(text) and not wrapped(text) else text

    def atom(self, node: ast.expr) -> str:
        """The text of a node as a receiver or operand."""
        text = self.render(node)
        if isinstance(node, ast.Constant) or wrapped(text):
            return text
        return text if isinstance(node, ATOMS) and not _loose(text) else f"({text})"

    def detached(self, node: ast.expr) -> str:
        """As render, where positions can't be trusted (inside f-strings): through a copy of the expression."""
        text = ast.unparse(node)
        inner = Source.parse(text)
        copy = inner.tree.body[0]
        assert isinstance(copy, ast.Expr)
        for old, new in zip(ast.walk(node), ast.walk(copy.value), strict=False):
            self.inference.kinds[new] = self.inference.of(old)
        outer, self.source = self.source, inner
        try:
            return self.render(copy.value)
        finally:
            self.source = outer

    # rules

    def rewrite(self, node: ast.expr) -> str | None:
        """The new text of one expression; None where only its children may change."""
        match node:
            case ast.JoinedStr():
                return self._joined(node)
            case ast.Call():
                return self._call(node)
            case ast.Attribute() | ast.Name():
                return self._value(node)
            case ast.Subscript(ctx=ast.Load()) if self._stepped(node):
                index = self.splice(node.slice)
                return f"{self.needs.name('strided')}({self.render(node.value)}, {self.needs.name('np')}.s_[{index}])"
            case ast.Subscript() if chosen.by_name(self, node):
                return chosen.value(self, node)
            case ast.Subscript() if is_tensor(self.inference.of(node.value)):
                if self._indexed_by_numpy(node):
                    self.needs.name("index_by_numpy")
            case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
                return None
            case ast.Constant(value=str() as text) if self._compared(node) and (name := self._class_names(text)):
                return repr(name)
        return None

    def _stepped(self, node: ast.Subscript) -> bool:
        """``x[:, ::2]`` of a tensor: such a slice has no gradient outside of graphs on CPU."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        steps = [p.step for p in parts if isinstance(p, ast.Slice)]
        if all(s is None or (isinstance(s, ast.Constant) and s.value == 1) for s in steps):
            return False
        kind = self.inference.of(node.value)
        return is_tensor(kind) or (
            kind is None and isinstance(node.slice, ast.Tuple) and (self.in_cell or self.in_region)
        )

    def _indexed_by_numpy(self, node: ast.Subscript) -> bool:
        """Whether an index is, or may be, one of numpy's integers."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        given = [b for p in parts for b in ((p.lower, p.upper) if isinstance(p, ast.Slice) else (p,))]
        named = [g for g in given if isinstance(g, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp))]
        kinds = [self.inference.of(g) for g in named]
        return "ndarray" in kinds or (None in kinds and "numpy" in self.module.names.values())

    def _compared(self, node: ast.expr) -> bool:
        """Whether a word is compared with: ``name == "Linear"``, ``name in ("Linear", ...)``, ``name.find("Linear")``."""
        place = self.source.parents.get(node)
        if isinstance(place, (ast.Tuple, ast.List, ast.Set)):
            place = self.source.parents.get(place)
        if isinstance(place, ast.Call) and isinstance(place.func, ast.Attribute):
            return place.func.attr in ("find", "rfind", "index", "count", "startswith", "endswith")
        return isinstance(place, (ast.Compare, ast.Dict))

    def _class_names(self, text: str) -> str | None:
        """Class names that initialisers compare with: MindSpore's own."""
        if text not in CLASS_NAMES or self.function is None or self.source is not self.module.source:
            return None
        body = ast.dump(self.function.node)
        return CLASS_NAMES[text] if "__name__" in body else None

    def _joined(self, node: ast.JoinedStr) -> str | None:
        changed = False
        values: list[ast.expr] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                text = self.detached(value.value)
                numeric = _numeric(value.format_spec)
                if numeric and is_tensor(self.inference.of(value.value)):
                    text = f"float({text})"
                if text != ast.unparse(value.value):
                    changed = True
                    value = ast.FormattedValue(ast.parse(text, mode="eval").body, value.conversion, value.format_spec)
            values.append(value)
        return ast.unparse(ast.JoinedStr(values)) if changed else None

    def _value(self, node: ast.Attribute | ast.Name) -> str | None:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return None
        kind = self._kind(node)
        if kind == "dtype" and (name := self.api_name(node)):
            return self._dtype(name.rpartition(".")[2])
        if isinstance(kind, tuple) and kind[0] == "api" and is_foreign(str(kind[1])) and classes.names_api(self, node):
            if (text := classes.in_place_of(self, node)) is not None:
                return text
            return self.api_value(node, str(kind[1]))
        if isinstance(node, ast.Attribute):
            return methods.attribute(self, node)
        return None

    def _kind(self, node: ast.expr) -> Kind:
        """The kind of a node; where none was inferred (annotations, decorators), that of its import."""
        kind = self.inference.of(node)
        if kind is None and isinstance(node, (ast.Name, ast.Attribute)):
            name = self.api_name(node)
            root = (dotted(node) or "").partition(".")[0]
            if name is not None and root not in self.module.bound:
                return api_kind(name)
        return kind

    def api_name(self, node: ast.expr) -> str | None:
        """A dotted name that starts at an import of torch."""
        text = dotted(node)
        if text is None:
            return None
        head, _, rest = text.partition(".")
        target = self.module.names.get(head, "")
        full = f"{target}.{rest}" if rest else target
        return full if is_foreign(full) else None

    def _dtype(self, name: str) -> str:
        return f"{self.needs.name('ms')}.{DTYPE_NAMES.get(name, name)}"

    def api_value(self, node: ast.expr, name: str) -> str | None:
        """A torch name that isn't called."""
        table = apis()
        name = normal(name)
        if name in table.values:
            text = self.names_in(table.values[name])
            self.change(node, "MSP601", text, name)
            return text
        if name in table.parts:
            text = self.needs.name(table.parts[name])
            self.change(node, "MSP601", text, name)
            return text
        if name in table.identity:
            self.change(node, "MSP603", "", name)
            return "(lambda function, **_: function)"
        if name == "torchvision.models.__dict__" and self.library is not None:
            return library.table(self, node)
        route = table.routes.get(name.split(".")[0])
        if route is not None:
            return self.refuse(node, "MSP608", name, route)
        if name in ("torch.nn", "torch.nn.functional"):
            return self.needs.name("nn" if name == "torch.nn" else "ops")
        if (
            name.count(".") == 0
            or name.startswith("torch.backends")
            or name in ("torch.cuda", "torch.utils", "torch.optim", "torch.distributed")
        ):
            return self.refuse(node, "MSP602", name, "a torch module is used as a value")
        try:
            lowering = self.op_map.lower_value(name)
        except NoLowering as error:
            return as_lambda(self, node, name) or self.refuse(node, "MSP602", name, error_reason(error, name))
        text = ast.unparse(self.needs.localized(lowering.expression))
        if name in BUILDERS:
            text = self.needs.name(BUILDERS[name])
        else:
            self.functions(lowering.functions)
        self.change(node, "MSP601", text, name)
        return text

    def functions(self, names: frozenset[str]) -> None:
        for name in names:
            self.needs.name(name)

    def names_in(self, text: str) -> str:
        """Text of a table with its names as the file imports them."""
        return ast.unparse(self.needs.localized(ast.parse(text, mode="eval").body))

    # calls

    def _call(self, node: ast.Call) -> str | None:
        held = chosen.call(self, node) or chosen.value(self, node) or partial(self, node)
        held = held or derived.constructor(self, node)
        if held is not None:
            return held
        kind = self._kind(node.func)
        if isinstance(kind, tuple) and kind[0] == "api" and is_foreign(str(kind[1])):
            if self.api_name(node.func) is not None or self.module.stars:
                return self.api_call(node, normal(str(kind[1])))
            return self._held(node, normal(str(kind[1])))
        named = library.chosen(self, node)
        if named is not None:
            return named
        if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass") and len(node.args) == 2:
            return classes.asked(self, node)
        written = node.args[:1] if isinstance(node.func, ast.Name) and node.func.id == "setattr" else []
        kinds = [self.inference.of(held) for held in written]
        if any(methods.may_be_sequential(k) or (k is None and self._says("Sequential")) for k in kinds):
            self.needs.name("sequential_as_torch")
        if (
            isinstance(kind, tuple)
            and kind[0] == "class"
            and is_module(("inst", kind[1]))
            and not self.in_cell
            and not self._inside_layers
        ):
            return f"{self._made(node, kind[1])}.set_train()"
        if isinstance(kind, tuple) and kind[0] == "class":
            return derived.instance(self, node, kind[1])
        if isinstance(node.func, ast.Attribute):
            return methods.call(self, node, node.func)
        return None

    def _held(self, node: ast.Call, name: str) -> str | None:
        """A call of a variable that holds a torch class: its arguments are mapped, the variable stays."""
        if name not in self.op_map or name in BUILDERS or any(k.arg is None for k in node.keywords):
            return None
        filled = Placeholders(self)
        callee = filled.text(self.render(node.func)).expression
        named = tuple((str(k.arg), filled.argument(k.value)) for k in node.keywords)
        try:
            found = self.op_map.lower(Call(name, tuple(map(filled.argument, node.args)), named), callee)
        except NoLowering:
            return None
        return filled.fill(self.needs.localized(found.expression, filled.texts.keys()))

    def _made(self, node: ast.Call, cls: Class) -> str:
        """An instance of a class of the project; what is made for it inside takes its mode."""
        self._inside_layers += 1
        try:
            return derived.instance(self, node, cls) or self.splice(node)
        finally:
            self._inside_layers -= 1

    def api_call(self, node: ast.Call, name: str) -> str | None:
        """A call of a torch function or class by its canonical name."""
        table = apis()
        if name in table.refused:
            return self.refuse(node, "MSP602", name, table.refused[name])
        route = table.routes.get(name.split(".")[0])
        if route is not None and name not in table.parts:
            return self.refuse(node, "MSP608", name, route)
        if name in table.drop:
            self.dropped.add(node)
            self.change(node, "MSP603", "", name)
            return "None"
        if name in table.identity and node.args:
            self.change(node, "MSP603", "", name)
            return self.render(node.args[0])
        if name in table.identity:
            self.change(node, "MSP603", "", name)
            return "(lambda function: function)"
        if name in table.contexts:
            self.note(
                "MSP605" if "autocast" in name else "MSP603",
                self.source.segment(node) if self.source is self.module.source else name,
                "left out: float32" if "autocast" in name else "",
                "",
                "warning" if "autocast" in name else "info",
                name,
            )
            return f"{self.needs.name('nullcontext')}()"
        if name.startswith("torchvision.models.") and self.library is not None:
            return library.call(self, node, name)
        if name in SPECIAL:
            return SPECIAL[name](self, node)
        if name in table.templates:
            text = self.template(table.templates[name], node)
            if text is not None:
                self.change(node, "MSP601", text, name)
                return self.parameter(node, text)
        if name in table.parts:
            return self._part(node, name, table.parts[name])
        if name in table.values and name not in self.op_map:
            return f"{self.names_in(table.values[name])}{self._arguments(node)}"
        return self.lowered(node, name)

    def _part(self, node: ast.Call, name: str, part: str) -> str:
        text = f"{self.needs.name(part)}{self._arguments(node)}"
        self.change(node, "MSP601", text, name)
        return text

    def _arguments(self, node: ast.Call) -> str:
        """The parenthesis of a call, as written."""
        start = self.source.span(node.func)[1]
        end = self.source.span(node)[1]
        return self.spliced(start, end, [*node.args, *(k.value for k in node.keywords)])

    def template(self, template: str, node: ast.Call) -> str | None:
        """A template filled with a call's arguments; None where one of them is missing, or is given and has no place in it."""
        if _unplaced(template, node):
            return None
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        missing = False

        def fill(match: re.Match[str]) -> str:
            nonlocal missing
            names = match[1].split("|")
            if names[0].startswith("!"):
                return ""
            if names[0] == "*":
                given = [self.render(a) for a in node.args]
                given += [self.render(keywords[n]) for n in ("size",) if n in keywords]
                given += [f"{n}={self.render(v)}" for n, v in keywords.items() if n not in IGNORED_KEYWORDS | {"size"}]
                return ", ".join(given)
            for name in names:
                if name.isdigit() and int(name) < len(node.args):
                    return self.render(node.args[int(name)])
                if name in keywords:
                    return self.render(keywords[name])
            default = names[-1]
            if default.startswith("="):
                return default[1:]
            if default in ("None", "True", "False"):
                return default
            missing = True
            return "None"

        for word in set(re.findall(r"[A-Za-z_]\w*", _FIELD.sub("", template))):
            if self.needs.known(word):
                local = self.needs.name(word)
                template = re.sub(rf"(?<![\w.]){word}\b(?![\"'])", local, template) if local != word else template
        text = _FIELD.sub(fill, template)
        if missing:
            return None
        return text.replace("(, ", "(").replace(", None)", ")")

    def parameter(self, node: ast.Call, text: str) -> str:
        """A tensor that is made with ``requires_grad=True`` is trained: a Parameter."""
        wanted = any(
            k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value is True
            for k in node.keywords
        )
        return (
            f"{self.needs.name('Parameter')}({text})"
            if wanted and not text.startswith(self.needs.name("Parameter"))
            else text
        )

    def lowered(self, node: ast.Call, name: str) -> str:
        if name == "torch.tensor" and node.args and not self._plain_data(node.args[0]):
            text = self.template("as_tensor({0|data}, {1|dtype|None})", node)
            if text is not None:
                self.change(node, "MSP601", text, name)
                return self.parameter(node, text)
        if name.endswith("_") and node.args and not name.startswith("torch.nn.") and name not in self.op_map:
            return methods.in_place_function(self, node, name)
        if name.startswith("torch.nn.init.") and f"{name}_" in self.op_map:
            name = f"{name}_"
        layer = name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper()
        self._inside_layers += layer
        try:
            keywords = [_current(k) for k in node.keywords if not _outdated(k) and not self._of_device(k)]
            if name in BUILDERS and any(key is None for key, _ in keywords):
                text = f"{self.needs.name(BUILDERS[name])}{self._arguments(node)}"
            else:
                text = self.lower(name, node.args, keywords, None)
        except NoLowering as error:
            other = self.template("as_tensor({0|data}, {1|dtype|None})", node) if name == "torch.tensor" else None
            return other or self.refuse(node, "MSP602", name, error_reason(error, name))
        finally:
            self._inside_layers -= layer
        if name == "torch.nn.LSTMCell" and self._says(r"double|float64"):
            text = text.replace(f"{self.needs.name('LSTMCell')}(", f"{self.needs.name('DoubleLSTMCell')}(", 1)
        if name in PACKED and self._says("pack_padded_sequence"):
            text = text.replace(f"{self.needs.name('nn')}.{PACKED[name][6:]}(", f"{self.needs.name(PACKED[name])}(", 1)
        self.change(node, "MSP601", text, name)
        if layer and not self.in_cell and not self._inside_layers and not name.endswith("Loss"):
            text = f"{text}.set_train()"
        return self.parameter(node, text)

    def _of_device(self, keyword: ast.keyword) -> bool:
        """``**factory_kwargs``: a dict of this function that holds a device and a type only."""
        if keyword.arg is not None or not isinstance(keyword.value, ast.Name) or self.function is None:
            return False
        made = [
            n.value
            for n in ast.walk(self.function.node)
            if isinstance(n, ast.Assign) and [dotted(t) for t in n.targets] == [keyword.value.id]
        ]
        keys = {
            k.value if isinstance(k, ast.Constant) else None for d in made if isinstance(d, ast.Dict) for k in d.keys
        }
        found = bool(made) and all(isinstance(d, ast.Dict) for d in made) and keys <= {"device", "dtype"}
        if found and "dtype" in keys:
            self.note("MSP605", f"**{keyword.value.id}", "left out: float32", "", "warning", "torch.dtype")
        return found

    def _says(self, pattern: str) -> bool:
        """Whether some file of the project has a word."""
        return any(re.search(pattern, m.source.text) for m in self.inference.project.modules.values())

    def _plain_data(self, node: ast.expr) -> bool:
        """Whether ``Tensor(...)`` takes it as torch does: numbers, a display of them, an array."""
        return literal(node) or self.inference.of(node) == "ndarray"

    def lower(
        self, name: str, args: Sequence[ast.expr], keywords: Sequence[tuple[str | None, ast.expr]], receiver: str | None
    ) -> str:
        """The MindSpore text of a call by its row. Raises NoLowering.

        Where the row looks at values that the source doesn't tell, ordinary ones are assumed (several, which must all
        give the same text: a value is never written that the source does not hold).
        """
        if any(key is None for key, _ in keywords):
            raise NoLowering(name, "arguments are passed by **")
        try:
            return self._lower(name, args, keywords, receiver, None)
        except NoLowering as error:
            if "known" not in str(error) and "one tuple" not in str(error):
                raise
            for world in ASSUMED:
                used, said = dict(self.needs.used), len(self.notes)
                texts = set()
                try:
                    for number in (0, 1):
                        texts.add(self._lower(name, args, keywords, receiver, (world, number)))
                except NoLowering:
                    texts = set()
                if len(texts) == 1:
                    return texts.pop()
                self.needs.used = used
                del self.notes[said:]
            raise error from None

    def _lower(
        self,
        name: str,
        args: Sequence[ast.expr],
        keywords: Sequence[tuple[str | None, ast.expr]],
        receiver: str | None,
        assumed: tuple[str, int] | None,
    ) -> str:
        filled = Placeholders(self, assumed)
        named = tuple((str(key), filled.argument(value)) for key, value in keywords)
        call = Call(
            name, tuple(map(filled.argument, args)), named, None if receiver is None else filled.receiver(receiver)
        )
        lowering = self.op_map.lower(call)
        tree = self.needs.localized(lowering.expression, filled.texts.keys())
        if lowering.random:
            for found in ast.walk(tree):
                if isinstance(found, ast.Name) and found.id == RANDOM_NAME:
                    found.id = f"{self.needs.name(lowering.random)}()"
        self.functions(lowering.functions)
        for note in lowering.notes:
            self.note(note.rule, name, note.message, "", "warning", name)
        return filled.fill(tree)

    # what is said

    def change(self, node: ast.AST, rule: str, after: str, api: str) -> None:
        before = self.source.segment(node) if self.source is self.module.source else ast.unparse(node)
        self.note(rule, before, after, api, "info", api)

    def note(self, rule: str, before: str, after: str, _: str, severity: str, api: str) -> None:
        entry = Note(rule, self.module.relative, self._line, self._line, before, after, api, severity)
        if entry not in self.notes[-40:]:
            self.notes.append(entry)

    def refuse(self, node: ast.AST, rule: str, name: str, reason: str) -> str:
        """A marked place: the statement around it will raise; the text stands where a statement can't be put."""
        self.refused.append((rule, name, reason))
        before = self.source.segment(node) if self.source is self.module.source else ast.unparse(node)
        self.note(rule, before, f"raise NotImplementedError: {reason}", "", "error", name)
        return f"{self.needs.name('unsupported')}({f'{rule}: {name}: {reason}'!r})"


def _unplaced(template: str, node: ast.Call) -> bool:
    """Whether a call gives an argument that a template would leave out in silence."""
    places = {name.lstrip("!") for field in _FIELD.findall(template) for name in field.split("|")}
    if not places or "*" in places:
        return False
    plain = [i for i, argument in enumerate(node.args) if str(i) not in places or isinstance(argument, ast.Starred)]
    return bool(plain) or any(k.arg not in places | IGNORED_KEYWORDS for k in node.keywords)


def _numeric(spec: ast.expr | None) -> bool:
    """Whether a format is one of numbers (``.4f``), which a Tensor does not take."""
    if not isinstance(spec, ast.JoinedStr) or not spec.values or not isinstance(spec.values[-1], ast.Constant):
        return False
    return re.search(r"[defgEG%]$", str(spec.values[-1].value)) is not None


def _current(keyword: ast.keyword) -> tuple[str | None, ast.expr]:
    """``size_average=False`` and ``reduce=False`` under today's name."""
    value = keyword.value
    if keyword.arg in ("size_average", "reduce") and isinstance(value, ast.Constant) and value.value is False:
        text = "sum" if keyword.arg == "size_average" else "none"
        return "reduction", ast.copy_location(ast.Constant(text), value)
    return keyword.arg, value


def _outdated(keyword: ast.keyword) -> bool:
    """``size_average=True`` and ``reduce=True``: the old way to say what is the default."""
    value = keyword.value
    return keyword.arg in ("size_average", "reduce") and isinstance(value, ast.Constant) and value.value in (True, None)


def _loose(text: str) -> bool:
    """Whether a rewritten text needs parentheses as a receiver."""
    try:
        return not isinstance(ast.parse(text.strip(), mode="eval").body, ATOMS)
    except SyntaxError:
        return True


def expression_children(node: ast.AST) -> list[ast.AST]:
    """The nearest expressions (and statements) below a node, through comprehensions, keywords, arguments and patterns."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.expr, ast.stmt)):
            found.append(child)
        elif not isinstance(child, (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)):
            found += expression_children(child)
    return found


def error_reason(error: NoLowering, name: str) -> str:
    """The reason without the API in front."""
    return str(error).removeprefix(f"{name}: ")


Library = Callable[[str, dict[str, Any]], str]
"""(model of torchvision, keywords) -> the package with its port, or the reason why there is none."""
Special = Callable[[Expressions, ast.Call], str | None]
