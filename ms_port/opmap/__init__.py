"""Op maps: YAML tables from torch APIs to MindSpore source. ``OpMap.load().lower(call)``."""

from ms_port.opmap.calls import RANDOM_NAME, Argument, Call, Lowering, Note
from ms_port.opmap.errors import NoLowering, OpMapError
from ms_port.opmap.opmap import OpMap, op_map_directory
from ms_port.opmap.rows import Example, Row, WeightRule

__all__ = [
    "RANDOM_NAME",
    "Argument",
    "Call",
    "Example",
    "Lowering",
    "NoLowering",
    "Note",
    "OpMap",
    "OpMapError",
    "Row",
    "WeightRule",
    "op_map_directory",
]
