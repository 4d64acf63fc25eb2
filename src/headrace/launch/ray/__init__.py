"""Roles as actors of a Ray cluster."""

from headrace.launch.ray.config import Ray

__all__ = ["Ray"]
