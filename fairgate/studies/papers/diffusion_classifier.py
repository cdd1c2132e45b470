"""Into which of two professions are people put who show none (Saravanan et al. 2023)? Gender accuracy, S by group, the
pairs that are one-sided, and sheets of pictures."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset, picture_rows
from fairgate.formulas.metrics import pair_choices
from fairgate.ground.errors import SettingsError
from fairgate.ground.randomness import stream
from fairgate.metrics import Floats
from fairgate.models import EmbeddingCache, LabelModel, open_scorer, require_capability, require_told_apart
from fairgate.probes import with_article
from fairgate.records import Estimate, FigureSeries, StudyCell, StudyFigure, StudyModel, StudyPicture, StudyTable
from fairgate.studies.papers.contents import StudyContents
from fairgate.studies.papers.edited_faces import ResampledNumber, by_attribute, mean_of, required_labels, slug

PAPER = "Saravanan et al. 2023, Exploring Social Bias in Downstream Applications of Text-to-Image Foundation Models"
FIRST = ("carpenter", "plumber", "truck driver", "mechanic", "construction worker")
SECOND = ("babysitter", "secretary", "housekeeper", "nurse", "receptionist")
"""The paper's male- and female-dominated professions."""
PAIR = ("construction worker", "babysitter")
"""The paper's, by which its pictures are sorted (figures 16 to 19)."""
MOSTLY = 0.75
"""A pair is listed where more of a group's pictures than this are taken for one profession (tables 6 and 7)."""
SHOWN = 24
"""Pictures of a row of a sheet."""
_ALIKE = "A row of one attribute's group is the mean over its crossed groups, as published, whatever their sizes."


@dataclass(frozen=True, slots=True)
class PairsOptions:
    """What is compared. `labels` are the words for the groups of `attribute`, `pair` the two professions of the sheets
    (None: the paper's, or the first of each list where it is not in them)."""

    first: Sequence[str] = FIRST
    second: Sequence[str] = SECOND
    template: str = "A portrait of {a_word}."
    labels: Mapping[str, str] = field(default_factory=lambda: {"male": "man", "female": "woman"})
    attribute: str = "gender"
    pair: tuple[str, str] | None = None
    draws: int = 1000
    seed: int = 0
    device: str = "auto"
    root: Path = Path()
    cache: EmbeddingCache | None = None
    progress: Callable[[str, int, int], None] | None = field(default=None, compare=False)

    @property
    def sorted_by(self) -> tuple[str, str]:
        """The pair of the sheets."""
        known = PAIR[0] in self.first and PAIR[1] in self.second
        return self.pair or (PAIR if known else (self.first[0], self.second[0]))

    def prompt(self, word: str) -> str:
        """The text of a label."""
        return self.template.replace("{a_word}", with_article(word)).replace("{word}", word)


@dataclass(frozen=True)
class _Answered:
    """One model's decisions: `right` (images,) of the attribute, `choices` (images, first, second)."""

    right: Floats
    choices: Floats


@dataclass(frozen=True)
class _Groups:
    """Images of a release by group, and resamples of its sets: `weights` (draws, images)."""

    release: Dataset
    codes: NDArray[np.int64]
    names: list[str]
    weights: Floats

    def numbers(self, values: Floats, attribute: str) -> dict[str, ResampledNumber]:
        """Means of the crossed groups that have images, and of one attribute's groups: each the mean of its crossed
        groups, every one alike, however many images it has."""
        crossed = {code: self._mean(values, code) for code in np.unique(self.codes).tolist()}
        found = {self.names[code]: one for code, one in crossed.items()}
        for group, codes in by_attribute(self.release, self.names)[attribute].items():
            parts = [crossed[code] for code in codes if code in crossed]
            if parts:
                found[group] = mean_of(parts)
        return found

    def _mean(self, values: Floats, code: int) -> ResampledNumber:
        chosen = self.codes == code
        drawn = self.weights[:, chosen]
        with np.errstate(invalid="ignore"):
            return ResampledNumber(
                float(values[chosen].mean()), drawn @ values[chosen] / drawn.sum(axis=1), int(chosen.sum())
            )


def diffusion_classifier_study(release: Dataset, models: Mapping[str, str], options: PairsOptions) -> StudyContents:
    """Tables 4 to 7 and figures 3, 20, 21 (right) and 16 to 19 of models, URIs by name; tables 6 and 7 of the last one.

    Raises DatasetError for groups without a label, SettingsError for words and pairs that make no sense, ModelError for
    a model without label probabilities, and for one that cannot tell the groups or the professions apart.
    """
    options = _required(release, options)
    groups = _groups(release, options)
    answers, known = dict[str, _Answered](), list[StudyModel]()
    for name, uri in models.items():
        progress = None if options.progress is None else _named(options.progress, name)
        model = open_scorer(
            uri, release, device=options.device, cache=options.cache, base=options.root, progress=progress
        )
        require_capability(model, "log_probabilities", f"fairgate study diffusion-classifier --model {uri}")
        labels = {f"{group}={word}": options.prompt(word) for group, word in options.labels.items()}
        words = {word: options.prompt(word) for word in (*options.first, *options.second)}
        for what, prompts in (("labels", labels), ("words", words)):
            require_told_apart(model, what, prompts, f"--model {name}={uri}")
        answers[name] = _answers(cast(LabelModel, model), release, options)
        known.append(StudyModel(name=name, uri=uri, fingerprint=model.fingerprint))
    last = next(reversed(answers))
    drawn = dict(_sheets(groups, answers[last], options))
    return StudyContents(
        title="People who show no profession, classified into pairs of them",
        paper=PAPER,
        models=known,
        datasets=[release],
        settings={
            "template": options.template,
            "first": list(options.first),
            "second": list(options.second),
            **{f"word for {group}": word for group, word in options.labels.items()},
            "listed above": MOSTLY,
            "draws": options.draws,
            "seed": options.seed,
        },
        tables=[
            _by_group(groups, {name: one.right for name, one in answers.items()}, options, accuracy=True),
            _by_group(groups, {n: one.choices.mean(axis=(1, 2)) for n, one in answers.items()}, options),
            _one_sided(groups, answers[last], options, last),
        ],
        figures=[_figure(groups, answers, options)],
        pictures=[picture for picture, _ in drawn.values()],
        drawn={name: data for name, (_, data) in drawn.items()},
        notes=[
            "Intervals are 95% percentile bootstraps of the release's sets, none where every set answers alike.",
            "Read S next to the accuracy of the same group: a model that does not see who is shown has no association "
            "to show.",
        ],
    )


def _named(progress: Callable[[str, int, int], None], name: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(name, done, total)


def _required(release: Dataset, options: PairsOptions) -> PairsOptions:
    """With labels by the names that the release gives its groups."""
    labels = required_labels(release, options.attribute, options.labels, "GROUP=WORD")
    words = [*options.first, *options.second]
    if not options.first or not options.second or len(set(words)) < len(words):
        raise SettingsError(
            "words are missing or given twice.", where="--first, --second", remedy="give each word once"
        )
    if options.pair is not None and (options.pair[0] not in options.first or options.pair[1] not in options.second):
        raise SettingsError(
            f"'{options.pair[0]}' and '{options.pair[1]}' are no pair of the lists.",
            where="--pair",
            remedy="--pair FIRST/SECOND, a word of each list",
        )
    if not any(part in options.template for part in ("{word}", "{a_word}")):
        raise SettingsError("the template names no word.", where="--template", remedy="put {a_word} or {word} in it")
    return replace(options, labels=labels)


def _groups(release: Dataset, options: PairsOptions) -> _Groups:
    codes, names = release.index.codes(list(release.manifest.attributes))
    known, sets = np.unique(release.index.set_id, return_inverse=True)
    rng = stream(options.seed, "pairs study")
    counts = rng.multinomial(len(known), np.full(len(known), 1 / len(known)), size=options.draws)
    return _Groups(release, np.asarray(codes), list(names), counts[:, sets].astype(np.float64))


def _answers(model: LabelModel, release: Dataset, options: PairsOptions) -> _Answered:
    words = [*options.first, *options.second, *options.labels.values()]
    log_p = model.log_probabilities([options.prompt(word) for word in words])
    a, b = len(options.first), len(options.first) + len(options.second)
    perceived = np.array(list(options.labels), dtype=object)[log_p[:, b:].argmax(axis=1)]
    right = perceived == np.asarray(release.index.attributes[options.attribute], dtype=object)
    return _Answered(right.astype(np.float64), pair_choices(-log_p[:, :a], -log_p[:, a:b]))


def _by_group(
    groups: _Groups, numbers: Mapping[str, Floats], options: PairsOptions, *, accuracy: bool = False
) -> StudyTable:
    """Table 4, or table 5 with the difference of the first two groups in its last row."""
    of = {name: groups.numbers(values, options.attribute) for name, values in numbers.items()}
    rows: list[list[StudyCell]] = [
        [group, *(by[group].estimate() for by in of.values())] for group in next(iter(of.values()))
    ]
    x, y = options.labels if len(options.labels) == 2 else ("", "")
    if not accuracy and all(x in by and y in by for by in of.values()):
        rows.append([f"{x} less {y}", *(_less(by[x], by[y]) for by in of.values())])
    said = "of the perceived group" if accuracy else "S: share of pairs in which a profession of the first list is seen"
    return StudyTable(
        name="accuracy" if accuracy else "association",
        title=f"Accuracy {said}" if accuracy else said,
        source="table 4" if accuracy else "table 5, and the differential association",
        columns=["group", *numbers],
        rows=rows,
        note=_ALIKE,
    )


def _less(one: ResampledNumber, other: ResampledNumber) -> Estimate:
    return ResampledNumber(one.value - other.value, one.draws - other.draws, one.n + other.n).estimate()


def _one_sided(groups: _Groups, answered: _Answered, options: PairsOptions, model: str) -> StudyTable:
    rows: list[list[StudyCell]] = []
    shares = {
        (one, other): groups.numbers(answered.choices[:, a, b], options.attribute)
        for (a, one), (b, other) in product(enumerate(options.first), enumerate(options.second))
    }
    names = list(next(iter(shares.values())))
    for group, (pair, by) in product(names, shares.items()):
        if not 1 - MOSTLY <= by[group].value <= MOSTLY:
            rows.append([group, *pair, by[group].estimate()])
    return StudyTable(
        name="pairs",
        title=f"Pairs with more than {MOSTLY:.0%} of a group's pictures for one side, by {model}",
        source="tables 6 and 7",
        columns=["group", "first", "second", "share taken for the first"],
        rows=rows,
        note=f"{len(rows)} of {len(shares)} pairs x {len(names)} groups. {_ALIKE}",
    )


def _figure(groups: _Groups, answers: Mapping[str, _Answered], options: PairsOptions) -> StudyFigure:
    of = [groups.numbers(one.choices.mean(axis=(1, 2)), options.attribute) for one in answers.values()]
    series = []
    for group in (one for one in options.labels if one in of[0]):
        limits = [by[group].estimate() for by in of]
        series.append(
            FigureSeries(
                name=group,
                x=list(answers),
                y=[one.value for one in limits],
                lo=[one.lo for one in limits],
                hi=[one.hi for one in limits],
            )
        )
    return StudyFigure(
        name="association-figure",
        title=f"S by {options.attribute}",
        source="figures 3, 20 and 21, right",
        kind="bars",
        x_label="model (in the paper: noise samples)",
        y_label="share of pairs taken for the first list",
        series=series,
        reference={"neither": 0.5},
        note=_ALIKE,
    )


def _sheets(
    groups: _Groups, answered: _Answered, options: PairsOptions
) -> Iterator[tuple[str, tuple[StudyPicture, bytes]]]:
    """Of every group, the pictures taken for one profession of the pair above those taken for the other."""
    one, other = options.sorted_by
    won = answered.choices[:, options.first.index(one), options.second.index(other)]
    for code in np.unique(groups.codes).tolist():
        own, name = groups.codes == code, groups.names[code]
        rows = [(word, np.flatnonzero(own & side)) for word, side in ((one, won > 0.5), (other, won < 0.5))]
        wanted = {int(row) for _, places in rows for row in places[:SHOWN]}
        pictures = {
            int(row): data
            for batch, blobs in groups.release.image_batches(256)
            for row, data in zip(batch, blobs, strict=True)
            if int(row) in wanted
        }
        sheet = picture_rows(
            [(f"{word}\n{len(places)} of {own.sum()}", [pictures[int(row)] for row in places[:SHOWN]])
             for word, places in rows]
        )  # fmt: skip
        out = io.BytesIO()
        sheet.save(out, format="PNG", optimize=True)
        picture = StudyPicture(
            name=slug(f"sorted {name}"),
            title=f"{name}: taken for {with_article(one)}, and for {with_article(other)}",
            source="figures 16 to 19",
            alt=f"Two rows of pictures of {name}: those taken for {one}, and those taken for {other}",
        )
        yield picture.name, (picture, out.getvalue())
