"""Settings that are known to work, by environment; `headrace presets` prints them.

The algorithms' settings are in `algorithms/NAME/presets.py`. This module has the settings that all algorithms share in
Gymnasium's environments and in ours. Suites have their own: `Suite.defaults`.

For comparison: Stable-Baselines3's zoo solves CartPole in 50,000 steps, reaches -77 on Acrobot and -101 on MountainCar,
and 154 on LunarLander in 100,000 (DQN, published scores).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from headrace.algorithms.config import Algorithm, Tuned
from headrace.algorithms.registry import ALGORITHMS
from headrace.environments.names import newest
from headrace.environments.suites import SUITES, find_suite
from headrace.errors import ConfigError, EnvironmentFault
from headrace.topologies.config import Topology
from headrace.topologies.registry import TOPOLOGIES
from headrace.types import EnvironmentDefaults, Sizing

__all__ = ["PRESETS", "Preset", "preset", "presets_of"]

T = TypeVar("T")


class Preset(NamedTuple):
    """Settings of one algorithm in one environment, and the number of environment steps that they are tuned for."""

    algorithm: Algorithm
    steps: int
    sizing: Sizing
    note: str
    evaluation_period_seconds: float
    evaluation_episodes: int
    final_evaluation_episodes: int
    checkpoint_period_seconds: float
    frugal: bool = False
    """Whether it is tuned for few environment steps rather than few seconds."""

    @property
    def topology_name(self) -> str:
        """The default topology: the algorithm's, or serial if frugal."""
        return "serial" if self.frugal else self.algorithm.default_topology

    def periods(self) -> dict[str, Any]:
        """The settings of evaluations and checkpoints, by the names that they have in a run's configuration."""
        return {
            "evaluation_period_seconds": self.evaluation_period_seconds,
            "evaluation_episodes": self.evaluation_episodes,
            "final_evaluation_episodes": self.final_evaluation_episodes,
            "checkpoint_period_seconds": self.checkpoint_period_seconds,
        }

    def topology(self, name: str) -> Topology:
        """The topology of this name; raises ConfigError if there is none."""
        return TOPOLOGIES.find(name).tuned(self.sizing)


_FRUGAL = {"environments": 1, "chunk_steps": 10}
"""One environment: every step is chosen by the newest policy, and is learned from soon."""
_ENVIRONMENTS: dict[str, EnvironmentDefaults] = {
    "CartPole-v1": EnvironmentDefaults("dqn", Sizing(4, 8), "500 is the maximum return of an episode"),
    "Acrobot-v1": EnvironmentDefaults("dqn", Sizing(), "solved near -80"),
    "MountainCar-v0": EnvironmentDefaults(
        "dqn",
        Sizing(),
        "the reward is constant until the flag is reached once: exploration decides",
    ),
    "LunarLander-v3": EnvironmentDefaults("dqn", Sizing(16), "200 counts as solved"),
    "FrozenLake-v1": EnvironmentDefaults("dqn", Sizing(), "about 0.74 is the best within 100 steps"),
    "Taxi-v4": EnvironmentDefaults("dqn", Sizing(), "its action masks are used; about 7.9 is the best possible mean"),
    "headrace/FrozenLakeNotSlippery-v0": EnvironmentDefaults("dqn", Sizing(), "1 is the best return"),
    "Blackjack-v1": EnvironmentDefaults(
        "dqn", Sizing(), "best possible mean: -0.045; standard error over 100 episodes: 0.1"
    ),
    "headrace/Wheels-v0": EnvironmentDefaults("dqn", Sizing(), "15 is the best return"),
    "headrace/Reach-v0": EnvironmentDefaults("sac", Sizing(8, 8), "-0.81 is the best possible mean"),
    "LunarLanderContinuous-v3": EnvironmentDefaults("sac", Sizing(16), "200 counts as solved"),
    "BipedalWalker-v3": EnvironmentDefaults("sac", Sizing(8, 8), "300 counts as solved"),
    "HalfCheetah-v5": EnvironmentDefaults("sac", Sizing(8, 8), "an episode lasts 1,000 steps and has no best return"),
    "Hopper-v5": EnvironmentDefaults("sac", Sizing(8, 8), "the score changes much from evaluation to evaluation"),
    "Walker2d-v5": EnvironmentDefaults("sac", Sizing(8, 8), "ten runs reached 3,200 after 230,000 to 450,000 steps"),
    "Ant-v5": EnvironmentDefaults("crossq", Sizing(8, 8), "an ant that only stays on its feet gets about 1,000"),
    "headrace/Snake-v0": EnvironmentDefaults(
        "dqn",
        Sizing(16),
        "the return is the number of apples eaten, minus one for a death; 19.2 is the best published for 10 x 10",
    ),
    "headrace/TMaze-v0": EnvironmentDefaults("r2d2", Sizing(8, 8), "1 is the best return; 0.5 is that of chance"),
    "headrace/CartPolePositions-v0": EnvironmentDefaults(
        "r2d2",
        Sizing(8, 8),
        "CartPole-v1 without velocities; 500 is the maximum return of an episode",
    ),
    "Pendulum-v1": EnvironmentDefaults(
        "d4pg",
        Sizing(4, 8),
        "about -150 is the best possible mean, because each episode starts with a swing-up",
    ),
    **{name: defaults for suite in SUITES for name, defaults in suite.defaults.items()},
}


def preset(environment: str, algorithm: str | None = None, *, frugal: bool = False) -> Preset:
    """The preset of an environment, or of its family (ALE/..., dm_control/...), or the defaults.

    That of vector/NAME, envpool/NAME and module:NAME is the preset of NAME. A name without its version has that of its
    newest one.

    `algorithm` is by default the environment's. An algorithm that has no preset for the environment gets its default
    settings and the steps of the environment's algorithm. `frugal` chooses the one that needs few environment steps,
    without `algorithm` also that of another algorithm than the environment's.
    Raises ConfigError if there is no such algorithm, or no such frugal preset.
    """
    shared = _defaults(environment)
    usual = _find(_tuned(ALGORITHMS.find(shared.algorithm)), environment)
    kind = ALGORITHMS.find(algorithm or shared.algorithm)
    if frugal:
        kinds = [kind] if algorithm else [kind, *ALGORITHMS.known().values()]
        return _frugal(environment, kinds, shared)
    tuned = _find(_tuned(kind), environment)
    note = shared.note or (f"a preset of {kind.name}" if tuned else "no preset: the defaults")
    tuned = tuned or Tuned(kind(), usual.steps if usual else shared.steps)
    return Preset(tuned.algorithm, tuned.steps, *shared._replace(note=note)[1:-1])


def presets_of(algorithm: str, *, frugal: bool = False) -> dict[str, Preset]:
    """The presets of one algorithm by environment; raises ConfigError if there is no such algorithm."""
    kind = ALGORITHMS.find(algorithm)
    tuned = _tuned(kind, frugal=frugal)
    known = [name for name in _ENVIRONMENTS if name in tuned]
    names = (*known, *(name for name in tuned if name not in known))
    return {name: preset(name, algorithm, frugal=frugal) for name in names}


def _frugal(environment: str, kinds: Sequence[type[Algorithm]], shared: EnvironmentDefaults) -> Preset:
    """That of the first algorithm that has one."""
    found = (_find(_tuned(kind, frugal=True), environment) for kind in kinds)
    tuned = next((each for each in found if each is not None), None)
    if tuned is None:
        able = [f"{name} with {each}" for each in ALGORITHMS.known() for name in presets_of(each, frugal=True)]
        raise ConfigError(
            f"frugal is given, and {environment} with {kinds[0].name} has no frugal preset; {', '.join(able)} have one"
        )
    sizing, note = shared.sizing._replace(**_FRUGAL), shared.note or f"a frugal preset of {tuned.algorithm.name}"
    return Preset(tuned.algorithm, tuned.steps, *shared._replace(sizing=sizing, note=note)[1:-1], frugal=True)


def _defaults(environment: str) -> EnvironmentDefaults:
    """Those of the environment, or of its suite, which may be of another package."""
    known = _find(_ENVIRONMENTS, environment)
    if known is None:
        try:
            suite = find_suite(environment)
        except EnvironmentFault:  # which the environment's constructor says
            suite = None
        known = _find(suite.defaults, environment) if suite is not None else None
    return known or EnvironmentDefaults()


def _tuned(kind: type[Algorithm], *, frugal: bool = False) -> Mapping[str, Tuned]:
    """The presets of the algorithm, without inherited ones."""
    presets = kind.frugal_presets() if frugal else kind.presets()
    return {name: tuned for name, tuned in presets.items() if type(tuned.algorithm) is kind}


def _find(presets: Mapping[str, T], environment: str) -> T | None:
    _, colon, name = environment.rpartition(":")
    if colon and name.isidentifier():  # a factory, which may have an environment's name
        return None
    name = re.sub("^(vector|envpool)/", "", name)
    known = newest(name, presets)
    return presets[known] if known else presets.get(re.sub("/.*", "/...", name))


PRESETS: dict[str, Preset] = {name: preset(name) for name in _ENVIRONMENTS}
"""The presets of all environments, each with its default algorithm."""
