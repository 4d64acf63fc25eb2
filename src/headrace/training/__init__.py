"""Training runs: start, resume, evaluate, export, use."""

from headrace.training.callbacks import Callback, Callbacks
from headrace.training.evaluation import Evaluation
from headrace.training.policy_use import export, record_frames
from headrace.training.result import Result, evaluate
from headrace.training.saved_policy import SavedPolicy, load_kept, load_policy
from headrace.training.start import resume, train
from headrace.training.trainer import Trainer

__all__ = [
    "Callback",
    "Callbacks",
    "Evaluation",
    "Result",
    "SavedPolicy",
    "Trainer",
    "evaluate",
    "export",
    "load_kept",
    "load_policy",
    "record_frames",
    "resume",
    "train",
]
