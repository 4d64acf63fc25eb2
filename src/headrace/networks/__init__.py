"""Networks: one description, from which the learner's network, native or torch's, and the actors' ONNX graph are built.

The torch modules are in `policy_network` and `critic`. They are not imported here: actors never import torch.
"""

from headrace.networks.architecture import Architecture
from headrace.networks.policy_graph import PolicyGraph

__all__ = ["Architecture", "PolicyGraph"]
