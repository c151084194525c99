"""A torch module's tensors as a port needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from ms_port.weights.convert import ParameterRow


def module_state(model: nn.Module, rows: Iterable[ParameterRow | Mapping[str, object]]) -> dict[str, Tensor]:
    """What torch saves, and the buffers and attributes that it does not save but the port lists (it does not compute
    them)."""
    state: dict[str, Tensor] = dict(model.state_dict())
    listed = {row.torch if isinstance(row, ParameterRow) else str(row["torch"]) for row in rows}
    for name, buffer in model.named_buffers():
        if name in listed:
            state.setdefault(name, buffer)
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            full = f"{path}.{name}" if path else name
            if isinstance(value, Tensor) and full in listed:
                state.setdefault(full, value.detach())
    return state
