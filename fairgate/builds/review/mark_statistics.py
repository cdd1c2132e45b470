"""What the marks say: shares with intervals per category and group, agreement of raters, and of filters with them, of
which one is CLIP: the group whose sentence is nearest to an image, as in appendix A.4 of Howard et al."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fairgate.builds.review.agreement import (
    Agreement,
    GroupAgreement,
    ScoreAgreement,
    agreement,
    group_agreement,
    score_agreement,
)
from fairgate.builds.review.marks import QUALITIES, Key, Record
from fairgate.builds.review.sample import ImageItem, Sample, read_picture, read_rows
from fairgate.data import CROSS, Dataset, is_text
from fairgate.ground.errors import SettingsError, StatisticsError, did_you_mean
from fairgate.ground.number_format import ABSENT
from fairgate.models import generation


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`, with Wilson's limits. `value`, `lo` and `hi` are None where nothing was looked at."""

    count: int
    of: int
    value: float | None
    lo: float | None
    hi: float | None


def share(count: int, of: int) -> Share:
    """A share with the 95% score interval of Wilson (1927), which holds near 0 and 1 too.

    >>> share(9, 10)
    Share(count=9, of=10, value=0.9, lo=0.5958499732047615, hi=0.9821237869049271)
    """
    if not 0 <= count <= of:
        raise StatisticsError(f"{count} of {of} is no share.", where="share", remedy="count among what was looked at")
    if not of:
        return Share(0, 0, None, None, None)
    from scipy.stats import binomtest  # 0.5 s to import

    limits = binomtest(count, of).proportion_ci(0.95, method="wilson")
    return Share(count, of, count / of, float(limits.low), float(limits.high))


def percent(counted: Share) -> str:
    """`90.8% (89.1 to 92.3)`; a dash where nothing was looked at."""
    if counted.value is None or counted.lo is None or counted.hi is None:
        return ABSENT
    return f"{100 * counted.value:.1f}% ({100 * counted.lo:.1f} to {100 * counted.hi:.1f})"


SCORES: Final = ("clip_", "vqa_", "perceived_", "p_", "directional")
"""Numeric columns that begin so are held against what people call good."""
_DISAGREED: Final = "\x00"
"""No majority: no group and no answer is called so."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An image and its raters' majority: the group perceived per attribute (None: none could be), and what is wrong.

    Groups are those of the blind answers. `blind` is whether everybody gave one before the prompt was shown, `changed`
    whether somebody's last answer is another one.
    """

    item: ImageItem
    perceived: dict[str, str | None]
    quality: str
    blind: bool
    changed: bool

    @property
    def good(self) -> bool:
        """Nothing wrong, and every attribute perceived as recorded."""
        return self.quality == "good" and self.perceived == self.item.recorded


@dataclass(frozen=True, slots=True)
class ShareRow:
    """Shares of one slice of the sample: everything, a subject, or a recorded group."""

    kind: str
    name: str
    shares: dict[str, Share]


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the dataset card reports of a review. Images and sets without a complete mark are not in it."""

    images: int
    sets: int
    rows: tuple[ShareRow, ...]
    intersections: tuple[ShareRow, ...]
    same_scene: Share
    agreement: dict[str, Agreement]
    groups: tuple[GroupAgreement, ...]
    scores: tuple[ScoreAgreement, ...]
    changed: int
    no_majority: int


Labels = Mapping[str, tuple[str, Mapping[int, str | None]]]
"""Groups that something else gives to images: name -> (attribute, row -> group)."""


def figures_of(
    dataset: Dataset, records: Sequence[Record], sample: Sample, label: Callable[[Sequence[int]], Labels] | None = None
) -> Figures:
    """The figures of all raters' marks on a sample.

    `label` returns the groups of the marked rows, which are compared with the people's like a filter's column.
    """
    attributes = dataset.manifest.attributes
    seen = [marked for item in sample.images if (marked := _seen(item, records)) is not None]
    answers = (
        [record.scenes[item.set_id].scene for record in records if item.set_id in record.scenes] for item in sample.sets
    )
    scenes = [majority(of_set) for of_set in answers if of_set]
    groups, scores = _filters(dataset, seen, label)
    rows = [_row("all", "all", seen, attributes)]
    for name in dataset.manifest.subjects:
        rows.append(_row("subject", name, [image for image in seen if image.item.subject == name], attributes))
    for attribute, names in attributes.items():
        for name in names:
            inside = [image for image in seen if image.item.recorded[attribute] == name]
            rows.append(_row(attribute, name, inside, attributes))
    cells: dict[tuple[int, ...], list[Seen]] = defaultdict(list)
    for image in seen if len(attributes) > 1 else ():
        place = tuple(names.index(image.item.recorded[attribute]) for attribute, names in attributes.items())
        cells[place].append(image)
    crossed = [(CROSS.join(inside[0].item.recorded.values()), inside) for _, inside in sorted(cells.items())]
    return Figures(
        images=len(seen),
        sets=len(scenes),
        rows=tuple(rows),
        intersections=tuple(_row(CROSS.join(attributes), name, inside, attributes) for name, inside in crossed),
        same_scene=share(sum(scene == "same" for scene in scenes), len(scenes)),
        agreement=_agreement(records, sample, list(attributes)),
        groups=tuple(groups),
        scores=tuple(scores),
        changed=sum(image.changed for image in seen),
        no_majority=sum(_DISAGREED in (image.quality, *image.perceived.values()) for image in seen),
    )


def columns(attributes: Iterable[str]) -> list[str]:
    """What is counted: good images, how each attribute was perceived, and every other fault."""
    perceived = [
        text for name in attributes for text in (f"{name} as recorded", f"cannot discern {name}", f"another {name}")
    ]
    return ["good", *perceived, *(answer.label.lower() for answer in QUALITIES[1:])]


def _columns_of(image: Seen) -> Iterator[str]:
    """The columns in which an image counts: several, or none; a good one is in none of the faults."""
    if image.good:
        yield "good"
    for name, recorded in image.item.recorded.items():
        group = image.perceived[name]
        if group == recorded:
            yield f"{name} as recorded"
        elif group != _DISAGREED:
            yield f"cannot discern {name}" if group is None else f"another {name}"
    yield from (answer.label.lower() for answer in QUALITIES[1:] if answer.key == image.quality)


def _seen(item: ImageItem, records: Sequence[Record]) -> Seen | None:
    key = (item.set_id, item.member)
    marked = [record for record in records if key in record.perceived and key in record.qualities]
    if not marked:
        return None
    counted = [record.counted(key) for record in marked]
    return Seen(
        item,
        perceived={name: majority([mark.perceived[name] for mark in counted]) for name in item.recorded},
        quality=majority([record.qualities[key].quality for record in marked]) or _DISAGREED,
        blind=all(mark.blind for mark in counted),
        changed=any(record.perceived[key].perceived != record.counted(key).perceived for record in marked),
    )


def majority(answers: Sequence[str | None]) -> str | None:
    """What more than half say; without that, something that equals no answer."""
    answer, count = Counter(answers).most_common(1)[0]
    return answer if 2 * count > len(answers) else _DISAGREED


def _row(kind: str, name: str, seen: Sequence[Seen], attributes: Iterable[str]) -> ShareRow:
    counts = Counter(column for image in seen for column in _columns_of(image))
    return ShareRow(kind, name, {column: share(counts[column], len(seen)) for column in columns(attributes)})


def _agreement(records: Sequence[Record], sample: Sample, attributes: Sequence[str]) -> dict[str, Agreement]:
    if len(records) < 2:
        return {}
    images: set[Key] = {(item.set_id, item.member) for item in sample.images}
    sets = {item.set_id for item in sample.sets}
    by_question: dict[str, dict[str, Mapping[Any, Hashable]]] = {}
    for record in records:
        for name in attributes:
            perceived = {key: record.counted(key).perceived[name] for key in record.perceived if key in images}
            by_question.setdefault(f"{name} perceived", {})[record.rater] = perceived
        wrong = {key: mark.quality for key, mark in record.qualities.items() if key in images}
        by_question.setdefault("what is wrong", {})[record.rater] = wrong
        if sets:
            scenes = {key: mark.scene for key, mark in record.scenes.items() if key in sets}
            by_question.setdefault("same scene", {})[record.rater] = scenes
    return {question: agreement(answers) for question, answers in by_question.items()}


def _filters(
    dataset: Dataset, seen: Sequence[Seen], label: Callable[[Sequence[int]], Labels] | None
) -> tuple[list[GroupAgreement], list[ScoreAgreement]]:
    """Everything that names groups (a filter's `perceived_ATTRIBUTE`, `label`), and every score, against the people."""
    if not seen:
        return [], []
    rows, attributes = [image.item.row for image in seen], dataset.manifest.attributes
    stored = {each.name: is_text(each.type) for each in dataset.parquet(dataset.manifest.shards[0]).schema_arrow}
    named = {f"perceived_{name}": name for name in attributes if stored.get(f"perceived_{name}")}
    scored = [column for column, text in stored.items() if not text and column.startswith(SCORES)]
    cells = read_rows(dataset, rows, [*named, *scored]) if named or scored else {}
    labels = {name: (attribute, {row: cells[row][name] for row in rows}) for name, attribute in named.items()}
    groups: list[GroupAgreement] = []
    for column, (attribute, group_of) in {**labels, **(label(rows) if label else {})}.items():
        names = attributes[attribute]
        sure = [image for image in seen if image.blind and image.perceived[attribute] in names]
        filtered = [group_of.get(image.item.row) for image in sure]
        if not set(names).isdisjoint(filtered):  # else it never names a group of the attribute
            people = [image.perceived[attribute] for image in sure]
            groups += group_agreement(column, attribute, names, filtered, people)
    scores: list[ScoreAgreement] = []
    for column in scored:
        measured = [image for image in seen if isinstance(cells[image.item.row][column], int | float)]
        if measured:
            values = [float(cells[image.item.row][column]) for image in measured]
            scores.append(score_agreement(column, values, [image.good for image in measured]))
    return groups, scores


SENTENCE: Final = "A {} person"
"""The paper's queries are "A male person" and "A female person"."""
_BATCH: Final = 32


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """A matcher's URI and device, and a sentence per attribute with `{}` for the group. None named: every attribute,
    in the paper's sentence."""

    uri: str
    device: str = "auto"
    sentences: Mapping[str, str] = field(default_factory=dict)

    def labels(self, dataset: Dataset, rows: Sequence[int]) -> Labels:
        """The nearest group of each row, per attribute. Raises ModelError, or SettingsError for a sentence of none."""
        attributes = dataset.manifest.attributes
        sentences = dict(self.sentences) or dict.fromkeys(attributes, SENTENCE)
        for attribute, sentence in sentences.items():
            if attribute not in attributes:
                raise SettingsError(
                    f"the dataset does not record '{attribute}'.",
                    where="--ask",
                    remedy=did_you_mean(attribute, attributes) or f"attributes: {', '.join(attributes)}",
                )
            if "{}" not in sentence:
                raise SettingsError(
                    f"the sentence '{sentence}' has no place for a group.",
                    where="--ask",
                    remedy=f'put {{}} in the place of the group: {attribute}="{SENTENCE}"',
                )
        matcher: generation.Matcher = generation.open_model("matcher", self.uri, device=self.device)
        labels = {}
        batches = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
        images = np.concatenate(
            [matcher.embed_images([read_picture(dataset, row) for row in batch]) for batch in batches]
        )
        for attribute, sentence in sentences.items():
            groups = attributes[attribute]
            texts = matcher.embed_texts([sentence.replace("{}", group.replace("_", " ")) for group in groups])
            nearest = (images @ texts.T).argmax(axis=1)
            labels[f"{attribute} by {self.uri}: “{sentence}”"] = (
                attribute,
                {row: groups[place] for row, place in zip(rows, nearest, strict=True)},
            )
        return labels
