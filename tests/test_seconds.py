"""Seconds of each test file: what runs first, in which part of CI, and what has grown too slow."""

from __future__ import annotations

import pytest
import seconds

pytest_plugins = ["pytester"]


EXPECTED = {"a.py": 20.0, "b.py": 100.0, "c.py": 30.0}


def test_a_file_that_takes_many_times_its_seconds_is_too_slow() -> None:
    assert seconds.too_slow({"a.py": 60.0, "b.py": 100.0, "c.py": 20.0, "new.py": 10.0}, EXPECTED) == []
    (told,) = seconds.too_slow({"a.py": 75.0, "b.py": 60.0, "c.py": 20.0}, EXPECTED)
    assert told == "a.py took 75 s; at most 70 s are allowed on this machine"
    (told,) = seconds.too_slow({"a.py": 20.0, "b.py": 100.0, "new.py": 25.0}, EXPECTED)
    assert told.startswith("new.py took 25 s")


def test_a_slow_machine_is_no_slow_file() -> None:
    assert seconds.too_slow({"a.py": 100.0, "b.py": 500.0, "c.py": 150.0}, EXPECTED) == []
    (told,) = seconds.too_slow({"a.py": 400.0, "b.py": 500.0, "c.py": 150.0}, EXPECTED)
    assert told.startswith("a.py took 400 s")


def test_every_group_is_in_one_part_and_parts_take_alike() -> None:
    groups = {"a": 50.0, "b": 30.0, "c": 25.0, "d": 4.0, "e": 1.0}
    parts = [seconds.part_of(groups, number, 2) for number in (1, 2)]
    assert sorted([*parts[0], *parts[1]]) == sorted(groups)
    assert parts[0] == ["a", "d", "e"]
    assert parts[1] == ["b", "c"]


def test_the_files_that_are_listed_exist() -> None:
    assert [name for name in seconds.EXPECTED if not (seconds.ROOT / name).is_file()] == []


TESTS = "import pytest\n\n\ndef test_first(): pass\n\n\n{}def test_second(): pass\n"


def test_the_dearest_group_runs_first_and_files_stay_together(pytester: pytest.Pytester) -> None:
    for name in ("cheap", "dear", "dearest"):
        mark = "@pytest.mark.xdist_group('shared')\n" if name != "cheap" else ""
        pytester.makepyfile(**{f"test_{name}": TESTS.format(mark)})
    pytester.makeconftest(
        "import seconds, pytest\n"
        "seconds.EXPECTED = {'test_dear.py': 8.0, 'test_dearest.py': 20.0}\n"
        "@pytest.hookimpl(trylast=True)\n"
        "def pytest_collection_modifyitems(config, items): seconds.arrange(items, part='')\n"
    )
    found = pytester.runpytest_inprocess("--collect-only", "-q", "-p", "no:cacheprovider").outlines[:6]
    assert found == [
        *("test_dear.py::test_second", "test_dearest.py::test_second"),
        "test_dearest.py::test_first",
        "test_dear.py::test_first",
        *("test_cheap.py::test_first", "test_cheap.py::test_second"),
    ]
