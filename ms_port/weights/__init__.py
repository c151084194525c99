"""Weights: checkpoints in, a port's parameters out, and back, tensor by tensor and by reversible rules."""

from ms_port.weights.checkpoint import Checkpoint, LazyTensors, WeightsError, read_checkpoint
from ms_port.weights.convert import ParameterRow, convert, convert_file, fit_names, load_into_module, read_rows
from ms_port.weights.rules import RULES, Rule
from ms_port.weights.state import module_state
from ms_port.weights.training_state import convert_training_state
from ms_port.weights.write import write_ckpt, write_safetensors, write_torch

__all__ = [
    "RULES",
    "Checkpoint",
    "LazyTensors",
    "ParameterRow",
    "Rule",
    "WeightsError",
    "convert",
    "convert_file",
    "convert_training_state",
    "fit_names",
    "load_into_module",
    "module_state",
    "read_checkpoint",
    "read_rows",
    "write_ckpt",
    "write_safetensors",
    "write_torch",
]
