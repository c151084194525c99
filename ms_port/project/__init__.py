"""The project around the model: its folder, its training files, what a person changed in them."""

from ms_port.project.output import Edit, Staging
from ms_port.project.training import FILES, TrainingPlan, TrainInput, plan_training, write_training_files

__all__ = ["FILES", "Edit", "Staging", "TrainInput", "TrainingPlan", "plan_training", "write_training_files"]
