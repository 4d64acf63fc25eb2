"""Names in a policy's ONNX graph: of its inputs and outputs, and of what its metadata says."""

__all__ = ["INPUT", "NEXT_STATE", "OUTPUT", "PARTS", "STATE"]

INPUT = "observation"
OUTPUT = "output"
STATE = "state"
NEXT_STATE = "next_state"
PARTS = "headrace.parts"
"""Key of the parts in the model's metadata: a JSON array, if observations are records."""
