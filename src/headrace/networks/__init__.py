"""Networks: one description, from which the learner's network, native or torch's, and the actors' ONNX graph are built.

Only `torch_network` and `torch_modules` import torch, and only the torch engine imports them. `policy_graph` imports
onnx, which roles that build no graph do without.
"""

from headrace.networks.architecture import Architecture

__all__ = ["Architecture"]
