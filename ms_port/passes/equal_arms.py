"""Branches that came to say the same: what told them apart in torch (``inplace``) is nothing in the port."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def says_the_same(statement: ast.If, rest: Sequence[ast.stmt]) -> bool:
    """Whether both ways through the branch do the same: equal arms, or an arm that is all that follows, to the end.

    ``if inplace is None: return act_layer()`` before ``return act_layer()`` is such a branch. ``rest`` is what
    follows it in its block.
    """
    arms = [ast.dump(s) for s in statement.body]
    if statement.orelse:
        return arms == [ast.dump(s) for s in statement.orelse]
    return isinstance(statement.body[-1], ast.Return) and arms == [ast.dump(s) for s in rest]
