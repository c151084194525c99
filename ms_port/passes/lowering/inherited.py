"""Which of a class's bases a method comes from, in Python's own order."""

from __future__ import annotations

from ms_port.ir.program import FunctionDef, Program


def find_method(program: Program, cls: str, name: str) -> FunctionDef | None:
    """A method of the person's own by its name, looked up along the bases.

    None also where one of torch's layers stands before the base that has it: ``class Scaled(nn.Linear, Named)`` is
    made by the constructor of ``nn.Linear``, whatever ``Named`` has.
    """
    for owner in _order(program, cls):
        if owner.startswith("torch.nn.") and name in ("__init__", "forward"):
            return None
        cell = program.cells.get(owner)
        for method in cell.methods if cell is not None else ():
            if method.name == name:
                return method
    return None


def _order(program: Program, cls: str) -> list[str]:
    """The class and its bases, in the order in which Python looks for a method; torch's plain Module comes last."""
    cell = program.cells.get(cls)
    if cell is None:
        return [] if cls == "torch.nn.Module" else [cls]
    lines = [_order(program, base) for base in cell.bases]
    merged = [cls]
    while lines := [line for line in lines if line]:
        # C3: the first head that no other line has behind its own head
        heads = [line[0] for line in lines if not any(line[0] in other[1:] for other in lines)]
        chosen = heads[0] if heads else lines[0][0]
        merged.append(chosen)
        lines = [[name for name in line if name != chosen] for line in lines]
    return merged
