"""DQN in one file with plain PyTorch; Headrace's table, the only part of Headrace used, is the replay memory.

One environment, one process: double Q-learning with three-step returns and prioritized replay. It solves CartPole-v1:

    python examples/own_loop.py --steps 30000
"""

import argparse
from statistics import fmean

import gymnasium
import numpy as np
import torch
from torch import nn

import headrace.replay

BATCH, LEARNING_STARTS, TRAIN_PERIOD = 128, 1_000, 4  # transitions, transitions, environment steps
TARGET_PERIOD = 50  # updates
EPSILON_FINAL, EPSILON_STEPS = 0.02, 5_000


def make_network() -> nn.Module:
    """Q values [B, 2] of observations [B, 4]."""
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


def train(steps: int, seed: int) -> list[float]:
    """Trains on CartPole-v1 and returns every episode's return."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    environment = gymnasium.make("CartPole-v1")
    online, target = make_network(), make_network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3, fused=True)

    signature = headrace.replay.Signature((4,), "float32")  # one observation; an action is an int64 by default
    table = headrace.replay.Table(signature, capacity=50_000, min_size=LEARNING_STARTS, seed=seed)
    writer = table.writer(n_step=3, discount=0.99)  # one for each environment

    returns: list[float] = []
    updates = 0
    observation, score = environment.reset(seed=seed)[0], 0.0
    writer.start(observation)
    for step in range(steps):
        if random.random() < max(EPSILON_FINAL, 1 - step / EPSILON_STEPS):
            action = int(random.integers(2))
        else:
            with torch.inference_mode():
                action = int(online(torch.from_numpy(observation)).argmax())
        observation, reward, terminated, truncated, _ = environment.step(action)
        writer.append(action, float(reward), observation, terminated, truncated)
        score += float(reward)
        if terminated or truncated:
            returns.append(score)
            observation, score = environment.reset()[0], 0.0
            writer.start(observation)

        if step % TRAIN_PERIOD:
            continue
        batch = table.sample(BATCH, importance_exponent=0.4, timeout_seconds=0)
        if batch is None:  # fewer than LEARNING_STARTS transitions yet
            continue
        s_t, s_tpn = torch.from_dlpack(batch.observation), torch.from_dlpack(batch.next_observation)
        r_t, discount_t = torch.from_dlpack(batch.reward), torch.from_dlpack(batch.discount)  # of n steps
        a_t, weight = torch.from_dlpack(batch.action), torch.from_dlpack(batch.weight)
        with torch.no_grad():
            best = online(s_tpn).argmax(1, keepdim=True)
            wanted = r_t + discount_t * target(s_tpn).gather(1, best).squeeze(1)
        q_t = online(s_t).gather(1, a_t.unsqueeze(1)).squeeze(1)
        loss = (weight * nn.functional.huber_loss(q_t, wanted, reduction="none")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        table.update_priorities(batch.key, (wanted - q_t).detach().numpy())
        updates += 1
        if updates % TARGET_PERIOD == 0:
            target.load_state_dict(online.state_dict())
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="DQN on CartPole-v1 with Headrace's table.")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    episodes = train(arguments.steps, arguments.seed)
    mean = f"{fmean(episodes[-20:]):.1f} of 500" if episodes else "none"
    print(f"{len(episodes)} episodes; mean return of the last 20: {mean}")
