"""Whether the gate fails when it should: a bias is planted in the model's scores, and real runs must find it."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from fairgate import gate
from fairgate.data import Index
from fairgate.gate.selftest import trial
from fairgate.gate.selftest.finding import Finding, Progress, of_error, ok, warning
from fairgate.gate.selftest.inject import (
    Bools,
    Columns,
    Group,
    can_plant,
    columns_of,
    jittered,
    losses,
    planted,
    suite_prompts,
)
from fairgate.gate.selftest.pytest_setup import has_xdist, read_ini
from fairgate.ground.errors import DatasetError, FairgateError, SettingsError
from fairgate.metrics import Cells, Crossing
from fairgate.models import Model
from fairgate.probes import ProbeScores
from fairgate.records import CROSS
from fairgate.suites import PlannedCheck, Settings, Suite, run_probes, without_views


def prove(
    name: str,
    root: Path,
    settings: Settings,
    strength: float,
    progress: Progress,
    program: Sequence[str],
    keep: Path | None = None,
) -> list[Finding]:
    """Plant a bias of `strength` in a suite's model and see whether pytest, xdist and `fairgate check` fail.

    The model is scored once (from cached embeddings where there are any); everything else reads tables in a scratch
    folder, or in `keep`, where they stay. Nothing in the repository is written to. `program` are the words that start
    `fairgate`.
    """

    def embedded(what: str, done: int, total: int) -> None:
        progress(f"{what}: {done:,}/{total:,} images")

    try:
        progress(f"{name}: scoring {settings.model}")
        real = gate.prepare(name, root)
        suite, index = without_views(real.loaded.suite), real.dataset.index
        with _folder(name, keep) as folder:
            model = gate.open_model(settings.model, real, settings, embedded)
            prompts = suite_prompts(suite, real.dataset.manifest.subjects)
            columns = columns_of(model, prompts)
            left_out = frozenset(name for name, probe in suite.probes.items() if not can_plant(probe, index))
            finding = _left_out(suite, left_out)
            planned = [check for check in real.planned if check.check.probe not in left_out]
            if left_out and all(check.metric.spec.utility and not check.groupings for check in planned):
                return finding  # no check of bias remains
            group = group_to_harm(suite, index, run_probes(columns, index, suite), planned)
            biased = planted(columns, suite, prompts, index, group, strength)
            tables = {
                trial.PLAIN: columns.write(folder / "plain.parquet", index),
                trial.BIASED: biased.write(folder / "biased.parquet", index),
                trial.INNOCENT: jittered(columns, suite.suite).write(folder / "jittered.parquet", index),
            }
            (folder / "reports").mkdir()
            view = trial.make_view(real, folder / "view")
            bench = trial.Bench(view, folder / "reports", suite.suite, tables, keep is not None, program)
            already = _failing_anyway(suite.suite, view, replace(settings, model=tables[trial.PLAIN]))
            lost = losses(suite, index, columns, biased, group)
            aim = trial.Planted(f"inject {suite.suite}", suite, strength, group, lost, already, left_out)
            return [*_findings(aim, model, columns, real), *finding, *_tried(aim, bench, progress)]
    except FairgateError as error:
        return [of_error(f"inject {name}", error)]


@contextlib.contextmanager
def _folder(name: str, keep: Path | None) -> Iterator[Path]:
    """A new folder in `keep`, which stays, or one that is removed afterwards."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="fairgate-doctor-") as scratch:
            yield Path(scratch).resolve()
        return
    folder = keep / name
    if folder.exists():
        raise SettingsError("the folder is there already.", where=f"--keep {keep}", remedy="name a new folder")
    folder.mkdir(parents=True)
    yield folder.resolve()


def _left_out(suite: Suite, names: frozenset[str]) -> list[Finding]:
    """A warning for each probe in which nothing can be planted: whether the gate sees a bias there stays open."""
    what = "no bias can be planted in probe '{}' ({}), and its checks are not tried: it ranks by no query, and names no"
    remedy = "change answers of one group in a table of this model's answers, and see `fairgate check --model` fail; "
    remedy += "who writes a probe names in its `truths` the label whose probability falls"
    return [
        warning(
            f"inject {suite.suite}", f"{what.format(name, probe.kind)} label whose probability falls.", remedy=remedy
        )
        for name, probe in suite.probes.items()
        if name in names
    ]


def _failing_anyway(name: str, view: Path, settings: Settings) -> frozenset[str]:
    """Items that fail for the model as it is, by their bounds, or cannot be computed."""
    alone = replace(settings, baseline="none", mlflow=None, wandb=None, report=None, cache=None)
    plain = gate.evaluate(gate.prepare(name, view), alone, command="fairgate doctor")
    return frozenset(check.item for check in plain.record.checks if check.verdict in ("fail", "error"))


def _findings(aim: trial.Planted, scorer: Model, columns: Columns, real: gate.Prepared) -> list[Finding]:
    """What was planted, and whether the table gives the model's scores."""
    images = int(aim.group.rows.sum())
    decide = f", on which {trial.some(aim.group.checks)} can decide" if aim.group.checks else ""
    what = f"{aim.strength:g} is taken from the {images:,} images of {aim.group.name}{decide}: {_losses(aim)}"
    findings = [ok(aim.area, f"{what}. Below, table BIASED against table PLAIN (--keep DIR keeps them)")]
    suite, index = aim.suite, real.dataset.index
    of_model, of_table = run_probes(scorer, index, suite), run_probes(columns, index, suite)
    apart = [name for name, scores in of_model.items() if not _alike(scores, of_table[name])]
    if apart:
        what = f"the table of the model's scores differs slightly from the model on {', '.join(apart)}."
        remedy = (
            "several probes share all their prompts, or a label's odds depend on which others compete; the runs below "
            "are compared with the table, not the model"
        )
        findings.append(warning(aim.area, what, remedy=remedy))
    return findings


def _alike(own: ProbeScores, other: ProbeScores) -> bool:
    same = own.rank is other.rank is None or (
        own.rank is not None and other.rank is not None and np.array_equal(own.rank, other.rank)
    )
    return bool(same and np.allclose(own.value, other.value, atol=1e-6))


def _losses(aim: trial.Planted) -> str:
    """`labels loses 0.100 of P(true)`, probe by probe."""
    words = []
    for name, loss in aim.lost.items():
        probe = aim.suite.probes[name]
        ranked = f"in {name} they rank before others {loss:.3f} less often"
        words.append(ranked if probe.compared_as == "ranking" else f"{name} loses {loss:.3f} of {probe.value_name}")
    return "; ".join(words)


def _tried(aim: trial.Planted, bench: trial.Bench, progress: Progress) -> list[Finding]:
    """The runs, one after another."""
    ways = _other_ways(bench)
    started, numbers = time.monotonic(), count(1)

    def told(what: str) -> None:
        number = next(numbers)
        before = f" ({time.monotonic() - started:.0f} s so far)" if number > 1 else ""
        progress(f"{bench.suite}: run {number} of at most {len(ways) + 2}{before}: {what}")

    told("pytest on the planted bias")
    first = bench.pytest("pytest")
    findings = [trial.first_run(aim, first)]
    if findings[0].level != "trouble" and aim.new(first):
        for what, run in ways.items():
            told(what)
            findings.append(trial.same_again(aim, first, run()))
    told("pytest on an innocent change")
    findings.append(trial.control(aim, bench.pytest("control", table=trial.INNOCENT)))
    return findings


def _other_ways(bench: trial.Bench) -> dict[str, Callable[[], trial.Trial]]:
    """The same run under xdist, and without pytest."""
    xdist = {"pytest -n 2": partial(bench.pytest, "xdist", "-n", "2")} if has_xdist(read_ini(bench.view)) else {}
    return {**xdist, "fairgate check": partial(bench.check, "check")}


class Detection(IntEnum):
    """How a check detects a bias, the best first."""

    GROUPS = 0
    """It compares groups with the baseline."""
    USE_OF_GROUPS = 1
    """It compares how useful the model is to groups, which a bias may leave as it is."""
    WHOLE = 2
    """It compares a number over all members of a set, in which a group is a part."""
    BOUND_ON_GROUPS = 3
    BOUND = 4
    BLIND = 5
    """It compares how useful the model is to everybody."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A group as one check sees it: `sets` are those of the check's cell that count for a verdict."""

    detection: Detection
    grouping: Crossing
    name: str
    sets: int
    item: str


def group_to_harm(
    suite: Suite, index: Index, answers: dict[str, ProbeScores], planned: Sequence[PlannedCheck]
) -> Group:
    """The group to take from: of the best checks that can decide, the finest crossing's group with most images; of
    several, the one with the lowest scores, so that the loss cannot make the model fairer.

    Raises DatasetError where no check is about two groups, and where each group of one has fewer than `min_sets` sets.
    """
    everything = list(_seen(suite, index, planned))
    seen = [check for check in everything if check.detection != Detection.BLIND] or everything
    enough = [check for check in seen if check.sets >= suite.groups.min_sets]
    if not enough:
        raise _undecidable(suite, index, seen)
    best = min(check.detection for check in enough)
    finest = max(len(check.grouping) for check in enough if check.detection == best)
    value = answers[_first_probe(suite)].value
    checks: dict[tuple[Crossing, str], list[str]] = {}
    for check in enough:
        if (check.detection, len(check.grouping)) == (best, finest):
            checks.setdefault((check.grouping, check.name), []).append(check.item)

    def order(key: tuple[Crossing, str]) -> tuple[int, float]:
        rows = _rows(index, *key)
        return -int(rows.sum()), float(value[rows].mean())

    chosen = min(checks, key=order)
    of = () if best == Detection.BLIND else tuple(dict.fromkeys(checks[chosen]))
    return Group(chosen[1], tuple(chosen[1].split(CROSS)), _rows(index, *chosen), of)


def _seen(suite: Suite, index: Index, planned: Sequence[PlannedCheck]) -> Iterator[_Seen]:
    """Every group of every check of two groups or more; without anchors, which planted scores are not compared with."""
    cells, chosen = Cells(index), suite.groups.attributes
    whole = tuple(index.attributes) if chosen == "each" else tuple(chosen)
    for check in planned:
        if check.against == "anchor":
            continue
        cell = cells.of(check.subject, check.groupings)
        for grouping in check.groupings or (whole,):
            codes, names = index.codes(grouping)
            here = np.asarray(codes)[cell.rows]
            present = [name for code, name in enumerate(names) if (here == code).any()]
            for name in present if len(present) > 1 else ():
                if check.check.first is None or name in (check.check.first, check.check.second):
                    members = cell.set_code[here == names.index(name)]
                    sets = len(np.unique(members)) if check.groupings else cell.n_sets
                    yield _Seen(_detection(check), grouping, name, sets, check.item)


def _detection(check: PlannedCheck) -> Detection:
    use = check.metric.spec.utility
    if check.check.no_worse_than is None:
        return Detection.BOUND_ON_GROUPS if check.groupings else Detection.BOUND
    if check.groupings:
        return Detection.USE_OF_GROUPS if use else Detection.GROUPS
    return Detection.BLIND if use else Detection.WHOLE


def _rows(index: Index, grouping: Crossing, name: str) -> Bools:
    codes, names = index.codes(grouping)
    return np.asarray(np.asarray(codes) == names.index(name))


def _undecidable(suite: Suite, index: Index, seen: Sequence[_Seen]) -> DatasetError:
    if not seen:
        chosen = suite.groups.attributes
        return DatasetError(
            "all images are of one group: no group can be treated worse than another.",
            where=CROSS.join(index.attributes if chosen == "each" else chosen),
            remedy="use a dataset that shows several groups",
        )
    most = max(seen, key=lambda check: check.sets)
    by_group = most.detection in (Detection.GROUPS, Detection.USE_OF_GROUPS, Detection.BOUND_ON_GROUPS)
    about = f"'{most.name}', has" if by_group else "all of them, have"
    return DatasetError(
        f"no check of suite '{suite.suite}' can decide about a bias, planted or real: of all groups that one looks at, "
        f"the largest, {about} {most.sets} sets in {most.item}, and a verdict takes {suite.groups.min_sets}.",
        where="groups.min_sets",
        remedy="compare coarser groups (`over: each`, or without `by: subject`), bring more sets, or lower min_sets",
    )


def _first_probe(suite: Suite) -> str:
    """A classification if there is one: its numbers mean the same for every subject."""
    for name, probe in suite.probes.items():
        if probe.compared_as == "classification":
            return name
    name, probe = next(iter(suite.probes.items()))
    return probe.names(name)[0]
