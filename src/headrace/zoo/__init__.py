"""Trained policies that come with the package, named zoo:NAME."""

from headrace.zoo.catalogue import PREFIX, KeptPolicy, find_kept, kept_policies, zoo_name

__all__ = ["PREFIX", "KeptPolicy", "find_kept", "kept_policies", "zoo_name"]
