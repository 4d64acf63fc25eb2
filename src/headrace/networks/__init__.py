"""Networks: one description, from which the learner's torch module and the actors' ONNX graph are both built.

The torch modules live in `policy_network` and `critic` and are not imported here, for actors never import torch.
"""

from headrace.networks.architecture import Architecture
from headrace.networks.policy_graph import PolicyGraph

__all__ = ["Architecture", "PolicyGraph"]
