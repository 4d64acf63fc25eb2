"""Settings that other libraries publish, by algorithm and environment, and published scores."""

from typing import Any

__all__ = ["CLEANRL", "PEERS", "SB3", "SCORES", "TORCHRL", "published_steps"]

Settings = dict[str, dict[str, Any]]

# rl-baselines3-zoo's hyperparams/dqn.yml and sac.yml. `published_steps` is the library's budget, over which exploration
# or, where it is marked linear, the learning rate decays.
_SB3_DQN: Settings = {
    "CartPole-v1": {
        "published_steps": 50_000,
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1_000,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
    },
    "LunarLander-v3": {
        "published_steps": 100_000,
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 0,
        "target_update_interval": 250,
        "train_freq": 4,
        "gradient_steps": -1,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
    },
    "Acrobot-v1": {
        "published_steps": 100_000,
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 0,
        "target_update_interval": 250,
        "train_freq": 4,
        "gradient_steps": -1,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
    },
    "MountainCar-v0": {
        "published_steps": 120_000,
        "learning_rate": 4e-3,
        "batch_size": 128,
        "buffer_size": 10_000,
        "learning_starts": 1_000,
        "gamma": 0.98,
        "target_update_interval": 600,
        "train_freq": 16,
        "gradient_steps": 8,
        "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07,
    },
}
_SB3_SAC: Settings = {
    "Pendulum-v1": {"published_steps": 20_000, "learning_rate": 1e-3},
    "HalfCheetah-v5": {"published_steps": 1_000_000, "learning_starts": 10_000},  # the zoo's for v4
    "LunarLanderContinuous-v3": {  # the zoo's for v2
        "linear_learning_rate": True,
        "published_steps": 500_000,
        "learning_rate": 7.3e-4,
        "batch_size": 256,
        "buffer_size": 1_000_000,
        "ent_coef": "auto",
        "gamma": 0.99,
        "tau": 0.01,
        "train_freq": 1,
        "gradient_steps": 1,
        "learning_starts": 10_000,
        "policy_kwargs": {"net_arch": [400, 300]},
    },
}
SB3 = {"dqn": _SB3_DQN, "sac": _SB3_SAC}
TORCHRL: dict[str, Settings] = {  # its sota-implementations/dqn/config_cartpole.yaml; the network is that of the script
    "dqn": {
        "CartPole-v1": {
            "published_steps": 500_100,
            "frames_per_batch": 1_000,
            "eps_start": 1.0,
            "eps_end": 0.05,
            "annealing_frames": 250_000,
            "init_random_frames": 10_000,
            "buffer_size": 10_000,
            "batch_size": 128,
            "lr": 2.5e-4,
            "max_grad_norm": 10.0,
            "gamma": 0.99,
            "hard_update_freq": 50,
            "num_updates": 100,
        },
    },
}
_CLEANRL_DQN: dict[str, Any] = {  # the defaults of its dqn.py, which its benchmark uses for each of these
    "published_steps": 500_000,
    "learning_rate": 2.5e-4,
    "buffer_size": 10_000,
    "gamma": 0.99,
    "target_network_frequency": 500,
    "batch_size": 128,
    "end_e": 0.05,
    "exploration_fraction": 0.5,
    "learning_starts": 10_000,
    "train_frequency": 10,
}
CLEANRL = {"dqn": dict.fromkeys(("CartPole-v1", "Acrobot-v1", "MountainCar-v0"), _CLEANRL_DQN)}
PEERS = {"sb3": SB3, "cleanrl": CLEANRL, "torchrl": TORCHRL}
"""Settings by library."""


def published_steps(library: str, algorithm: str, environment: str) -> int:
    """The environment steps for which a library publishes its settings; 0 where it has none."""
    known = PEERS.get(library, {}).get(algorithm, {}).get(environment, {})
    return int(known.get("published_steps", 0))


SCORES = {
    "CartPole-v1": (500.0, "SB3"),
    "CartPole-v1-a3c": (500.0, "SB3's A2C"),
    "Acrobot-v1": (-76.6, "SB3"),
    "MountainCar-v0": (-100.8, "SB3"),
    "LunarLander-v3": (154.4, "SB3"),
    "LunarLander-v3-a3c": (155.8, "SB3's A2C"),
    "LunarLanderContinuous-v3": (260.4, "SB3"),
    "headrace/Snake-v0": (19.2, "YuriyGuts"),
    "Pendulum-v1": (-152.1, "SB3's DDPG"),
    "Pendulum-v1-td3": (-151.9, "SB3"),
    "Pendulum-v1-sac": (-157.0, "SB3"),
    "Pendulum-v1-a3c": (-163.0, "SB3's A2C"),
    "BipedalWalker-v3": (297.7, "SB3"),
    "HalfCheetah-v5": (9535.5, "SB3"),
    "Hopper-v5": (2325.5, "SB3"),
    "Walker2d-v5": (3863.2, "SB3"),
    "Ant-v5": (4615.8, "SB3's SAC"),
    "dm_control/cartpole-balance": (941.2, "ActorQ"),
    "dm_control/walker-stand": (947.7, "ActorQ"),
    "dm_control/finger-spin": (810.3, "ActorQ"),
    "dm_control/reacher-hard": (948.1, "ActorQ"),
    "dm_control/cheetah-run": (732.3, "ActorQ"),
}
"""Score and source by task; the methods on the zoo's page name the sources."""
