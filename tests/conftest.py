"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nightly import EVERYTHING
from seconds import Watch, arrange, group_of

if TYPE_CHECKING:
    from toy_repository import Toy

pytest_plugins = ["pytester"]
_FEW_PLUGINS = "-p no:hydra_pytest -p no:anyio -p no:slipcover -p no:hypothesispytest"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `nightly`, and other parts; put a test's group into its id, where xdist looks for it.

    pytest-xdist 3.8 does the latter too, in an attribute that pytest 9.2 no longer has.
    """
    items.sort(key=lambda item: item.path)
    left = [] if EVERYTHING else [item for item in items if item.get_closest_marker("nightly")]
    if left:
        items[:] = [item for item in items if item not in left]
    spread, part = getattr(config.option, "loadgroup", False), os.environ.get("FAIRGATE_PART", "")
    if spread or part:
        left += arrange(items, part)
    if left:
        config.hook.pytest_deselected(items=left)
    if not spread:
        return
    for item in items:
        if "@" not in item.nodeid and hasattr(item, "_id"):
            item._id = type(item._id).parse(f"{item.nodeid}@{group_of(item)}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is imported and collected stays until the end: collections of garbage need not look at it, and come less
    often, which takes 7% less time."""
    if len(session.items) > 100:  # else it costs more than it saves: a gate's run takes a second
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        session.config.pluginmanager.register(Froze(), "froze")


class Froze:
    """What files of tests leave behind (libraries, fixtures of the session) is not looked at in the next files: builds
    and trainings collect garbage themselves, which took a tenth of a worker's time."""

    file: Path | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if item.path != self.file:
            self.file = item.path
            gc.collect()
            gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    # or a library's `basicConfig` writes to the standard error of the test that called it, also in those that follow
    logging.getLogger().addHandler(logging.NullHandler())
    if hasattr(config, "workerinput"):
        sys.executable = str(Path(sys.prefix, "bin", "python"))  # tests that take it mean a fresh one
        for size in ("COLUMNS", "LINES"):  # readline set them where it was imported, and text would be wrapped
            os.environ.pop(size, None)
        return
    config.pluginmanager.register(Watch(), "seconds")
    if config.getoption("numprocesses", None):
        from warm_python import warm_python

        config.option.tx = [f"popen//python={warm_python()}" for _ in config.option.tx]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins to collect elsewhere: if nothing is compiled yet, each compiles a share of the tests."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if isinstance(collector, pytest.Directory) and worker:
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result[:] = report.result[first:] + report.result[:first]
    return report


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """The warnings that are logged."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name}: {record.getMessage()}")

    handler = Lines(logging.WARNING)
    logging.getLogger().addHandler(handler)
    yield lines
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """A repository with a passing suite `jobs`."""
    from toy_repository import toy_repository

    return toy_repository(tmp_path)


@pytest.fixture
def seeing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Language models that see are opened in this process: one of their own takes seconds to start."""
    from fairgate.models.vlm import family, seeing

    monkeypatch.setattr(family, "IsolatedSeeing", seeing.open_seeing)


@pytest.fixture(autouse=True)
def _off_github(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tests run on GitHub, their toy gates write nothing on the summary page, and have no base branch."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_BASE_REF", raising=False)
    monkeypatch.delenv("GITLAB_CI", raising=False)


@pytest.fixture(autouse=True)
def _warm_subprocesses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pytest runs pytest in a process of its own, that is a fork of a Python that has imported everything."""
    if "pytester" in request.fixturenames:
        import scipy.special  # noqa: F401 - pytester forgets what an inner run imports, and this imports only once
        from warm_python import warm_python

        request.getfixturevalue("pytester")  # takes PYTEST_ADDOPTS away
        monkeypatch.setenv("PYTEST_ADDOPTS", _FEW_PLUGINS)
        monkeypatch.setattr(pytest.Pytester, "_getpytestargs", lambda _: (warm_python(), "-m", "pytest"))


@pytest.fixture(autouse=True, scope="session")
def _no_plugins_of_others() -> Iterator[None]:
    """A pytest that a test starts loads no plugin that no suite needs: hydra takes 0.3 s each, hypothesis 0.1 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", _FEW_PLUGINS)
        yield


@pytest.fixture(autouse=True, scope="session")
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The keys of queue and cache are made in a home of the tests, not in that of the person who runs them: one for all
    tests of a process, whose fixtures share what is cached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        patch.delenv("FAIRGATE_CACHE_KEY", raising=False)
        yield


@pytest.fixture(scope="session")
def embedded_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embeddings of the embedded release, computed once for all tests that gate its checkpoints."""
    return tmp_path_factory.mktemp("embedded") / "cache"
