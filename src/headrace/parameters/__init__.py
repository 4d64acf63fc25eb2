"""Parameters: published with increasing versions, fetched if newer."""

from headrace.parameters.base import ParameterStore
from headrace.parameters.policy import Policy

__all__ = ["ParameterStore", "Policy"]
