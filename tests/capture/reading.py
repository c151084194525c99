"""Small look-ups in a recording that several tests need."""

from __future__ import annotations

import ast

from ms_port.capture import Activation, CallRecord, FunctionRecord, Recording


def function(recording: Recording, qualname: str) -> FunctionRecord:
    (found,) = [item for item in recording.functions if item.qualname == qualname]
    return found


def values(activation: Activation, text: str) -> list:
    """Values of the first expression that is written so and ran."""
    nodes = [node for node in ast.walk(activation.function.tree) if isinstance(node, ast.expr)]
    for node in sorted(nodes, key=lambda node: getattr(node, "nid", 0)):
        if node.nid in activation.values and ast.unparse(node) == text:
            return activation.values[node.nid]
    raise LookupError(text)


def calls(activation: Activation, text: str) -> list[CallRecord]:
    """Records of the call that is written so."""
    for node in ast.walk(activation.function.tree):
        if isinstance(node, ast.Call) and ast.unparse(node) == text:
            return activation.calls.get(node.nid, [])
    raise LookupError(text)


def effects(activation: Activation) -> dict[str, set[str]]:
    """Effects by the first line of the statement."""
    nodes = {node.nid: node for node in ast.walk(activation.function.tree) if isinstance(node, ast.stmt)}
    return {ast.unparse(nodes[nid]).splitlines()[0]: names for nid, names in activation.effects.items()}
