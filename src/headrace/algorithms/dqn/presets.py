"""Settings that are known to work."""

import dataclasses

from headrace.algorithms.config import Tuned
from headrace.algorithms.dqn.config import DQN

__all__ = ["FRUGAL_PRESETS", "PRESETS"]

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

_MINATAR = DQN(  # the CNN of Young and Tian takes seven times as long for an update
    network="mlp",
    hidden=(128, 128),
    learning_rate=2.5e-4,
    batch_size=128,
    target_update_period=1_000,
    learning_starts=5_000,
    epsilon_final=0.1,
    epsilon_decay_steps=100_000,
)

PRESETS: dict[str, Tuned] = {
    "CartPole-v1": Tuned(
        DQN(
            hidden=(64, 64),
            learning_rate=3e-3,
            batch_size=64,
            replay_capacity=50_000,
            epsilon_decay_steps=5_000,
            target_update_period=100,
        ),
        steps=100_000,
    ),
    "Acrobot-v1": Tuned(
        DQN(hidden=(128, 128), batch_size=128, epsilon_decay_steps=20_000),
        steps=300_000,
    ),
    "MountainCar-v0": Tuned(
        DQN(
            hidden=(128, 128),
            batch_size=128,
            n_step=5,
            epsilon_final=0.1,
            epsilon_decay_steps=60_000,
            learning_starts=10_000,
        ),
        steps=400_000,
    ),
    "LunarLander-v3": Tuned(
        DQN(hidden=(128, 128), batch_size=128, epsilon_decay_steps=50_000),
        steps=500_000,
    ),
    "FrozenLake-v1": Tuned(  # a table of Q values: the network is one linear layer of the one-hot cell
        DQN(
            hidden=(),
            learning_rate=5e-3,
            n_step=1,
            prioritized=False,
            target_update_period=50,
            epsilon_final=0.1,
        ),
        steps=50_000,
    ),
    "headrace/FrozenLakeNotSlippery-v0": Tuned(
        DQN(hidden=(), learning_rate=5e-3, n_step=1, prioritized=False, target_update_period=50, epsilon_final=0.1),
        steps=30_000,
    ),
    "Taxi-v4": Tuned(  # a table of Q values, too, that reach 20 and need large steps and actors that explore
        DQN(
            hidden=(),
            learning_rate=0.05,
            prioritized=False,
            samples_per_step=32.0,
            target_update_period=50,
            epsilon_final=0.1,
            epsilon_exponent=1.0,
        ),
        steps=60_000,
    ),
    "Blackjack-v1": Tuned(  # rewards are noise of ±1: the squared loss learns their mean, the Huber loss does not
        DQN(
            hidden=(64, 64),
            learning_rate=3e-4,
            discount=1.0,
            n_step=1,
            loss="squared",
            prioritized=False,
            replay_capacity=100_000,
            epsilon_final=0.2,
            epsilon_decay_steps=20_000,
        ),
        steps=150_000,
    ),
    "headrace/Wheels-v0": Tuned(  # the next places are random: only the next reward matters, and every actor explores
        DQN(
            hidden=(128, 128),
            learning_rate=3e-3,
            n_step=1,
            discount=0.0,
            loss="squared",
            prioritized=False,
            samples_per_step=32.0,
            epsilon_final=0.02,
            epsilon_exponent=0.0,
        ),
        steps=40_000,
    ),
    "minigrid/DoorKey-5x5-v0": Tuned(  # with little exploration, hardly any episode opens the door
        DQN(
            hidden=(128, 128),
            learning_rate=3e-4,
            discount=0.97,
            batch_size=128,
            target_update_period=500,
            epsilon_final=0.25,
            epsilon_decay_steps=50_000,
            epsilon_base=0.9,
            epsilon_exponent=3.0,
        ),
        steps=500_000,
    ),
    "headrace/Snake-v0": Tuned(
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
        steps=1_000_000,
    ),
    "minatar/...": Tuned(_MINATAR, steps=2_000_000),
    "minatar/asterix": Tuned(  # not learned by an MLP
        dataclasses.replace(_MINATAR, network="minatar", hidden=(128,), batch_size=64, n_step=1, prioritized=False),
        steps=2_000_000,
    ),
    "minatar/freeway": Tuned(dataclasses.replace(_MINATAR, n_step=1, prioritized=False), steps=2_000_000),
    "ALE/...": Tuned(
        _ATARI,
        steps=10_000_000,
    ),
}

_FRUGAL = DQN(
    learning_rate=6e-4,
    n_step=1,
    prioritized=False,
    double=False,
    batch_size=128,
    replay_capacity=50_000,
    samples_per_step=128.0,
    epsilon_final=0.1,
    epsilon_decay_steps=12_000,
    target_update_period=250,
)
FRUGAL_PRESETS: dict[str, Tuned] = {  # an update for each environment step
    "CartPole-v1": Tuned(
        DQN(
            hidden=(128, 128),
            prioritized=False,
            batch_size=128,
            replay_capacity=50_000,
            learning_starts=500,
            samples_per_step=128.0,
            epsilon_decay_steps=3_000,
        ),
        steps=30_000,
    ),
    "Acrobot-v1": Tuned(
        dataclasses.replace(_FRUGAL, target_update_rate=0.01, target_update_period=1),
        steps=100_000,
    ),
    "MountainCar-v0": Tuned(
        DQN(
            hidden=(128, 128),
            batch_size=128,
            n_step=5,
            samples_per_step=128.0,
            epsilon_final=0.1,
            epsilon_decay_steps=24_000,
            target_update_period=300,
        ),
        steps=100_000,
    ),
    "LunarLander-v3": Tuned(_FRUGAL, steps=100_000),
}
"""Settings that need few environment steps; each step costs more time than with the presets above."""
