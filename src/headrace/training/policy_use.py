"""Exports and records a trained policy."""

import contextlib
import math
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from headrace.environments import episode_seed, make
from headrace.environments.spaces import close
from headrace.errors import CheckpointError, EnvironmentFault, HeadraceError, error_line
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.records import ILLEGAL, draw_observations
from headrace.parameters import Policy
from headrace.parameters.memory import Memory
from headrace.report.output import write_output
from headrace.report.run_directory import RunDirectory
from headrace.report.run_paths import require_output
from headrace.roles.clock import PhaseClock
from headrace.roles.evaluator import EVALUATION_STREAM
from headrace.topologies.config import Topology
from headrace.training.checkpoint import Checkpoint, read_newest
from headrace.training.hang_watch import watched
from headrace.training.saved_policy import SavedPolicy, Trained, read_trained
from headrace.types import Array
from headrace.zoo import KeptPolicy

__all__ = ["export", "record_frames"]

_DEFAULT_FPS = 30.0
_LOWEST_FPS = 0.01
_TOLERANCE = 1e-4  # relative to the largest |Q|
_CHECKED = 64
_CHECKED_STEPS = 4  # of a recurrent policy


@contextlib.contextmanager
def record_frames(
    source: RunDirectory | KeptPolicy, *, seed: int | None = None, max_steps: int = 2000
) -> Iterator[tuple[Iterator[Array], float]]:
    """A context with the frames [H, W, 3] uint8 of one greedy episode and their number per second.

    The environment, which is reset at the start, is closed at the end.
    """
    trained = read_trained(source)
    with watched(trained.hang_seconds):
        environment = make(trained.environment, render_mode="rgb_array")

    def draw() -> Array:
        with _faults(trained.environment):
            frame = environment.render()
        return _frame(frame, trained.environment)

    def play(observation: Any, info: dict[str, Any], policy: SavedPolicy) -> Generator[Array]:
        clock = PhaseClock(("environment",))
        with watched(trained.hang_seconds, clock):
            for _ in range(max_steps):
                yield draw()
                clock.beat()
                action = policy.act(observation, info)
                with _faults(trained.environment):
                    observation, _, terminated, truncated, info = environment.step(action)
                if terminated or truncated:
                    yield draw()
                    return

    try:
        with watched(trained.hang_seconds), _faults(trained.environment):
            first = environment.reset(seed=episode_seed(trained.seed if seed is None else seed, EVALUATION_STREAM, 0))
        policy = trained.open(environment, first)
        with contextlib.closing(play(*first, policy)) as frames:
            yield frames, _frame_rate(environment.metadata.get("render_fps"), trained.environment)
    finally:
        with watched(trained.hang_seconds):
            close(environment, trained.environment)


def export(run: RunDirectory, path: Path) -> float:
    """Writes the network as an ONNX graph; returns by how much the outputs of the two differ at most, of 4 x 64 inputs.

    The graph's metadata says what `load_policy()` needs to use it without the run and its environment. Raises
    CheckpointError, and writes nothing, if the two disagree; ConfigError unless the path ends in .onnx and is not a
    run's own file.
    """
    require_output("file", path, ".onnx")
    config = run.read_config()

    def read(checkpoint: Checkpoint) -> tuple[Trained, Topology, dict[str, Array]]:
        return Trained.of_run(config, checkpoint), checkpoint.topology(config), checkpoint.learner()

    trained, topology, parameters = read_newest(run.checkpoints_path, read)
    interface = trained.open_alone().interface
    spec = interface.spec
    vectors = topology.open_saved_vectors()
    updater = config.algorithm.make_updater(spec, "cpu", config.seed, vectors, config.learner_engine)
    updater.load(parameters)
    weights = updater.weights()  # workers learn on while policy.onnx is saved
    graph = PolicyGraph(updater.architecture).serialize(weights)
    random = np.random.default_rng(0)
    policy = Policy(graph, 1)
    exported = Memory(policy.advance, policy.state_size)
    memory = config.algorithm.replay.make_memory(updater) if config.algorithm.replay else None
    output = memory.output if memory else updater.act
    difference = 0.0
    for _ in range(_CHECKED_STEPS):
        inputs = draw_observations(random, _CHECKED, spec)
        expected = output(inputs)
        found = float(np.abs(exported.output(inputs) - expected).max())
        largest = float(np.abs(expected[expected != ILLEGAL]).max())
        if not found <= _TOLERANCE * max(1.0, largest):  # NaN neither
            raise CheckpointError(f"the graph and the network differ by {found:.2e}; nothing is written")
        difference = max(difference, found)
    write_output(path, interface.write(graph))
    return difference


@contextlib.contextmanager
def _faults(environment: str) -> Iterator[None]:
    """A context for a call of the environment: what it raises is a fault of the environment, in one line."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise EnvironmentFault(f"environment {environment} failed: {error_line(error)}") from error


def _frame_rate(given: object, environment: str) -> float:
    """Frames per second, of an environment's metadata."""
    if given is None:
        return _DEFAULT_FPS
    rate = float(given) if isinstance(given, int | float | np.number) else math.nan
    if not _LOWEST_FPS <= rate < math.inf:
        raise EnvironmentFault(
            f"environment {environment} declares render_fps {given!r:.60}; {_LOWEST_FPS} or more is required"
        )
    return rate


def _frame(frame: object, environment: str) -> Array:
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise EnvironmentFault(f"environment {environment} draws no frames: render() gave {type(frame).__name__}")
    return frame
