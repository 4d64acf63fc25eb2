"""Roles as actors of a Ray cluster."""

from headrace.errors import ConfigError

try:
    import ray  # noqa: F401 - an optional dependency
except ImportError as error:
    raise ConfigError(f"launcher is ray, which needs the package ray: pip install 'headrace[ray]' ({error})") from None

from headrace.launch.ray.cluster import open_cluster
from headrace.launch.ray.launcher import RayLauncher
from headrace.launch.ray.nodes import Nodes

__all__ = ["Nodes", "RayLauncher", "open_cluster"]
