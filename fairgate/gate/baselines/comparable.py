"""Where a baseline comes from, its record's files, and whether these compare with a run: same data, same probes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fairgate.data import difference, skeleton
from fairgate.gate.baselines.git import Repository
from fairgate.gate.baselines.tracked import check_out, is_tracked
from fairgate.ground.errors import BaselineError, disk_errors, suggestion
from fairgate.ground.local_paths import require_local
from fairgate.probes import LISTED_AGAIN, ProbeScores, further_numbers
from fairgate.records import RESULTS, SCORES, DatasetInfo, Environment, RecordFiles, RunRecord

Kind = Literal["git", "file", "mlflow", "model", "none"]

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_KINDS = (
    "write git:REF (the baseline committed at the merge base), git:REF@HASH (at that commit), "
    "file:PATH (a results.json or its folder), mlflow:latest, mlflow:RUN_ID, model:URI (a checkpoint), or none"
)


@dataclass(frozen=True, slots=True)
class BaselineSpec:
    """A parsed `--fairness-baseline`: `git:REF`, `git:REF@HASH`, `file:PATH`, `mlflow:latest|RUN_ID`, `model:URI` or
    `none`."""

    kind: Kind
    target: str = ""

    @property
    def pinned(self) -> tuple[str, str] | None:
        """The name and the full hash of `git:REF@HASH`, of which the hash decides; None without a hash."""
        name, at, commit = self.target.rpartition("@")
        return (name, commit) if self.kind == "git" and at and name and _HASH.fullmatch(commit) else None

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.target}"


def parse_baseline(text: str, where: str = "--fairness-baseline") -> BaselineSpec:
    """Parse a baseline option. Raises BaselineError for a kind that is not known."""
    kind, _, target = text.partition(":")
    known = {name: name for name in get_args(Kind)}
    if kind in known and bool(target) == (kind != "none"):
        return BaselineSpec(known[kind], target)
    require_local(text, where, BaselineError)
    remedy = _KINDS if kind in known else suggestion(kind, known, _KINDS)
    raise BaselineError(f"'{text}' is not a baseline.", where=where, remedy=remedy)


def mismatch(
    record: RunRecord,
    dataset: DatasetInfo,
    probes: Sequence[Mapping[str, str]],
    *,
    preparation: str | None = None,
    name: str = "baseline",
) -> str | None:
    """Why a record cannot be compared as it is, or None: other data, other probes, or images prepared otherwise.

    Each of `probes` maps those that checks compare to their digests (prompts, labels, metric version); `preparation` is
    the candidate's, where it is known, and `name` the record's role.
    """
    if record.dataset.fingerprint != dataset.fingerprint:
        return (
            f"the {name} was scored on dataset '{record.dataset.name}/{record.dataset.version}' "
            f"({record.dataset.fingerprint[:12]}), this run on '{dataset.name}/{dataset.version}' "
            f"({dataset.fingerprint[:12]})"
        )
    differing = dict.fromkeys(name for keys in probes for name, key in keys.items() if record.probes.get(name) != key)
    if differing:
        named = ", ".join(differing)
        return f"the {name} was scored with other probes: prompts, labels or metric version of {named} differ"
    adapter, _, code = (preparation or "").partition("/")
    adapter_then, _, code_then = (record.model.preparation or "").partition("/")
    if adapter and adapter == adapter_then and code != code_then:
        return f"the {name}'s images were prepared by version {code_then} of {adapter}:, this run's by version {code}"
    return None


def require_nothing_vanished(record: RunRecord, dataset: DatasetInfo, subjects: Sequence[str], where: str) -> None:
    """Raise BaselineError where this dataset lacks groups or subjects of the record.

    A release without a group would pass every check of that group.
    """
    then = [
        (f"{name} ", groups, dataset.attributes.get(name, [])) for name, groups in record.dataset.attributes.items()
    ]
    judged = dict.fromkeys(check.subject for check in record.checks if check.subject is not None)
    then.append(("subject ", list(judged), list(subjects)))
    missing = [(what, entry, now) for what, before, now in then for entry in before if entry not in now]
    gone = [f"{what}'{entry}'" for what, entry, _ in missing]
    alike = [
        f"'{other}' is there, which only looks like '{entry}': {difference(entry, other)}"
        for _, entry, now in missing
        for other in now
        if skeleton(entry) == skeleton(other)
    ]
    if gone:
        raise BaselineError(
            f"{', '.join(gone)} {'was' if len(gone) == 1 else 'were'} in the baseline's dataset "
            f"'{record.dataset.name}/{record.dataset.version}', and '{dataset.name}/{dataset.version}' does not show "
            f"{'it' if len(gone) == 1 else 'them'} any more{''.join(f'; {words}' for words in alike)}.",
            where=where,
            remedy="judge on a release that shows them; or, if they are left out on purpose, make a new baseline "
            "there by itself, reviewed: `fairgate baseline update SUITE --baseline none --reason TEXT`",
        )


def require_same_declaration(record: RunRecord, dataset: DatasetInfo, where: str) -> None:
    """Raise BaselineError where a release of the same content declares other attributes, groups or sets than it did.

    They are in the manifest alone, and decide who is compared and how many comparisons a verdict is corrected for.
    """
    then = record.dataset
    if then.fingerprint != dataset.fingerprint:
        return
    if differences := _declared_otherwise(then, dataset):
        raise BaselineError(
            f"'{dataset.name}/{dataset.version}' has the content that the baseline was made on "
            f"({dataset.fingerprint[:12]}), and its manifest declares otherwise: {'; '.join(differences)}.",
            where=where,
            remedy="take the release again (`fairgate dataset pull --force`); other groups need a new version",
        )


def _declared_otherwise(then: DatasetInfo, now: DatasetInfo) -> list[str]:
    """How attributes, groups and sets are declared by now, as far as that is another declaration."""
    differences = [
        f"{name}: {', '.join(now.attributes.get(name, ['-']))} (was: {', '.join(then.attributes.get(name, ['-']))})"
        for name in {**then.attributes, **now.attributes}
        if then.attributes.get(name) != now.attributes.get(name)
    ]
    if then.counterfactual != now.counterfactual:
        differences.append(f"counterfactual: {now.counterfactual} (was: {then.counterfactual})")
    return differences


def dataset_notices(
    record: RunRecord, dataset: DatasetInfo, n_images: int, sets: Set[str], sets_then: Set[str], name: str
) -> list[str]:
    """What of the data is not what a record was made on, where the content is another one.

    `sets` and `sets_then` are the ids of the dataset's sets now and in the record, `name` what the record serves as.
    """
    then = record.dataset
    gone, new = len(sets_then - sets), len(sets - sets_then)
    moved = [f"{gone:,} of its {len(sets_then):,} sets {'is' if gone == 1 else 'are'} gone"] if gone else []
    moved += [f"{new:,} {'set is' if new == 1 else 'sets are'} new"] if new else []
    moved = moved or ["the sets have the same names, and other images or labels"]
    if differences := _declared_otherwise(then, dataset):
        moved.append(f"declared otherwise: {'; '.join(differences)}")
    return [
        f"dataset: this change is judged on {_named(dataset, len(sets), n_images)}, the {name} was made on "
        f"{_named(then, record.coverage.expected_sets, record.coverage.expected_images)}: {', '.join(moved)}. "
        f"The {name}'s checkpoint was scored again on the new one"
    ]


def _named(dataset: DatasetInfo, sets: int, images: int) -> str:
    return f"{dataset.name}/{dataset.version} ({dataset.fingerprint[:12]}, {sets:,} sets, {images:,} images)"


def environment_warnings(
    name: str, here: tuple[Environment, str | None], there: tuple[Environment | None, str | None]
) -> list[str]:
    """Differences between the environments of two runs, which alone can move scores; `name` is the other run's role.

    Each side is an environment, where it is known, and the precision of its scores.
    """
    now, before = here[0], there[0]
    pairs: list[tuple[str, str | None, str | None]] = [("precision", here[1], there[1])]
    if before is not None:
        pairs += [
            ("device", now.device.partition(":")[0], before.device.partition(":")[0]),
            ("fairgate", now.fairgate, before.fairgate),
        ]
        pairs += [
            (package, version, before.packages.get(package))
            for package, version in now.packages.items()
            if package != "numpy"
        ]
    return [
        f"the {name} was scored with {what} {then}, this run with {what} {this}: scores can differ by that alone"
        for what, this, then in pairs
        if this is not None and then is not None and this != then
    ]


def require_own_scores(record: RunRecord, digest: str, where: str) -> None:
    """Raise BaselineError unless the saved scores are, to the bit, those that the record was made from."""
    if record.scores_digest != digest:
        raise BaselineError(
            "the per-image scores are not those that the baseline's results.json was made from.",
            where=where,
            remedy="take results.json and scores.parquet from one run, or make the baseline again",
        )


def require_another_checkpoint(
    candidate: tuple[str, Mapping[str, ProbeScores]],
    baseline: tuple[str, Mapping[str, ProbeScores]],
    where: str,
) -> None:
    """Raise BaselineError when candidate and baseline (each a fingerprint and its scores) are one and the same, or two
    checkpoints with identical scores: either way nothing was compared."""
    if candidate[0] == baseline[0]:
        raise BaselineError(
            f"the baseline is the candidate: both are checkpoint {candidate[0][:12]}.",
            where=where,
            remedy="name the checkpoint from before the change as the baseline, or `none`",
        )
    if scores_in_common(candidate[1], baseline[1]) == "identical":
        raise BaselineError(
            f"two different checkpoints ({candidate[0][:12]} and {baseline[0][:12]}) gave identical scores.",
            where=where,
            remedy="one of the files is probably not the model that was meant: check both URIs. If files of the same "
            "model were only written again, keep the old ones",
        )


def scores_in_common(
    own: Mapping[str, ProbeScores], other: Mapping[str, ProbeScores]
) -> Literal["differ", "same words", "identical"]:
    """How the scores of two checkpoints compare on the probes that both ran, image by image.

    Two networks never have all probabilities, cosines or other fractions alike: such scores are `identical` by mistake.
    Answers in words are counted as 0 and 1, and two checkpoints may well say the `same words` of every image.
    """
    shared = [name for name in own if name in other]
    if not shared or not all(_same(own[name], other[name]) for name in shared):
        return "differ"
    return "same words" if all(_counts_words(own[name]) for name in shared) else "identical"


def _counts_words(scores: ProbeScores) -> bool:
    """Whether all numbers are whole: -1, 0 or 1, or none for an image."""
    numbers = [scores.value, *_answered(scores).values()]
    return all(bool(np.isin(values[~np.isnan(values)], (-1, 0, 1)).all()) for values in numbers)


def _answered(scores: ProbeScores) -> dict[str, NDArray[np.float64]]:
    """The further numbers that are answers: rows that a table repeats are none."""
    return {name: numbers for name, numbers in further_numbers(scores.more).items() if name != LISTED_AGAIN}


def _same(own: ProbeScores, other: ProbeScores) -> bool:
    """Whether two runs gave every image the same numbers, and the same label where they give one."""
    if not np.array_equal(own.value, other.value, equal_nan=True):
        return False
    labels = [None if run.predicted is None else [str(label) for label in run.predicted] for run in (own, other)]
    mine, theirs = _answered(own), _answered(other)
    further = mine.keys() == theirs.keys() and all(
        np.array_equal(numbers, theirs[name], equal_nan=True) for name, numbers in mine.items()
    )
    return further and labels[0] == labels[1]


_MAKE_ONE = "make one with `fairgate baseline update {} --reason TEXT` and commit it"


def baseline_folder(suite: str) -> str:
    """Where a suite's baseline is committed."""
    return f"fairness_suites/baselines/{suite}"


def record_in_folder(target: str, root: Path) -> RecordFiles:
    """The files of a `file:` baseline, a results.json or its folder. Raises BaselineError when one is missing."""
    path = root / require_local(target, f"file:{target}", BaselineError)
    results = path if path.suffix == ".json" else path / RESULTS
    scores = results.with_name(SCORES)
    for file in (results, scores):
        if file.is_file():
            continue
        pointer = file.with_name(f"{file.name}.dvc")
        fetch = (
            f"fetch it: `fairgate dataset pull {pointer}`"
            if pointer.is_file()
            else f"{_MAKE_ONE.format('SUITE')}; keep it whole"
        )
        raise BaselineError(f"the baseline lacks {file.name}.", where=str(file), remedy=fetch)
    return RecordFiles(results, scores)


def record_in_git(repository: Repository, commit: str, folder: str, into: Path) -> RecordFiles:
    """The files that were committed at a commit, by git itself or, for large scores, by DVC, written to `into`.

    Raises BaselineError when the commit has none, and when `into` cannot be written.
    """
    remedy = "make room there, or set TMPDIR to a folder that can be written"
    with disk_errors(BaselineError, "the baseline could not be brought to this disk", into, remedy):
        for name in (RESULTS, SCORES):
            content = repository.read(commit, f"{folder}/{name}")
            if content is not None:
                (into / name).write_bytes(content)
            elif is_tracked(repository, commit, f"{folder}/{name}"):
                check_out(repository, commit, f"{folder}/{name}", into / "dvc")
                (into / "dvc" / folder / name).rename(into / name)
            else:
                merge = "merge the one that this change adds, reviewed: later changes are compared with it"
                here = (repository.root / folder / RESULTS).is_file()
                raise BaselineError(
                    f"no baseline is committed there: commit {commit[:7]} lacks {folder}/{name}.",
                    where=f"{folder} at {commit[:7]}",
                    remedy=merge if here else f"on the main branch, {_MAKE_ONE.format(Path(folder).name)}",
                )
    return RecordFiles(into / RESULTS, into / SCORES, commit, f"{folder} at {commit[:7]}")
