"""The rules: complete, their snippets parse, their pages are as generated, every code in the source is one."""

import ast
import re
from pathlib import Path

import pytest

from ms_port.report.pages import main, pages
from ms_port.report.rules import Rule, rules

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rule", rules().values(), ids=lambda r: r.code)
def test_rule_is_complete(rule: Rule) -> None:
    assert re.fullmatch(r"MSP[1-9]\d\d", rule.code)
    for snippet in (rule.before, rule.after):
        ast.parse(re.sub(r"^(\s*)return", r"\1_ =", snippet, flags=re.MULTILINE))
    assert all((rule.title, rule.meaning, rule.graph, rule.instead))


def test_every_code_used_has_a_rule() -> None:
    used = set()
    for folder, pattern in (("ms_port", "*.py"), ("op_maps", "*.yaml")):
        for file in (ROOT / folder).rglob(pattern):
            used |= {(code, file.name) for code in re.findall(r"\bMSP\d{3}\b", file.read_text())}
    assert {(code, file) for code, file in used if code not in rules()} == set()


def test_pages_are_as_generated() -> None:
    assert main(["--check", str(ROOT / "docs" / "rules")]) == 0
    assert len(pages()) == len(rules()) + 1
