"""Ape-X: actor processes and one learner (Horgan et al. 2018), optionally with a quantizer (ActorQ)."""

from headrace.topologies.apex.config import Apex

__all__ = ["Apex"]
