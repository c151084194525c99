"""YAML text of op maps to rows. A file is cut at its top-level keys and a row is parsed when it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ms_port.opmap.calls import RESULT
from ms_port.opmap.errors import OpMapError
from ms_port.opmap.rows import Entry, Example, Form, Overload, Row, RowText, TargetKind, WeightRule
from ms_port.opmap.signature import MISSING, parse_signature
from ms_port.opmap.templates import compile_condition, compile_template, names_in, undeclared

KINDS: tuple[TargetKind, ...] = ("function", "method", "cell", "expression", "initializer", "drop")
UNUSED = frozenset(
    {"inplace", "device", "memory_format", "non_blocking", "pin_memory", "layout", "generator", "out", "requires_grad"}
)
Parsed = TypeVar("Parsed")
_KEY = re.compile(r"^([A-Za-z_][\w.]*)[ ]*:", re.M)
_EXAMPLES = re.compile(r"^  examples:[^\n]*\n(?:(?:   .*)?\n)*(?:   .*)?", re.M)
_BASE: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]
    """A safe loader in which ``1e-5`` is a number and only true and false are bools."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if not tag.endswith((":bool", ":float", ":timestamp"))]
    for first, pairs in _BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false|True|False)$"), list("tfTF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf)$"),
    list("-+0123456789."),
)


def split_rows(file: Path) -> list[RowText]:
    """The rows of a file. Raises OpMapError for text outside rows and for an API that stands twice."""
    text = file.read_text(encoding="utf-8")
    found = list(_KEY.finditer(text))
    head = text[: found[0].start()] if found else text
    if any(line.strip() and not line.startswith(("#", "---")) for line in head.splitlines()):
        raise OpMapError(file, "", "a row begins with the API's name at the start of a line", 1)
    rows: dict[str, RowText] = {}
    line, position = 1, 0
    for index, match in enumerate(found):
        end = found[index + 1].start() if index + 1 < len(found) else len(text)
        line += text.count("\n", position, match.start())
        position = match.start()
        if match[1] in rows:
            raise OpMapError(file, match[1], f"stands twice, first in line {rows[match[1]].line}", line)
        rows[match[1]] = RowText(match[1], file, line, text[match.start() : end])
    return list(rows.values())


def load_yaml(row: RowText) -> Mapping[str, Any]:
    """The row's mapping. Raises OpMapError."""
    try:
        data = yaml.load(row.text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        within = error.problem_mark.line if error.problem_mark else 0
        line = row.line + min(within, max(0, row.text.rstrip().count("\n")))
        raise OpMapError(row.file, row.api, f"not YAML: {error.problem}", line) from None
    except yaml.YAMLError as error:
        raise OpMapError(row.file, row.api, f"not YAML: {error}", row.line) from None
    if not isinstance(data, dict) or list(data) != [row.api] or not isinstance(data[row.api], dict):
        raise OpMapError(row.file, row.api, "a row is a mapping", row.line)
    body: Mapping[str, Any] = data[row.api]
    return body


def line_of(row: RowText, path: Sequence[str | int]) -> int:
    """The line in the file of the value at a path inside the row."""
    node: Any = yaml.compose(row.text, Loader=_Loader)
    line = row.line
    for key in [row.api, *path]:
        if isinstance(node, yaml.MappingNode):
            pairs = {pair[0].value: pair for pair in node.value}
            if key not in pairs:
                break
            line = row.line + int(pairs[key][0].start_mark.line)
            node = pairs[key][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = row.line + int(node.start_mark.line)
    return line


def parse_row(row: RowText) -> Row:
    """A row from its text; its examples are parsed when they are asked for. Raises OpMapError."""
    return _guarded(row, lambda: _row(row, load_yaml(_without_examples(row))))


@cache
def parse_examples(row: RowText) -> tuple[Example, ...]:
    """The examples of a row. Raises OpMapError."""
    return _guarded(row, lambda: tuple(_example(example) for example in load_yaml(row).get("examples", ())))


def _without_examples(row: RowText) -> RowText:
    """The row without its block of examples, which is the larger part of most rows and no part of a lowering."""
    return replace(row, text=_EXAMPLES.sub("", row.text))


def _guarded(row: RowText, parse: Callable[[], Parsed]) -> Parsed:
    try:
        return parse()
    except ValueError as error:
        raise OpMapError(row.file, row.api, str(error), row.line) from None
    except (TypeError, KeyError, AttributeError) as error:
        raise OpMapError(row.file, row.api, f"malformed: {error!r}", row.line) from None


def _row(row: RowText, data: Mapping[str, Any]) -> Row:
    parts: Sequence[Mapping[str, Any]] = data.get("overloads") or ([] if "same_as" in data else [data])
    return Row(
        api=row.api,
        file=row.file,
        line=row.line,
        overloads=tuple(_overload(row.api, part, data) for part in parts),
        same_as=data.get("same_as"),
        weights=weight_rules(data.get("weights")),
        attributes=data.get("attributes"),
        instance=data.get("instance"),
        forward=data.get("forward"),
        batch_ndim=data.get("batch_ndim"),
        batch_call=data.get("batch_call"),
        items=data.get("items"),
        host=data.get("host"),
        value=data.get("value"),
        differs=data.get("differs"),
        flag=data.get("flag"),
        why=data.get("why"),
        untested=data.get("untested"),
        text=row,
    )


def weight_rules(data: Mapping[str, Any] | None) -> tuple[WeightRule, ...]:
    """``{weight: gamma, bias: drop, x: {to: y, rule: transpose}}``."""
    rules = []
    for torch_name, to in (data or {}).items():
        if isinstance(to, Mapping):
            rules.append(WeightRule(torch_name, to["to"], to.get("rule", "same")))
        else:
            rules.append(WeightRule(torch_name, None, "drop") if to == "drop" else WeightRule(torch_name, str(to)))
    return tuple(rules)


def check_templates(row: Row) -> None:
    """Compile all templates and conditions, and check the names they use. Raises OpMapError."""
    for overload in row.overloads:
        names = {parameter.name for parameter in overload.signature} | {RESULT}
        if row.api.startswith("torch.Tensor."):
            names.add("self")
        conditions = [overload.when, *(form.when for form in overload.forms)]
        templates = [row.host]
        for form in overload.forms:
            templates += [form.target, form.host, *(entry.template for entry in form.args)]
        try:
            for text in filter(None, conditions):
                compile_condition(text)
                _known(undeclared(text, True), names, text)
            for text in filter(None, templates):
                compile_template(text)
                _known(undeclared(text), names, text)
        except ValueError as error:
            raise OpMapError(row.file, row.api, str(error), row.line) from None


def _known(used: frozenset[str], names: set[str], where: str) -> None:
    if used - names:
        raise ValueError(f"{where!r} names {', '.join(sorted(used - names))}, which the signature lacks")


def _overload(api: str, part: Mapping[str, Any], row: Mapping[str, Any]) -> Overload:
    text = part.get("signature", row.get("signature", "") if part is not row else "")
    signature = parse_signature(str(text))
    names = frozenset(p.name for p in signature) | ({"self"} if api.startswith("torch.Tensor.") else frozenset())
    base_args = part.get("args")
    forms = [
        _form(api, {"args": base_args, **variant} if _same_kind(variant, part) else variant, signature, names)
        for variant in part.get("variants", ())
    ]
    if any(kind in part for kind in KINDS):
        forms.append(_form(api, {k: v for k, v in part.items() if k != "when"}, signature, names))
    if not forms:
        raise ValueError(f"no target: one of {', '.join(KINDS)}")
    considered = {name for form in forms if form.when for name in names_in(form.when, True)}
    if part.get("when"):
        considered |= names_in(part["when"], True)
    considered |= set(part.get("ignore", ()))
    return Overload(str(text), signature, tuple(forms), part.get("when"), frozenset(considered))


def _same_kind(variant: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Whether a variant takes the base form's arguments: it says none, and its target is of the same kind."""
    return "args" not in variant and any(kind in variant and kind in part for kind in ("function", "cell", "method"))


def _form(api: str, data: Mapping[str, Any], signature: tuple[Any, ...], names: frozenset[str]) -> Form:
    kinds = [kind for kind in KINDS if kind in data]
    if len(kinds) != 1:
        raise ValueError(f"exactly one target of {', '.join(KINDS)}; found {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    target = "" if kind == "drop" else str(data[kind])
    args = data.get("args")
    if kind in ("function", "method", "cell"):
        if args is None:
            args = {p.name: p.name for p in signature if p.name not in UNUSED}
        entries = tuple(_entry(str(name), spec, names) for name, spec in args.items())
    elif kind == "initializer":
        entries = tuple(_entry(str(name), spec, names) for name, spec in (args or {}).items())
    else:
        entries = ()
    mentions = frozenset(names_in(target)).union(*(entry.mentions for entry in entries)) & names
    if kind in ("drop", "initializer") and signature and "self" not in names:
        mentions |= {signature[0].name}
    when = data.get("when")
    return Form(
        kind=kind,
        target=target,
        args=entries,
        mentions=mentions,
        when=None if when is None else str(when),
        general=bool(data.get("general", False)),
        random=data.get("random"),
        host=data.get("host"),
        differs=data.get("differs"),
        flag=data.get("flag"),
        weights=weight_rules(data["weights"]) if "weights" in data else None,
        attributes=data.get("attributes"),
        forward=data.get("forward"),
        ignored=frozenset(data.get("ignore", ())),
    )


def _entry(name: str, spec: Any, names: frozenset[str]) -> Entry:
    """An argument: parameter name, template, constant, or ``{value:, default:, keyword:}``."""
    default: object = MISSING
    keyword = False
    if isinstance(spec, Mapping):
        default = spec.get("default", MISSING)
        keyword = bool(spec.get("keyword", False))
        spec = spec["value"]
    positional = name.startswith("*")
    name = name.lstrip("*")
    if not isinstance(spec, str):
        return Entry(name, repr(spec), None, frozenset(), default, positional, keyword)
    if spec in names:
        return Entry(name, "{{ " + spec + " }}", spec, frozenset({spec}), default, positional, keyword)
    if spec.isidentifier() and spec not in ("True", "False", "None"):
        raise ValueError(f"{name}: {spec!r} is no parameter (a string constant is written \"'{spec}'\")")
    return Entry(name, spec, None, names_in(spec) & names, default, positional, keyword)


def _example(data: Mapping[str, Any]) -> Example:
    return Example(
        torch=str(data["torch"]),
        mindspore=str(data["mindspore"]),
        inputs={str(k): str(v) for k, v in data.get("inputs", {}).items()},
        call=data.get("call"),
        train=bool(data.get("train", False)),
        gradient=bool(data.get("gradient", True)),
        check=str(data.get("check", "values")),
        untested=data.get("untested"),
    )
