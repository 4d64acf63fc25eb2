"""A learner's update on the native engine against the torch engine, plain torch, JAX and bare products; on one core."""

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.measure import Row, at_most, faster, interleave, make_parser, report, require, run, warn_if_busy
from benchmarks.update_peers import DQNCase, Passes, jax_update, products, torch_update
from headrace.algorithms.config import Engine, OffPolicy
from headrace.types import Array, Batch, EnvironmentSpec

_REPEATS = 15
_DQN = {
    DQNCase((4, 64, 64, 2), 64): 6.0,
    DQNCase((8, 128, 128, 4), 128): 3.3,
    DQNCase((8, 256, 256, 4), 256): 1.6,
}
"""Cases, and the speed-up over the torch engine that is required."""
_PRODUCTS = 1.4
"""Largest share of the products' time that the update of 8-128-128-4 may take."""
_D4PG = 2.0


def random_batch(spec: EnvironmentSpec, rows: int) -> Batch:
    """Random transitions."""
    random = np.random.default_rng(0)
    shape = (rows, *spec.input_shape)

    def observations() -> Array:
        if spec.observation_dtype == "uint8":
            return random.integers(0, 256, shape, np.uint8)
        return random.standard_normal(shape, np.float32)

    continuous = random.uniform(-1, 1, (rows, spec.actions)).astype(np.float32)
    action: Array = continuous if spec.continuous else random.integers(0, spec.actions, rows)
    return Batch(
        observation=observations(),
        action=action,
        reward=random.standard_normal(rows, np.float32),
        discount=np.full(rows, 0.97, np.float32),
        next_observation=observations(),
        weight=random.uniform(0.5, 1, rows).astype(np.float32),
        key=np.arange(rows, dtype=np.uint64),
        probability=np.full(rows, 1 / rows, np.float32),
        policy_version=np.zeros(rows, np.uint64),
    )


def whole_update(
    algorithm: OffPolicy, spec: EnvironmentSpec, batch: Batch, engine: Engine = "auto", device: str = "cpu"
) -> Callable[[], Any]:
    """The learner's whole update of this batch."""
    updater = algorithm.make_updater(spec, device, 0, None, engine)
    return lambda: updater.update(updater.transfer(batch))


def _dqn(case: DQNCase, required: float) -> list[Row]:
    from headrace.algorithms.dqn.config import DQN

    spec = EnvironmentSpec((case.sizes[0],), "float32", actions=case.sizes[-1])
    batch = random_batch(spec, case.batch)
    algorithm = DQN(hidden=case.sizes[1:-1], batch_size=case.batch)
    times = interleave(
        {
            "native": whole_update(algorithm, spec, batch, "native"),
            "torch": whole_update(algorithm, spec, batch, "torch"),
            "plain": torch_update(case, batch, compiled=False),
            "compile": torch_update(case, batch, compiled=True),
            "jax": jax_update(case, batch),
            "products": products(case.batch, Passes(case.sizes, forward=3, backward=1)),
        },
        _REPEATS,
    )
    native, torch_version = times["native"], version("torch")
    rows = [
        faster(case.name, native, "the torch engine", times["torch"], required),
        faster(case.name, native, f"plain torch {torch_version}", times["plain"]),
        faster(case.name, native, f"torch.compile {torch_version}", times["compile"]),
        faster(case.name, native, f"jax.jit {version('jax')}", times["jax"]),
    ]
    limit = _limit(case.name, native, times["products"])
    return [*rows, limit if case.sizes[1] == 128 else limit._replace(required="", verdict="")]


def _limit(name: str, native: float, products: float) -> Row:
    return at_most(name, "us", native * 1e6, _PRODUCTS, "products alone", products * 1e6, scale=True)


def _actor_critic(name: str, algorithm: OffPolicy, required: float | None, *networks: Passes) -> list[Row]:
    spec = EnvironmentSpec((17,), "float32", actions=6, continuous=True)
    batch = random_batch(spec, algorithm.batch_size)
    calls: dict[str, Callable[[], Any]] = {
        engine: whole_update(algorithm, spec, batch, engine) for engine in ("native", "torch")
    }
    times = interleave({**calls, "products": products(algorithm.batch_size, *networks)}, _REPEATS)
    rows = [faster(name, times["native"], "the torch engine", times["torch"], required)]
    return [*rows, _limit(name, times["native"], times["products"])._replace(required="", verdict="")]


def measure_updates() -> list[Row]:
    """Time of one update, loss and optimizer included, and its speed-up."""
    from headrace.algorithms.crossq.config import CrossQ
    from headrace.algorithms.d4pg.config import D4PG
    from headrace.algorithms.sac.config import SAC

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before torch and JAX count the cores
    rows = [row for case, required in _DQN.items() for row in _dqn(case, required)]
    d4pg = D4PG(hidden=(256, 256), critic_hidden=(256, 256), batch_size=256)
    sac = SAC(hidden=(256, 256), critic_hidden=(256, 256), batch_size=256)
    policy = Passes((17, 256, 256, 6), forward=2, backward=1)
    critic = Passes((23, 256, 256, d4pg.atoms), forward=3, backward=1, by_inputs=1)
    rows += _actor_critic("D4PG 17-256-256-6, batch 256", d4pg, _D4PG, policy, critic)
    policy = policy._replace(sizes=(17, 256, 256, 12))  # means and standard deviations
    critic = critic._replace(sizes=(23, 256, 256, 1))
    rows += _actor_critic("SAC 17-256-256-6, batch 256", sac, None, policy, critic, critic)
    crossq = CrossQ(hidden=(256, 256), critic_hidden=(256, 256), batch_size=256, policy_update_period=1)
    critic = critic._replace(backward=2)  # the joint batch has twice the rows
    rows += _actor_critic("CrossQ 17-256-256-6, batch 256, policy included", crossq, None, policy, critic, critic)
    return rows


def main() -> int:
    """Measures, prints, writes results/updates.csv."""
    make_parser(__doc__).parse_args()
    require("headrace", "torch", "jax")
    warn_if_busy()
    return report("updates", measure_updates())


if __name__ == "__main__":
    run(main)
