"""Records of a file that another process writes."""

import json
import os

import pytest

from headrace.dashboard.records import RecordFollower, last_records, read_mapping


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def test_only_what_is_new_is_read(path):
    follower = RecordFollower(path)
    assert follower.read() == (False, [])
    append(path, '{"kind": "a"}\n')
    assert follower.read() == (False, [{"kind": "a"}])
    append(path, '{"kind": "b"}\n{"kind": "c"}\n')
    assert follower.read() == (False, [{"kind": "b"}, {"kind": "c"}])
    assert follower.read() == (False, [])


def test_a_half_written_line_is_read_when_it_is_complete(path):
    follower = RecordFollower(path)
    append(path, '{"kind": "a"}\n{"kind": "b", "x"')
    assert follower.read() == (False, [{"kind": "a"}])
    append(path, ': 1}\n{"ki')
    assert follower.read() == (False, [{"kind": "b", "x": 1}])
    assert follower.refused == 0


def test_lines_that_are_no_records_are_counted(path):
    follower = RecordFollower(path)
    append(
        path,
        'x\n[1]\n{"no": "kind"}\n{"kind": 3}\n\xff\n' + "[" * 100_000 + '\n{"kind": "a", "x": NaN, "y": [1e999]}\n',
    )
    assert follower.read() == (False, [{"kind": "a", "x": None, "y": [None]}])
    assert follower.refused == 6


def test_a_line_without_an_end_is_not_kept(path, monkeypatch):
    monkeypatch.setattr("headrace.dashboard.records._PART_BYTES", 16)
    follower = RecordFollower(path)
    append(path, "x" * 40)
    for _ in range(3):
        assert follower.read() == (False, [])
    append(path, '\n{"kind": "a"}\n')
    assert follower.read() == (False, [])
    assert follower.read() == (False, [{"kind": "a"}])
    assert follower.refused > 0


def test_a_long_file_is_read_in_parts(path, monkeypatch):
    monkeypatch.setattr("headrace.dashboard.records._PART_BYTES", 40)
    follower = RecordFollower(path)
    append(path, '{"kind": "a"}\n' * 5)
    seen = [(len(follower.read()[1]), follower.behind) for _ in range(4)]
    assert seen == [(2, True), (2, True), (1, False), (0, False)]
    assert follower.refused == 0


def test_a_file_that_was_cut_or_replaced_begins_again(path):
    follower = RecordFollower(path)
    append(path, '{"kind": "a"}\n' * 2)
    follower.read()
    path.write_text('{"kind": "b"}\n')
    assert follower.read() == (True, [{"kind": "b"}])
    other = path.with_name("other")
    other.write_text('{"kind": "c"}\n' * 3)
    other.replace(path)
    assert follower.read() == (True, [{"kind": "c"}] * 3)
    with path.open("r+") as file:  # as a removed file whose inode its successor gets
        file.write('{"kind": "d"}\n' * 4)
    assert follower.read() == (True, [{"kind": "d"}] * 4)
    path.unlink()
    assert follower.read() == (True, [])


def test_links_are_not_followed(path, tmp_path):
    (tmp_path / "secret").write_text('{"kind": "a"}\n')
    path.symlink_to(tmp_path / "secret")
    assert RecordFollower(path).read() == (False, [])
    assert last_records(path, ["a"]) == {}
    assert read_mapping(path) is None


def test_a_fifo_is_not_waited_for(path):
    os.mkfifo(path)
    assert RecordFollower(path).read() == (False, [])
    assert last_records(path, ["a"]) == {}
    assert read_mapping(path) is None


def test_the_newest_record_of_each_kind_is_found_near_the_end(path):
    append(path, "".join(json.dumps({"kind": "a", "n": n, "pad": "x" * 1_000}) + "\n" for n in range(200)))
    append(path, '{"kind": "b", "n": 1}\n{"kind": "c"')
    assert last_records(path, ["a", "c"])["a"]["n"] == 199
    assert list(last_records(path, ["a", "c"])) == ["a"]
