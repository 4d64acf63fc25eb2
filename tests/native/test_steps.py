"""`append_steps` against the same steps, appended one by one."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace._native import ChunkWriter, Signature, append_steps
from headrace.errors import ConfigError

COUNT = 3
DISCRETE = Signature((2,), "float32")
CONTINUOUS = Signature((2, 3), "uint8", (2,), "float32", 4)


def writers_of(signature: Signature) -> list[ChunkWriter]:
    return [ChunkWriter(signature, n_step=2, discount=0.9, chunk_steps=5, actor=actor) for actor in range(COUNT)]


def actions_of(signature: Signature, random: np.random.Generator) -> NDArray[Any]:
    if signature is DISCRETE:
        return random.integers(4, size=COUNT)
    return random.standard_normal((COUNT, 2), np.float32)


def frames_of(signature: Signature, random: np.random.Generator) -> NDArray[Any]:
    if signature is DISCRETE:
        return random.standard_normal((COUNT, 2), np.float32)
    return random.integers(256, size=(COUNT, 2, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("signature", "valued"),
    [(DISCRETE, False), (DISCRETE, True), (CONTINUOUS, False)],
    ids=["discrete", "with values", "continuous"],
)
def test_the_chunks_are_those_of_single_steps(signature: Signature, valued: bool) -> None:
    random = np.random.default_rng(1)
    together, apart = writers_of(signature), writers_of(signature)
    first = frames_of(signature, random)
    for writers in (together, apart):
        for writer, frame in zip(writers, first, strict=True):
            writer.start(frame)
            writer.set_policy_version(7)
    found: list[bytes] = []
    expected: list[bytes] = []
    for _ in range(60):
        terminated, truncated = random.random((2, COUNT)) < 0.1
        truncated &= ~terminated
        action, observation, start = actions_of(signature, random), *(frames_of(signature, random) for _ in range(2))
        reward, final = random.standard_normal((2, COUNT), np.float32)
        value = random.standard_normal((COUNT, 4), np.float32)
        given = (value, final) if valued else ()
        found += append_steps(together, action, reward, observation, terminated, truncated, start, *given)
        for row, writer in enumerate(apart):
            ends = bool(terminated[row]), bool(truncated[row])
            values = (float(value[row, action[row]]), float(value[row].max()), float(final[row])) if valued else ()
            writer.append(action[row], reward[row], observation[row], *ends, *values)
            if any(ends):
                writer.start(start[row])
            expected += writer.take()
    assert len(found) > 3 * COUNT
    assert found == expected


def arrays(**others: Any) -> dict[str, Any]:
    frames = np.zeros((COUNT, 2), np.float32)
    flags = np.zeros(COUNT, np.bool_)
    return {
        "action": np.zeros(COUNT, np.int64),
        "reward": np.zeros(COUNT, np.float32),
        "observation": frames,
        "terminated": flags,
        "truncated": flags,
        "next_start": frames,
    } | others


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("action", np.zeros(COUNT, np.int32)),
        ("reward", np.zeros(COUNT)),
        ("observation", np.zeros((COUNT + 1, 2), np.float32)),
        ("terminated", np.zeros(COUNT, np.uint8)),
        ("truncated", np.zeros(2 * COUNT, np.bool_)[::2]),
        ("next_start", np.zeros((COUNT, 3), np.float32)),
        ("value", np.zeros((COUNT - 1, 4), np.float32)),
        ("value", np.zeros(COUNT, np.float32)),
        ("value", np.zeros((COUNT, 4))),
        ("value", [[0.0, 0.0]] * COUNT),
        ("final_greedy_value", [0.0] * COUNT),
    ],
)
def test_arrays_of_other_types_and_shapes_are_refused(name: str, array: Any) -> None:
    writers = writers_of(DISCRETE)
    for writer in writers:
        writer.start(np.zeros(2, np.float32))
    with pytest.raises(ConfigError, match=f"^{name}: "):
        append_steps(writers, **arrays(**{name: array}))
    assert append_steps(writers, **arrays()) == []


@pytest.mark.parametrize("column", [0, 1, 2])
def test_the_greatest_value_is_nan_where_a_value_is(column: int) -> None:
    value = np.array([[1.0, 3.0, 2.0]] * COUNT, np.float32)
    value[1, column] = np.nan
    frames = np.zeros((COUNT, 2), np.float32)
    ends = np.ones(COUNT, np.bool_)
    action = np.full(COUNT, (column + 1) % 3)
    together, apart = writers_of(DISCRETE), writers_of(DISCRETE)
    found: list[bytes] = []
    expected: list[bytes] = []
    for writer in (*together, *apart):
        writer.start(frames[0])
    for _ in range(5):
        given = arrays(action=action, terminated=ends, value=value)
        found += append_steps(together, **given)
        for row, writer in enumerate(apart):
            greedy = float(value[row].max())
            writer.append(action[row], 0.0, frames[row], True, False, float(value[row, action[row]]), greedy)
            writer.start(frames[row])
            expected += writer.take()
    assert len(found) == 5 * COUNT
    assert found == expected


@pytest.mark.parametrize("action", [-1, 2])
def test_actions_without_a_value_are_refused(action: int) -> None:
    writers = writers_of(DISCRETE)
    for writer in writers:
        writer.start(np.zeros(2, np.float32))
    value = np.zeros((COUNT, 2), np.float32)
    with pytest.raises(ConfigError, match=f"^action: {action} given, below 2 required"):
        append_steps(writers, **arrays(action=np.full(COUNT, action), value=value))


def test_values_of_continuous_actions_are_refused() -> None:
    frames = np.zeros((COUNT, 2, 3), np.uint8)
    given = arrays(action=np.zeros((COUNT, 2), np.float32), observation=frames, next_start=frames)
    with pytest.raises(ConfigError, match=r"^value: "):
        append_steps(writers_of(CONTINUOUS), **given, value=np.zeros((COUNT, 2), np.float32))


def test_writers_of_different_signatures_are_refused() -> None:
    writers = [*writers_of(DISCRETE)[1:], ChunkWriter(CONTINUOUS)]
    for writer in writers[:-1]:
        writer.start(np.zeros(2, np.float32))
    with pytest.raises(ConfigError, match="signature"):
        append_steps(writers, **arrays())


def test_no_writers_finish_no_chunks() -> None:
    assert append_steps([], **arrays()) == []
