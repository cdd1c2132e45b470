"""Run what `mutmut run` runs, without starting pytest again for every mutant: tests are collected once, and a fork runs
those that reach the mutated function: first the ones that killed its other mutants, then the quickest.

    mutmut run NAME_OF_ONE_MUTANT && python -m benchmarks.run_mutants 'fairgate.suites.*'

mutmut makes the mutants and notes which tests reach what; the results stand in its files, as if it had run them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from mutmut.configuration import config
from mutmut.mutation.trampoline import set_mutant_under_test

CHILDREN = 2
SAVED_AFTER = 50


class Loop:
    """Takes the place of pytest's own loop over the tests that were collected."""

    def __init__(self, patterns: list[str], again: bool, longest: float) -> None:
        self.patterns, self.again = patterns, again
        stats = json.loads(Path("mutmut-stats.json").read_text())
        self.tests: dict[str, list[str]] = stats["tests_by_mangled_function_name"]
        self.known: dict[str, float] = stats["duration_by_test"]
        self.seconds = {test: number for test, number in self.known.items() if number <= longest}
        self.folder, self.kills = Path.cwd(), Counter[tuple[str, str]]()
        self.metas = {path: json.loads(path.read_text()) for path in sorted(Path().rglob("*.py.meta"))}

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """The first failure ends a fork, before pytest words it, which takes longer than most tests."""
        if call.excinfo is not None and call.excinfo.typename != "Skipped" and not item.get_closest_marker("xfail"):
            if not os.environ["MUTANT_UNDER_TEST"]:
                print(item.nodeid, call.excinfo.exconly(), file=sys.stderr)
            (self.folder / f"{os.getpid()}.killer").write_text(item.nodeid)
            os._exit(1)

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._clean_run(list(items.values()))
        unknown = items.keys() - self.known  # newer than mutmut's notes: they may reach anything
        gc.freeze()
        waiting: dict[int, tuple[Path, str]] = {}
        for done, (path, name) in enumerate(self._chosen()):
            function = name.rsplit("__mutmut_", 1)[0]
            tests = [test for test in self.tests.get(function, []) if test in items and test in self.seconds]
            reaching = [items[test] for test in (*tests, *unknown)]
            if not reaching:
                self.metas[path]["exit_code_by_key"][name] = 33
                continue
            if len(waiting) == CHILDREN:
                self._wait(waiting)
            if not (child := os.fork()):
                _run(name, sorted(reaching, key=lambda item: self._order(function, item.nodeid)), self.seconds)
            waiting[child] = path, name
            if done % SAVED_AFTER == 0:
                self._save()
                print(done, name, flush=True)
        while waiting:
            self._wait(waiting)
        self._save()
        return True

    def _clean_run(self, items: list[Any]) -> None:
        """Everything passes unchanged, which is seen once; what the tests import is imported here."""
        names = Path("imported.txt")
        if not names.exists():
            if not (child := os.fork()):
                for item, following in zip(items, [*items[1:], None], strict=True):
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                names.write_text("\n".join(name for name in sys.modules if name.startswith(("fairgate", "scipy"))))
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a test fails on the unchanged code"
        for name in names.read_text().splitlines():
            __import__(name)

    def _chosen(self) -> Iterator[tuple[Path, str]]:
        for path, meta in self.metas.items():
            for name, code in list(meta["exit_code_by_key"].items()):
                open_ = code is None or (self.again and code in (0, 5, 33))
                if open_ and any(fnmatch(name, pattern) for pattern in self.patterns):
                    yield path, name

    def _order(self, function: str, test: str) -> tuple[float, ...]:
        """First what killed other mutants of the function, or else of its module; then the quickest."""
        module = function.rpartition(".")[0]
        return -self.kills[function, test], -self.kills[module, test], self.seconds.get(test, 0.0)

    def _wait(self, waiting: dict[int, tuple[Path, str]]) -> None:
        child, status = os.wait()
        path, name = waiting.pop(child)
        self.metas[path]["exit_code_by_key"][name] = os.waitstatus_to_exitcode(status)
        killer = self.folder / f"{child}.killer"
        if killer.exists():
            function = name.rsplit("__mutmut_", 1)[0]
            self.kills.update([(part, killer.read_text()) for part in (function, function.rpartition(".")[0])])
            killer.unlink()

    def _save(self) -> None:
        for path, meta in self.metas.items():
            path.write_text(json.dumps(meta))


def _run(mutant: str, items: list[Any], seconds: dict[str, float]) -> None:
    """In the fork: 0 if all tests pass, 1 at the first that fails, killed if they take far too long."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    limit = int(30 + 10 * sum(seconds.get(item.nodeid, 1.0) for item in items))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    set_mutant_under_test(mutant)
    try:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    except BaseException:
        os._exit(1)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="of mutants")
    parser.add_argument("--again", action="store_true", help="those, too, that survived before")
    parser.add_argument(
        "--longest", type=float, default=float("inf"), help="seconds of a test; longer ones are left out"
    )
    given = parser.parse_args()
    settings = config()
    root = str(Path.cwd())
    os.chdir("mutants")
    sys.path[:] = [str(Path.cwd()), *(path for path in sys.path if path not in ("", root))]
    set_mutant_under_test("")
    args = ["--rootdir=.", "-q", "-s", "--assert=plain", *settings.pytest_add_cli_args]
    args += settings.pytest_add_cli_args_test_selection
    sys.exit(int(pytest.main(args, plugins=[Loop(given.patterns, given.again, given.longest)])))


if __name__ == "__main__":
    main()
