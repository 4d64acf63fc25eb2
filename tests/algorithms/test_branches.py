"""Q-learning with a branch for each dimension of an action."""

import numpy as np
import pytest
import torch

from headrace.algorithms.dqn import DQN
from headrace.algorithms.dqn.branches import (
    BranchedEpsilonGreedy,
    branch_loss,
    branch_target,
    branch_values,
    greedy_branches,
)
from headrace.algorithms.dyna_q import DynaQ
from headrace.algorithms.targets import huber, squared
from headrace.errors import ConfigError
from headrace.networks.records import ILLEGAL
from headrace.types import EnvironmentSpec

BRANCHES = (2, 3)
Q = np.array([[1, 2, 0, 5, 3], [4, 0, 1, 1, 7]], np.float32)
ACTION = np.array([[0, 2], [1, 0]])
SPEC = EnvironmentSpec((4,), "float32", 5, branches=BRANCHES)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_greedy_actions_and_values_worked_by_hand() -> None:
    assert greedy_branches(Q, BRANCHES).tolist() == [[1, 1], [0, 2]]
    assert DQN().greedy(Q, SPEC).tolist() == [[1, 1], [0, 2]]
    assert branch_values(Q, ACTION, BRANCHES).tolist() == [[1, 3], [0, 1]]


def test_the_target_is_the_mean_over_the_dimensions() -> None:
    """Row 0: 1 + 0.5 (2 + 5) / 2; row 1 ends. With Q from behind, the selector's actions are (0, 0)."""
    reward, discount = floats(1, -1), floats(0.5, 0)
    assert branch_target(reward, discount, Q, Q, BRANCHES).tolist() == [2.75, -1]
    assert branch_target(reward, discount, Q, -Q, BRANCHES).tolist() == [1.25, -1]


@pytest.mark.parametrize("loss", [huber, squared])
def test_the_gradient_is_torch_s(loss) -> None:
    target, weight = floats(2.75, -1), floats(1, 0.5)
    ours = branch_loss(Q, ACTION, target, weight, loss, BRANCHES)
    q = torch.tensor(Q, requires_grad=True)
    taken = q.gather(1, torch.tensor(ACTION + np.array([0, 2])))
    wanted = torch.tensor(target)[:, None].expand(2, 2)
    twin = {huber: torch.nn.functional.huber_loss, squared: lambda x, y, reduction: (x - y) ** 2 / 2}[loss]
    value = twin(taken, wanted, reduction="none").mean(1)
    (torch.tensor(weight) * value).mean().backward()
    np.testing.assert_allclose(ours.value, value.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(ours.gradient, q.grad.numpy(), rtol=1e-6)
    assert ours.error.tolist() == [(1.75 + 0.25) / 2, (1 + 2) / 2]


def test_exploration_is_uniform_in_every_dimension() -> None:
    rows = 6_000
    q = np.tile(Q[:1], (rows, 1))
    chosen = BranchedEpsilonGreedy([1.0] * rows, 0, BRANCHES).choose(q)
    for dimension, count in enumerate(BRANCHES):
        share = np.bincount(chosen[:, dimension], minlength=count) / rows
        np.testing.assert_allclose(share, 1 / count, atol=0.035)  # 5 standard deviations
    assert (BranchedEpsilonGreedy([0.0] * rows, 0, BRANCHES).choose(q) == [1, 1]).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_no_masked_action_is_ever_taken(epsilon: float) -> None:
    """Of random Q values and masks; exploring actions are uniform over the legal ones of each dimension."""
    random = np.random.default_rng(0)
    rows, (first, second) = 4_000, BRANCHES
    exploration = BranchedEpsilonGreedy([epsilon] * rows, 1, BRANCHES)
    mask = random.random((rows, first + second)) < 0.4
    mask[np.arange(rows), random.integers(first, size=rows)] = True
    mask[np.arange(rows), first + random.integers(second, size=rows)] = True
    q = np.where(mask, 1e3 * random.standard_normal(mask.shape), ILLEGAL).astype(np.float32)
    chosen = exploration.choose(q)
    assert mask[np.arange(rows), chosen[:, 0]].all()
    assert mask[np.arange(rows), first + chosen[:, 1]].all()
    if epsilon == 1:
        q[:] = np.where([True] * first + [False] + [True] * (second - 1), 1.0, ILLEGAL)
        share = np.bincount(exploration.choose(q)[:, 1], minlength=second) / rows
        np.testing.assert_allclose(share, [0] + [1 / (second - 1)] * (second - 1), atol=0.04)  # 5 standard deviations


def test_the_target_leaves_out_masked_actions() -> None:
    """Of dimensions with 2 and 3 actions: the largest legal values are 1 and 5, so the target is 10 + 0.5 (1 + 5) / 2.

    After a terminating step everything may be masked: the target is the reward.
    """
    q = np.array([[1, ILLEGAL, ILLEGAL, 5, 2], [ILLEGAL] * 5], np.float32)
    target = branch_target(np.array([10, 7], np.float32), np.array([0.5, 0], np.float32), q, q, (2, 3))
    assert target.tolist() == [11.5, 7]


def test_one_dimension_is_plain_q_learning() -> None:
    """Also once the network differs from its target, and selects other actions."""
    random = np.random.default_rng(0)
    fields = (
        *random.standard_normal((2, 16, 4)).astype(np.float32),
        random.integers(5, size=(16, 1)),
        *random.standard_normal((1, 16)).astype(np.float32),
        np.full(16, 0.9, np.float32),
        random.random(16, np.float32),
    )
    updates = []
    for branches in ((), (5,)):
        spec = EnvironmentSpec((4,), "float32", 5, branches=branches)
        updater = DQN(hidden=(8,), learning_rate=0.1).make_updater(spec, "cpu", 0)
        action = fields[2] if branches else fields[2][:, 0]
        results = []
        for _ in range(3):
            update = updater.update((*fields[:2], action, *fields[3:]))
            results += [update.priority, update.loss]
        updates.append((*results, *updater.weights().values()))
    for plain, branched in zip(*updates, strict=True):
        np.testing.assert_allclose(plain, branched, rtol=1e-5, atol=1e-7)


def test_what_has_no_branches_says_so() -> None:
    with pytest.raises(ConfigError, match="dueling is true, and an action has 2 dimensions; false is required"):
        DQN(dueling=True).architecture(SPEC)
    with pytest.raises(ConfigError, match="algorithm is dyna-q, and the environment's actions are multi-discrete"):
        DynaQ().require_spaces(SPEC)
