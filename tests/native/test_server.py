"""The bindings of servers and clients."""

import gc
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from headrace import errors
from headrace._native import BatchView, Client, Server, Signature

from ..waiting import wait_for
from .conftest import SIGNATURE, STEPS, arrays, chunk


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
        with pytest.raises(errors.ServerError, match=r"prioritized with exponent 0\.6.* is requested; resume with its"):
            client.open_table("run/replay", SIGNATURE, fresh=False, capacity=50)
        assert client.open_table("run/replay", SIGNATURE, fresh=False, capacity=50, sampler="uniform") == STEPS
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
        wait_for(lambda: not server.stats()["claims"])
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
