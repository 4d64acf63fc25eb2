"""The critic: layers written out by hand."""

import torch

from headrace.networks.architecture import Architecture
from headrace.networks.critic import Critic
from headrace.networks.torch_modules import CriticModule
from headrace.types import EnvironmentSpec


def policy(shape: tuple[int, ...], dtype: str = "float32") -> Architecture:
    return Architecture.of(EnvironmentSpec(shape, dtype, 1, continuous=True), "mlp", (8,))


def test_logits_by_hand() -> None:
    """Observation (1, 2), action 3: the first layer gives (1 + 3, 2 - 3), of which tanh(LayerNorm) is (t, -t).

    t = tanh(1) = 0.76159; the second layer gives -2 t + t = -t, and ELU(-t) = exp(-t) - 1 = -0.53308.
    """
    critic = CriticModule(Critic(policy((2,)), 1, (2, 1), 2))
    with torch.no_grad():
        critic.first.weight[:] = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, -1.0]])
        critic.first.bias.zero_()
        critic.hidden[0].weight[:] = torch.tensor([[-2.0, -1.0]])
        critic.hidden[0].bias.zero_()
        critic.head.weight[:] = torch.tensor([[1.0], [-2.0]])
        critic.head.bias[:] = torch.tensor([0.5, 0.0])
    logits = critic(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]]))
    torch.testing.assert_close(logits, torch.tensor([[0.5 - 0.53308, 2 * 0.53308]]), atol=1e-4, rtol=0)


def test_observations_are_flattened_and_bytes_scaled() -> None:
    torch.manual_seed(0)
    critic = CriticModule(Critic(policy((2, 3), "uint8"), 1, (16, 8), 5))
    action = torch.tensor([[0.5], [-0.5]])
    observation = torch.arange(12, dtype=torch.uint8).reshape(2, 2, 3) * 20
    logits = critic(observation, action)
    assert logits.shape == (2, 5)
    x = torch.cat([observation.reshape(2, 6) / 255, action], 1)
    h = torch.nn.functional.elu(critic.hidden[0](critic.norm(critic.first(x)).tanh()))
    torch.testing.assert_close(logits, critic.head(h))
