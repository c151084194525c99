"""Emit: the program as files."""

from ms_port.emit.package import Banner, EmittedFiles, template_directory, write_package
from ms_port.emit.parameters import CellPath, ParameterRow

__all__ = ["Banner", "CellPath", "EmittedFiles", "ParameterRow", "template_directory", "write_package"]
