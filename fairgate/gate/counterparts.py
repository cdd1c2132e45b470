"""A tokenizer or preprocessing that is not the baseline's: the candidate is judged with the baseline's as well.

Whoever edits the tokenizer of a biased checkpoint, so that wrong labels become nonsense, gets a perfect one: no wrong
label is ever as probable as the right one. Such a change is named next to the verdict; where the checkpoint can take
what the baseline's tokenizer and preprocessing make, the stricter of both verdicts counts, and where it cannot, a
comparison with the baseline is never a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fairgate.gate.reading import Scores
from fairgate.ground.errors import FairgateError
from fairgate.models import PRECOMPUTED, Model, RereadingModel
from fairgate.records import Against, ModelInfo

Answering = Callable[[Model], tuple[Scores, ...]]
_AND = " and "
_FORWARD = (
    "If checks fail by it and the change is meant, merge waivers for them first, reviewed; then this checkpoint "
    "together with its updated baseline"
)


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The candidate's answers to each definition, reading as the baseline (or anchor) does in all that `changed`
    (tokenizer or, of a classifier, labels; preprocessing; both), and in each part alone.

    Empty where it reads so anyway. `withheld` says why it cannot, and a comparison cannot pass; `notice` what a
    reviewer sees.
    """

    answers: Mapping[str, tuple[Scores, ...]] = field(default_factory=dict)
    changed: str = ""
    withheld: str | None = None
    notice: str | None = None


def counterpart(
    candidate: Model, theirs: Model | ModelInfo, reopen: Callable[[], Model], answer: Answering, against: Against
) -> Counterpart:
    """What the candidate answers when it reads as the baseline does; `reopen` gives the baseline's checkpoint.

    `theirs` is the baseline, or what its record says of it.
    """
    changed = _changed(candidate, theirs)
    if candidate.precision == PRECOMPUTED or not changed:
        return Counterpart()
    known = theirs.tokenizer is not None or theirs.preprocessing is not None
    if isinstance(candidate, RereadingModel) or not known:
        try:
            other = reopen()
        except FairgateError as error:
            return _withheld(changed, error.problem, against) if known else _unknown(error, against)
        changed = _changed(candidate, other)
        if other.precision == PRECOMPUTED or not changed:
            return Counterpart()
        if isinstance(candidate, RereadingModel):
            return _judged_alike(candidate, other, changed, answer, against)
    no_method = f"models of '{candidate.uri.partition(':')[0]}:' have no method `reading_as`"
    return _withheld(changed, no_method, against)


def _judged_alike(
    candidate: RereadingModel, other: Model, changed: str, answer: Answering, against: Against
) -> Counterpart:
    """What the candidate answers with what is `changed` as it is in the other checkpoint; of two changes, with each
    alone as well: weights can be made for one of them, and fail with the other's alone."""
    parts = changed.split(_AND)
    try:
        mixed = _reading_with(candidate, other, parts)
        answers = {changed: answer(mixed)}
        if candidate.embeds_alike(mixed):  # saved by another version of a library: the same tokens and tensors
            return Counterpart()
        if len(parts) > 1:
            answers |= {part: answer(_reading_with(candidate, other, [part])) for part in parts}
    except FairgateError as error:
        return _withheld(changed, error.problem, against)
    alone = ", with both and with each alone" if len(parts) > 1 else ""
    notice = (
        f"the {changed} {_verb(changed)} from the {against}'s: every check was also judged with the "
        f"{against}'s{alone}, and the stricter verdict counts. {_FORWARD}"
    )
    return Counterpart(answers, changed, notice=notice)


def _reading_with(candidate: RereadingModel, other: Model, parts: Sequence[str]) -> RereadingModel:
    pictures = "preprocessing" in parts
    return candidate.reading_as(other, tokenizer=len(parts) > pictures, preprocessing=pictures)


def _changed(candidate: Model, theirs: Model | ModelInfo) -> str:
    names = {"tokenizer": getattr(candidate, "texts_read_by", "tokenizer"), "preprocessing": "preprocessing"}
    return _AND.join(part for name, part in names.items() if getattr(candidate, name) != getattr(theirs, name))


def _verb(changed: str) -> str:
    return "differ" if _AND in changed or changed.endswith("s") else "differs"


def _withheld(changed: str, problem: str, against: Against) -> Counterpart:
    why = f"the {changed} {_verb(changed)} from the {against}'s, which this checkpoint could not be judged with"
    reason = problem.rstrip(".")
    return Counterpart(
        changed=changed,
        withheld=f"{why}: {reason}",
        notice=f"{why} ({reason}): comparisons with the {against} cannot pass. {_FORWARD}",
    )


def _unknown(error: FairgateError, against: Against) -> Counterpart:
    """A record from before there were such digests, of a checkpoint that is gone."""
    return Counterpart(
        notice=f"the {against}'s record does not say which tokenizer and preprocessing it was made with, and its "
        f"checkpoint is not to be had ({error.problem.rstrip('.')}): this checkpoint was judged with its own only. "
        "`fairgate baseline update SUITE --reason TEXT` records them"
    )
