"""Addresses as shown to users, without passwords, and limits of the process."""

import contextlib
import resource

import pytest

from headrace.servers import open_server, shown


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("tcp://[::1]:7447", "tcp://[::1]:7447"),
        ("unix:/run/a:b@c", "unix:/run/a:b@c"),
        ("unix:@name", "unix:@name"),
        ("redis://host:1/2", "redis://host:1/2"),
        ("redis://me@host", "redis://me@host"),
        ("redis://me:pass@host", "redis://me@host"),
        ("redis://:pass@[::1]:7/0", "redis://[::1]:7/0"),
        ("redis://:p@ss@host", "redis://host"),
        ("redis://:pa/ss?#@host", "redis://host"),
        ("redis://:pa\nss@host", "redis://host"),
        ("redis:/:pass@host", "redis:/host"),
        ("me:pass@host", "me@host"),
        ("", ""),
    ],
)
def test_no_password_is_shown(address: str, said: str) -> None:
    assert shown(address) == said


def test_the_runs_own_server_may_have_as_many_connections_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
    with contextlib.closing(open_server(None)):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
