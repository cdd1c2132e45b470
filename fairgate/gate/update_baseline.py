"""Save a run as the suite's committed baseline: with a reason, atomically, and never in CI."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from fairgate.gate.baselines import RESULTS, SCORES, Repository, baseline_folder, parse_baseline
from fairgate.gate.evaluation import Evaluation
from fairgate.gate.preparation import Prepared
from fairgate.ground.ci import in_ci
from fairgate.ground.errors import BaselineError, listed
from fairgate.ground.number_format import number, signed
from fairgate.probes import write_scores
from fairgate.records import RunRecord
from fairgate.suites import Settings

LARGE = 10_000_000
"""Bytes of scores from which on they are better tracked by DVC than by git."""


def refuse_update(reason: str | None) -> None:
    """Raise BaselineError in CI, and where there is no reason for the update; before anything is scored."""
    if in_ci(os.environ):
        raise BaselineError(
            "a baseline is not updated in CI (CI=true): a gate that moves its own goal is none.",
            where="--fairness-update-baseline",
            remedy="update it on your machine with `fairgate baseline update SUITE --reason TEXT`, and commit it",
        )
    if not (reason or "").strip():
        raise BaselineError(
            "a baseline is not updated without a reason.",
            where="--reason (pytest: --fairness-reason)",
            remedy='say why: `--reason "retrained on the cleaned captions, see #412"`',
        )


def first_baseline(prepared: Prepared, settings: Settings, named: str | None) -> bool:
    """Whether an update makes the suite's first baseline, which is compared with nothing: there is none, and no
    baseline was `named` for the run. To a `git:` baseline of the suite, one counts that its base has."""
    folder = baseline_folder(prepared.loaded.name)
    if named is not None or not (prepared.root / folder / RESULTS).exists():
        return named is None
    spec, repository = parse_baseline(settings.baseline), Repository(prepared.root)
    if spec.kind != "git" or not repository.has_commits():
        return spec.kind == "git"
    return not repository.tree(repository.merge_base(spec.target), folder)


def keep_baseline(evaluation: Evaluation, prepared: Prepared, *, reason: str, force: bool = False) -> list[str]:
    """Write a run to `fairness_suites/baselines/SUITE/`; messages for the terminal.

    The record is written without its worst sets and confusions. Raises BaselineError for a run that did not pass,
    unless forced, and always for one that could not be computed.
    """
    record = evaluation.record
    _require_passed(record, force)
    folder = prepared.root / baseline_folder(record.suite)
    checks = [check.model_copy(update={"worst_sets": []}) for check in record.checks]
    slim = record.model_copy(update={"checks": checks, "confusions": [], "baseline_reason": reason.strip()})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".incoming-*"):  # by an update that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=".incoming-", dir=folder) as scratch:
            draft = Path(scratch)
            write_scores(draft / SCORES, prepared.dataset.index, evaluation.scores)
            (draft / RESULTS).write_text(slim.model_dump_json(indent=2) + "\n", encoding="utf-8")
            # Between these two the record does not name the scores: whoever reads then is told so by their digest.
            (draft / SCORES).replace(folder / SCORES)
            (draft / RESULTS).replace(folder / RESULTS)
    except OSError as error:
        raise BaselineError(
            f"the baseline could not be written: {error}.", where=str(folder), remedy="make room there, then run again"
        ) from error
    shown, size = baseline_folder(record.suite), (folder / SCORES).stat().st_size
    lines = [f"baseline: {shown} is written ({size / 1e3:,.0f} kB of scores); commit it: it holds from the merge on"]
    if size > LARGE or (folder / f"{SCORES}.dvc").exists():
        lines.append(f"  the scores are large for git: `dvc add {shown}/{SCORES}`, and commit the .dvc file")
    return [*lines, *_drift(record)]


def _drift(record: RunRecord) -> list[str]:
    """How far the new baseline is from the anchor, check by check; or that there is none."""
    compared = [check for check in record.checks if check.against == "anchor" and check.delta is not None]
    if record.anchor is not None and compared:
        values = [(each.item, number(each.baseline), number(each.value), signed(each.delta)) for each in compared]
        rows = [f"  {item}: {', '.join(three)}" for item, *three in values]
        return [f"distance to the anchor ({record.anchor.source}): at the anchor, now, change", *rows]
    if record.anchor is None and any(check.rule == "no_worse_than" for check in record.checks):
        return [
            "  no anchor: losses below the margin add up from baseline to baseline; once one is merged, "
            f"`fairgate baseline anchor {record.suite}` writes the line that names it"
        ]
    return []


def _require_passed(record: RunRecord, force: bool) -> None:
    if record.verdict == "error" or any(check.verdict == "error" for check in record.checks):
        raise BaselineError(
            "the run could not be computed, and nothing is kept of it.",
            where=f"suite {record.suite}",
            remedy="fix what the run complains of, then update",
        )
    shut = [
        check
        for check in record.checks
        if not (check.verdict == "pass" or check.waived)
        # of the first baseline, every regression check is inconclusive for want of something to compare with
        and (check.rule, check.verdict, check.delta) != ("no_worse_than", "inconclusive", None)
    ]
    if shut and not force:
        named = listed([check.item for check in shut])
        raise BaselineError(
            f"the run did not pass ({named}), and a worse baseline lets worse checkpoints in.",
            where=f"suite {record.suite}",
            remedy="fix the checkpoint; or, if this loss is decided on, force the update and say so in the reason",
        )
