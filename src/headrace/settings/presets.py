"""Settings that are known to work, per environment; `headrace presets` prints them.

Where others stand: Stable-Baselines3's zoo solves CartPole in 50,000 steps, reaches -77 on Acrobot and -101 on
MountainCar, and 154 on LunarLander in 100,000 (DQN, published scores).
"""

import dataclasses
import re
from typing import NamedTuple

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.config import Algorithm, OffPolicy
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.settings.run import ALGORITHMS, TOPOLOGIES, AlgorithmName, TopologyName
from headrace.topologies.config import Apex, Serial, Topology, Workers

__all__ = ["PRESETS", "Preset", "preset", "presets_of"]


class Other(NamedTuple):
    """What a preset has for a further algorithm."""

    algorithm: Algorithm
    steps: int


class Preset(NamedTuple):
    """Settings for one environment, and the environment steps that they are meant for."""

    algorithm: Algorithm
    serial: Serial
    apex: Apex
    steps: int
    note: str
    evaluation_period_seconds: float = 30.0
    evaluation_episodes: int = 10
    final_evaluation_episodes: int = 100
    checkpoint_period_seconds: float = 300.0
    others: tuple[Other, ...] = ()
    """Settings of further algorithms that are known to work here."""

    @property
    def topology_name(self) -> TopologyName:
        """What runs it where nothing else is asked for: Ape-X, or for what keeps no replay HogWild."""
        return "apex" if isinstance(self.algorithm, OffPolicy) else "hogwild"

    def topology(self, name: TopologyName) -> Topology:
        """The topology of this name; workers step as many environments as the serial one does."""
        if name == "apex":
            return self.apex
        if name == "serial":
            return self.serial
        kind = TOPOLOGIES[name]
        assert issubclass(kind, Workers)
        return kind(envs_per_worker=self.serial.envs_per_actor, chunk_steps=self.serial.chunk_steps)


_ATARI = DQN(
    dueling=True,
    network="nature",
    hidden=(512,),
    learning_rate=1e-4,
    optimizer_epsilon=1.5e-4,
    batch_size=512,
    target_update_period=2_500,
    replay_capacity=1_000_000,
    learning_starts=20_000,
    samples_per_step=8.0,
    epsilon_final=0.01,
    epsilon_decay_steps=250_000,
    clip_rewards=True,
    max_gradient_norm=40.0,
)

_CONTROL_SUITE = D4PG(  # whose rewards are all in [0, 1]: at this discount no return is above 100
    critic_hidden=(256, 256),
    learning_rate=3e-4,
    critic_learning_rate=1e-3,
    target_update_period=20,
    samples_per_step=16.0,
    sigmas=(0.2, 0.5),
    value_min=-100.0,
    value_max=100.0,
    saturation_penalty=3e-3,
    replay_capacity=300_000,
)
_DENSE_REWARDS = dataclasses.replace(_CONTROL_SUITE, value_min=0.0)

PRESETS: dict[str, Preset] = {
    "CartPole-v1": Preset(
        DQN(
            hidden=(128, 128),
            learning_rate=1e-3,
            batch_size=128,
            replay_capacity=50_000,
            samples_per_step=16.0,
            epsilon_decay_steps=5_000,
            target_update_period=100,
        ),
        Serial(envs_per_actor=4),
        Apex(envs_per_actor=8),
        steps=100_000,
        note="500 is the most an episode can give",
        others=(Other(A3C(hidden=(64, 64), n_step=16, learning_rate=2e-3, trunk="separate"), steps=200_000),),
    ),
    "Acrobot-v1": Preset(
        DQN(hidden=(128, 128), batch_size=128, epsilon_decay_steps=20_000),
        Serial(envs_per_actor=8),
        Apex(),
        steps=150_000,
        note="solved near -80",
    ),
    "MountainCar-v0": Preset(
        DQN(
            hidden=(128, 128),
            batch_size=128,
            n_step=5,
            epsilon_final=0.1,
            epsilon_decay_steps=60_000,
            learning_starts=10_000,
        ),
        Serial(envs_per_actor=8),
        Apex(),
        steps=300_000,
        note="the reward says nothing until the flag is reached once: exploration decides",
    ),
    "LunarLander-v3": Preset(
        DQN(hidden=(128, 128), batch_size=128, samples_per_step=8.0, epsilon_decay_steps=50_000),
        Serial(envs_per_actor=16),
        Apex(),
        steps=500_000,
        note="200 counts as solved",
        others=(
            Other(
                A3C(
                    hidden=(128, 128),
                    n_step=64,
                    discount=0.995,
                    learning_rate=3e-3,
                    entropy_bonus=0.1,
                    max_gradient_norm=0.0,
                    trunk="separate",
                ),
                steps=2_000_000,
            ),
            Other(
                DynaQ(
                    hidden=(128, 128),
                    batch_size=128,
                    samples_per_step=32.0,
                    epsilon_decay_steps=50_000,
                    search_control="uniform",
                ),
                steps=200_000,
            ),
        ),
    ),
    "headrace/Snake-v0": Preset(
        DQN(
            network="mlp",
            learning_rate=5e-4,
            discount=0.97,
            batch_size=128,
            samples_per_step=4.0,
            target_update_period=500,
            replay_capacity=200_000,
            learning_starts=5_000,
            epsilon_final=0.01,
            epsilon_decay_steps=50_000,
        ),
        Serial(envs_per_actor=16),
        Apex(),
        steps=1_000_000,
        note="a return is the apples eaten, less one for a death; 19.2 is the most published for 10 x 10",
    ),
    "ALE/...": Preset(
        _ATARI,
        Serial(envs_per_actor=4),
        Apex(envs_per_actor=8),
        steps=10_000_000,
        note="every ALE/... game; a policy that has learned to wait plays for 27,000 steps: few episodes are evaluated",
        evaluation_period_seconds=600.0,
        evaluation_episodes=3,
        final_evaluation_episodes=10,
        checkpoint_period_seconds=1800.0,
    ),
    "Pendulum-v1": Preset(
        D4PG(
            n_step=3,
            hidden=(128, 128),
            critic_hidden=(128, 128),
            learning_rate=1e-3,
            critic_learning_rate=1e-3,
            batch_size=128,
            target_update_rate=0.005,
            target_update_period=1,
            value_min=-1500.0,
            value_max=0.0,
            sigmas=(0.1, 0.5),
        ),
        Serial(envs_per_actor=4),
        Apex(envs_per_actor=8),
        steps=30_000,
        note="-150 or so is as good as it gets: each episode begins with a swing of its own",
        others=(
            Other(
                A3C(
                    hidden=(64, 64),
                    n_step=32,
                    discount=0.95,
                    learning_rate=2e-3,
                    entropy_bonus=1e-3,
                    max_gradient_norm=0.0,
                    trunk="separate",
                ),
                steps=500_000,
            ),
        ),
    ),
    "dm_control/cartpole-balance": Preset(
        _CONTROL_SUITE,
        Serial(envs_per_actor=8),
        Apex(envs_per_actor=8),
        steps=60_000,
        note="1000 is the most an episode can give",
        evaluation_episodes=5,
    ),
    "dm_control/walker-stand": Preset(
        _DENSE_REWARDS,
        Serial(envs_per_actor=8),
        Apex(envs_per_actor=8),
        steps=200_000,
        note="some reward in every state: values begin at 50 and end near 100",
        evaluation_episodes=5,
    ),
    "dm_control/...": Preset(
        _CONTROL_SUITE,
        Serial(envs_per_actor=8),
        Apex(envs_per_actor=8),
        steps=1_000_000,
        note="every dm_control/DOMAIN-TASK; 1,000 is the most an episode can give, and each lasts 1,000 steps",
        evaluation_period_seconds=60.0,
        evaluation_episodes=5,
    ),
}

_DEFAULT = Preset(DQN(), Serial(envs_per_actor=8), Apex(), steps=500_000, note="no preset: the defaults")


def preset(environment: str, algorithm: AlgorithmName | None = None) -> Preset:
    """The preset of an environment, of its family (ALE/..., dm_control/...), or the defaults.

    Where another algorithm is asked for than the preset's, what is known of that one, or its defaults, is in its place.
    """
    family = re.sub("/.*", "/...", environment)
    known = PRESETS.get(environment) or PRESETS.get(family) or _DEFAULT
    if algorithm is None or type(known.algorithm) is ALGORITHMS[algorithm]:
        return known
    found = (other for other in known.others if type(other.algorithm) is ALGORITHMS[algorithm])
    return known._replace(**next(found, Other(ALGORITHMS[algorithm](), known.steps))._asdict())


def presets_of(algorithm: AlgorithmName) -> dict[str, Preset]:
    """The presets that there are of one algorithm, by environment."""
    kind = ALGORITHMS[algorithm]
    return {
        environment: preset(environment, algorithm)
        for environment, known in PRESETS.items()
        if kind in map(type, (known.algorithm, *(other.algorithm for other in known.others)))
    }
