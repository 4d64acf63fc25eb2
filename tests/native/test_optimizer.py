"""The native optimizers: torch's arithmetic for every length and every split of the vector."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace import errors
from headrace._native import Optimizer, OptimizerOptions

Vector = NDArray[np.float32]
TORCH: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.01),
    "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, eps=1e-6),
    "centered-rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, eps=1e-6, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01, eps=1e-6),
    "adam": lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.99), 1e-6),
}
KINDS = tuple(TORCH)


def options(kind: str) -> OptimizerOptions:
    return OptimizerOptions(kind, learning_rate=0.01, decay=0.9, epsilon=1e-6, beta1=0.8, beta2=0.99)


def gradients(count: int, steps: int = 100, seed: int = 0) -> Vector:
    """[steps, count]: sizes over five decades, as they are from layer to layer."""
    random = np.random.default_rng(seed)
    sizes = 10.0 ** random.uniform(-5, 0, count)
    return (random.standard_normal((steps, count)) * sizes).astype(np.float32)


class TestAgainstTorch:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("count", [1, 7, 64, 1037, 100_003])
    def test_100_steps_are_torchs(self, kind: str, count: int) -> None:
        initial = np.random.default_rng(1).standard_normal(count).astype(np.float32)
        ours, optimizer = initial.copy(), Optimizer(options(kind), count)
        theirs = torch.from_numpy(initial.copy())
        reference = TORCH[kind]([theirs])
        for step, gradient in enumerate(gradients(count), 1):
            optimizer.apply(ours, gradient)
            theirs.grad = torch.from_numpy(gradient)
            reference.step()
            assert optimizer.steps == step
        assert not np.array_equal(ours, initial)
        limit = 1e-6 * np.maximum(1, np.abs(theirs.numpy()))
        assert np.all(np.abs(ours - theirs.numpy()) <= limit)

    @pytest.mark.parametrize("kind", KINDS)
    def test_zero_gradients_from_the_start_change_nothing(self, kind: str) -> None:
        parameters, optimizer = np.arange(9, dtype=np.float32), Optimizer(options(kind), 9)
        for _ in range(3):
            optimizer.apply(parameters, np.zeros(9, np.float32))
        assert parameters.tolist() == list(range(9))


class TestByHand:
    def test_momentum(self) -> None:
        """m: 1, then 0.5 * 1 + 2 = 2.5; p: 0 - 0.25 * 1, then - 0.25 * 2.5."""
        optimizer = Optimizer(OptimizerOptions("momentum", learning_rate=0.25, decay=0.5), 1)
        parameters = np.zeros(1, np.float32)
        optimizer.apply(parameters, np.array([1], np.float32))
        optimizer.apply(parameters, np.array([2], np.float32))
        assert optimizer.moments.tolist() == [[2.5]]
        assert parameters.tolist() == [-0.875]

    def test_adagrad(self) -> None:
        """Squares 9, then 9 + 16 = 25; p: - 3 / 3, then - 4 / 5 (epsilon is lost in rounding)."""
        optimizer = Optimizer(OptimizerOptions("adagrad", learning_rate=1.0, epsilon=1e-12), 1)
        parameters = np.zeros(1, np.float32)
        optimizer.apply(parameters, np.array([3], np.float32))
        optimizer.apply(parameters, np.array([4], np.float32))
        assert optimizer.moments.tolist() == [[25.0]]
        assert parameters.tolist() == [np.float32(-1.8)]


class TestState:
    @pytest.mark.parametrize(("kind", "moments"), list(zip(KINDS, (0, 1, 1, 2, 1, 2), strict=True)))
    def test_continues_from_another_optimizers_state(self, kind: str, moments: int) -> None:
        first, whole = Optimizer(options(kind), 33), Optimizer(options(kind), 33)
        assert first.moments.shape == (moments, 33)
        assert options(kind).moments == moments
        cut, uncut = np.zeros(33, np.float32), np.zeros(33, np.float32)
        steps = gradients(33, steps=10)
        for gradient in steps[:5]:
            first.apply(cut, gradient)
        second = Optimizer(options(kind), 33)
        second.moments[:] = first.moments
        second.steps = first.steps
        for gradient in steps[5:]:
            second.apply(cut, gradient)
        for gradient in steps:
            whole.apply(uncut, gradient)
        assert second.steps == 10
        assert cut.tobytes() == uncut.tobytes()

    def test_moments_outlive_the_optimizer(self) -> None:
        optimizer = Optimizer(options("adam"), 1000)
        optimizer.apply(np.zeros(1000, np.float32), np.ones(1000, np.float32))
        moments = optimizer.moments
        del optimizer
        assert moments[0] == pytest.approx(0.2)

    @pytest.mark.parametrize("kind", KINDS)
    def test_updating_in_pieces_is_bit_identical(self, kind: str) -> None:
        cuts = [0, 1, 18, 37, 101, 128, 1037]
        whole, pieces = np.zeros(1037, np.float32), np.zeros(1037, np.float32)
        optimizer = Optimizer(options(kind), 1037)
        parts = [Optimizer(options(kind), end - begin) for begin, end in itertools.pairwise(cuts)]
        for gradient in gradients(1037, steps=20):
            optimizer.apply(whole, gradient)
            for part, begin, end in zip(parts, cuts, cuts[1:], strict=False):
                part.apply(pieces[begin:end], gradient[begin:end])
        assert whole.tobytes() == pieces.tobytes()

    def test_denormal_optimizer_state_becomes_zero(self) -> None:
        optimizer = Optimizer(options("rmsprop"), 4)
        optimizer.moments[:] = 1.2e-38  # the smallest normal number is 1.18e-38
        optimizer.apply(np.zeros(4, np.float32), np.zeros(4, np.float32))
        assert optimizer.moments.tolist() == [[0, 0, 0, 0]]
        assert np.float32(1e-40) * np.float32(2) > 0  # and Python's own arithmetic is as before


class TestOptions:
    def test_options_round_trip(self) -> None:
        given = options("centered-rmsprop")
        assert (given.kind, given.learning_rate, given.decay, given.epsilon) == ("centered-rmsprop", 0.01, 0.9, 1e-6)
        assert (given.beta1, given.beta2) == (0.8, 0.99)
        assert given.encode() == "kind=centered-rmsprop;learning_rate=0.01;decay=0.9;epsilon=1e-06;beta1=0.8;beta2=0.99"
        assert OptimizerOptions.decode(given.encode()) == given
        assert len({given, OptimizerOptions.decode(given.encode())}) == 1
        assert given != options("rmsprop")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("learning_rate", 0.0),
            ("learning_rate", float("nan")),
            ("decay", 1.0),
            ("epsilon", 0.0),
            ("beta1", -0.1),
            ("beta2", 1.5),
        ],
    )
    def test_refuse_impossible_options(self, field: str, value: float) -> None:
        with pytest.raises(errors.ConfigError, match=f"{field} is .*must be"):
            OptimizerOptions("adam", **{field: value})

    def test_refuse_an_unknown_kind(self) -> None:
        with pytest.raises(errors.ConfigError, match='kind is "lion", but it must be sgd'):
            OptimizerOptions("lion")

    @pytest.mark.parametrize(
        "text", ["", "kind=adam", "kind=adam;learning_rate=x", options("adam").encode() + ";more=1"]
    )
    def test_refuse_invalid_text(self, text: str) -> None:
        with pytest.raises(errors.CorruptFile, match="optimizer options"):
            OptimizerOptions.decode(text)


class TestArrays:
    @pytest.mark.parametrize(
        "gradient", [np.zeros(3, np.float32), np.zeros(4, np.float64), np.zeros((2, 2), np.float32), [0.0] * 4]
    )
    def test_that_do_not_fit_are_refused(self, gradient: Vector) -> None:
        optimizer = Optimizer(options("sgd"), 4)
        with pytest.raises(errors.ConfigError, match="gradient"):
            optimizer.apply(np.zeros(4, np.float32), gradient)
        assert optimizer.steps == 0

    def test_that_can_not_be_written_are_refused(self) -> None:
        parameters = np.zeros(4, np.float32)
        parameters.flags.writeable = False
        with pytest.raises(errors.ConfigError, match="parameters"):
            Optimizer(options("sgd"), 4).apply(parameters, np.ones(4, np.float32))
