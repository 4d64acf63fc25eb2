"""Frame stacks, with numbers worked out by hand."""

import numpy as np
import pytest

from headrace.environments import FrameStack, make_batch
from headrace.types import EnvironmentSpec

SCALARS = EnvironmentSpec((1,), "int64", 2, stack=3)


def frames(*values):
    return np.array(values, np.int64)[:, None]


def test_first_frame_is_repeated():
    stack = FrameStack(2, SCALARS)
    assert stack.start(frames(1, 50))[..., 0].tolist() == [[1, 1, 1], [50, 50, 50]]


def test_newest_frame_is_last_and_a_new_episode_starts_over():
    stack = FrameStack(2, SCALARS)
    stack.start(frames(1, 50))
    assert stack.push(frames(2, 51), np.array([False, False]))[..., 0].tolist() == [[1, 1, 2], [50, 50, 51]]
    assert stack.push(frames(3, 70), np.array([False, True]))[..., 0].tolist() == [[1, 2, 3], [70, 70, 70]]
    assert stack.push(frames(4, 71), np.array([False, False]))[..., 0].tolist() == [[2, 3, 4], [70, 70, 71]]


def test_with_final_changes_nothing():
    stack = FrameStack(2, SCALARS)
    stack.start(frames(1, 50))
    stack.push(frames(2, 51), np.array([False, False]))
    assert stack.with_final(frames(9)[0], 0)[:, 0].tolist() == [1, 2, 9]
    assert stack.with_final(frames(9)[0], 1)[:, 0].tolist() == [50, 51, 9]
    assert stack.push(frames(3, 52), np.array([False, False]))[..., 0].tolist() == [[1, 2, 3], [50, 51, 52]]


def test_arrays_may_be_kept():
    stack = FrameStack(1, SCALARS)
    kept = stack.start(frames(1))
    pushed = stack.push(frames(2), np.array([False]))
    stack.push(frames(3), np.array([True]))
    assert kept[0, :, 0].tolist() == [1, 1, 1]
    assert pushed[0, :, 0].tolist() == [1, 1, 2]


@pytest.mark.parametrize("length", range(1, 7))
def test_restored_stack_equals_the_original(length):
    first, restored = FrameStack(2, SCALARS), FrameStack(2, SCALARS)
    rows = np.arange(1, length + 1)
    seen = first.start(frames(1, 101))
    for value in rows[1:]:
        seen = first.push(frames(value, value + 100), np.array([False, False]))
    np.testing.assert_array_equal(restored.restore([frames(*rows), frames(*rows + 100)]), seen)
    more = (frames(8, 108), np.array([False, False]))
    np.testing.assert_array_equal(restored.push(*more), first.push(*more))


def test_depth_one_returns_its_argument():
    stack = FrameStack(2, EnvironmentSpec((1,), "int64", 2))
    first, second, final = frames(1, 2), frames(3, 4), frames(5)[0]
    assert stack.start(first) is first
    assert stack.push(second, np.array([True, False])) is second
    assert stack.with_final(final, 1) is final
    assert stack.restore([frames(1, 2), frames(3)]).tolist() == [[2], [3]]


def test_stacks_of_a_batch_hold_one_episode_each_in_order():
    batch = make_batch("headrace.environments.toy:Frames", 2, seed=0)
    spec = EnvironmentSpec((84, 84), "uint8", 2, stack=4)
    stack = FrameStack(2, spec)
    stacked = stack.start(batch.start())
    for t in range(1, 20):
        step = batch.step(np.zeros(2, np.int64))
        ended = step.terminated | step.truncated
        if ended[0]:
            assert stack.with_final(step.observation[0], 0)[:, 1, 0].tolist() == [3, 4, 5, 6]
        stacked = stack.push(step.next_start, ended)
        assert stacked.shape == (2, 4, 84, 84)
        within = t % 6  # an episode has six steps
        assert stacked[0, :, 1, 0].tolist() == [max(0, within - back) for back in (3, 2, 1, 0)]
        assert set(stacked[0, :, 0, 0].tolist()) == {t // 6}
