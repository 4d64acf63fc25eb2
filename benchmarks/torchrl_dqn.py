"""TorchRL's DQN with the settings that TorchRL publishes, trained to a score."""

from typing import Any

import torch
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv, RewardSum, StepCounter, TransformedEnv
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, HardUpdate

from benchmarks.outcome import Judge, Outcome, Rule
from benchmarks.torch_score import play_network
from benchmarks.zoo.published import TORCHRL

__all__ = ["run"]

_WIDTHS = [120, 84]
_STEPS_WITHOUT_END = 100_000_000  # the rule ends the run


def run(environment: str, algorithm: str, seed: int, rule: Rule) -> Outcome:
    """Trains until the rule ends the run, beyond the published frames if necessary.

    The judge is asked after every batch of frames, so that steps are counted in whole batches.
    """
    settings = TORCHRL[algorithm][environment]
    torch.set_num_threads(1)  # faster for these sizes
    torch.manual_seed(seed)
    world = TransformedEnv(GymEnv(environment, device="cpu"))
    world.append_transform(RewardSum())
    world.append_transform(StepCounter())
    world.set_seed(seed)
    network = MLP(in_features=world.observation_spec["observation"].shape[-1], activation_class=torch.nn.ReLU,
                  out_features=world.action_spec_unbatched.space.n, num_cells=_WIDTHS)  # fmt: skip
    actor = QValueActor(module=network, spec=world.action_spec_unbatched, in_keys=["observation"])
    exploration = EGreedyModule(
        annealing_num_steps=settings["annealing_frames"],
        eps_init=settings["eps_start"],
        eps_end=settings["eps_end"],
        spec=actor.spec,
    )
    collector = Collector(
        world,
        TensorDictSequential(actor, exploration),
        frames_per_batch=settings["frames_per_batch"],
        total_frames=_STEPS_WITHOUT_END,
        init_random_frames=settings["init_random_frames"],
        device="cpu",
    )
    learner = _Learner(actor, settings)
    judge = Judge(rule, seed, lambda episodes, seed: play_network(network, environment, episodes, seed))
    steps = 0
    for batch in collector:
        steps += batch.numel()
        exploration.step(batch.numel())
        learner.learn(batch.reshape(-1), warm=steps >= settings["init_random_frames"])
        if not judge.goes_on(steps):
            break
        collector.update_policy_weights_()
    collector.shutdown()
    return judge.outcome(learner.updates, "published, one torch thread")


class _Learner:
    """Replay, loss and optimizer."""

    def __init__(self, actor: QValueActor, settings: dict[str, Any]) -> None:
        self.updates = 0
        self._settings = settings
        storage = LazyTensorStorage(settings["buffer_size"], device="cpu")
        self._buffer = TensorDictReplayBuffer(storage=storage, batch_size=settings["batch_size"])
        self._loss = DQNLoss(value_network=actor, loss_function="l2", delay_value=True)
        self._loss.make_value_estimator(gamma=settings["gamma"])
        self._target = HardUpdate(self._loss, value_network_update_interval=settings["hard_update_freq"])
        self._optimizer = torch.optim.Adam(self._loss.parameters(), lr=settings["lr"])

    def learn(self, batch: Any, *, warm: bool) -> None:
        """Stores a batch of frames, then updates as often as is due."""
        self._buffer.extend(batch)
        for _ in range(self._settings["num_updates"] if warm else 0):
            loss = self._loss(self._buffer.sample())["loss"]
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(self._loss.parameters()), self._settings["max_grad_norm"])
            self._optimizer.step()
            self._optimizer.zero_grad()
            self._target.step()
            self.updates += 1
