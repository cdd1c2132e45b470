"""What a run record becomes in MLflow: names, metrics, params and tags. Plain data, no MLflow here."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from datetime import UTC, datetime

from fairgate import reports
from fairgate.ground.errors import clean, harmless
from fairgate.ground.hashing import digest, sha256_bytes
from fairgate.records import STRICTNESS, CheckResult, RunRecord, item_name

RUN_KEY = "fairgate.run_key"
"""Tag that identifies an evaluation, so that it is not logged twice."""

WHOLE = "all"
"""In the place of the subject where a check is about all of them."""

QUESTION = "asks/"
"""Prefix of the params that say what a check measures."""

VERDICT = "fairgate.verdict"
APPROVAL = "fairgate.needs_approval"
COMMIT = "fairgate.git.commit"
BRANCH = "fairgate.git.branch"
HEIGHT = "fairgate.git.height"
DATASET = "fairgate.dataset.name"
RELEASE = "fairgate.dataset.version"
FINGERPRINT = "fairgate.dataset.fingerprint"
NOTICE = "fairgate.dataset.notice"
CREATED = "fairgate.created_at"
PULL_REQUEST = "fairgate.pull_request"
DIRTY = "fairgate.git.dirty"
MODEL = "fairgate.model.fingerprint"
WEIGHTS = "fairgate.model.weights"
OTHER_ARCHITECTURE = "fairgate.model.other_architecture"

FAILING = "fairgate.failing"

NOTE = "mlflow.note.content"
"""Tag that MLflow's pages show as a run's description, in Markdown."""

KIND = "mlflow.experimentKind"
KIND_OF_OURS = "custom_model_development"
"""Tag of an experiment, and the value with which MLflow's pages open its runs, and not the traces of an agent."""

COMPLETE = ("FINISHED", "FAILED")
"""Statuses of runs that hold all of their record; FAILED is a gate that was closed."""

LONGEST_TAG = 5000
"""Characters of a tag's value; MLflow stops at 8,000, older servers at 5,000."""

LONGEST_NAME = 200
"""Characters of a metric's stem: MLflow stops at 250, and a suffix follows."""

LONGEST_GROUP = 28
"""Characters of a group's name: with its stem, `/group/` and `/delta` it stays under 250."""

_NOT_COMPARED = ("no_worse_than", "inconclusive", None)
_REFUSED = re.compile(r"[^A-Za-z0-9_\-. :]+")


def run_key(record: RunRecord) -> str:
    """Hex SHA-256 of a record as JSON says it, so that the record and its reading from a file share one key."""
    return digest(record.model_dump(mode="json"))


def experiment_of(suite: str) -> str:
    """`fairgate/SUITE`."""
    return f"fairgate/{suite}"


def run_name(record: RunRecord) -> str:
    """`VERDICT COMMIT BRANCH (SUITE)`, of a closed gate `fail woman, doctor: gap, 0123456 main (SUITE)`. MLflow's table
    shows this and the source by default: of the name 20 characters, so that whom it is about comes before the check's
    id; of the source what follows a slash, the model.

    A pull request's number goes before its branch, `#12 main`: a fork's may have the name of one of the repository's.
    """
    place = record.environment
    number = None if place.pull_request is None else f"#{place.pull_request}"
    branch = clean(place.git_branch, 80) if place.git_branch else None
    where = [place.git_commit[:7] if place.git_commit else "nogit", number, branch]
    worst = max(record.closing, key=lambda check: (STRICTNESS[check.verdict], bool(check.failing_groups)), default=None)
    words = record.verdict if worst is None else f"{worst.verdict} {_whom_first(worst)},"
    words = "measured" if _lacks_a_baseline(record) else words
    return " ".join([words, *(part for part in where if part is not None), f"({clean(record.suite, 80)})"])


def status(record: RunRecord) -> str:
    """MLflow's status of a complete run: FAILED where the gate was closed, so that its pages show it in red. A trial of
    another architecture is no failure of the product, nor is a first run, which only lacks a baseline."""
    finished = record.ok or record.other_architecture or _lacks_a_baseline(record)
    return "FINISHED" if finished else "FAILED"


def _lacks_a_baseline(record: RunRecord) -> bool:
    """Whether the gate is closed for want of a baseline alone."""
    closing = record.closing
    lacking = [check for check in closing if (check.rule, check.verdict, check.delta) == _NOT_COMPARED]
    return record.baseline is None and len(lacking) == len(closing) > 0


def started_at(record: RunRecord) -> datetime | None:
    """When the evaluation took place, in UTC; None when the record's time is not ISO 8601."""
    try:
        return datetime.fromisoformat(record.created_at).astimezone(UTC)
    except ValueError:
        return None


def started_ms(record: RunRecord) -> int:
    """The same in milliseconds since 1970, as MLflow counts; 0 where it is not known."""
    started = started_at(record)
    return 0 if started is None else round(1000 * started.timestamp())


def safe_part(text: str) -> str:
    """One segment of a metric's name in the characters that MLflow takes.

    >>> safe_part("soup chef @ café, inc.")
    'soup chef - cafe- inc.'
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    safe = _REFUSED.sub("-", plain).strip()
    return "-" if safe in {"", ".", ".."} else safe


def metrics(record: RunRecord) -> dict[str, float]:
    """Every finite number of the record by its MLflow name; a number that is absent or infinite is left out."""
    values = {f"gate/{verdict}": float(count) for verdict, count in record.counts().items()}
    values |= {
        "gate/seconds": record.seconds,
        "gate/scored_sets": float(record.coverage.scored_sets),
        "gate/expected_sets": float(record.coverage.expected_sets),
    }
    for check, stem in zip(record.checks, stems(record).values(), strict=True):
        named = {
            "": check.value,
            "/lo": check.lo,
            "/hi": check.hi,
            "/n": check.n_sets,
            "/bound": check.bound,
            "/delta": check.delta,
            "/p_adj": check.p_adjusted,
            "/null_median": check.null_median,
            "/null_p95": check.null_p95,
        }
        named |= _group_numbers(check)
        values |= {f"{stem}{suffix}": float(value) for suffix, value in named.items() if value is not None}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def metric_values(record: RunRecord) -> dict[str, float]:
    """Of the same, each check's value and the counts of verdicts alone: what a training logs at every look."""
    named = {*stems(record).values(), *(f"gate/{verdict}" for verdict in record.counts())}
    return {name: value for name, value in metrics(record).items() if name in named}


def _group_numbers(check: CheckResult) -> dict[str, float | None]:
    """`/group/woman` and `/group/woman/delta` of each group; of a comparison also its interval, for runs may settle it
    by different groups. A hash is added where a name is long or taken."""
    values: dict[str, float | None] = {}
    for group in check.groups:
        name = safe_part(group.group)
        if len(name) > LONGEST_GROUP or f"/group/{name}" in values:
            name = f"{name[: LONGEST_GROUP - 9]}-{sha256_bytes(f'{group.attribute} {group.group}'.encode())[:8]}"
        values |= {f"/group/{name}": group.value, f"/group/{name}/delta": group.delta}
        if check.rule == "no_worse_than":
            values |= {f"/group/{name}/lo": group.lo, f"/group/{name}/hi": group.hi}
    return values


def stems(record: RunRecord) -> dict[str, str]:
    """What each item of a record is called in MLflow, in the record's order: `check-id/subject`, or `check-id/all`.

    A hash is added where another item has the name already.
    """
    taken: dict[str, str] = {}
    for check in record.checks:
        stem = f"{check_part(check)}/{safe_part(check.about or WHOLE)}"[:LONGEST_NAME]
        if stem.startswith("gate/") or taken.get(stem, check.item) != check.item:
            stem = f"{stem}-{sha256_bytes(check.item.encode())[:8]}"
        taken[stem] = check.item
    return {item: stem for stem, item in taken.items()}


def check_part(check: CheckResult) -> str:
    """The first part of a check's names in MLflow."""
    return safe_part(item_name(check.id, None, check.against))


def params(record: RunRecord) -> dict[str, str]:
    """What never changes during a run: how verdicts were reached, and what every check measures."""
    fixed = {
        "suite_digest": record.suite_digest,
        "alpha": record.decision.alpha,
        "correction": record.decision.method,
        "seed": record.decision.seed,
        "draws": record.decision.draws,
        "allow_inconclusive": record.allow_inconclusive,
    }
    by_check: dict[str, list[str]] = {}
    for check in record.checks:
        over = f" over {check.over}" if check.over else ""
        bound = "" if check.bound is None else f" {check.bound:g}"
        sentence = f"{check.metric_with_k} of {check.probe}{over}: {check.rule}{bound}"
        sentences = by_check.setdefault(f"check/{check_part(check)}", [])
        if sentence not in sentences:
            sentences.append(sentence)
    probes = {f"probe/{safe_part(name)}": prompts for name, prompts in record.probes.items()}
    return (
        {key: harmless(str(value), None) for key, value in (fixed | probes).items()}
        | {key: harmless("; ".join(sentences), None) for key, sentences in by_check.items()}
        | {f"{QUESTION}{part}": text for part, text in questions(record).items()}
    )


def questions(record: RunRecord) -> dict[str, str]:
    """What each check measures, as JSON by its part of a name: numbers of two runs with equal digests can be compared.

    `asked` digests metric, groups and the probe's own digest, which holds its prompts and the version of the metrics.
    """
    of_part: dict[str, list[CheckResult]] = {}
    for check in record.checks:
        of_part.setdefault(check_part(check), []).append(check)
    return {
        part: json.dumps(
            {
                "metric": checks[0].metric,
                "k": checks[0].k,
                "better": checks[0].better,
                "rule": checks[0].rule,
                "against": checks[0].against,
                "asked": digest(
                    sorted(
                        {
                            (result.metric_with_k, result.over or "", record.probes.get(result.probe, ""))
                            for result in checks
                        }
                    )
                ),
            }
        )
        for part, checks in of_part.items()
    }


def tags(record: RunRecord) -> dict[str, str]:
    """Where the run came from and what it found; what the record does not know is left out."""
    place, baseline, anchor = record.environment, record.baseline, record.anchor
    known = {
        RUN_KEY: run_key(record),
        "fairgate.suite": record.suite,
        VERDICT: record.verdict,
        FAILING: "; ".join(_failing_words(check, 300, check.verdict) for check in record.closing) or None,
        "fairgate.version": place.fairgate,
        "fairgate.device": place.device,
        CREATED: record.created_at,
        COMMIT: place.git_commit,
        DIRTY: None if place.git_dirty is None else str(place.git_dirty).lower(),
        BRANCH: place.git_branch,
        HEIGHT: None if place.git_height is None else str(place.git_height),
        "fairgate.git.merge_base": baseline.commit if baseline else None,
        PULL_REQUEST: None if place.pull_request is None else str(place.pull_request),
        "fairgate.ci_url": place.ci_url,
        "fairgate.model.uri": record.model.uri,
        MODEL: record.model.fingerprint,
        WEIGHTS: None if record.model.weights is None else str(record.model.weights),
        OTHER_ARCHITECTURE: "true" if record.other_architecture else None,
        "fairgate.model.precision": record.model.precision,
        "fairgate.baseline.source": baseline.source if baseline else "none",
        "fairgate.baseline.uri": baseline.uri if baseline else None,
        "fairgate.baseline.fingerprint": baseline.fingerprint if baseline else None,
        "fairgate.baseline.rescored": baseline.rescored if baseline else None,
        "fairgate.anchor.uri": anchor.uri if anchor else None,
        "fairgate.anchor.fingerprint": anchor.fingerprint if anchor else None,
        "fairgate.definition.changes": str(len(record.definition.changes)) if record.definition else None,
        "fairgate.waived": str(sum(check.waived for check in record.checks)),
        APPROVAL: "; ".join(f"{approval.kind}: {approval.what}" for approval in record.needs_approval) or None,
        "fairgate.notices": "; ".join(record.notices) or None,
        "fairgate.warnings": "; ".join(record.warnings) or None,
        DATASET: record.dataset.name,
        RELEASE: record.dataset.version,
        FINGERPRINT: record.dataset.fingerprint,
        NOTICE: record.dataset.notice,
        "mlflow.source.git.commit": place.git_commit,  # MLflow's own pages link a run to its commit by this name
        "mlflow.source.git.branch": place.git_branch,
        "mlflow.source.name": record.model.uri,
        "mlflow.source.type": "LOCAL",
    }
    return {key: harmless(value, LONGEST_TAG) for key, value in known.items() if value is not None}


def _whom_first(check: CheckResult) -> str:
    """`woman, doctor: gap`: the group that failed worst, or is the worst, and the subject, before the check's id."""
    failing = reports.worst_first(check, check.failing_groups)
    group = failing[0].group if failing else check.worst_group
    whom = ", ".join(part for part in (group, check.about) if part)
    return clean(f"{whom}: {item_name(check.id, None, check.against)}" if whom else check.item, 80)


def _failing_words(check: CheckResult, longest: int, *verdict: str) -> str:
    """`skew[doctor] fail: woman, man`: the check, its verdict where it is passed, and failing groups, worst first."""
    groups = ", ".join(group.group for group in reports.worst_first(check, check.failing_groups))
    return clean(f"{' '.join([check.item, *verdict])}{f': {groups}' if groups else ''}", longest)
