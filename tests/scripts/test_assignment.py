"""Names that not every way sets: what a gradient's function takes, gives back, and finds unset."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from migrating import migrated

from ms_port.script.assignment import before, bound, exposed

HEAD = """
import torch
from torch import nn
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def body(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("if c:\n    a = 1\n    b = 2\nelse:\n    a = 3", {"a"}),
        ("if c:\n    a = 1\nelse:\n    raise ValueError", {"a"}),
        ("if c:\n    a = 1", set()),
        ("try:\n    a = 1\nexcept E:\n    a = 2", {"a"}),
        ("try:\n    a = 1\nexcept E:\n    pass", set()),
        ("for i in x:\n    a = i", {"a", "i"}),
        ("with f() as g:\n    a = g", {"a", "g"}),
    ],
)
def test_what_is_bound_at_the_end(text: str, names: set[str]) -> None:
    assert bound(body(text)) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = b\nb = 1", {"b"}),
        ("if c:\n    h = 1\no = h", {"c", "h"}),
        ("h = 1\nif c:\n    h = h + 1", {"c"}),
        ("h += 1", {"h"}),
        ("y = [v for v in x]", {"x"}),
        ("for i in x:\n    s = t\n    t = i", {"x", "t"}),
    ],
)
def test_what_is_read_unset(text: str, names: set[str]) -> None:
    assert exposed(body(text), set()) == names


def test_what_is_set_where_a_block_begins() -> None:
    scope = body("a = 1\nif c:\n    b = 2\nfor i in x:\n    d = 1\n    e = 2")
    loop = scope[2]
    assert isinstance(loop, ast.For)
    assert before(scope, loop.body, 1) == {"a", "i", "d"}


def test_a_state_is_carried_from_round_to_round(tmp_path: Path) -> None:
    text, _ = migrated(
        tmp_path,
        HEAD + "state = torch.zeros(1, 3)\nfor x in data:\n    state, out = net(x) + state.detach(), net(x)\n"
        "    loss = out.mean()\n    loss.backward()\n",
    )
    assert "(loss, state), gradients" in text
    assert "forward_fn(state=state)" in text


def test_a_name_of_one_branch_has_a_value_on_the_other(tmp_path: Path) -> None:
    text, _ = migrated(
        tmp_path,
        HEAD + "def train(flag, data):\n    if flag:\n        hidden = torch.zeros(1)\n    for x in data:\n"
        "        if flag:\n            out, hidden = net(x), hidden + 1\n        else:\n            out = net(x)\n"
        "        loss = out.mean()\n        loss.backward()\n        optimizer.step()\n",
    )
    assert text.index("hidden = None") < text.index("if flag:")
    assert "forward_fn(hidden=hidden)" in text


def test_a_name_set_in_one_branch_and_read_behind(tmp_path: Path) -> None:
    text, _ = migrated(
        tmp_path,
        HEAD + "for x in data:\n    loss = net(x).mean()\n    if flag:\n        penalty = net(2 * x).mean()\n"
        "        loss = loss + penalty\n    loss.backward()\n    optimizer.step()\n    if flag:\n        print(penalty)\n",
    )
    assert "penalty = None" in text
    assert "return loss, (penalty,)" in text
    assert "(loss, (penalty,)), gradients" in text
