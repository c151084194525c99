"""The one exception that capture raises for faults of the user's model or inputs."""

from __future__ import annotations

from ms_port.errors import BadInput


class CaptureError(BadInput):
    """The model could not be recorded, for a reason that the user can act on; ``file`` is "" where none is known."""

    def __init__(self, message: str, file: str = "", line: int = 0, advice: str = "") -> None:
        super().__init__(message, where=f"{file}:{line}" if file else None, advice=advice or None)
        self.message = message
        self.file = file
        self.line = line
