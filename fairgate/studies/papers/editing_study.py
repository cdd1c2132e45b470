"""What edits of people change (Saravanan et al. 2023): flips of the perceived gender and the skin of average faces, by
group, class of words and strength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset
from fairgate.ground.errors import ModelError, SettingsError
from fairgate.metrics import Floats
from fairgate.models import (
    Editing,
    EditingModel,
    ImageSource,
    LabelModel,
    Model,
    open_scorer,
    require_capability,
    require_told_apart,
)
from fairgate.records import StudyModel
from fairgate.studies.papers.contents import StudyContents
from fairgate.studies.papers.edited_faces import (
    ChosenImages,
    ResampledNumber,
    SeenPictures,
    angle,
    average,
    choose,
    faces_of,
    required_labels,
    weights_of,
)
from fairgate.studies.papers.editing_options import PAPER, SHOWN, EditingOptions, FoundEdits, Key
from fairgate.studies.papers.editing_tables import (
    edited_table,
    figures,
    image_table,
    main_table,
    originals_table,
    reader_table,
    sheets,
    words_table,
)


def image_editing_study(release: Dataset, uri: str, options: EditingOptions) -> StudyContents:
    """Tables 1 to 3 and figures 3 to 15, 20 and 21 (left, middle) of one model on one release.

    Raises DatasetError for an attribute or groups that the release lacks, SettingsError for options that make no sense,
    ModelError for a model that edits nothing, a reader that reads nothing or is not the one that is pinned, and for
    texts that one cannot tell apart.
    """
    options = _required(release, options)
    chosen = choose(release, options.images, options.seed)
    model = cast(EditingModel, _opened(uri, chosen, options))
    require_capability(model, "edit", f"fairgate study image-editing --model {uri}")
    every = [word for words in options.words.values() for word in words]
    require_told_apart(model, "words", {word: options.prompt(word) for word in every}, f"--model {uri}")
    reader = _opened(options.reader, chosen, options)
    require_capability(reader, "log_probabilities", "the reader of edits")
    if options.reader_fingerprint not in (None, reader.fingerprint):
        raise ModelError(
            f"the reader of edits has the fingerprint {reader.fingerprint}, and {options.reader_fingerprint} is asked "
            "for.",
            where=f"--reader {options.reader}",
            remedy="put that checkpoint back, or give --reader-fingerprint of the one that is meant",
        )
    labels = {f"{group}={text}": text for group, text in options.labels.items()}
    require_told_apart(reader, "labels", labels, f"--reader {options.reader}")
    unpinned = f"To read later edits alike: --reader-fingerprint {reader.fingerprint}"
    found = _measured(model, chosen, options)
    drawn = dict(sheets(found, options))
    return StudyContents(
        title="What edits of people change",
        paper=PAPER,
        models=[
            StudyModel(name="edits", uri=uri, fingerprint=model.fingerprint),
            StudyModel(name="reader", uri=options.reader, fingerprint=reader.fingerprint),
        ],
        datasets=[release],
        settings={
            "template": options.template,
            **{f"words, {name}": list(words) for name, words in options.words.items()},
            "strengths": [f"{one:g}" for one in options.strengths],
            "images of a group": [f"{name}: {n}" for name, n in _counts(chosen).items()],
            "steps": options.steps,
            "guidance": options.guidance,
            **{f"reader's prompt, {group}": text for group, text in options.labels.items()},
            "skin": options.skin,
            "crop": "none" if options.crop is None else " ".join(f"{one:g}" for one in options.crop),
            "aligned": "yes" if options.aligned else "no",
            "draws": options.draws,
            "seed": options.seed,
        },
        tables=[
            reader_table(found, options),
            main_table(found, options),
            words_table(found, options),
            originals_table(found),
            edited_table(found, options),
            image_table(found, options),
        ],
        figures=list(figures(found, options)),
        pictures=[picture for picture, _ in drawn.values()],
        drawn={name: data for name, (_, data) in drawn.items()},
        notes=[
            "Intervals are 95% percentile bootstraps of the original images, each with its edits; n counts images. "
            "Where every resample gives the same number there is no interval.",
            "The reader and the rule for skin are instruments with errors of their own: look at the sheets.",
        ]
        + _fewer(chosen, options.images)
        + ([] if options.reader_fingerprint else [unpinned])
        + ([] if options.aligned else ["Average faces need aligned pictures: give --aligned where they are."]),
    )


def _opened(uri: str, source: ImageSource, options: EditingOptions) -> Model:
    progress = None if options.progress is None else partial(options.progress, uri)
    return open_scorer(uri, source, device=options.device, cache=options.cache, base=options.root, progress=progress)


def _counts(chosen: ChosenImages) -> dict[str, int]:
    return dict(zip(chosen.names, np.bincount(chosen.groups, minlength=len(chosen.names)).tolist(), strict=True))


def _fewer(chosen: ChosenImages, images: int) -> list[str]:
    """A note on groups with fewer images than `--images` says."""
    few = [f"{name} {n}" for name, n in _counts(chosen).items() if n < images]
    return [f"{images} images of every group are wanted, and the release has fewer: {', '.join(few)}."] * bool(few)


def _required(release: Dataset, options: EditingOptions) -> EditingOptions:
    """With labels by the names that the release gives its groups."""
    labels = required_labels(release, options.attribute, options.labels, "GROUP=PROMPT")
    words = [word for several in options.words.values() for word in several]
    if not words or len(set(words)) < len(words):
        raise SettingsError("words are missing or given twice.", where="--words", remedy="--words CLASS=word,word")
    if not any(part in options.template for part in ("{word}", "{a_word}")):
        raise SettingsError("the template names no word.", where="--template", remedy="put {a_word} or {word} in it")
    return replace(options, labels=labels)


def _measured(model: EditingModel, chosen: ChosenImages, options: EditingOptions) -> FoundEdits:
    before = _seen(chosen, options)
    edits: dict[tuple[str, float], SeenPictures] = {}
    flips, lighter, after = dict[Key, ResampledNumber](), dict[Key, ResampledNumber](), dict[Key, ResampledNumber]()
    faces: dict[Any, NDArray[np.uint8]] = {}
    originals = {}
    weights = {}
    for code, name in enumerate(chosen.names):
        rows = np.flatnonzero(chosen.groups == code)
        weights[code] = weights_of(len(rows), options.draws, options.seed, name)
        originals[code], faces[code] = _angles(before.faces[rows], weights[code], len(rows), options)
    for (kind, words), strength in product(options.words.items(), options.strengths):
        for word in words:
            how = Editing(strength, options.seed, options.steps, options.guidance)
            edits[word, strength] = _seen(model.edit(options.prompt(word), how), options)
        for code in range(len(chosen.names)):
            rows, key = np.flatnonzero(chosen.groups == code), (kind, strength, code)
            seen = [edits[word, strength] for word in words]
            flipped = np.mean([one.perceived[rows] != before.perceived[rows] for one in seen], axis=0)
            drawn = weights[code] @ flipped / len(rows)
            flips[key] = ResampledNumber(float(flipped.mean()), drawn, len(rows))
            every = np.concatenate([one.faces[rows] for one in seen])
            after[key], faces[key] = _angles(every, np.tile(weights[code], len(words)), len(rows), options)
            lighter[key] = _less(after[key], originals[code])
        for word in words:  # of the edits themselves, only what sheets show is needed further on
            one = edits[word, strength]
            edits[word, strength] = SeenPictures(one.perceived, one.angles, one.faces[:0], _first(one.shown, chosen))
    return FoundEdits(chosen, before, edits, flips, lighter, originals, after, faces)


def _seen(source: ImageSource, options: EditingOptions) -> SeenPictures:
    angles, faces, blobs = faces_of(source, options.crop, options.skin)
    reader = cast(LabelModel, _opened(options.reader, source, options))
    log_p = reader.log_probabilities(list(options.labels.values()))
    perceived = np.array(list(options.labels), dtype=object)[log_p.argmax(axis=1)]
    return SeenPictures(perceived, angles, faces, blobs)


def _first(blobs: Sequence[bytes], chosen: ChosenImages) -> list[bytes]:
    """The pictures that a sheet shows, of every group; of the others nothing."""
    shown = {row for code in range(len(chosen.names)) for row in np.flatnonzero(chosen.groups == code)[:SHOWN]}
    return [data if at in shown else b"" for at, data in enumerate(blobs)]


def _angles(
    faces: NDArray[np.uint8], weights: Floats, images: int, options: EditingOptions
) -> tuple[ResampledNumber, NDArray[np.uint8]]:
    """The angle of an average face of so many images, or of their edits, with its resamples, and the face."""
    face = average(faces, np.ones(len(faces)))
    if not options.aligned:
        nothing = np.full(len(weights), np.nan)
        return ResampledNumber(np.nan, nothing, images, "the pictures are not said to be aligned (--aligned)"), face
    drawn = np.array([angle(average(faces, one), options.skin) for one in weights])
    return ResampledNumber(angle(face, options.skin), drawn, images), face


def _less(after: ResampledNumber, before: ResampledNumber) -> ResampledNumber:
    return ResampledNumber(after.value - before.value, after.draws - before.draws, after.n, after.why or before.why)
