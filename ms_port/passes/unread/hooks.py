"""Hooks: torch calls them, the port does not (MSP303)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ms_port.capture.normed import normed_class
from ms_port.ir.flags import Flag, Place
from ms_port.passes.unread.modules import LiveModel, described

_MODULE_HOOKS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}

_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")

_HARMLESS_HOOKS = ("transformers.utils.output_capturing",)
"""They only note outputs; what is noted is an output of the trace, which the ledger accounts for."""


def hooks(model: LiveModel) -> Iterator[Flag]:
    """Hooks on modules and on the gradients of parameters."""
    for path, module in model.modules.items():
        if path in model.scripted or normed_class(module) is not None:
            continue
        for registry, kind in _MODULE_HOOKS.items():
            for hook in list(module.__dict__.get(registry, {}).values()):
                if (getattr(hook, "__module__", None) or "") not in _HARMLESS_HOOKS:
                    yield _hook(f"a {kind} of {model.name(path)}", hook, path, model.place(path))
        for name, parameter in module._parameters.items():
            for registry in _TENSOR_HOOKS:
                for hook in list((getattr(parameter, registry, None) or {}).values()):
                    yield _hook(f"a hook on the gradient of {model.name(path)}.{name}", hook, path, model.place(path))


def _hook(what: str, hook: Any, path: str, place: Place | None) -> Flag:
    return Flag(
        rule="MSP303",
        severity="error",
        message=f"{what} ({described(hook)}) is called by torch and not by the port",
        module=path,
        source=place,
        advice="Write in `forward` what the hook does, or remove it before converting.",
    )
