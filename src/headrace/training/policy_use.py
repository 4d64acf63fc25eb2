"""Exports and records a trained policy."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headrace.environments import describe, episode_seed, make, require_spec
from headrace.environments.spaces import close, read_spaces
from headrace.environments.stack import FrameStack
from headrace.errors import CheckpointError, EnvironmentFault, StorageError
from headrace.parameters import Policy
from headrace.parameters.memory import Memory
from headrace.report.run_directory import RunDirectory
from headrace.roles.clock import PhaseClock
from headrace.roles.evaluator import EVALUATION_STREAM, GreedyPolicy
from headrace.settings import RunConfig
from headrace.topologies.vectors import open_saved_vectors
from headrace.training.checkpoint import newest_checkpoint
from headrace.training.hang_watch import watched
from headrace.types import Array

__all__ = ["export", "record_frames"]

_DEFAULT_FPS = 30
_TOLERANCE = 1e-4  # relative to the largest |Q|
_CHECKED = 64
_CHECKED_STEPS = 4  # of a recurrent policy


def record_frames(run: RunDirectory, *, seed: int | None = None, max_steps: int = 2000) -> tuple[Iterator[Array], int]:
    """Frames [H, W, 3] uint8 of one greedy episode, and the number of frames per second."""
    config = RunConfig.from_json(run.read_config())
    checkpoint = newest_checkpoint(run.checkpoints_path)
    policy = Policy(checkpoint.policy(), checkpoint.moment.version)
    with watched(config.hang_seconds):
        environment = make(config.environment, render_mode="rgb_array")
    spec, action_map = read_spaces(environment, config.environment)
    require_spec(config.environment, spec, checkpoint.spec)
    greedy = GreedyPolicy(config.algorithm, policy, spec)
    fps = int(environment.metadata.get("render_fps") or _DEFAULT_FPS)
    first = episode_seed(config.seed if seed is None else seed, EVALUATION_STREAM, 0)

    def frames() -> Iterator[Array]:
        stack = FrameStack(1, spec)
        clock = PhaseClock(("environment",))
        with contextlib.ExitStack() as ends:
            ends.enter_context(watched(config.hang_seconds, clock))
            ends.callback(close, environment, config.environment)
            inputs = stack.start(environment.reset(seed=first)[0][None])
            for _ in range(max_steps):
                yield _frame(environment.render(), config.environment)
                clock.beat()
                action = greedy.act(np.ascontiguousarray(inputs))
                observation, _, terminated, truncated, _ = environment.step(action_map.to_environment(action)[0])
                inputs = stack.push(observation[None], np.zeros(1, np.bool_))
                if terminated or truncated:
                    yield _frame(environment.render(), config.environment)
                    return

    return frames(), fps


def export(run: RunDirectory, path: Path) -> float:
    """Writes the policy as an ONNX graph; returns its largest difference from the network's outputs on 4 x 64 inputs.

    Raises CheckpointError, and writes nothing, if the two disagree.
    """
    config = RunConfig.from_json(run.read_config())
    checkpoint = newest_checkpoint(run.checkpoints_path)
    with watched(config.hang_seconds):
        spec = describe(config.environment)
    require_spec(config.environment, spec, checkpoint.spec)
    vectors = open_saved_vectors(config.topology)
    updater = config.algorithm.make_updater(spec, "cpu", config.seed, vectors)
    updater.load(checkpoint.learner())
    graph = checkpoint.policy()
    random = np.random.default_rng(0)
    shape = (_CHECKED, *spec.input_shape)
    policy = Policy(graph, 1)
    exported = Memory(policy.advance, policy.state_size)
    memory = config.algorithm.replay.make_memory(updater) if config.algorithm.replay else None
    output = memory.output if memory else updater.act
    difference = 0.0
    for _ in range(_CHECKED_STEPS):
        if spec.observation_dtype == "uint8":
            inputs: Array = random.integers(0, 256, shape, np.uint8)
        else:
            inputs = random.standard_normal(shape).astype(spec.observation_dtype)
        expected = output(inputs)
        difference = max(difference, float(np.abs(exported.output(inputs) - expected).max()))
        if difference > _TOLERANCE * max(1.0, float(np.abs(expected).max())):
            raise CheckpointError(f"policy.onnx and the network differ by {difference:.2e}; the checkpoint is broken")
    try:
        path.write_bytes(graph)
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error
    return difference


def _frame(frame: object, environment: str) -> Array:
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise EnvironmentFault(f"environment {environment} draws no frames: render() gave {type(frame).__name__}")
    return frame
