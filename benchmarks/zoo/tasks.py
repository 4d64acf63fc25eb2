"""What the zoo trains: an environment and an algorithm each, the score to reach, and by which systems."""

from dataclasses import dataclass

from benchmarks.zoo.published import PEERS, published_steps
from headrace.settings import preset, presets_of

__all__ = ["HEADRACE", "OTHERS", "SIMULATED", "TASKS", "TIMED", "Task", "systems_of"]

_WORKERS = ("hogwild", "lock", "ad-psgd", "parameter-server")
SIMULATED = {"simulated-8": 8, "simulated-16": 16}
"""HogWild in simulated time with a worker on each of so many cores."""
HEADRACE = ("apex", "serial", "frugal", *_WORKERS, "apex-int8", *SIMULATED)
"""Systems that are this package: a preset in a topology, in int8, in simulated time, or the frugal preset."""
TIMED = ("apex", *_WORKERS, "apex-int8")
"""Those of several processes, which are evaluated by time; all other systems are evaluated by steps."""
OTHERS = ("sb3", "cleanrl", "torchrl")
"""Other libraries."""


@dataclass(frozen=True)
class Task:
    """An environment and an algorithm.

    A run stops at the first 100 greedy episodes that average `stop_at`. A score that decides when to stop is biased
    upwards, so 100 more episodes judge the policy: their mean must reach `required`. For the same reason `stop_at` is
    set a little higher.
    """

    environment: str
    algorithm: str
    required: float
    stop_at: float
    systems: tuple[str, ...]
    """Systems of this package; the others and the frugal preset are added where they have settings."""
    period_steps: int = 2_000
    """Environment steps between two evaluations, for systems whose evaluations do not go by time."""
    period_seconds: float = 5.0
    """Training seconds between two evaluations, for topologies with several processes."""

    @property
    def name(self) -> str:
        """The environment, and the algorithm unless it is the environment's default."""
        usual = preset(self.environment).algorithm.name
        return self.environment if self.algorithm == usual else f"{self.environment}-{self.algorithm}"

    def most_steps(self, system: str) -> int:
        """Environment steps after which a run ends: three times the preset's, and all that a library publishes."""
        return max(
            3 * preset(self.environment, self.algorithm).steps,
            published_steps(system, self.algorithm, self.environment),
        )


TASKS = (
    Task("CartPole-v1", "dqn", 500.0, 500.0, ("apex", "serial", "hogwild", *SIMULATED), 1_000, period_seconds=0.5),
    Task("CartPole-v1", "a3c", 475.0, 490.0, ("hogwild", "serial"), period_seconds=0.5),
    Task("Acrobot-v1", "dqn", -85.0, -80.0, ("apex", "serial", "hogwild", *SIMULATED), period_seconds=1.0),
    Task("MountainCar-v0", "dqn", -110.0, -105.0, ("apex", "serial", "hogwild"), period_seconds=1.0),
    Task("LunarLander-v3", "dqn", 200.0, 220.0, ("apex", "serial", "hogwild", *SIMULATED), 5_000, period_seconds=1.0),
    Task("LunarLander-v3", "dyna-q", 200.0, 220.0, ("apex", "serial"), 5_000),
    Task("LunarLander-v3", "a3c", 200.0, 220.0, ("hogwild", "serial", *SIMULATED), 20_000, period_seconds=1.0),
    Task("LunarLanderContinuous-v3", "sac", 200.0, 220.0, ("apex", "serial"), 5_000),
    Task("LunarLanderContinuous-v3", "crossq", 200.0, 220.0, ("serial",), 5_000),
    Task("BipedalWalker-v3", "sac", 270.0, 280.0, ("serial",), 10_000),
    Task("HalfCheetah-v5", "sac", 4_900.0, 5_000.0, ("apex", "serial"), 10_000),
    Task("HalfCheetah-v5", "crossq", 4_900.0, 5_000.0, (), 10_000),  # its frugal preset
    Task("Hopper-v5", "sac", 2_300.0, 2_500.0, ("serial",), 10_000),
    Task("Walker2d-v5", "sac", 3_000.0, 3_200.0, ("serial",), 10_000),
    Task("Ant-v5", "crossq", 2_300.0, 2_500.0, ("serial",), 10_000),
    Task("FrozenLake-v1", "dqn", 0.65, 0.7, ("apex", "serial", "hogwild"), period_seconds=0.5),
    Task("headrace/FrozenLakeNotSlippery-v0", "dqn", 1.0, 1.0, ("apex", "serial", "hogwild"), period_seconds=0.5),
    Task("Taxi-v4", "dqn", 7.0, 7.5, ("apex", "serial", "hogwild"), period_seconds=1.0),
    Task("headrace/Wheels-v0", "dqn", 14.0, 14.5, ("apex", "serial", "hogwild"), period_seconds=0.5),
    Task("minigrid/DoorKey-5x5-v0", "dqn", 0.9, 0.94, ("apex", "serial"), 10_000),
    Task("headrace/Snake-v0", "dqn", 20.0, 22.0, ("apex", "serial"), 10_000),  # an apple is worth 1, a death -1
    Task("headrace/TMaze-v0", "r2d2", 0.9, 0.95, ("apex", "serial")),
    Task("headrace/CartPolePositions-v0", "r2d2", 450.0, 475.0, ("apex", "serial")),
    Task("Pendulum-v1", "d4pg", -200.0, -180.0, ("apex", "serial", *_WORKERS), 1_000, period_seconds=0.5),
    Task("Pendulum-v1", "td3", -200.0, -180.0, ("apex", "serial", *_WORKERS), 1_000, period_seconds=0.5),
    Task("Pendulum-v1", "sac", -200.0, -180.0, ("apex", "serial", "apex-int8", *_WORKERS), 1_000, period_seconds=0.5),
    Task("headrace/Reach-v0", "sac", -2.0, -1.5, ("apex", "serial"), period_seconds=1.0),
    Task("Pendulum-v1", "crossq", -200.0, -180.0, ("apex", "serial"), 1_000, period_seconds=0.5),
    Task("Pendulum-v1", "a3c", -200.0, -180.0, ("hogwild", "serial"), 20_000, period_seconds=1.0),
    Task("dm_control/cartpole-balance", "d4pg", 900.0, 950.0, ("apex", "serial"), 5_000),
    Task("dm_control/cartpole-balance", "sac", 950.0, 980.0, ("serial",), 5_000),
    Task("dm_control/walker-stand", "d4pg", 950.0, 965.0, ("apex", "serial"), 5_000),
    Task("dm_control/walker-walk", "d4pg", 900.0, 920.0, ("serial",), 20_000),
    Task("dm_control/finger-spin", "d4pg", 850.0, 860.0, ("serial",), 20_000),
    Task("dm_control/reacher-hard", "d4pg", 900.0, 930.0, ("serial",), 20_000),
    Task("dm_control/cheetah-run", "d4pg", 700.0, 715.0, ("serial",), 20_000),
    Task("dm_control/hopper-hop", "d4pg", 100.0, 110.0, ("serial",), 20_000),
)
"""Every preset except that of Blackjack-v1, of which 100 episodes say nothing: `benchmarks.spaces` plays 20,000. Of the
families, ALE/... is left out, which takes days, dm_control/... is measured on tasks that take minutes, and
`benchmarks.minatar_scores` measures minatar/...."""


def systems_of(task: Task) -> tuple[str, ...]:
    """All systems that the zoo runs for a task."""
    frugal = ("frugal",) if task.environment in presets_of(task.algorithm, frugal=True) else ()
    peers = tuple(name for name, known in PEERS.items() if task.environment in known.get(task.algorithm, {}))
    return (*task.systems, *frugal, *peers)
