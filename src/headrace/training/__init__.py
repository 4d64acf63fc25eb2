"""Training runs: start, resume, evaluate, export."""

from headrace.training.evaluation import Evaluation
from headrace.training.policy_use import export, record_frames
from headrace.training.result import Result, evaluate
from headrace.training.start import resume, train
from headrace.training.trainer import Trainer

__all__ = ["Evaluation", "Result", "Trainer", "evaluate", "export", "record_frames", "resume", "train"]
