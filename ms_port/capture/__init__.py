"""Capture: run a model once under instrumentation and hand over what its source did.

``record(target, Inputs(args, kwargs))`` gives a ``Recording``; a fault of the user's raises ``CaptureError``.
"""

from ms_port.capture.errors import CaptureError
from ms_port.capture.inputs import Inputs
from ms_port.capture.record import record
from ms_port.capture.recording import (
    Activation,
    CallRecord,
    FunctionRecord,
    Mode,
    ModuleArguments,
    Recording,
    TorchCall,
    ValueRead,
)

__all__ = [
    "Activation",
    "CallRecord",
    "CaptureError",
    "FunctionRecord",
    "Inputs",
    "Mode",
    "ModuleArguments",
    "Recording",
    "TorchCall",
    "ValueRead",
    "record",
]
