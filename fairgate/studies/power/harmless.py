"""Changes of a model that harm nobody: other checkpoints that a team names, or noise that turns a few answers.

A suite has to let such changes pass. How far they move the scores of these images, and how differently, decides which
checks can be decided here (`decidable`). Of many images none is drawn: a decision resamples all of them, and 200 would
take hours. The gate decides each change once on all images; the limits of a decision tell the standard errors of its
numbers, and each simulated run moves these by normal errors: group means of many images are normal. It is for a
proposal alone.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from fairgate import gate
from fairgate.ground.randomness import stream
from fairgate.models import local_paths, log_softmax
from fairgate.probes import Contest, ProbeScores, ranks_of
from fairgate.records import Against, CheckResult, GroupResult
from fairgate.suites import Settings, Suite, decide

Scores = Mapping[str, ProbeScores]

FEWEST = 8
TURNED = (0.02, 0.05)
"""The share of answers that noise is to turn."""
MOST_NOISE = {"weights": 0.05, "answers": 0.2}
"""Noise is no larger, in standard deviations, even if it turns fewer answers: 4 bits round weights by about 0.1."""
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Change:
    """A harmless change: what it is, and what the changed model answers."""

    name: str
    scores: Scores


def base_scores(prepared: gate.Prepared, settings: Settings, progress: gate.Progress | None = None) -> Scores:
    """What the model answers, compared with nothing. Raises a FairgateError for what is in the way."""
    return gate.score(prepared, replace(settings, baseline="none"), progress).scores


def harmless_changes(
    prepared: gate.Prepared,
    settings: Settings,
    base: Scores,
    like: Sequence[str] = (),
    progress: gate.Progress | None = None,
) -> tuple[list[Change], list[str]]:
    """At least eight changes: the checkpoints `like` (URIs) with the model itself, and noise on it for the rest; and
    why a named checkpoint is left out: it fails a check of the suite against the model.

    Noise is added to the weights if these are safetensors files at hand, else to the label probabilities; answers of a
    table change places. Its size is set so that 2 to 5% of the answers differ between two such changes, and it has a
    limit, for a model that is sure of everything.
    """
    done, most = 0, len(like) + 2 * _TRIES + FEWEST - 2

    def scored(name: str, changed: Settings) -> Change:
        nonlocal done
        done += 1

        def show(_: str, images: int, total: int) -> None:
            if progress is not None:
                progress(f"step 1 of 3: harmless change {done} of at most {most}, images scored", images, total)

        return Change(name, base_scores(prepared, changed, show))

    changes, left_out = [Change("the model itself", base)] if like else [], []
    for uri in like:
        change = scored(uri, replace(settings, model=uri))
        if harm := _harm(prepared, base, change.scores):
            left_out.append(f"{uri} is left out, since it is not harmless: it fails {harm}")
        else:
            changes.append(change)
    if len(changes) >= FEWEST:
        return changes, left_out
    with tempfile.TemporaryDirectory(prefix="fairgate-noise-") as folder:

        def noisy(size: float, seed: int) -> Change:
            uri = with_noise(settings.model, prepared.root, Path(folder), size, seed)
            if uri is not None:
                # Without the cache, which nobody would ask for these weights again.
                changed = replace(settings, model=uri, cache=None)
                return scored(f"noise of {size:.3g} standard deviations on the weights", changed)
            return Change("noise on the answers", {name: _shaken(scores, size, seed) for name, scores in base.items()})

        what = "weights" if has_weights(settings.model, prepared.root) else "answers"
        size, pair = _size_of_noise(noisy, MOST_NOISE[what])
        seeds = range(2, FEWEST - len(changes))
        return [*changes, *pair[: FEWEST - len(changes)], *(noisy(size, seed) for seed in seeds)], left_out


def _harm(prepared: gate.Prepared, base: Scores, scores: Scores) -> str:
    """The regression checks that scores fail against the model's own, with their groups; empty if there are none."""
    results = regressions(prepared, base, scores)
    failing = {c.item: ", ".join(group.group for group in c.failing_groups) for c in results if c.verdict == "fail"}
    return ", ".join(f"{item} ({groups})" if groups else item for item, groups in failing.items())


def regressions(prepared: gate.Prepared, base: Scores, scores: Scores) -> list[CheckResult]:
    """The checks that compare with a baseline, decided on these scores, of which `base` is the baseline's."""
    planned = [check for check in prepared.planned if check.against == "baseline"]
    tempered: dict[Against, Scores] = {"baseline": gate.at_temperature_of(base, planned, scores)}
    suite, index = prepared.loaded.suite, prepared.dataset.index
    return decide(planned, index, suite, scores, {"baseline": base}, prepared.null, tempered, intervals=False)


def _size_of_noise(noisy: Callable[[float, int], Change], most: float) -> tuple[float, list[Change]]:
    """Noise of a size that turns a few answers between two changes, and these two."""
    size, few, many = most / 4, 0.0, math.inf  # noise that turned too few answers, and too many
    for _ in range(_TRIES):
        pair = [noisy(size, seed) for seed in (0, 1)]
        share = turned(*(change.scores for change in pair))
        if share is None or TURNED[0] <= share <= TURNED[1] or (share < TURNED[0] and size == most):
            break
        few, many = (max(few, size), many) if share < TURNED[0] else (few, min(many, size))
        size = math.sqrt(few * many) if 0 < few < many < math.inf else size * (2 if share < TURNED[0] else 0.25)
        size = min(size, most)
    return size, pair


def turned(base: Scores, other: Scores) -> float | None:
    """The share of answers that differ, of the probe in which most do: right or wrong ones, or, if nothing is right,
    the answers; None if there are none."""
    shares = []
    for name, scores in base.items():
        now = other[name]
        if scores.correct is not None and now.correct is not None:
            shares.append(float((scores.correct != now.correct).mean()))
        elif scores.predicted is not None and now.predicted is not None:
            shares.append(float((scores.predicted != now.predicted).mean()))
    return max(shares, default=None)


def has_weights(uri: str, root: Path) -> bool:
    """Whether a URI names a safetensors file that is here."""
    return any(file.suffix == ".safetensors" for path in local_paths(uri) for file in _files(root / path))


def with_noise(uri: str, root: Path, folder: Path, size: float, seed: int) -> str | None:
    """The URI of a copy in `folder` whose matrices have noise of `size` standard deviations of their own; None if the
    URI names no safetensors file that is here."""
    if not has_weights(uri, root):
        return None
    for at, (path, place) in enumerate((path, root / path) for path in local_paths(uri)):
        copy = folder / f"{at}-{place.name}"
        if place.is_dir():
            shutil.copytree(place, copy, dirs_exist_ok=True)
        else:
            shutil.copyfile(place, copy)
        for file in _files(copy):
            if file.suffix == ".safetensors":
                _shake(file, size, seed)
        # of classifier:classifier the second
        named = rf"(?<![\w./-])(?:\./)?{re.escape(path.as_posix())}/?(?![\w:/.-])"
        uri = re.sub(named, copy.as_posix(), uri)
    return uri


def _files(place: Path) -> Iterator[Path]:
    return iter(sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place])


def _shake(file: Path, size: float, seed: int) -> None:
    """Noise on every matrix of a file; vectors (scales, biases, temperatures) and whole numbers stay."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
    tensors = load_file(file)
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in tensors.items():
        if tensor.ndim > 1 and tensor.is_floating_point():
            noise = torch.randn(tensor.shape, generator=generator)
            tensors[name] = tensor + (size * tensor.float().std() * noise).to(tensor.dtype)
    save_file(tensors, file, metadata)


def _shaken(scores: ProbeScores, size: float, seed: int) -> ProbeScores:
    """Noise on the label probabilities of a probe, in their logarithms; of other answers, some change places with those
    of another image that has the same right answer."""
    rng = stream(seed, "noise")
    if scores.contests and sum(len(contest.rows) for contest in scores.contests) == len(scores.value):
        value, correct, contests = scores.value.copy(), None, []
        correct = None if scores.correct is None else scores.correct.copy()
        for contest in scores.contests:
            spread = contest.log_p.std() or 1.0
            log_p = log_softmax(contest.log_p + size * spread * rng.normal(size=contest.log_p.shape))
            contests.append(Contest(contest.subject, contest.rows, log_p, contest.true))
            at = np.arange(len(contest.true))
            value[contest.rows] = np.exp(log_p[at, contest.true])
            if correct is not None:
                correct[contest.rows] = log_p.argmax(axis=1) == contest.true
        rank = None if scores.rank is None else ranks_of(contests, len(value))
        return replace(scores, value=value, predicted=None, correct=correct, rank=rank, contests=tuple(contests))
    order = np.arange(len(scores.value))
    truth = (
        np.zeros(len(order)) if scores.truth is None else np.unique(scores.truth.astype(str), return_inverse=True)[1]
    )
    for kind in np.unique(truth):
        rows = np.flatnonzero((truth == kind) & (rng.random(len(order)) < min(size, 1.0)))
        order[rows] = rng.permutation(rows)
    return taken(scores, order)


def taken(scores: ProbeScores, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> ProbeScores:
    """The answers about some images, in this order; without the contests."""
    return ProbeScores(
        scores.value[rows],
        predicted=None if scores.predicted is None else scores.predicted[rows],
        correct=None if scores.correct is None else scores.correct[rows],
        rank=None if scores.rank is None else scores.rank[rows],
        truth=None if scores.truth is None else scores.truth[rows],
        more={name: column[rows] for name, column in scores.more.items()},
    )


@dataclass(frozen=True, slots=True)
class Harm:
    """How far a change went to the worse, and the worst that it may be."""

    loss: float
    limit: float


def harm_of(check: CheckResult, part: CheckResult | GroupResult) -> Harm | None:
    """The change of a check, or of one of its groups; None if it was not compared, or has no limit."""
    limit = part.delta_hi if check.better == "lower" else part.delta_lo
    if part.delta is None or limit is None:
        return None
    return Harm(part.delta, limit) if check.better == "lower" else Harm(-part.delta, -limit)


def moved(check: CheckResult, suite: Suite, rng: np.random.Generator) -> CheckResult:
    """A decided comparison as other images of the same kind might have it.

    Each change departs by a normal error whose size its limit tells (of simultaneous limits, by Bonferroni's level),
    and the check passes if all limits are within the margin. A check with a bound is the same.
    """
    if check.rule != "no_worse_than" or check.bound is None:
        return check
    groups = [group for group in check.groups if group.delta is not None]
    parts: list[CheckResult | GroupResult] = [*groups] if groups else [check]
    level = float(ndtri(1 - suite.decision.alpha / len(parts)))
    passes, changed = not check.small_groups, dict[int, dict[str, float]]()
    for part in parts:
        if (harm := harm_of(check, part)) is None:
            passes = False
            continue
        error = (harm.limit - harm.loss) / level * float(rng.normal())
        passes &= harm.limit + error <= check.bound
        step = error if check.better == "lower" else -error
        ends = {name: getattr(part, name) for name in ("delta", "delta_lo", "delta_hi")}
        changed[id(part)] = {name: end + step for name, end in ends.items() if end is not None}
    update: dict[str, Any] = {"verdict": "pass" if passes else "inconclusive", **changed.get(id(check), {})}
    update["groups"] = [group.model_copy(update=changed.get(id(group))) for group in check.groups]
    return check.model_copy(update=update)
