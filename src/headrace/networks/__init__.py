"""Networks: one description, from which the learner's network, native or torch's, and the actors' ONNX graph are built.

Only `torch_network` and `torch_modules` import torch, and only the torch engine imports them.
"""

from headrace.networks.architecture import Architecture
from headrace.networks.policy_graph import PolicyGraph

__all__ = ["Architecture", "PolicyGraph"]
