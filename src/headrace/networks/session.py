"""ONNX Runtime's session for a policy's graph."""

from typing import Any

from headrace.networks.graph_bytes import take_initializers

__all__ = ["open_session"]


def open_session(graph: bytes) -> Any:
    """An inference session that computes on one processor core.

    The parameters are copied once, into arrays that ONNX Runtime packs without parsing them. It does not hold Python's
    lock meanwhile, so that an actor can continue. From bytes it would copy and parse 34 MB in 12 ms with the lock held.
    """
    import onnxruntime  # workers, which act with their learner's network, do without it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model, arrays = take_initializers(graph)
    parameters = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
    options.add_external_initializers([*arrays], parameters)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    session.headrace_parameters = parameters  # whose memory it may use
    return session
