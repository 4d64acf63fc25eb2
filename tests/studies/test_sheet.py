"""Files that record which cases they contain."""

import csv
from dataclasses import asdict, replace

import pytest

from headrace.errors import ConfigError, StorageError
from headrace.studies.sheet import Sheet, fingerprint
from headrace.topologies.serial import Serial


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sheet.csv"


def test_what_was_written_is_there_again(path, origin) -> None:
    columns = ["precision", "steps", "seconds", "reached"]
    sheet = Sheet(path, origin, columns)
    sheet.put("training-1e5", [{"precision": "int8", "steps": 7, "seconds": 1.5, "reached": None}])
    again = Sheet(path, replace(origin, commit="1e5", date="2026-02-03 04:05"), columns)
    assert again.has("training-1e5")
    assert not again.has("training-1e6")
    (row,) = again.rows
    assert (row["precision"], row["steps"], row["seconds"], row["reached"]) == ("int8", 7, 1.5, None)
    again.put("training-2", [{"precision": "fp32", "steps": 8, "seconds": 2.5, "reached": 3.0}])
    assert [row["commit"] for row in Sheet(path, origin, columns).rows] == [
        "0123456789ab",
        "1e5",
    ]  # as text, each its own


def test_a_case_that_is_measured_again_has_one_set_of_rows(path, origin) -> None:
    sheet = Sheet(path, origin, ["x"])
    sheet.put("a", [{"x": 1}, {"x": 2}])
    sheet.put("b", [{"x": 3}])
    sheet.put("a", [{"x": 4}])
    with path.open() as file:
        assert [(row["case"], row["x"]) for row in csv.DictReader(file)] == [("b", "3"), ("a", "4")]
    assert [row["x"] for row in sheet.of(["a", "b", "c"])] == [4, 3]
    assert not list(path.parent.glob("*.tmp"))


def test_two_machines_cannot_stand_beside_each_other(path, origin) -> None:
    Sheet(path, origin, ["x"]).put("a", [{"x": 1}])
    with pytest.raises(ConfigError, match=r"measurements of another machine \(a machine, 2 cores\).*--output"):
        Sheet(path, replace(origin, cores=16), ["x"]).require_machine()


def test_other_columns_are_refused_before_anything_is_measured(path, origin) -> None:
    Sheet(path, origin, ["x"]).put("a", [{"x": 1}])
    with pytest.raises(ConfigError, match=r"has the columns case, x, .* those of this version are case, y, "):
        Sheet(path, origin, ["y"])
    path.write_text("x,y\n1,2\n")
    with pytest.raises(ConfigError, match="is not a file of this study"):
        Sheet(path, origin, ["x", "y"])
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not a CSV file"):
        Sheet(path, origin, ["x", "y"])


def test_a_folder_that_is_not_there(tmp_path, origin) -> None:
    with pytest.raises(StorageError, match="No such file"):
        Sheet(tmp_path / "none" / "sheet.csv", origin, ["x"]).put("a", [{"x": 1}])


def test_fingerprints_are_of_settings() -> None:
    one = fingerprint("training", {"steps": 1, "hidden": (2, 3)})
    assert one == fingerprint("training", {"hidden": (2, 3), "steps": 1})
    assert one.startswith("training-")
    assert len({one, fingerprint("training", {"steps": 2, "hidden": (2, 3)}), fingerprint("acting", {"steps": 1})}) == 3


def test_options_that_are_off_rename_nothing() -> None:
    one = fingerprint("training", {"steps": 1, "topology": {"workers": 2}, "costs": [0, 1]})
    off = {"penalty": 0.0, "local": False, "name": None, "hosts": (), "limits": {"least": 0}}
    assert fingerprint("training", {"steps": 1, "topology": {"workers": 2} | off, "costs": [0, 1]} | off) == one
    assert fingerprint("training", {"steps": 1, "topology": {"workers": 2, "penalty": 0.1}, "costs": [0, 1]}) != one
    assert fingerprint("training", {"steps": 1, "topology": {"workers": 2}, "costs": [1]}) != one


def test_a_dataclass_counts_by_its_fields() -> None:
    serial = Serial(envs_per_actor=3)
    assert fingerprint("serial", [serial]) == fingerprint("serial", [asdict(serial)])
