"""A network of your own: attention over the numbers of an observation, trained by DQN on CartPole-v1.

    python examples/attention.py
    headrace train CartPole-v1 --network attention:build        (in this folder)

`build` gets the environment's observations (`headrace.types.EnvironmentSpec`) and the number of outputs, and returns a
torch.nn.Module that maps observations, [B, *input] float32, to outputs [B, outputs]: here one Q value for each action.
The learner trains it with torch. Actors need neither torch nor this file: they get the module as an ONNX graph.
"""

import argparse
import math

import torch
from torch import Tensor, nn

import headrace
from headrace.types import EnvironmentSpec

WIDTH = 32


def build(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    """The network for an environment's observations and this number of outputs."""
    return Attention(math.prod(spec.input_shape), outputs)


class Attention(nn.Module):
    """Each number of the observation is a token, which attends to all; dense layers read the tokens."""

    def __init__(self, numbers: int, outputs: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(numbers, WIDTH))
        self.place = nn.Parameter(torch.randn(numbers, WIDTH))
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.dense = nn.Linear(numbers * WIDTH, 128)
        self.hidden = nn.Linear(128, 128)
        self.head = nn.Linear(128, outputs)

    def forward(self, observation: Tensor) -> Tensor:
        """Outputs [B, outputs] of observations [B, *input]."""
        tokens = observation.flatten(1).unsqueeze(2) * self.scale + self.place  # [B, numbers, WIDTH]
        scores = self.query(tokens) @ self.key(tokens).transpose(1, 2) / math.sqrt(WIDTH)
        tokens = tokens + scores.softmax(2) @ self.value(tokens)
        x = self.dense(tokens.flatten(1)).relu()
        q: Tensor = self.head(self.hidden(x).relu())
        return q


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    result = headrace.train(
        "CartPole-v1",
        algorithm=headrace.DQN(
            network="attention:build",
            learning_rate=5e-4,
            batch_size=128,
            samples_per_step=8,
            epsilon_decay_steps=5_000,
            target_update_period=100,
        ),
        topology=headrace.Serial(),
        until_score=450,
        steps=arguments.steps,
        seed=arguments.seed,
    )
    score = "not evaluated" if result.mean_return is None else f"mean return {result.mean_return:.1f} of 500"
    print(f"{score}: {result.path}")
