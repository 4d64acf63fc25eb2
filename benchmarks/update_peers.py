"""DQN's update written plainly in torch and in JAX, and the matrix products that any update needs."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from headrace.types import Batch

__all__ = ["DQNCase", "Passes", "jax_update", "products", "torch_update"]

_HUBER = 1.0
_RATE = 1e-3
_NORM = 10.0


class DQNCase(NamedTuple):
    """A DQN update: an MLP with these widths, from observations to Q values, and B transitions."""

    sizes: tuple[int, ...]
    batch: int

    @property
    def name(self) -> str:
        """The widths and the batch."""
        return f"DQN {'-'.join(map(str, self.sizes))}, batch {self.batch}"


class Passes(NamedTuple):
    """How often an update computes an MLP with these widths, and its gradients."""

    sizes: tuple[int, ...]
    forward: int
    backward: int
    """By the parameters: each layer's weights, and its inputs but for those of the first."""
    by_inputs: int = 0
    """By the inputs of the network alone."""


def torch_update(case: DQNCase, batch: Batch, *, compiled: bool) -> Callable[[], Any]:
    """A double DQN update with Huber loss, clipped gradients and Adam, from arrays to priorities."""
    import torch
    from torch import Tensor, nn

    def network() -> nn.Sequential:
        layers = [layer for shape in pairwise(case.sizes) for layer in (nn.Linear(*shape), nn.ReLU())]
        return nn.Sequential(*layers[:-1])

    online, target = network(), network()
    optimizer = torch.optim.Adam(online.parameters(), _RATE, fused=True)

    def losses(
        observation: Tensor, following: Tensor, action: Tensor, reward: Tensor, discount: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            choice = online(following).argmax(1, keepdim=True)
            value = reward + discount * target(following).gather(1, choice).squeeze(1)
        chosen = online(observation).gather(1, action[:, None]).squeeze(1)
        loss = (weight * nn.functional.huber_loss(chosen, value, reduction="none", delta=_HUBER)).mean()
        return loss, (value - chosen).abs()

    compute = torch.compile(losses) if compiled else losses
    fields = (batch.observation, batch.next_observation, batch.action, batch.reward, batch.discount, batch.weight)

    def update() -> Any:
        loss, priority = compute(*map(torch.from_numpy, fields))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(online.parameters(), _NORM)
        optimizer.step()
        return priority.detach().numpy(), loss.item()

    return update


def jax_update(case: DQNCase, batch: Batch) -> Callable[[], Any]:
    """The same update in one function that JAX compiles."""
    import jax
    from jax import numpy as jnp

    random = np.random.default_rng(0)

    def parameters() -> Any:
        return [
            (random.uniform(-(i**-0.5), i**-0.5, (i, o)).astype(np.float32), np.zeros(o, np.float32))
            for i, o in pairwise(case.sizes)
        ]

    def apply(layers: Any, x: Any) -> Any:
        for weight, bias in layers[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        weight, bias = layers[-1]
        return x @ weight + bias

    def step(state: Any, target: Any, fields: Any) -> Any:
        online, mean, square, count = state
        observation, following, action, reward, discount, weight = fields
        rows = jnp.arange(case.batch)
        value = reward + discount * apply(target, following)[rows, apply(online, following).argmax(1)]

        def loss_of(layers: Any) -> Any:
            error = value - apply(layers, observation)[rows, action]
            size = jnp.abs(error)
            huber = jnp.where(size <= _HUBER, 0.5 * error * error, size - 0.5)
            return (weight * huber).mean(), size

        (loss, priority), gradient = jax.value_and_grad(loss_of, has_aux=True)(online)
        norm = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(gradient)))
        gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, _NORM / (norm + 1e-6)), gradient)
        count += 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
        online = jax.tree.map(
            lambda p, m, s: p - _RATE * (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.999**count)) + 1e-8),
            online, mean, square,
        )  # fmt: skip
        return (online, mean, square, count), priority, loss

    compiled = jax.jit(step, donate_argnums=0)
    online, target = jax.device_put((parameters(), parameters()))
    state = (online, jax.tree.map(jnp.zeros_like, online), jax.tree.map(jnp.zeros_like, online), jnp.float32(0))
    fields = (
        batch.observation,
        batch.next_observation,
        batch.action.astype(np.int32),
        batch.reward,
        batch.discount,
        batch.weight,
    )

    def update() -> Any:
        nonlocal state
        state, priority, loss = compiled(state, target, fields)
        return np.asarray(priority), float(loss)

    return update


def products(batch: int, *networks: Passes) -> Callable[[], Any]:
    """Torch's matrix products of the passes that an update makes, for a batch of so many rows."""
    import torch

    calls = []
    for sizes, forward, backward, by_inputs in networks:
        for index, (inputs, outputs) in enumerate(pairwise(sizes)):
            x, weight, y = torch.rand(batch, inputs), torch.rand(inputs, outputs), torch.rand(batch, outputs)
            calls += [(x, weight, torch.empty_like(y))] * forward
            calls += [(x.T, y, torch.empty_like(weight))] * backward
            calls += [(y, weight.T, torch.empty_like(x))] * (by_inputs + (backward if index else 0))

    def multiply() -> None:
        for left, right, out in calls:
            torch.mm(left, right, out=out)

    return multiply
