"""Whether the gate fails when it should: a bias is planted in the model's scores, and real runs must find it."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fairgate import gate
from fairgate.gate.selftest import trial
from fairgate.gate.selftest.finding import Finding, Progress, of_error, ok, warning
from fairgate.gate.selftest.inject import Columns, can_plant, columns_of, jittered, losses, planted, suite_prompts
from fairgate.gate.selftest.pytest_setup import has_xdist, read_ini
from fairgate.gate.selftest.target import group_to_harm
from fairgate.ground.errors import FairgateError, SettingsError
from fairgate.models import Model
from fairgate.probes import ProbeScores
from fairgate.suites import Settings, Suite, run_probes, without_views


def prove(
    name: str,
    root: Path,
    settings: Settings,
    strength: float,
    progress: Progress,
    program: Sequence[str],
    keep: Path | None = None,
) -> list[Finding]:
    """Plant a bias of `strength` in a suite's model and see whether pytest, xdist, pipes and `fairgate check` fail.

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


@dataclass(slots=True)
class _Runs:
    """Announces each run: which one it is, and how long those before it took."""

    suite: str
    progress: Progress
    most: int
    begun: int = 0
    started: float = field(default_factory=time.monotonic)

    def next(self, what: str) -> None:
        """A run begins."""
        before = f" ({time.monotonic() - self.started:.0f} s so far)" if self.begun else ""
        self.begun += 1
        self.progress(f"{self.suite}: run {self.begun} of at most {self.most}{before}: {what}")


def _tried(aim: trial.Planted, bench: trial.Bench, progress: Progress) -> list[Finding]:
    """The runs, one after another."""
    xdist = has_xdist(read_ini(bench.view))
    runs = _Runs(bench.suite, progress, 6 if xdist else 5)
    runs.next("pytest on the planted bias")
    first = bench.pytest("pytest")
    findings = [trial.first_run(aim, first)]
    if findings[0].level != "trouble" and aim.new(first):
        findings += _other_ways(aim, bench, first, runs, xdist)
    runs.next("pytest on an innocent change")
    findings.append(trial.control(aim, bench.pytest("control", table=trial.INNOCENT)))
    return findings


def _other_ways(aim: trial.Planted, bench: trial.Bench, first: trial.Trial, runs: _Runs, xdist: bool) -> list[Finding]:
    """The same run under xdist, in pipes, and without pytest."""
    findings = list[Finding]()
    if xdist:
        runs.next("pytest -n 2")
        findings.append(trial.same_again(aim, first, bench.pytest("xdist", "-n", "2")))
    runs.next("pytest in a pipe with pipefail")
    strict = bench.piped("pipefail", pipefail=True)
    if strict is None:
        findings.append(warning(aim.area, "pipes were not tried: there is no bash here."))
    else:
        findings.append(trial.same_again(aim, first, strict))
    runs.next("pytest in a pipe without")
    plain = bench.piped("pipe", pipefail=False)
    if plain is not None:
        findings.append(trial.no_pipefail(aim, plain))
    runs.next("fairgate check")
    findings.append(trial.same_again(aim, first, bench.check("check")))
    return findings
