"""The bindings: what they accept, what they refuse and how, and what they keep alive."""

import collections
import gc
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import errors
from headrace._native import BatchAhead, BatchStream, BatchView, ChunkWriter, Client, Server, Signature, Table

SIGNATURE = Signature((2,), "float32")
STEPS = 8


def chunk(steps: int = STEPS, signature: Signature = SIGNATURE) -> bytes:
    """One episode that terminates: observations filled with 0 .. T, actions 0 .. T-1, rewards i + 0.5."""
    writer = ChunkWriter(signature, discount=0.9, chunk_steps=steps)

    def frame(value: int) -> np.ndarray[Any, Any]:
        return np.full(signature.observation_shape, value, signature.observation_dtype)

    writer.start(frame(0))
    for i in range(steps):
        writer.append(i, i + 0.5, frame(i + 1), i + 1 == steps, False)
    (result,) = writer.take()
    return result


def arrays(batch: int = 4, signature: Signature = SIGNATURE) -> dict[str, np.ndarray[Any, Any]]:
    stack = () if signature.stack == 1 else (signature.stack,)
    observation = (batch, *stack, *signature.observation_shape)
    return {
        "observation": np.zeros(observation, signature.observation_dtype),
        "next_observation": np.zeros(observation, signature.observation_dtype),
        "action": np.zeros((batch, *signature.action_shape), signature.action_dtype),
        **{name: np.zeros(batch, np.float32) for name in ("reward", "discount", "weight", "probability")},
        **{name: np.zeros(batch, np.uint64) for name in ("key", "policy_version")},
    }


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


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


class TestTable:
    def test_gives_back_what_was_inserted(self) -> None:
        table = Table(SIGNATURE, capacity=100)
        assert table.insert(chunk()) == 0
        assert table.insert(memoryview(bytearray(chunk()))) == STEPS
        assert table.size == 2 * STEPS
        assert table.capacity == 100
        assert table.signature == SIGNATURE
        batch = arrays(16)
        assert table.sample_into(BatchView(SIGNATURE, **batch), 0.4)
        step = batch["key"].astype(np.int64) % STEPS
        assert batch["observation"].tolist() == [[i, i] for i in step]
        assert batch["next_observation"].tolist() == [[i + 1, i + 1] for i in step]
        assert batch["action"].tolist() == step.tolist()
        assert batch["reward"].tolist() == (step + 0.5).tolist()
        np.testing.assert_allclose(batch["discount"], np.where(step == STEPS - 1, 0, 0.9), rtol=1e-6)

    def test_each_transition_has_the_version_of_the_policy_that_chose_its_action(self) -> None:
        writer = ChunkWriter(SIGNATURE, n_step=3, chunk_steps=4)
        versions = [[5, 5, 6, 7, 7, 8, 9], [9, 12], [2**64 - 1]]  # chunks of 4 and 3 steps, of 2 and of 1
        for episode in versions:
            writer.start(np.zeros(2, np.float32))
            for t, version in enumerate(episode):
                writer.set_policy_version(version)
                writer.append(t, 0.0, np.zeros(2, np.float32), t + 1 == len(episode), False)
        table = Table(SIGNATURE, sampler="uniform")
        assert [table.insert(one) for one in writer.take()] == [0, 4, 7, 9]
        batch = arrays(10)  # one from each tenth of the ten
        assert table.sample_into(BatchView(SIGNATURE, **batch), 0.4)
        assert batch["key"].tolist() == list(range(10))
        assert batch["policy_version"].tolist() == [version for episode in versions for version in episode]

    def test_waits_end_at_their_deadline(self) -> None:
        table = Table(SIGNATURE, samples_per_insert=1, limiter_tolerance=STEPS)
        view = BatchView(SIGNATURE, **arrays())
        assert table.sample_into(view, 0.4, 0.01) is False
        inserted = [table.insert(chunk(), 0.01) for _ in range(6)]
        assert inserted[0] == 0
        assert inserted[-1] is None

    def test_a_wait_ends_when_the_other_side_moves(self) -> None:
        table = Table(SIGNATURE)
        view = BatchView(SIGNATURE, **arrays())
        thread = threading.Thread(target=lambda: table.insert(chunk()))
        thread.start()
        assert table.sample_into(view, 0.4)  # without the GIL, or the thread would never come to its insert
        thread.join()

    def test_updates_priorities(self) -> None:
        table = Table(SIGNATURE)
        table.insert(chunk())
        key = np.array([0, 1, 999], np.uint64)
        assert table.update_priorities(key, np.array([1, 2, 3], np.float32)) == 2
        with pytest.raises(errors.ConfigError, match="key: int64"):
            table.update_priorities(key.astype(np.int64), np.ones(3, np.float32))
        with pytest.raises(errors.ConfigError, match="priority: float64"):
            table.update_priorities(key, np.ones(3))
        with pytest.raises(errors.ConfigError):
            table.update_priorities(key, np.array([1, np.nan, 1], np.float32))
        with pytest.raises(errors.ConfigError):
            table.update_priorities(key, np.ones(2, np.float32))

    def test_a_bad_chunk_is_refused_by_name(self) -> None:
        table = Table(SIGNATURE)
        other = chunk(signature=Signature((3,), "float32"))
        for bad in (b"", b"nonsense", other, chunk()[:-8]):
            with pytest.raises(errors.ChunkRefused):
                table.insert(bad)
        with pytest.raises(errors.ConfigError, match="chunk: a str given"):
            table.insert("text")  # type: ignore[arg-type]
        assert table.size == 0

    def test_refuses_batches_of_another_signature(self) -> None:
        table = Table(SIGNATURE)
        other = Signature((3,), "float32")
        with pytest.raises(errors.ConfigError, match=r"float32\[3\].*float32\[2\]"):
            table.sample_into(BatchView(other, **arrays(4, other)), 0.4)

    @pytest.mark.parametrize("options", [{"sampler": "best"}, {"capacity": 0}, {"priority_exponent": -1.0}])
    def test_refuses_impossible_settings(self, options: dict[str, Any]) -> None:
        with pytest.raises(errors.ConfigError, match=next(iter(options))):
            Table(SIGNATURE, **options)

    def test_everything_is_closed_after_close(self) -> None:
        table = Table(SIGNATURE)
        view = BatchView(SIGNATURE, **arrays())
        closer = threading.Timer(0.05, table.close)
        closer.start()
        with pytest.raises(errors.ClosedError):
            table.sample_into(view, 0.4)
        with pytest.raises(errors.ClosedError):
            table.insert(chunk())
        table.reopen()
        assert table.insert(chunk()) == 0

    def test_system_errors_are_storage_errors(self) -> None:
        with pytest.raises(errors.StorageError, match="/nowhere"):
            Table(SIGNATURE).save("/nowhere/file")

    def test_a_snapshot_of_another_table_is_no_servers_error(self, tmp_path: Path) -> None:
        path = tmp_path / "snapshot"
        Table(SIGNATURE, capacity=10).save(str(path))
        with pytest.raises(errors.ReplayError, match="capacity is 10") as raised:
            Table(SIGNATURE, capacity=20).restore(str(path))
        assert not isinstance(raised.value, errors.CorruptFile)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(errors.CorruptFile, match=str(path)):
            Table(SIGNATURE, capacity=10).restore(str(path))

    def test_stats_are_numbers(self) -> None:
        table = Table(SIGNATURE, capacity=10)
        table.insert(chunk())
        stats = table.stats()
        assert stats["inserts"] == STEPS
        assert stats["capacity"] == 10
        assert all(isinstance(value, float) for value in stats.values())


class TestBatchAhead:
    def test_fills_its_buffers_in_turn(self) -> None:
        table = Table(SIGNATURE)
        memory = [arrays() for _ in range(3)]
        ahead = BatchAhead(table, [BatchView(SIGNATURE, **each) for each in memory], 0.4)
        assert ahead.next(0.0) is None
        table.insert(chunk())
        for _ in range(20):
            index = ahead.next()
            assert index is not None
            assert np.all(memory[index]["probability"] > 0)
            ahead.release(index)
        ahead.close()
        with pytest.raises(errors.ClosedError):
            ahead.next()

    def test_keeps_table_and_buffers_alive(self) -> None:
        def make() -> BatchAhead:
            table = Table(SIGNATURE)
            table.insert(chunk())
            return BatchAhead(table, [BatchView(SIGNATURE, **arrays()) for _ in range(2)], 0.4)

        ahead = make()
        gc.collect()
        for _ in range(10):
            index = ahead.next(5.0)
            assert index is not None
            ahead.release(index)

    def test_a_closed_table_ends_it(self) -> None:
        table = Table(SIGNATURE)
        ahead = BatchAhead(table, [BatchView(SIGNATURE, **arrays()) for _ in range(2)], 0.4)
        table.close()
        with pytest.raises(errors.ClosedError):
            ahead.next(5.0)

    def test_refuses_buffers_of_another_signature(self) -> None:
        other = Signature((3,), "float32")
        with pytest.raises(errors.ConfigError):
            BatchAhead(Table(SIGNATURE), [BatchView(other, **arrays(4, other)) for _ in range(2)], 0.4)


class TestServer:
    def test_holds_tables_by_name(self, server: Server) -> None:
        table = server.add_table("replay", SIGNATURE, capacity=50)
        assert server.table("replay") is table
        assert table.capacity == 50
        with pytest.raises(errors.ServerError, match="replay"):
            server.table("other")
        with pytest.raises(errors.ConfigError, match="replay"):
            server.add_table("replay", SIGNATURE)
        with pytest.raises(TypeError):
            server.add_table("third", SIGNATURE, capcity=50)

    def test_a_table_outlives_its_server(self) -> None:
        table = Server().add_table("replay", SIGNATURE)
        gc.collect()
        assert table.capacity == 1_000_000

    def test_opens_a_table_fresh_or_unchanged(self, server: Server) -> None:
        table = server.open_table("run/replay", SIGNATURE, fresh=True, capacity=50)
        table.insert(chunk())
        assert server.open_table("run/replay", SIGNATURE, fresh=False, capacity=50) is table
        with pytest.raises(errors.ServerError, match="capacity"):
            server.open_table("run/replay", SIGNATURE, fresh=False, capacity=60)
        assert server.open_table("run/replay", SIGNATURE, fresh=True, capacity=60).size == 0
        with pytest.raises(TypeError):
            server.open_table("run/replay", SIGNATURE, capacity=60)
        assert server.table_names() == ["run/replay"]
        server.publish("run/policy", b"weights")
        server.publish("other/policy", b"weights")
        assert server.drop("run/") == 2
        assert server.table_names() == []
        assert server.fetch("other/policy") == (1, b"weights")

    def test_each_start_is_another_instance(self, server: Server) -> None:
        assert server.instance == server.instance != Server().instance

    def test_stats(self, server: Server) -> None:
        server.add_table("replay", SIGNATURE)
        stats = server.stats()
        assert stats["instance"] == server.instance
        assert stats["tables"]["replay"]["state"] == "open"
        assert stats["memory_limit_bytes"] is None
        assert stats["connections"] == []

    def test_memory_is_bounded(self) -> None:
        server = Server(memory_bytes=1 << 20)
        assert server.stats()["memory_limit_bytes"] == 1 << 20
        with pytest.raises(errors.ServerError, match="memory"):
            server.add_table("replay", SIGNATURE, capacity=1_000_000)
        server.add_table("replay", SIGNATURE, capacity=1000)

    def test_a_data_directory_keeps_tables(self, tmp_path: Path) -> None:
        server = Server(data=str(tmp_path))
        server.add_table("replay", SIGNATURE, capacity=100).insert(chunk())
        with pytest.raises(errors.HeadraceError, match=str(tmp_path)):
            Server(data=str(tmp_path))
        server.close()
        del server
        gc.collect()
        again = Server(data=str(tmp_path))
        assert again.table_names() == ["replay"]
        assert again.table("replay").size == STEPS
        again.close()

    def test_a_short_token_is_refused_without_showing_it(self) -> None:
        with pytest.raises(errors.ConfigError) as raised:
            Server(token=b"hunter2")
        assert "hunter2" not in str(raised.value)

    def test_parameters_are_fetched_if_newer(self, server: Server) -> None:
        assert server.fetch("policy") is None
        assert server.publish("policy", b"one") == 1
        assert server.publish("policy", bytearray(b"five"), 5) == 5
        assert server.fetch("policy", 4) == (5, b"five")
        assert server.fetch("policy", 5) is None
        with pytest.raises(errors.ServerError, match="version 5"):
            server.publish("policy", b"old", 5)

    def test_mailboxes(self, server: Server) -> None:
        server.put("episodes", b"one")
        server.put("episodes", b"")
        assert server.drain("episodes") == [b"one", b""]
        assert server.drain("episodes") == []


class TestClient:
    def test_does_the_same_as_the_server(self, server: Server) -> None:
        table = server.add_table("replay", SIGNATURE)
        client = Client(server.listen("unix:@"))
        assert client.signature("replay") == SIGNATURE
        assert client.insert("replay", chunk()) == 0
        batch = arrays()
        assert client.sample_into("replay", BatchView(SIGNATURE, **batch), 0.4)
        assert batch["action"].tolist() == (batch["key"] % STEPS).tolist()
        assert client.update_priorities("replay", batch["key"], np.ones(4, np.float32)) == 4
        assert table.stats()["updates"] == 4
        assert client.publish("policy", b"weights") == 1
        assert client.fetch("policy") == (1, b"weights")
        assert client.fetch("policy", 1) is None
        client.put("episodes", b"one")
        assert client.drain("episodes") == [b"one"]
        stats = client.stats()
        assert stats["tables"]["replay"]["inserts"] == STEPS
        assert stats["parameters"] == {"policy": {"version": 1, "bytes": 7}}
        assert server.connections() == 1
        assert client.instance == server.instance
        assert client.reconnections == 0

    def test_opens_holds_and_drops_tables(self, server: Server) -> None:
        client = Client(server.listen("unix:@"))
        assert client.open_table("run/replay", SIGNATURE, fresh=True, capacity=50, sampler="uniform", seed=3) == 0
        table = server.table("run/replay")
        assert table.capacity == 50
        client.insert("run/replay", chunk())
        assert client.open_table("run/replay", SIGNATURE, fresh=False, capacity=50) == STEPS
        client.set_state("run/replay", "paused")
        assert table.insert(chunk(), 0.0) is None
        client.set_state("run/replay", "open")
        assert table.insert(chunk(), 0.0) == STEPS
        client.set_state("run/replay", "closed")
        with pytest.raises(errors.ClosedError):
            client.insert("run/replay", chunk())
        with pytest.raises(errors.ConfigError, match="state: 'ajar' given"):
            client.set_state("run/replay", "ajar")
        assert client.drop("run/") == 1
        assert server.table_names() == []

    def test_a_claim_lasts_as_long_as_its_client(self, server: Server) -> None:
        address = server.listen("unix:@")
        first, second = Client(address), Client(address)
        first.claim("run/learner", 1)
        first.claim("run/learner", 1)
        with pytest.raises(errors.ServerError, match="run/learner"):
            second.claim("run/learner", 2)
        first.close()
        deadline = time.monotonic() + 10
        while server.stats()["claims"] and time.monotonic() < deadline:
            time.sleep(0.005)
        second.claim("run/learner", 2)

    @pytest.mark.parametrize("option", ["timeout_seconds", "request_timeout_seconds", "reconnect_seconds"])
    @pytest.mark.parametrize("seconds", [-1.0, float("nan")])
    def test_durations_are_not_negative(self, option: str, seconds: float) -> None:
        with pytest.raises(errors.ConfigError, match=f"^{option}: "):
            Client("unix:@nobody", **{option: seconds})

    def test_errors_keep_their_class(self, server: Server) -> None:
        server.add_table("replay", SIGNATURE)
        client = Client(server.listen("unix:@"))
        with pytest.raises(errors.ChunkRefused):
            client.insert("replay", b"nonsense")
        with pytest.raises(errors.ServerError, match="other"):
            client.insert("other", chunk())
        other = Signature((3,), "float32")
        with pytest.raises(errors.ConfigError):
            client.sample_into("replay", BatchView(other, **arrays(4, other)), 0.4)
        client.publish("policy", b"new", 5)
        with pytest.raises(errors.ServerError, match="version 5"):
            client.publish("policy", b"old", 5)
        assert client.sample_into("replay", BatchView(SIGNATURE, **arrays()), 0.4, 0.0) is False

    def test_a_full_server_does_not_blame_the_chunk(self) -> None:
        server = Server(memory_bytes=1 << 20)
        server.add_table("replay", SIGNATURE, capacity=1000)
        stats = server.stats()
        server.publish("filler", bytes(stats["memory_limit_bytes"] - stats["memory_bytes"] - 1024))
        client = Client(server.listen("unix:@"))
        with pytest.raises(errors.ServerError, match="memory budget"):
            client.insert("replay", chunk(10_000))  # does not fit the table either, but is not even received
        server.close()

    def test_a_listener_that_breaks_the_protocol(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            answer = threading.Thread(target=lambda: listener.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
            answer.start()
            with pytest.raises(errors.ServerError, match="frame magic"):
                Client(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
            answer.join()

    def test_closed_by_either_side(self, server: Server) -> None:
        server.add_table("replay", SIGNATURE)
        address = server.listen("unix:@")
        clients = [Client(address), Client(address)]
        clients[0].close()
        with pytest.raises(errors.ClosedError):
            clients[0].stats()
        server.close()
        with pytest.raises(errors.ClosedError):
            clients[1].stats()
        with pytest.raises(errors.StorageError, match=address):
            Client(address, timeout_seconds=0.0)

    @pytest.mark.parametrize("address", ["http://host:80", "tcp://host", "tcp://host:70000", "unix:", "somewhere"])
    def test_addresses_it_cannot_serve(self, server: Server, address: str) -> None:
        with pytest.raises(errors.ConfigError, match="required"):
            server.listen(address)
        with pytest.raises(errors.ConfigError):
            Client(address)


@pytest.fixture(params=["unix:@", "tcp://127.0.0.1:0"])
def address(request: pytest.FixtureRequest, server: Server) -> str:
    return server.listen(request.param)


class TestBatchStream:
    def test_gives_what_was_inserted(self, server: Server, address: str) -> None:
        signature = Signature((3, 2), "uint8", (2,), "float32", stack=2)
        writer = ChunkWriter(signature, chunk_steps=STEPS)
        writer.start(np.zeros((3, 2), np.uint8))
        for i in range(STEPS):
            writer.append(np.array([i, -i], np.float32), i, np.full((3, 2), i + 1, np.uint8), i + 1 == STEPS, False)
        server.add_table("replay", signature).insert(writer.take()[0])
        stream = BatchStream(address, "replay", 16, 0.4)
        assert stream.signature == signature
        assert stream.shared == address.startswith("unix:")
        for _ in range(10):
            batch = stream.next(10.0)
            assert batch is not None
            observation, next_observation, action, reward, discount, weight, probability, key, version = batch
            step = key.astype(np.int64)
            assert observation.shape == next_observation.shape == (16, 2, 3, 2)
            assert observation[:, 1, 0, 0].tolist() == step.tolist()
            assert observation[:, 0, 2, 1].tolist() == np.maximum(step - 1, 0).tolist()
            assert next_observation[:, 1, 2, 1].tolist() == (step + 1).tolist()
            assert action.tolist() == [[i, -i] for i in step]
            assert reward.tolist() == step.tolist()
            assert np.all((discount == 0) == (step == STEPS - 1))
            assert np.all(weight == 1)
            np.testing.assert_allclose(probability, 1 / STEPS)
            assert version.tolist() == [0] * 16
            assert [each.dtype.name for each in batch[2:]] == ["float32"] * 5 + ["uint64"] * 2

    def test_arrays_are_read_only_and_reused(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE).insert(chunk())
        stream = BatchStream(address, "replay", 4, 0.4, credit=3)
        seen = {}
        for _ in range(30):
            batch = stream.next(10.0)
            assert batch is not None
            assert not any(each.flags.writeable for each in batch)
            seen[id(batch)] = batch
        assert len(seen) == 3

    def test_arrays_outlive_the_stream(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE).insert(chunk())
        stream = BatchStream(address, "replay", 4, 0.4)
        batch = stream.next(10.0)
        assert batch is not None
        observation, key = batch[0], batch[7]
        del batch
        stream.close()
        del stream
        gc.collect()
        assert observation.tolist() == [[i, i] for i in key]

    def test_waits_for_experience_and_ends_with_its_table(self, server: Server, address: str) -> None:
        table = server.add_table("replay", SIGNATURE)
        stream = BatchStream(address, "replay", 4, 0.4, credit=2)
        assert stream.next(0.0) is None
        table.insert(chunk())
        assert stream.next(10.0) is not None
        table.close()
        with pytest.raises(errors.ClosedError):
            collections.deque(iter(lambda: stream.next(10.0), None), maxlen=0)  # what was in flight, then the end

    def test_refusals(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE)
        with pytest.raises(errors.ServerError, match="other"):
            BatchStream(address, "other", 4, 0.4)
        for credit in (1, 65):
            with pytest.raises(errors.ConfigError, match="credit"):
                BatchStream(address, "replay", 4, 0.4, credit=credit)

    def test_close_releases_waiting_callers(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE)
        stream = BatchStream(address, "replay", 4, 0.4)
        closer = threading.Timer(0.05, stream.close)
        closer.start()
        with pytest.raises(errors.ClosedError):
            stream.next()
        closer.join()


class Interrupted(Exception):
    """What a signal's handler raises here, as Ctrl-C's would KeyboardInterrupt."""


@pytest.mark.parametrize("where", ["table", "ahead", "client", "stream"])
def test_a_signal_ends_a_wait_without_deadline(server: Server, where: str) -> None:
    table = server.add_table("replay", SIGNATURE)
    address = server.listen("unix:@")
    client = Client(address)
    stream = BatchStream(address, "replay", 4, 0.4)
    view = BatchView(SIGNATURE, **arrays())
    ahead = BatchAhead(table, [BatchView(SIGNATURE, **arrays()) for _ in range(2)], 0.4)
    waits: dict[str, Callable[[], object]] = {
        "table": lambda: table.sample_into(view, 0.4),
        "ahead": ahead.next,
        "client": lambda: client.sample_into("replay", view, 0.4),
        "stream": stream.next,
    }

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Interrupted):
            waits[where]()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_during_a_remote_wait(server: Server) -> None:
    server.add_table("replay", SIGNATURE)
    address = server.listen("unix:@")
    learner, actor = Client(address), Client(address)

    def act() -> None:
        time.sleep(0.02)
        actor.insert("replay", chunk())

    thread = threading.Thread(target=act)
    thread.start()
    assert learner.sample_into("replay", BatchView(SIGNATURE, **arrays()), 0.4)
    thread.join()
