"""The op map: look a torch API up and write its MindSpore form."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ms_port.ir.values import Literal
from ms_port.opmap.binding import make_slots, same_literal
from ms_port.opmap.calls import Argument, Call, Lowering, Note
from ms_port.opmap.errors import NoLowering, OpMapError, UnknownValue
from ms_port.opmap.filters import source_of
from ms_port.opmap.functions import FunctionFile, function_sources, index_functions
from ms_port.opmap.lowering import Chosen, as_first_argument, as_receiver, check_used, choose, same_default, write
from ms_port.opmap.reductions import with_reduction
from ms_port.opmap.rows import Form, Row, RowText
from ms_port.opmap.signature import MISSING, bind
from ms_port.opmap.source import check_templates, parse_row, split_rows
from ms_port.opmap.targets import notes_on_target, undocumented
from ms_port.opmap.templates import compile_condition, fill, render, undeclared

PER_AXIS = frozenset({"kernel_size", "stride", "padding", "dilation", "output_padding"})
"""Parameters that take one number for all axes."""


def op_map_directory() -> Path:
    """The op maps that ship with ms-port: inside an installed wheel, or at the root of a checkout."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_data" / "op_maps"
    return shipped if shipped.is_dir() else package.parent / "op_maps"


class OpMap:
    """Rows by API. Rows are parsed when they are first asked for."""

    def __init__(
        self, rows: Mapping[str, RowText], functions: dict[str, FunctionFile], lacks: Mapping[str, str] | None = None
    ) -> None:
        self._texts, self._functions = rows, functions
        self._lacks = dict(lacks or {})
        self._rows: dict[str, Row] = {}

    @classmethod
    def load(cls, directories: Sequence[Path] = (), target: str = "cpu") -> OpMap:
        """User directories first, then the target's overlay, then the base. Raises OpMapError.

        A user's files are checked at once; ms-port's own are checked by its tests.
        """
        base = op_map_directory()
        own = [Path(directory) for directory in directories]
        for directory in own:
            if not directory.is_dir():
                raise OpMapError(directory, "", "no such directory")
        rows: dict[str, RowText] = {}
        for directory in [*own, base / "targets" / target, base]:
            here: dict[str, RowText] = {}
            for file in sorted(directory.glob("*.yaml")):
                for row in split_rows(file):
                    if row.api in here:
                        first = here[row.api]
                        raise OpMapError(file, row.api, f"stands in {first.file.name}:{first.line} too", row.line)
                    here[row.api] = row
            if directory in own:
                _check(here)
            rows = {**here, **rows}
        overlay = base / "targets" / target
        return cls(rows, index_functions([*own, overlay, base]), undocumented(overlay))

    def __iter__(self) -> Iterable[str]:
        return iter(self._texts)

    def __contains__(self, api: object) -> bool:
        return api in self._texts

    @property
    def apis(self) -> tuple[str, ...]:
        """All APIs that have a row."""
        return tuple(self._texts)

    def file_of(self, api: str) -> Path:
        """The file in which an API's row stands. Raises KeyError."""
        return self._texts[api].file

    def text_of(self, api: str) -> RowText:
        """A row's text. Raises KeyError."""
        return self._texts[api]

    def function_file(self, name: str) -> Path:
        """The file that defines a name of op_maps/functions. Raises KeyError."""
        return self._functions[name].path

    def function_tree(self, name: str) -> ast.stmt:
        """The definition of a name of op_maps/functions. Raises KeyError."""
        file = self._functions[name]
        return file.tree.body[file.definitions[name].order]

    @property
    def function_names(self) -> frozenset[str]:
        """All names defined in op_maps/functions."""
        return frozenset(self._functions)

    def bases(self, name: str) -> tuple[str, ...]:
        """What a class of ``op_maps/functions`` derives from, as it is written there; nothing for other names."""
        made = self.function_tree(name) if name in self._functions else None
        return tuple(map(ast.unparse, made.bases)) if isinstance(made, ast.ClassDef) else ()

    def row(self, api: str) -> Row | None:
        """The row of an API. Raises OpMapError if it is a bad one."""
        if api not in self._rows:
            if api in self._texts:
                self._rows[api] = parse_row(self._texts[api])
            elif (twin := _twin(api)) in self._texts:
                text = self._texts[twin]
                self._rows[api] = Row(api, text.file, text.line, (), same_as=twin)
            else:
                return None
        return self._rows[api]

    def lower(
        self, call: Call, callee: ast.expr | None = None, carried: tuple[tuple[str, Argument], ...] = ()
    ) -> Lowering:
        """The MindSpore form of a call. Raises NoLowering, OpMapError.

        With ``callee`` the callee is a variable that holds the class: arguments are mapped, omitted defaults are left
        to the variable's value, and ``callee(...)`` is called. ``carried`` are the keywords of a ``partial`` that the
        variable holds: they decide the form, and are not written.
        """
        row, call = self._resolve(call)
        given = {name for name, _ in call.keywords}
        own = tuple((name, argument) for name, argument in carried if name not in given)
        call = with_reduction(row, call)
        chosen = choose(row, replace(call, keywords=(*call.keywords, *own)))
        check_used(row, chosen)
        if own:
            written = bind(chosen.overload.signature, call, partial=True)
            slots = make_slots(chosen.overload.signature, written, call)
            chosen = replace(chosen, bound=written, slots=slots)
        if callee is None:
            return self._lowering(row, chosen, write(row, chosen))
        if chosen.form.kind != "cell":
            raise NoLowering(call.api, "a variable holds this class, and its MindSpore form is no plain cell")
        held = self._carried(row, chosen)
        return self._lowering(row, chosen, write(row, chosen, "factory", callee, held))

    def lower_value(self, api: str, keywords: tuple[tuple[str, Argument], ...] = ()) -> Lowering:
        """A class or function used as a value; ``keywords`` are those of a ``partial`` in the source."""
        row, call = self._resolve(Call(api, (), keywords))
        call = with_reduction(row, call)
        if row.value is not None and not keywords:
            expression = ast.parse(row.value, mode="eval").body
            return self._finish(row, None, expression, expression)
        chosen = choose(row, call, partial=True)
        check_used(row, chosen)
        if chosen.form.kind == "cell":
            written = write(row, chosen, "value")
            assert isinstance(written, ast.Call)
            tree: ast.expr = written.func
            if written.args or written.keywords:
                tree = ast.Call(ast.Name("partial", ast.Load()), [written.func, *written.args], written.keywords)
            return self._lowering(row, chosen, tree)
        if keywords:
            raise NoLowering(api, "a partial over a function loses its gradient in GRAPH_MODE")
        return self._lowering(row, chosen, _bare_function(row, chosen))

    def host(self, call: Call) -> Lowering:
        """The numpy form, for constructors. Raises NoLowering."""
        row, call = self._resolve(call)
        chosen = choose(row, call)
        text = chosen.form.host or row.host
        if text is None:
            raise NoLowering(call.api, "no numpy form")
        try:
            tree = fill(render(text, chosen.slots), chosen.slots)
        except UnknownValue as error:
            raise NoLowering(call.api, str(error)) from None
        return self._lowering(row, chosen, tree)

    def from_instance(self, api: str, attributes: Mapping[str, object]) -> Lowering:
        """A built layer as literals: its attributes by name (a mapping over ``getattr`` will do).

        A constructor parameter is the attribute of its name, or what the row's ``instance`` says over attributes.
        Raises NoLowering where a value is no literal.
        """
        row = self._known(api)
        while row.same_as:
            row = self._known(row.same_as)
        keywords: list[tuple[str, Argument]] = []
        positional: list[Argument] = []
        for parameter in row.overloads[0].signature:
            try:
                item = _attribute(row, parameter.name, attributes)
                if item is MISSING or same_literal(item, parameter.default):
                    continue
                if parameter.kind == "keywords" and isinstance(item, dict):
                    keywords += [(name, _as_literal(held)) for name, held in item.items()]
                    continue
                argument = _as_literal(item)
            except UnknownValue as error:
                raise NoLowering(api, f"{parameter.name}: {error}") from None
            if parameter.default is MISSING and not keywords:
                positional.append(argument)
            else:
                keywords.append((parameter.name, argument))
        return self.lower(Call(api, tuple(positional), tuple(keywords)))

    def function_sources(self, names: Iterable[str]) -> str:
        """What functions.py must hold: imports, then definitions with all they need, in order."""
        return function_sources(self._functions, names)

    def _known(self, api: str) -> Row:
        row = self.row(api)
        if row is None:
            raise NoLowering(api, "no row in the op map")
        return row

    def _resolve(self, call: Call) -> tuple[Row, Call]:
        """The row that answers a call, through ``same_as``, and the call in that row's style."""
        row = self._known(call.api)
        while row.same_as:
            other = self._known(row.same_as)
            method, to_method = row.api.startswith("torch.Tensor."), other.api.startswith("torch.Tensor.")
            if method and not to_method and call.receiver is not None:
                call = as_first_argument(call, other.api)
            elif to_method and not method and (call.args or call.keywords):
                call = as_receiver(call, other.api)
            else:
                call = replace(call, api=other.api)
            row = other
        return row, call

    def _carried(self, row: Row, chosen: Chosen) -> dict[str, str]:
        """What the variable's value carries already: keyword -> text. Raises NoLowering if it is another class."""
        try:
            tree = self.lower_value(row.api).expression
        except NoLowering:
            return {}
        head = tree.args[0] if isinstance(tree, ast.Call) else tree
        if ast.unparse(head) != chosen.form.target:
            raise NoLowering(
                row.api, f"with these arguments it is {chosen.form.target}, the variable {ast.unparse(head)}"
            )
        return {k.arg: ast.unparse(k.value) for k in tree.keywords if k.arg} if isinstance(tree, ast.Call) else {}

    def _lowering(self, row: Row, chosen: Chosen, tree: ast.expr) -> Lowering:
        skeleton = chosen.form.target if chosen.form.kind != "method" else ""
        names: ast.AST = ast.parse("None")
        if skeleton:
            rendered = [skeleton if "{" not in skeleton else render(skeleton, chosen.slots)]
            rendered += [
                render(e.template, chosen.slots) for e in chosen.form.args if not e.parameter and _usable(e, chosen)
            ]
            names = ast.parse("\n".join(text for text in rendered if text))
        return self._finish(row, chosen.form, tree, names)

    def _finish(self, row: Row, form: Form | None, tree: ast.expr, names: ast.AST) -> Lowering:
        used = {node.id for node in ast.walk(names) if isinstance(node, ast.Name)} & self._functions.keys()
        notes = []
        for source in (row, form):
            if source is not None and source.flag:
                notes.append(Note(source.flag, source.differs or ""))
        if form is not None and (form.weights is not None or form.attributes is not None or form.forward is not None):
            row = replace(
                row,
                weights=row.weights if form.weights is None else form.weights,
                attributes=row.attributes if form.attributes is None else form.attributes,
                forward=row.forward if form.forward is None else form.forward,
            )
        random = form.random if form is not None else None
        if self._lacks:
            text = ast.unparse(tree) + (function_sources(self._functions, used) if used else "")
            notes += notes_on_target(text, self._lacks)
        notes = list(dict.fromkeys(notes))  # the base form has the row's own flag
        return Lowering(ast.fix_missing_locations(copy.deepcopy(tree)), frozenset(used), row, tuple(notes), random)


_OTHER_ORDER = frozenset({"where", "polygamma", "normal", "geqrf"})
"""Functions whose first argument is not the receiver of the method of that name."""


def _twin(api: str) -> str:
    """The function of a method's name, which means the same; "" where there is none."""
    if api.startswith("torch.nn.functional."):
        return f"torch.{api.removeprefix('torch.nn.functional.')}"  # re-exported: `F.split`, `F.unique`
    method = api.removeprefix("torch.Tensor.")
    return f"torch.{method}" if method != api and method not in _OTHER_ORDER else ""


def _usable(entry: object, chosen: Chosen) -> bool:
    """Whether a template's parameters all have something to render."""
    mentions = getattr(entry, "mentions", ())
    return all(chosen.slots[name].nodes for name in mentions)


def _check(rows: Mapping[str, RowText]) -> None:
    """Schema and templates of every row of a user's directory. Raises OpMapError."""
    from ms_port.opmap.schema import check_schema  # jsonschema takes a tenth of a second to import

    for row in rows.values():
        check_schema(row)
        check_templates(parse_row(row))


def _bare_function(row: Row, chosen: Chosen) -> ast.expr:
    """The function's name, where calling it with torch's leading arguments means the same. Raises NoLowering."""
    form, signature = chosen.form, chosen.overload.signature
    if form.kind != "function" or "{" in form.target:
        raise NoLowering(row.api, "its MindSpore form is no plain function, so it can't stand as a value")
    required = [p.name for p in signature if p.default is MISSING]
    leading = [entry.parameter for entry in form.args[: len(required)]]
    if leading != required:
        raise NoLowering(row.api, "its MindSpore form takes other leading arguments")
    for entry in form.args[len(required) :]:
        if entry.parameter is None or not same_default(chosen.slots[entry.parameter], entry.default):
            raise NoLowering(row.api, f"the default of {entry.name!r} differs, so it can't stand as a value")
    return ast.parse(form.target, mode="eval").body


def _as_literal(item: object) -> Argument:
    """Raises UnknownValue where the value is no literal."""
    return Argument(ast.parse(source_of(item), mode="eval").body, (Literal(item),))


def _attribute(row: Row, name: str, attributes: Mapping[str, object]) -> object:
    """A constructor argument from a layer's attributes; MISSING where it is not held."""
    expression = (row.instance or {}).get(name)
    try:
        if expression is None:
            item = attributes[name]
        else:
            text = str(expression)
            item = compile_condition(text)(**{key: attributes[key] for key in undeclared(text, True)})
    except KeyError:
        return MISSING
    # Layers keep (3, 3) for 3.
    if name in PER_AXIS and isinstance(item, tuple) and item and all(part == item[0] for part in item):
        return item[0]
    return item
