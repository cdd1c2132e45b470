"""Run what `mutmut run` runs, without starting pytest again for every mutant: tests are collected once, and a fork runs
those that reach the mutated function, the quickest first.

    mutmut run NAME_OF_ONE_MUTANT && python -m benchmarks.run_mutants 'fairgate.suites.*'

mutmut makes the mutants and notes which tests reach what; the results stand in its files, as if it had run them.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
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

    def __init__(self, patterns: list[str], again: bool) -> None:
        self.patterns, self.again = patterns, again
        stats = json.loads(Path("mutmut-stats.json").read_text())
        self.tests: dict[str, list[str]] = stats["tests_by_mangled_function_name"]
        self.seconds: dict[str, float] = stats["duration_by_test"]
        self.metas = {path: json.loads(path.read_text()) for path in sorted(Path().rglob("*.py.meta"))}

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """The first failure ends a fork, before pytest words it, which takes longer than most tests."""
        if call.excinfo is not None and call.excinfo.typename != "Skipped" and not item.get_closest_marker("xfail"):
            if not os.environ["MUTANT_UNDER_TEST"]:
                print(item.nodeid, call.excinfo.exconly(), file=sys.stderr)
            os._exit(1)

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._clean_run(list(items.values()))
        gc.freeze()
        waiting: dict[int, tuple[Path, str]] = {}
        for done, (path, name) in enumerate(self._chosen()):
            function = name.rsplit("__mutmut_", 1)[0]
            reaching = [items[test] for test in self.tests.get(function, []) if test in items]
            if not reaching:
                self.metas[path]["exit_code_by_key"][name] = 33
                continue
            if len(waiting) == CHILDREN:
                self._wait(waiting)
            if not (child := os.fork()):
                _run(name, sorted(reaching, key=lambda item: self.seconds[item.nodeid]), self.seconds)
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

    def _wait(self, waiting: dict[int, tuple[Path, str]]) -> None:
        child, status = os.wait()
        path, name = waiting.pop(child)
        self.metas[path]["exit_code_by_key"][name] = os.waitstatus_to_exitcode(status)

    def _save(self) -> None:
        for path, meta in self.metas.items():
            path.write_text(json.dumps(meta))


def _run(mutant: str, items: list[Any], seconds: dict[str, float]) -> None:
    """In the fork: 0 if all tests pass, 1 at the first that fails, killed if they take far too long."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    limit = int(30 + 10 * sum(seconds[item.nodeid] for item in items))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    set_mutant_under_test(mutant)
    try:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    except BaseException:
        os._exit(1)
    os._exit(0)


def main() -> None:
    again = "--again" in sys.argv
    patterns = [each for each in sys.argv[1:] if each != "--again"] or ["*"]
    settings = config()
    root = str(Path.cwd())
    os.chdir("mutants")
    sys.path[:] = [str(Path.cwd()), *(path for path in sys.path if path not in ("", root))]
    set_mutant_under_test("")
    args = ["--rootdir=.", "-q", "-s", "--assert=plain", *settings.pytest_add_cli_args]
    args += settings.pytest_add_cli_args_test_selection
    sys.exit(int(pytest.main(args, plugins=[Loop(patterns, again)])))


if __name__ == "__main__":
    main()
