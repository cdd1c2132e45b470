"""A gate run that is killed (SIGKILL) at any moment leaves nothing by halves, and the next run judges the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gated_world import but_for_times, copy_of
from moments import touches, watch
from nightly import some
from remains import finished_runs, queued, require_whole
from warm_process import WarmProcess

pytestmark = pytest.mark.xdist_group("warm_process")

SEED = 4
FRESH, LIVED_IN = "fresh", "lived-in"
CHECK = ("fairgate", "check", "jobs", "--report", "report", "--cache", "cache", "--device", "cpu")
OLD = ("--model", "open_clip:local-dir:base", "--baseline", "none")
ATTEMPTS = 8  # a moment that was drawn late may come after the end, on a machine that was just faster


@dataclass(frozen=True)
class Undisturbed:
    """A repository before a run, and that run's length, touched files and results when nobody killed it."""

    before: Path
    seconds: float
    mlflow_at: float
    touched: int
    results: dict[str, Any]


@pytest.fixture(scope="session")
def undisturbed(
    warm: WarmProcess, bare: Path, world: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Undisturbed]:
    """A repository where nothing ran yet, and one whose report, store and cache are of another checkpoint's run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    lived_in = copy_of(world, folder / "lived-in")
    assert warm.run([*CHECK, *OLD], lived_in).code == 1
    return {
        name: _undisturbed(warm, before, folder / f"{name}-run")
        for name, before in ((FRESH, bare), (LIVED_IN, lived_in))
    }


def _undisturbed(warm: WarmProcess, before: Path, folder: Path) -> Undisturbed:
    log = folder.with_suffix(".log")
    ended = warm.run(CHECK, copy_of(before, folder), prelude=watch(log))
    assert ended.code == 1, ended.output
    touched = touches(log)
    mlflow_at = next(one.seconds for one in touched if one.event == "sqlite3.connect")
    require_whole(folder)
    results = but_for_times(folder / "report" / "results.json")
    return Undisturbed(before, ended.seconds, mlflow_at, len(touched), results)


def _moments() -> list[tuple[str, str]]:
    """What is killed and how: 50 times, half of them in a repository that holds an older run."""
    kinds: Sequence[tuple[str, str, int]] = (
        (FRESH, "any time", 12),
        (LIVED_IN, "any time", 12),
        (FRESH, "a file", 9),
        (LIVED_IN, "a file", 9),
        (LIVED_IN, "telling MLflow", 8),
    )
    return [(state, kind) for state, kind, times in kinds for _ in range(times)]


@pytest.mark.faults
@pytest.mark.parametrize("number", some(range(50), few=3))
def test_a_killed_run_leaves_nothing_by_halves_and_the_next_one_judges_the_same(
    number: int, undisturbed: dict[str, Undisturbed], warm: WarmProcess, tmp_path: Path
) -> None:
    state, kind = _moments()[number]
    run, draw = undisturbed[state], random.Random(f"{SEED}/{number}")
    for attempt in range(ATTEMPTS):
        folder = copy_of(run.before, tmp_path / f"{attempt}")
        if _killed(warm, folder, kind, run, draw, hurry=attempt / ATTEMPTS):
            break
    else:
        pytest.fail(f"{ATTEMPTS} runs in a row ended before they could be killed")
    require_whole(folder)

    before = finished_runs(folder)
    ended = warm.run(CHECK, folder)
    assert ended.code == 1, ended.output
    assert "MLflow: run " in ended.output, ended.output
    assert but_for_times(folder / "report" / "results.json") == run.results
    require_whole(folder)
    assert len(finished_runs(folder)) == len(before) + 1


def _killed(warm: WarmProcess, folder: Path, kind: str, run: Undisturbed, draw: random.Random, hurry: float) -> bool:
    """Start a run and kill it at a drawn moment, the earlier the more `hurry`; False where it ended before."""
    log = folder.with_suffix(".log")
    if kind == "a file":
        deadly = draw.randrange(run.touched)
        print(f"seed {SEED}: killed before the file touched as number {deadly} of {run.touched}")
        return warm.run(CHECK, folder, prelude=watch(log, deadly)).killed
    earliest = run.mlflow_at if kind == "telling MLflow" else 0.0
    seconds = draw.uniform(earliest, run.seconds) * (1 - hurry)
    print(f"seed {SEED}: killed after {seconds:.3f} of {run.seconds:.3f} s")
    started = warm.start(CHECK, folder, prelude=watch(log))
    started.send_after(seconds)
    return started.wait().killed


@pytest.mark.faults
def test_a_run_that_is_killed_while_it_is_queued_waits_whole_or_not_at_all(
    undisturbed: dict[str, Undisturbed], warm: WarmProcess, tmp_path: Path
) -> None:
    before = undisturbed[LIVED_IN].before
    log, words = tmp_path / "log", [*CHECK, "--mlflow", "http://127.0.0.1:9"]
    ended = warm.run(words, copy_of(before, tmp_path / "undisturbed"), prelude=watch(log))
    assert "the run waits in" in ended.output
    moments = [number for number, touch in enumerate(touches(log)) if ".fairgate" in touch.name]
    waiting = []
    for deadly in some(random.Random(SEED).sample(moments, 12), few=2):
        folder = copy_of(before, tmp_path / f"{deadly}")
        assert warm.run(words, folder, prelude=watch(log, deadly)).killed
        require_whole(folder)
        waiting.append(len(queued(folder)))
        pushed = warm.run(["fairgate", "push", "--mlflow", "sqlite:///fairgate.db"], folder)
        assert pushed.code == 0, pushed.output
        assert len(finished_runs(folder)) == 1 + waiting[-1]
        assert queued(folder) == []
    assert set(waiting) <= {0, 1}


@pytest.mark.faults
def test_a_push_that_is_killed_sends_every_run_once(
    undisturbed: dict[str, Undisturbed], warm: WarmProcess, tmp_path: Path
) -> None:
    loaded = copy_of(undisturbed[LIVED_IN].before, tmp_path / "loaded")
    for _ in range(12):  # two runs that are alike to the millisecond are one
        warm.run([*CHECK, "--mlflow", "http://127.0.0.1:9"], loaded)
        if len(queued(loaded)) == 2:
            break
    assert len(queued(loaded)) == 2
    log = tmp_path / "log"
    assert (
        warm.run(
            ["fairgate", "push", "--mlflow", "sqlite:///fairgate.db"],
            copy_of(loaded, tmp_path / "undisturbed"),
            prelude=watch(log),
        ).code
        == 0
    )
    for deadly in some(random.Random(SEED).sample(range(len(touches(log))), 12), few=2):
        folder = copy_of(loaded, tmp_path / f"{deadly}")
        assert warm.run(
            ["fairgate", "push", "--mlflow", "sqlite:///fairgate.db"], folder, prelude=watch(log, deadly)
        ).killed
        require_whole(folder)
        pushed = warm.run(["fairgate", "push", "--mlflow", "sqlite:///fairgate.db"], folder)
        assert pushed.code == 0, pushed.output
        assert len(finished_runs(folder)) == 3
        assert queued(folder) == []
        assert not list((folder / ".fairgate" / "queue").glob(".sent-*"))
