"""D4PG: distributional critic, deterministic policy, distributed actors (Barth-Maron et al. 2018)."""

from headrace.algorithms.d4pg.config import D4PG

__all__ = ["D4PG"]
