"""Windows of episodes, against a naive twin that has each episode whole."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from headrace import R2D2
from headrace.algorithms.r2d2.windows import WindowForm, Windows, WindowWriters
from headrace.environments import OpenEpisode
from headrace.replay import Table
from headrace.types import Array, EnvironmentSpec, EnvironmentStep

SIZE = 3


class Steps(NamedTuple):
    """Whole episodes of one environment after one another, T steps."""

    frame: Array  # [T, 2], after each step
    first: Array  # [T+1, 2], before each step: of a new episode where one ended
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    memory: Array  # [T, S], before each step


def draw(lengths: list[int], seed: int = 0) -> Steps:
    """Random steps of episodes with these lengths; odd ones terminate, the others are truncated."""
    random = np.random.default_rng(seed)
    count = sum(lengths)
    frame = random.standard_normal((count, 2)).astype(np.float32)
    ends = np.cumsum(lengths) - 1
    first = np.concatenate([random.standard_normal((1, 2)).astype(np.float32), frame])
    first[ends + 1] = random.standard_normal((len(ends), 2))
    terminated, truncated = np.zeros((2, count), np.bool_)
    terminated[ends[1::2]], truncated[ends[::2]] = True, True
    memory = random.standard_normal((count, SIZE)).astype(np.float32)
    reward = random.standard_normal(count).astype(np.float32)
    return Steps(frame, first, random.integers(0, 4, count), reward, terminated, truncated, memory)


def write(writers: WindowWriters, steps: Steps, first: int, end: int, table: Table) -> None:
    for t in range(first, end):
        step = EnvironmentStep(*(x[t : t + 1] for x in (steps.frame, steps.reward, steps.terminated, steps.truncated)),
                               steps.first[t + 1 : t + 2])  # fmt: skip
        table.insert(*writers.append(steps.memory[t : t + 1], steps.action[t : t + 1], step))


def stored(form: WindowForm, table: Table) -> Windows:
    """All windows of the table in the order of their insertion."""
    found: dict[int, Array] = {}
    while len(found) < len(table):
        batch = table.sample(64, 0.0)
        found |= {int(key): record for key, record in zip(batch.key, batch.action, strict=True)}
    return form.unpack(np.stack([found[key] for key in sorted(found)]))


def naive(form: WindowForm, lengths: list[int], steps: Steps) -> list[dict[str, Any]]:
    """The windows by their definition."""
    windows = []
    begin = 0
    for length in lengths:
        frames = np.concatenate([steps.first[begin : begin + 1], steps.frame[begin : begin + length]])
        window = 0
        while window == 0 or (window - 1) * form.stride + form.learned < length:
            learned = window * form.stride
            start = max(0, learned - form.burn_in)
            end = min(length, learned + form.learned + form.n_step - 1)
            stacks = [[frames[max(0, t - form.spec.stack + 1 + k)] for k in range(form.spec.stack)]
                      for t in range(start, end + 1)]  # fmt: skip
            windows.append(
                {
                    "burn_in": learned - start,
                    "steps": end - start,
                    "terminated": end == length and steps.terminated[begin + length - 1],
                    "state": steps.memory[begin + start],
                    "observation": np.array(stacks) if form.spec.stack > 1 else np.array(stacks)[:, 0],
                    "action": steps.action[begin + start : begin + end],
                    "reward": steps.reward[begin + start : begin + end],
                }
            )
            window += 1
        begin += length
    return windows


def assert_equal(windows: Windows, expected: list[dict[str, Any]]) -> None:
    assert len(windows.steps) == len(expected)
    for row, wanted in enumerate(expected):
        count = wanted["steps"]
        found = {name: getattr(windows, name)[row] for name in Windows._fields}
        assert not found["observation"][count + 3 :].any()  # stacks overlap the last frame
        for name, length in (("observation", count + 1), ("action", count), ("reward", count)):
            found[name] = found[name][:length]
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} of window {row}")


FORMS = [(4, 6, 3, 1), (0, 2, 1, 1), (5, 4, 2, 3), (10, 7, 1, 2), (2, 3, 8, 1)]  # burn-in, learned, n, stack
LENGTHS = [25, 1, 7, 6, 3, 8, 12, 9, 2, 40]


@pytest.mark.parametrize(("burn_in", "learned", "n_step", "stack"), FORMS)
def test_windows_are_those_of_the_definition(burn_in, learned, n_step, stack) -> None:
    form = WindowForm(EnvironmentSpec((2,), "float32", 4, stack), burn_in, learned, n_step, SIZE)
    steps, writers, table = draw(LENGTHS), WindowWriters(form, 1, 0), Table(form.signature, sampler="uniform")
    writers.start(steps.first[:1])
    write(writers, steps, 0, len(steps.action), table)
    assert_equal(stored(form, table), naive(form, LENGTHS, steps))


@pytest.mark.parametrize(("burn_in", "learned", "n_step", "stack"), FORMS)
def test_a_restored_writer_goes_on_with_the_same_windows(burn_in, learned, n_step, stack) -> None:
    form = WindowForm(EnvironmentSpec((2,), "float32", 4, stack), burn_in, learned, n_step, SIZE)
    length = 40
    steps = draw([length])
    for cut in range(length):
        table = Table(form.signature, sampler="uniform")
        before, after = WindowWriters(form, 1, 0), WindowWriters(form, 1, 0)
        before.start(steps.first[:1])
        write(before, steps, 0, cut, table)
        frames = np.concatenate([steps.first[:1], steps.frame[:cut]])
        after.restore([OpenEpisode(frames, steps.action[:cut], steps.reward[:cut])], before.state())
        write(after, steps, cut, length, table)
        assert_equal(stored(form, table), naive(form, [length], steps))


@pytest.mark.parametrize(("learned", "n_step"), [(2, 1), (2, 2), (4, 5), (10, 20), (7, 4), (40, 2)])
def test_the_most_windows_that_one_step_finishes(learned, n_step) -> None:
    form = WindowForm(EnvironmentSpec((2,), "float32", 4), 3, learned, n_step, SIZE)
    lengths = list(range(1, 4 * learned + 2 * n_step))
    steps, writers = draw(lengths), WindowWriters(form, 1, 0)
    writers.start(steps.first[:1])
    most = 0
    for t in range(len(steps.action)):
        table = Table(form.signature, sampler="uniform")
        write(writers, steps, t, t + 1, table)
        most = max(most, len(table))
    assert most == form.most_finished


def test_the_form_does_not_ask_for_the_learner_s_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = EnvironmentSpec((4,), "float32", 3)
    sizes = {cell: R2D2(cell=cell, memory=16).architecture(spec).state_size for cell in ("lstm", "gru")}
    monkeypatch.setattr(R2D2, "architecture", None)
    for cell, size in sizes.items():
        assert R2D2(cell=cell, memory=16).window_form(spec).state_size == size  # type: ignore[arg-type]


def test_overlap_and_bytes() -> None:
    config = R2D2(burn_in=20, learned_steps=40, n_step=5, memory=16, samples_per_step=8.0)
    form = config.window_form(EnvironmentSpec((4, 4), "uint8", 3, 2))
    assert (form.stride, form.most_steps) == (20, 64)
    assert form.record.itemsize == 3 * 4 + 32 * 4 + 64 * (4 + 4) + (64 + 2) * 16
    assert form.signature.action_shape == (form.record.itemsize,)
    stored_form = config.table_form(form.spec, 50)
    assert (stored_form.samples_per_insert, stored_form.chunk_steps, stored_form.burst) == (4.0, 1, 8.0)


def test_the_stored_state_is_that_of_the_policy_at_the_beginning_of_the_window() -> None:
    config = R2D2(burn_in=2, learned_steps=4, n_step=2, memory=5, hidden=(6,))
    spec = EnvironmentSpec((2,), "float32", 4)
    updater, form = config.make_updater(spec, "cpu", 0), config.window_form(spec)
    steps, table = draw([13, 9]), Table(form.signature, sampler="uniform")
    memory, writers = config.make_memory(updater), WindowWriters(form, 1, 0)
    memory.start(1)
    writers.start(steps.first[:1])
    for t in range(len(steps.action)):
        state = memory.state
        memory.output(steps.first[t : t + 1])
        memory.reset(steps.terminated[t : t + 1] | steps.truncated[t : t + 1])
        given = np.broadcast_to(state, (len(steps.action), form.state_size))
        write(writers, steps._replace(memory=given), t, t + 1, table)
    windows = stored(form, table)
    begins = [0, 0, 2, 4, 6, 8, 13, 13, 15, 17]  # windows of 13 and of 9 steps: each 2 later, but for the burn-in
    for begin, found in zip(begins, windows.state, strict=True):
        again = config.make_memory(updater)
        for t in range(13 if begin >= 13 else 0, begin):
            again.output(steps.first[t : t + 1])
        np.testing.assert_array_equal(found, again.state[0] if len(again.state) else np.zeros(form.state_size))


def test_one_window_of_an_odd_number_of_bytes_is_a_batch() -> None:
    """Torch takes no array whose rows are not whole numbers apart, even if there is one row only."""
    form = WindowForm(EnvironmentSpec((3, 5), "uint8", 4), 4, 4, 1, SIZE)
    assert form.record.itemsize % 4
    windows = form.unpack(np.zeros((1, form.record.itemsize), np.uint8))
    assert windows.state.strides == (4 * SIZE, 4)
