"""Emit: the program as files."""

from ms_port.emit.package import Banner, EmittedFiles, write_package
from ms_port.emit.parameters import CellPath, ParameterRow
from ms_port.emit.source_map import Origin, after_edits

__all__ = [
    "Banner", "CellPath", "EmittedFiles", "Origin", "ParameterRow", "after_edits",
    "write_package",
]  # fmt: skip
