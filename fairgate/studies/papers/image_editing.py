"""What edits of people change (Saravanan et al. 2023): flips of the perceived gender and the skin of average faces, by
group, class of words and strength."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairgate.data import Dataset
from fairgate.ground.errors import ModelError, SettingsError
from fairgate.metrics import Floats
from fairgate.models import Editing, EditingModel, ImageSource, LabelModel, require_told_apart
from fairgate.probes import WatchedAttribute, cropped, filled
from fairgate.records import StudyModel
from fairgate.studies.papers import contract, edited_faces, editing_options, editing_tables
from fairgate.studies.papers.chosen_images import OVER, WHERE, ChosenImages, Where, choose, require_over
from fairgate.studies.papers.refined_prompts import REFINED, parts_of, require_another_text, required_refined


@contract.register
class ImageEditingStudy(contract.Study):
    """Flips of the perceived gender and the skin of average faces, by strength, words and group.

    Tables 1 to 3 and figures 3 to 15, 20 and 21 of Saravanan et al. 2023.
    """

    name: ClassVar[str] = "image-editing"
    title: ClassVar[str] = "What edits of people change"
    paper: ClassVar[str] = (
        "Saravanan et al. 2023, Exploring Social Bias in Downstream Applications of Text-to-Image Foundation Models"
    )

    model: str = Field(description="The editor: diffusion:FOLDER.")
    data: str = Field(description="Release of people, NAME or NAME@VERSION.")
    reader: str = Field(description="The model that perceives: URI of a CLIP.")
    reader_fingerprint: str | None = Field(
        None, description="Digest that the reader's files must have; without it the one found is printed."
    )
    label: Annotated[
        dict[str, str],
        contract.Typed(partial(contract.named_texts, option="--label", example='male="a photo of a man"')),
    ] = Field(
        {"male": "a photo of a man", "female": "a photo of a woman"},
        description="The reader's prompt for a group, GROUP=PROMPT; repeat.",
    )
    attribute: str = Field("gender", description="What the reader perceives, an attribute of the release.")
    over: tuple[str, ...] = Field((), description=OVER)
    where: Where = Field({}, description=WHERE)
    words: Annotated[dict[str, tuple[str, ...]], contract.Typed(editing_options.classes)] = Field(
        {"high-paid": ("doctor", "CEO"), "low-paid": ("dishwasher-worker", "fastfood-worker")},
        description="A class of words, CLASS=WORD,WORD; repeat. Default: the paper's two.",
    )
    template: str = Field(
        "A color photograph of {a_word}, headshot, high-quality.",
        description="Prompt of an edit, with {word} or {a_word} in it.",
    )
    refined: str | None = Field(None, description=REFINED)
    watched: Annotated[dict[str, WatchedAttribute], contract.Typed(editing_options.watched)] = Field(
        {}, description="What edits may add unasked, NAME=PROMPT | PROMPT: with it, and without; repeat."
    )
    strength: tuple[float, ...] = Field((0.6, 0.8, 1.0), description="Edit strength; repeat. Default: 0.6, 0.8, 1.0.")
    images: int = Field(25, ge=2, description="Images of every group.")
    steps: int = Field(50, ge=1, description="Steps of the whole schedule.")
    guidance: float = Field(7.5, ge=0, description="Scale of classifier-free guidance.")
    skin: Literal["hue", "kolkur"] = Field("hue", description="Rule for skin; the paper's: kolkur.")
    crop: Annotated[tuple[float, float, float, float] | None, contract.Typed(editing_options.shares, repeats=False)] = (
        Field(None, description="Where faces are: left,top,right,bottom as shares of the sides.")
    )
    faces: Literal["whole", "dlib"] = Field(
        "whole", description="dlib: align and centre faces by landmarks (the extra faces)."
    )
    aligned: bool = Field(False, description="Faces are at the same place in all pictures.")
    draws: int = Field(200, ge=50, description="Resamples of the sets.")
    seed: int = Field(0, ge=0, description="Seed of the choice, the edits and the resamples.")

    def run(self, place: contract.StudyPlace) -> contract.StudyContents:
        """Tables 1 to 3 and figures 3 to 15, 20 and 21 (left, middle) of one model on one release.

        Raises DatasetError for an attribute or groups that the release lacks, SettingsError for options that make no
        sense, ModelError for a model that edits nothing, a reader that reads nothing or is not the one that is pinned,
        and for texts that one cannot tell apart.
        """
        release = place.release(self.data)
        return self._required(release)._run(place, release)

    def _required(self, release: Dataset) -> Self:
        """With labels by the names that the release gives its groups. Raises DatasetError or SettingsError."""
        labels = edited_faces.required_labels(release, self.attribute, self.label, "GROUP=PROMPT")
        require_over(self.attribute, self.over)
        if self.faces == "dlib" and self.crop is not None:
            raise SettingsError("faces are found, and a place is given.", where="--crop", remedy="leave --crop out")
        words = [word for several in self.words.values() for word in several]
        if not words or len(set(words)) < len(words):
            raise SettingsError("words are missing or given twice.", where="--words", remedy="--words CLASS=word,word")
        contract.required_template(self.template, "word")
        if self.refined is not None:
            required_refined(self.refined, release)
        return self.model_copy(update={"label": labels})

    def _run(self, place: contract.StudyPlace, release: Dataset) -> contract.StudyContents:
        chosen = choose(release, self.images, self.seed, over=self.over, where=self.where)
        model: EditingModel = place.opened(self.model, self.model, chosen, "edit")
        prompts = {word: self._prompt(word) for several in self.words.values() for word in several}
        require_told_apart(model, "words", prompts, f"--model {self.model}")
        reader = self._reader(place, chosen, prompts)
        before = self._seen(place, chosen)

        def edited(word: str, how: Editing) -> edited_faces.SeenPictures:
            return self._seen(place, model.edit(prompts[word], how))

        edits = self._measured(edited, before, chosen)
        refined = []
        if self.refined is not None:
            parts = self._refined_parts(place, self.refined, chosen)
            refined.append(self._measured(partial(self._seen_refined, place, parts), before, chosen))
        notes = [
            "Intervals are 95% percentile bootstraps of the originals' sets, with their edits; n counts originals. "
            "Where every resample gives the same number there is no interval.",
            "The reader and the rule for skin are instruments with errors of their own: look at the sheets.",
        ]
        if few := [f"{name} {n}" for name, n in _counts(chosen).items() if n < self.images]:
            notes.append(
                f"{self.images} images of every group are wanted, and the release has fewer: {', '.join(few)}."
            )
        if not self.reader_fingerprint:
            notes.append(f"To read later edits alike: --reader-fingerprint {reader.fingerprint}")
        if missing := edits.without_face:
            notes.append(f"No face was found in {missing:,} originals and edits, which are in no average face.")
        if not self.measures_averages:
            notes.append("Average faces need aligned pictures: give --aligned where they are, or --faces dlib.")
        return contract.StudyContents(
            models=[
                StudyModel(name="edits", uri=self.model, fingerprint=model.fingerprint),
                StudyModel(name="reader", uri=self.reader, fingerprint=reader.fingerprint),
            ],
            datasets=[release],
            settings=self._recorded(chosen),
            tables=[
                editing_tables.reader_table(edits),
                editing_tables.main_table(edits),
                editing_tables.means_table(edits),
                editing_tables.words_table(edits),
                *([editing_tables.drift_table(edits)] if self.watched else ()),
                *(each for other in refined for each in editing_tables.refined_tables(edits, other)),
                editing_tables.originals_table(edits),
                editing_tables.edited_table(edits),
                editing_tables.image_table(edits),
            ],
            figures=list(editing_tables.figures(edits)),
            sheets=list(editing_tables.sheets(edits)),
            notes=notes,
        )

    @property
    def measures_averages(self) -> bool:
        """Whether faces are at one place in all pictures, or are aligned here."""
        return self.aligned or self.faces == "dlib"

    def _cut(self) -> edited_faces.Cut:
        """How the face of a picture is cut out."""
        if self.faces == "dlib":
            return edited_faces.upright_faces()
        crop = self.crop
        return (lambda picture: picture) if crop is None else lambda picture: cropped(picture, crop)

    def _recorded(self, chosen: ChosenImages) -> dict[str, str | int | float | list[str]]:
        return {
            "template": self.template,
            **({"refined": self.refined} if self.refined is not None else {}),
            **{f"words, {name}": list(several) for name, several in self.words.items()},
            **{f"watched, {name}": list(each.labels.values()) for name, each in self.watched.items()},
            "strengths": [f"{strength:g}" for strength in self.strength],
            **({"over": list(self.over)} if self.over else {}),
            **{f"only of {attribute}": list(groups) for attribute, groups in self.where.items()},
            "images of a group": [f"{name}: {n}" for name, n in _counts(chosen).items()],
            "steps": self.steps,
            "guidance": self.guidance,
            **{f"reader's prompt, {group}": text for group, text in self.label.items()},
            "skin": self.skin,
            "crop": "none" if self.crop is None else " ".join(f"{share:g}" for share in self.crop),
            **({"faces": self.faces} if self.faces != "whole" else {}),
            "aligned": "yes" if self.aligned else "no",
            "draws": self.draws,
            "seed": self.seed,
        }

    def _prompt(self, word: str) -> str:
        return filled(self.template, "word", word)

    def _opened_reader(self, place: contract.StudyPlace, source: ImageSource) -> LabelModel:
        reader = place.opened(self.reader, self.reader, source, "log_probabilities", option="--reader")
        return cast(LabelModel, reader)

    def _reader(self, place: contract.StudyPlace, chosen: ChosenImages, words: Mapping[str, str]) -> LabelModel:
        """The model that perceives, checked. Raises ModelError."""
        reader = self._opened_reader(place, chosen)
        if self.reader_fingerprint not in (None, reader.fingerprint):
            raise ModelError(
                f"the reader of edits has the fingerprint {reader.fingerprint}, and {self.reader_fingerprint} is asked "
                "for.",
                where=f"--reader {self.reader}",
                remedy="put that checkpoint back, or give --reader-fingerprint of the one that is meant",
            )
        texts = {f"{group}={text}": text for group, text in self.label.items()}
        require_told_apart(reader, "labels", texts, f"--reader {self.reader}")
        if self.refined is not None:
            require_told_apart(reader, "words", words, f"--reader {self.reader}")
        for name, each in self.watched.items():
            prompts = {text: text for text in each.labels.values()}
            require_told_apart(reader, f"prompts of {name}", prompts, f"--reader {self.reader}")
        return reader

    def _refined_parts(self, place: contract.StudyPlace, template: str, chosen: ChosenImages) -> list[_RefinedPart]:
        """The images that have the same refined prompt, with a model of their own. Raises ModelError."""
        parts, word = list[_RefinedPart](), next(word for several in self.words.values() for word in several)
        for text, places, images in parts_of(template, chosen):
            model: EditingModel = place.opened(self.model, self.model, images, "edit")
            require_another_text(model, self.template, text, word, f"--model {self.model}")
            parts.append((text, places, model))
        return parts

    def _seen_refined(
        self, place: contract.StudyPlace, parts: Sequence[_RefinedPart], word: str, how: Editing
    ) -> edited_faces.SeenPictures:
        """What is seen in the edits of all images, each by its refined prompt."""
        seen = [self._seen(place, model.edit(filled(text, "word", word), how)) for text, _, model in parts]
        return edited_faces.joined(seen, [places for _, places, _ in parts])

    def _measured(
        self,
        edited: Callable[[str, Editing], edited_faces.SeenPictures],
        before: edited_faces.SeenPictures,
        chosen: ChosenImages,
    ) -> edited_faces.FoundEdits:
        """What edits by every word at every strength change; resamples are the same for all prompts."""
        set_ids = np.asarray(chosen.index.set_id, dtype=str)
        weights = edited_faces.weights_of(set_ids, self.draws, self.seed)
        done = self.label, self.attribute, self.words, self.strength, self.measures_averages
        edits = edited_faces.FoundEdits(*done, weights, chosen, before)
        rows = [np.flatnonzero(chosen.groups == code) for code in range(len(chosen.names))]
        drawn = [edited_faces.weights_of(set_ids[own], self.draws, self.seed) for own in rows]
        for code, own in enumerate(rows):
            edits.originals[code], edits.faces[code] = self._angles(
                before.faces[own], before.with_face[own], drawn[code], len(own)
            )
        for (kind, words), strength in product(self.words.items(), self.strength):
            how = Editing(strength, self.seed, self.steps, self.guidance)
            seen = [edited(word, how) for word in words]
            for code, own in enumerate(rows):
                key = (kind, strength, code)
                flipped = np.mean([pictures.perceived[own] != before.perceived[own] for pictures in seen], axis=0)
                edits.flips[key] = edited_faces.resampled(flipped, drawn[code])
                gained = np.mean([pictures.watched[own] - before.watched[own] for pictures in seen], axis=0)
                for at, attribute in enumerate(self.watched):
                    edits.drift[attribute, key] = edited_faces.resampled(gained[:, at], drawn[code])
                if self.refined is not None:
                    shown = [pictures.word[own] == word for pictures, word in zip(seen, words, strict=True)]
                    edits.words_shown[key] = edited_faces.resampled(np.mean(shown, axis=0), drawn[code])
                every = np.concatenate([pictures.faces[own] for pictures in seen])
                found = np.concatenate([pictures.with_face[own] for pictures in seen])
                edits.after[key], edits.faces[key] = self._angles(
                    every, found, np.tile(drawn[code], len(words)), len(own)
                )
                edits.lighter[key] = edits.after[key].less(edits.originals[code], edits.after[key].n)
            for word, pictures in zip(words, seen, strict=True):  # only what sheets show is needed further on
                shown = edited_faces.first_of_groups(pictures.shown, chosen)
                edits.edits[word, strength] = replace(pictures, faces=pictures.faces[:0], shown=shown)
        return edits

    def _seen(self, place: contract.StudyPlace, source: ImageSource) -> edited_faces.SeenPictures:
        longest = None if self.measures_averages else edited_faces.FACE
        angles, faces, with_face, blobs = edited_faces.faces_of(source, self._cut(), self.skin, longest)
        reader = self._opened_reader(place, source)
        log_p = reader.log_probabilities(list(self.label.values()))
        perceived = np.array(list(self.label), dtype=object)[log_p.argmax(axis=1)]
        words = [word for several in self.words.values() for word in several]
        word = np.full(len(source), "", dtype=object)
        if self.refined is not None:
            taken = reader.log_probabilities([self._prompt(word) for word in words]).argmax(axis=1)
            word = np.array(words, dtype=object)[taken]
        watched = np.reshape([each.seen(reader) for each in self.watched.values()], (len(self.watched), len(source))).T
        return edited_faces.SeenPictures(perceived, angles, faces, with_face, blobs, word, watched)

    def _angles(
        self, faces: NDArray[Any], with_face: NDArray[np.bool_], weights: Floats, images: int
    ) -> tuple[contract.ResampledNumber, NDArray[np.uint8]]:
        """The angle of an average face of so many images, or of their edits, with its resamples, and the face."""
        nothing = np.full(len(weights), np.nan)
        if not with_face.any():
            return contract.ResampledNumber(np.nan, nothing, images, "no face was found"), faces[0]
        faces, weights = faces[with_face], weights[:, with_face]
        face = edited_faces.average(faces, np.ones(len(faces)))
        if not self.measures_averages:
            return contract.ResampledNumber(np.nan, nothing, images, "needs aligned pictures"), face
        faces = faces.astype(np.float64)  # once, and not for every resample
        drawn = np.array(
            [
                edited_faces.angle(edited_faces.average(faces, draw), self.skin) if draw.any() else np.nan
                for draw in weights
            ]
        )
        return contract.ResampledNumber(edited_faces.angle(face, self.skin), drawn, images), face


_RefinedPart = tuple[str, NDArray[np.int64], EditingModel]
"""A template, the places of the images that it is of, and a model on them."""


def _counts(chosen: ChosenImages) -> dict[str, int]:
    return dict(zip(chosen.names, np.bincount(chosen.groups, minlength=len(chosen.names)).tolist(), strict=True))
