"""The bindings of signatures, chunk writers and batch views: what they accept, and what they refuse and how."""

import gc
from typing import Any

import numpy as np
import pytest

from headrace import errors
from headrace._native import BatchView, ChunkWriter, Server, Signature, Table

from .conftest import SIGNATURE, arrays, chunk


class TestSignature:
    def test_round_trips_its_arguments(self) -> None:
        signature = Signature((84, 84), "uint8", (3,), "float32", stack=4)
        assert signature.observation_shape == (84, 84)
        assert signature.observation_dtype == "uint8"
        assert signature.action_shape == (3,)
        assert signature.action_dtype == "float32"
        assert signature.stack == 4
        assert Signature.decode(signature.encode()) == signature
        assert signature != SIGNATURE
        assert len({signature, Signature.decode(signature.encode())}) == 1

    @pytest.mark.parametrize("arguments", [((2,), "string"), ((2,), "float32", (), "int64", 0)])
    def test_refuses_invalid_signatures(self, arguments: tuple[Any, ...]) -> None:
        with pytest.raises(errors.ConfigError):
            Signature(*arguments)


class TestChunkWriter:
    @pytest.fixture
    def writer(self) -> ChunkWriter:
        writer = ChunkWriter(SIGNATURE, chunk_steps=4)
        writer.start(np.zeros(2, np.float32))
        return writer

    @pytest.mark.parametrize("action", [3, np.int64(3), np.int32(3), np.uint8(3), np.array(3, np.int64)])
    def test_takes_integers_of_any_kind(self, server: Server, writer: ChunkWriter, action: object) -> None:
        writer.append(action, np.float32(1), np.ones(2, np.float32), np.True_, np.False_)
        assert writer.finished == 1
        table = server.add_table("replay", SIGNATURE)
        table.insert(writer.take()[0])
        assert writer.finished == 0
        batch = arrays()
        table.sample_into(BatchView(SIGNATURE, **batch), 0.4)
        assert batch["action"].tolist() == [3] * 4

    def test_takes_arrays_as_actions(self) -> None:
        signature = Signature((2,), "float32", (2,), "float32")
        writer = ChunkWriter(signature)
        writer.start(np.zeros(2, np.float32))
        writer.append(np.array([0.25, -1], np.float32), 1.0, np.ones(2, np.float32), True, False)
        table = Table(signature)
        table.insert(writer.take()[0])
        batch = arrays(signature=signature)
        table.sample_into(BatchView(signature, **batch), 0.4)
        assert batch["action"].tolist() == [[0.25, -1]] * 4

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
    def test_integers_keep_their_value_or_are_refused(self, dtype: str) -> None:
        signature = Signature((1,), "float32", (), dtype)
        table = Table(signature)
        info = np.iinfo(dtype)
        frame = np.zeros(1, np.float32)
        writer = ChunkWriter(signature)
        for value in (info.min, info.max):
            writer.start(frame)
            writer.append(int(value), 0.0, frame, True, False)
        for one in writer.take():
            table.insert(one)
        batch = arrays(64, signature)
        table.sample_into(BatchView(signature, **batch), 0.4)
        assert set(batch["action"].tolist()) == {info.min, info.max}
        writer.start(frame)
        for value in (int(info.min) - 1, int(info.max) + 1):
            with pytest.raises(errors.ConfigError, match=f"action: {value} given, a value of {dtype} required"):
                writer.append(value, 0.0, frame, True, False)

    @pytest.mark.parametrize(
        ("observation", "names"),
        [
            (np.zeros(2), r"observation: float64 of shape \(2,\) given, float32 of shape \(2,\) required"),
            (np.zeros((1, 2), np.float32), r"shape \(1, 2\) given"),
            (np.zeros((2, 2), np.float32)[:, 0], "strided"),
            (np.zeros(2, ">f4"), "'>f' of shape"),
            ([0.0, 0.0], "a list given"),
        ],
    )
    def test_refuses_other_observations(self, writer: ChunkWriter, observation: Any, names: str) -> None:
        with pytest.raises(errors.ConfigError, match=names):
            writer.append(0, 0.0, observation, False, False)
        with pytest.raises(errors.ConfigError, match=names):
            writer.start(observation)

    @pytest.mark.parametrize("action", [1.0, np.float64(1), np.zeros(2, np.int64), np.zeros((), np.int32), "1"])
    def test_refuses_other_actions(self, writer: ChunkWriter, action: object) -> None:
        with pytest.raises(errors.ConfigError, match="action: "):
            writer.append(action, 0.0, np.zeros(2, np.float32), False, False)

    def test_accepts_read_only_observations(self, writer: ChunkWriter) -> None:
        frame = np.zeros(2, np.float32)
        frame.flags.writeable = False
        writer.append(0, 0.0, frame, True, False)
        assert writer.finished == 1


class TestBatchView:
    @pytest.mark.parametrize("name", list(arrays()))
    def test_names_the_array_that_does_not_fit(self, name: str) -> None:
        good = arrays()
        read_only = good[name].copy()
        read_only.flags.writeable = False
        wrong_type = good[name].astype(np.float16)
        strided = np.repeat(good[name], 2, axis=0)[::2]
        for bad, what in ((read_only, "read-only"), (wrong_type, "float16"), (strided, "strided")):
            with pytest.raises(errors.ConfigError, match=f"^{name}: .*{what}"):
                BatchView(SIGNATURE, **{**good, name: bad})
        if name != "reward":  # whose length is B
            with pytest.raises(errors.ConfigError, match=rf"^{name}: .*shape \(3,"):
                BatchView(SIGNATURE, **{**good, name: good[name][:3]})

    def test_stacks_have_their_own_axis(self) -> None:
        signature = Signature((2,), "float32", stack=3)
        assert arrays(4, signature)["observation"].shape == (4, 3, 2)
        BatchView(signature, **arrays(4, signature))
        with pytest.raises(errors.ConfigError, match="observation"):
            BatchView(signature, **arrays(4))

    def test_keeps_its_arrays_in_place(self) -> None:
        table = Table(SIGNATURE)
        table.insert(chunk())
        memory = arrays()
        view = BatchView(SIGNATURE, **memory)
        with pytest.raises(ValueError, match="resize"):
            memory["reward"].resize(1000)
        del memory
        gc.collect()
        assert table.sample_into(view, 0.4)
