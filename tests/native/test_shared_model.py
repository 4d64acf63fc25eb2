"""Models in shared memory: one worker is bit-identical to the plain optimizer; killed workers block no other."""

import fcntl
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace import errors
from headrace._native import Optimizer, OptimizerOptions, SharedModel

Vector = NDArray[np.float32]
MODES = ("lock", "hogwild", "ad-psgd")
SGD = OptimizerOptions("sgd", learning_rate=1.0)
ADAM = OptimizerOptions("adam", learning_rate=0.01)
SECONDS = 60.0


def zeros(count: int) -> Vector:
    return np.zeros(count, np.float32)


def create(
    mode: str,
    count: int = 8,
    workers: int = 2,
    optimizer: OptimizerOptions = SGD,
    own: bool = False,
    penalty: float = 0.0,
) -> SharedModel:
    return SharedModel.create(
        zeros(count), optimizer, mode=mode, workers=workers, own_optimizer_state=own, l1_penalty=penalty
    )


def values(model: SharedModel, worker: int = -1) -> Vector:
    out = zeros(model.count)
    model.read_into(out, worker)
    return out


def start(model: SharedModel, worker: int, code: str) -> subprocess.Popen[str]:
    """A process that opens `model`, as `worker`, with a gradient of ones; it runs `code`."""
    opening = f"""
        import sys
        import numpy as np
        from headrace._native import SharedModel

        model, worker = SharedModel.open({model.path!r}), {worker}
        gradient = np.ones(model.count, np.float32)
    """
    program = textwrap.dedent(opening) + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    return output


class TestOneWorker:
    @pytest.mark.parametrize("kind", ["sgd", "momentum", "rmsprop", "centered-rmsprop", "adagrad", "adam"])
    @pytest.mark.parametrize("own", [False, True])
    @pytest.mark.parametrize("mode", MODES)
    def test_is_bit_identical_to_the_plain_optimizer(self, mode: str, own: bool, kind: str) -> None:
        random = np.random.default_rng(0)
        optimizer = OptimizerOptions(kind, learning_rate=0.01)
        plain, twin = random.standard_normal(1037).astype(np.float32), Optimizer(optimizer, 1037)
        model = SharedModel.create(plain, optimizer, mode=mode, workers=1, own_optimizer_state=own)
        model.join(0)
        for step in range(1, 51):
            gradient = random.standard_normal(1037).astype(np.float32)
            twin.apply(plain, gradient)
            assert model.apply(0, gradient, step - 1) == (step, 0)
            assert model.parameters(0).tobytes() == plain.tobytes()
        assert values(model).tobytes() == plain.tobytes()
        assert model.version == 50
        state = model.state()
        assert state["moments"][0].tobytes() == twin.moments.tobytes()
        assert state["steps"].tolist() == [50]


class TestApply:
    @pytest.mark.parametrize("mode", MODES)
    def test_counts_the_updates_of_others(self, mode: str) -> None:
        model = create(mode)
        for worker in (0, 1):
            model.join(worker)
        assert model.apply(0, np.ones(8, np.float32), 0) == (1, 0)
        assert model.apply(1, np.ones(8, np.float32), 0) == (2, 1)
        assert model.apply(0, np.ones(8, np.float32), 2) == (3, 0)
        assert model.version == 3

    @pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("mode", MODES)
    def test_refuses_what_is_not_finite(self, mode: str, wrong: float) -> None:
        model = create(mode, count=1037, optimizer=ADAM)
        model.join(0)
        gradient = np.ones(1037, np.float32)
        model.apply(0, gradient, 0)
        before = model.state()
        for at in (0, 500, 1036):
            gradient[:] = 1
            gradient[at] = wrong
            assert model.apply(0, gradient, 1) == (1, -1)
        after = model.state()
        assert all(before[name].tobytes() == after[name].tobytes() for name in before)

    def test_shared_and_own_optimizer_state(self) -> None:
        """AdaGrad, gradient 3 then 4. Shared: - 3/3 - 4/5; of two workers: - 3/3 - 4/4."""
        adagrad = OptimizerOptions("adagrad", learning_rate=1.0, epsilon=1e-12)
        for own, result in ((False, -1.8), (True, -2.0)):
            model = create("lock", count=1, optimizer=adagrad, own=own)
            for worker, value in ((0, 3), (1, 4)):
                model.join(worker)
                model.apply(worker, np.array([value], np.float32), 0)
            assert values(model).tolist() == [np.float32(result)]
            assert model.state()["steps"].tolist() == ([1, 1] if own else [2])

    def test_ad_psgd_needs_a_worker_that_joined(self) -> None:
        with pytest.raises(errors.ConfigError, match="worker 1 is absent"):
            create("ad-psgd").apply(1, np.ones(8, np.float32), 0)


class TestContention:
    """Every update is - 1 for each parameter: what is left shows how many were lost."""

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("processes", [False, True])
    def test_counts_are_exact_and_only_hogwild_loses_updates(self, mode: str, processes: bool) -> None:
        model, updates = create(mode, count=10_000), 500
        if processes:
            code = f"""
                model.join(worker)
                print("ready", flush=True)
                sys.stdin.readline()
                for _ in range({updates}):
                    model.apply(worker, gradient, model.version)
            """
            others = [start(model, worker, code) for worker in (0, 1)]
            for other in others:
                assert other.stdout is not None
                assert other.stdout.readline() == "ready\n"
            for other in others:
                assert other.stdin is not None
                other.stdin.write("\n")
                other.stdin.flush()
            for other in others:
                finish(other)
        else:
            threads = [threading.Thread(target=self.work, args=(model, worker, updates)) for worker in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(SECONDS)
        assert model.version == 2 * updates
        if mode == "lock":
            assert np.all(values(model) == -2 * updates)
        elif mode == "hogwild":  # whole updates, some of them lost; who is held up in the midst of one undoes many
            left = values(model)
            assert np.all((left <= -2) & (left >= -2 * updates) & (left == np.round(left)))
        else:
            # Two workers whose starts overlap may begin apart by what the first has done until then.
            begun = [float(model.parameters(worker)[0]) + updates for worker in (0, 1)]
            for worker in (0, 1):
                assert np.all(model.parameters(worker) == begun[worker] - updates)
            assert 0.0 in begun
            assert all(-updates <= value <= 0 for value in begun)

    @staticmethod
    def work(model: SharedModel, worker: int, updates: int) -> None:
        model.join(worker)
        gradient = np.ones(model.count, np.float32)
        for _ in range(updates):
            model.apply(worker, gradient, model.version)

    def test_waits_for_the_lock_are_counted_by_worker(self) -> None:
        model = create("lock", count=100_000, workers=3)
        until = time.monotonic() + SECONDS

        def waited() -> float:
            return model.lock_wait_seconds(0) + model.lock_wait_seconds(1)

        def work(worker: int) -> None:
            while waited() == 0 and time.monotonic() < until:
                self.work(model, worker, 10)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert waited() > 0
        assert model.lock_wait_seconds(2) == 0


class TestKilled:
    """A process dies by SIGKILL in the midst of updates; where it held the lock, the next one gets it."""

    @pytest.mark.parametrize("mode", MODES)
    def test_the_other_workers_continue(self, mode: str) -> None:
        """The model is large, so that nearly all of the victim's time is spent in an update."""
        model = create(mode, count=4_000_000)
        model.join(1)
        for _ in range(3):
            victim = start(
                model,
                0,
                """
                model.join(worker)
                print("ready", flush=True)
                while True:
                    model.apply(worker, gradient, model.version)
                """,
            )
            assert victim.stdout is not None
            assert victim.stdout.readline() == "ready\n"
            before = model.version
            until = time.monotonic() + SECONDS
            while model.version == before:
                assert time.monotonic() < until
            victim.kill()
            victim.wait(SECONDS)
            counted = model.version
            model.join(0)  # in its place
            for worker in (0, 1):
                assert model.apply(worker, np.ones(model.count, np.float32), counted)[0] == counted + worker + 1
            assert np.all(np.isfinite(values(model)))
            model.apply(0, np.ones(model.count, np.float32), model.version)


class TestAdPsgd:
    def test_averaging_gives_both_the_mean(self) -> None:
        """0 - 1 = -1 and 0 - 3 = -3: both -2; the third stays."""
        model = create("ad-psgd", workers=3)
        for worker in range(3):
            model.join(worker)
        model.apply(0, np.full(8, 1, np.float32), 0)
        model.apply(1, np.full(8, 3, np.float32), 1)
        assert model.average(0, 1)
        assert [model.parameters(worker).tolist() for worker in range(3)] == [[-2] * 8, [-2] * 8, [0] * 8]
        assert values(model) == pytest.approx(np.full(8, -4 / 3))

    def test_the_mean_is_kept_while_all_average_at_once(self) -> None:
        model = create("ad-psgd", count=1000, workers=4)
        random = np.random.default_rng(0)
        for worker in range(4):
            model.join(worker)
            model.parameters(worker)[:] = random.standard_normal(1000)
        mean = np.mean([model.parameters(worker).astype(np.float64) for worker in range(4)], axis=0)

        def average(worker: int) -> None:
            for i in range(300):
                model.average(worker, (worker + 1 + i % 3) % 4)

        threads = [threading.Thread(target=average, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert np.allclose(values(model), mean, atol=1e-5)
        for worker in range(4):  # and all agree by now
            assert np.allclose(model.parameters(worker), mean, atol=1e-5)

    def test_a_late_worker_starts_at_the_mean(self) -> None:
        model = create("ad-psgd", workers=4)
        assert values(model).tolist() == [0] * 8
        model.join(0)
        model.apply(0, np.full(8, 2, np.float32), 0)
        model.join(1)
        assert model.parameters(1).tolist() == [-2] * 8
        model.apply(1, np.full(8, 4, np.float32), 1)
        model.join(2)
        assert model.parameters(2).tolist() == [-4] * 8
        assert not model.average(0, 3)
        assert model.parameters(0).tolist() == [-2] * 8

    def test_the_penalty_s_proximal_operator_ends_an_update(self) -> None:
        """Rate 1 and penalty 0.5: after the gradient, each value moves by 0.5 toward 0, and stops there."""
        model = create("ad-psgd", count=6, penalty=0.5)
        for worker in range(2):
            model.join(worker)
            model.parameters(worker)[:] = [3, 1, 0.25, 0, -0.25, -3]
        gradient = np.array([1, 0, 0, 0, 0, 1], np.float32)
        model.apply(0, gradient, 0)
        assert model.parameters(0).tolist() == [1.5, 0.5, 0, 0, 0, -3.5]
        assert model.parameters(1).tolist() == [3, 1, 0.25, 0, -0.25, -3]
        model.average(0, 1)  # which is no update
        assert model.parameters(1).tolist() == [2.25, 0.75, 0.125, 0, -0.125, -3.25]

    @pytest.mark.parametrize("mode", ["lock", "hogwild"])
    def test_only_ad_psgd_averages(self, mode: str) -> None:
        with pytest.raises(errors.ConfigError, match="ad-psgd"):
            create(mode).average(0, 1)


class TestJoin:
    @pytest.mark.parametrize(("mode", "own", "kept"), [("lock", False, 1), ("lock", True, 0), ("ad-psgd", True, 0)])
    def test_joining_again_resets_own_optimizer_state(self, mode: str, own: bool, kept: int) -> None:
        model = create(mode, optimizer=ADAM, own=own)
        model.join(0)
        model.apply(0, np.ones(8, np.float32), 0)
        model.join(0)
        state = model.state()
        assert state["steps"][0] == kept
        assert np.any(state["moments"][0] != 0) == bool(kept)
        assert state["version"] == 1

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("own", [False, True])
    def test_loaded_state_continues_bit_for_bit(self, mode: str, own: bool) -> None:
        random = np.random.default_rng(0)
        gradients = random.standard_normal((10, 2, 33)).astype(np.float32)
        whole = create(mode, count=33, optimizer=ADAM, own=own)
        cut = create(mode, count=33, optimizer=ADAM, own=own)

        def run(model: SharedModel, steps: range) -> None:
            for step in steps:
                for worker in (0, 1):
                    model.apply(worker, gradients[step, worker], model.version)

        for model in (whole, cut):
            model.join(0)
            model.join(1)
        run(whole, range(10))
        run(cut, range(5))
        resumed = create(mode, count=33, optimizer=ADAM, own=own)
        resumed.load(cut.state())
        resumed.join(0)
        resumed.join(1)
        run(resumed, range(5, 10))
        assert resumed.version == 20
        ours, theirs = resumed.state(), whole.state()
        assert all(ours[name].tobytes() == theirs[name].tobytes() for name in theirs)


class TestRefused:
    def test_a_path_that_is_missing_or_not_a_model(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"x" * 10_000)
        with pytest.raises(errors.ConfigError, match="not shared by its maker"):
            SharedModel.open(str(file))
        with pytest.raises(errors.ClosedError, match="the process that made it is gone"):
            SharedModel.open(str(tmp_path / "none"))

    def test_shared_memory_without_a_model(self) -> None:
        descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, 100_000)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        with pytest.raises(errors.ConfigError, match="there is none in this memory"):
            SharedModel.open(f"/proc/{os.getpid()}/fd/{descriptor}")
        os.close(descriptor)

    def test_a_creator_that_has_ended(self) -> None:
        process = subprocess.run(
            [
                sys.executable,
                "-c",
                "import numpy as np\nfrom headrace._native import OptimizerOptions, SharedModel\n"
                "print(SharedModel.create(np.zeros(8, np.float32), OptimizerOptions('sgd'), mode='lock', workers=1,"
                " own_optimizer_state=False).path)",
            ],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        with pytest.raises(errors.ClosedError, match="the process that made it is gone"):
            SharedModel.open(process.stdout.strip())

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (lambda: create("mean"), 'mode is "mean", but it must be lock, hogwild or ad-psgd'),
            (lambda: create("lock", workers=0), "workers is 0, but it must be from 1"),
            (lambda: create("lock", count=0), "parameters is 0, but it must be from 1"),
            (lambda: create("lock").join(2), "worker is 2, but it must be below the number of workers, 2"),
            (lambda: create("lock").apply(0, zeros(7), 0), "gradient: float32 of shape .7,. given"),
            (lambda: create("lock").read_into(zeros(9)), "out: float32 of shape .9,. given"),
            (
                lambda: create("lock", penalty=0.1),
                "l1_penalty is 0.1.*, but it must be 0 where the mode is not ad-psgd",
            ),
            (lambda: create("ad-psgd", penalty=float("nan")), "l1_penalty is nan, but it must be a finite number"),
            (lambda: create("ad-psgd").average(1, 1), "neighbor is 1, but it must be another worker"),
            (lambda: create("lock").load({}), 'has no "version"'),
            (lambda: create("lock").load(create("lock", count=9).state()), "parameters: .* given"),
            (lambda: create("lock").load(create("ad-psgd").state()), "given"),
        ],
    )
    def test_arguments(self, wrong: Callable[[], Any], message: str) -> None:
        with pytest.raises(errors.ConfigError, match=message):
            wrong()


class TestMemory:
    def test_live_parameters_outlive_the_model(self) -> None:
        model = create("hogwild", count=1000)
        live = model.parameters(0)
        model.apply(0, np.ones(1000, np.float32), 0)
        del model
        assert np.all(live == -1)

    def test_an_opened_model_outlives_its_creator(self) -> None:
        model = create("lock")
        opened = SharedModel.open(model.path)
        model.apply(0, np.ones(8, np.float32), 0)
        assert (opened.count, opened.workers, opened.version) == (8, 2, 1)
        del model
        assert values(opened).tolist() == [-1] * 8
