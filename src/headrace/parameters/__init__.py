"""Parameters: published with rising versions, pulled when newer."""

from headrace.parameters.base import ParameterStore
from headrace.parameters.policy import Policy

__all__ = ["ParameterStore", "Policy"]
