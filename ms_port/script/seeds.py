"""``torch.manual_seed``: MindSpore's ``set_seed`` begins numpy's numbers anew too, of which it takes the seeds of initial values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ms_port.script.source import dotted

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions
    from ms_port.script.project import Module


def seed(e: Expressions, node: ast.Call) -> str | None:
    """``ms.set_seed``; numpy goes on as it was where the project seeds it with something else."""
    given = [*node.args, *(k.value for k in node.keywords if k.arg == "seed")]
    if len(given) != 1:
        return e.refuse(node, "MSP602", "torch.manual_seed", "it has one argument")
    modules = e.inference.project.modules.values()
    here = e.function.node if e.function is not None else e.module.source.tree
    same = any(ast.dump(other) == ast.dump(given[0]) for other in _numpy_seeds(e.module, here))
    kept = not same and any(True for module in modules for _ in _numpy_seeds(module, module.source.tree))
    text = f"{e.needs.name('seed_besides_numpy') if kept else e.needs.name('ms') + '.set_seed'}({e.render(given[0])})"
    e.change(node, "MSP601", text, "torch.manual_seed")
    return text


def _numpy_seeds(module: Module, place: ast.AST) -> list[ast.expr]:
    """The arguments of ``np.random.seed``."""
    found = []
    for node in ast.walk(place):
        if isinstance(node, ast.Call) and node.args and (name := dotted(node.func)):
            head, _, rest = name.partition(".")
            if f"{module.names.get(head, head)}.{rest}".rstrip(".") == "numpy.random.seed":
                found.append(node.args[0])
    return found
