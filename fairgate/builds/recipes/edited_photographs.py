"""What `gensynth` and `genswap` share: COCO-style photographs with one person whose gender the captions name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from fairgate.builds.opening import open_model
from fairgate.builds.recipes.contract import Before, Part, Recipe, RecipeSettings, drawn, in_shards
from fairgate.builds.steps import (
    PHOTO,
    WIDER_WORDS,
    WORDS,
    CropPerson,
    GenderWords,
    LabelByCaptions,
    OnePerson,
    PerceivePerson,
    Photographs,
    SetRows,
    Step,
    Trace,
)
from fairgate.data import AnnotatedImage, read_coco
from fairgate.ground.errors import RecipeError
from fairgate.models.generation import Matcher

PAPER = "Smith et al., Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023"
GROUPS = ("male", "female")
"""What captions name; the members of every set, in this order."""


class PhotographSettings(RecipeSettings):
    """Where the photographs are, and which of them are used."""

    recipe: ClassVar[str]

    captions: Path = Path("data/coco/annotations/captions_train2017.json")
    instances: Path = Path("data/coco/annotations/instances_train2017.json")
    images: Path = Path("data/coco/train2017")
    category: str = Field("person", description="The category whose boxes are counted.")
    subjects: dict[str, list[str]] = Field(
        {"person": []},
        min_length=1,
        description="Subject -> words of which a caption has one. An image goes to the first subject that it names; "
        "a subject without words takes every image. The paper has one subject.",
    )
    gender_words: Literal["published", "wider"] = Field("published", description="Words that name a gender.")
    perceived: list[str] = Field(
        default_factory=list,
        description="Attributes that a face reader notes of the photograph's person (`perceived_ATTRIBUTE`); the paper "
        "notes none.",
    )
    face_reader: str = "fairface:models/fairface_alldata_4race_20191111.pt"
    min_side: int = Field(1, ge=1, description="Shortest side of a person box, in pixels.")
    sets: int | None = Field(None, ge=1, description="Sets to keep per subject; the paper keeps what it finds.")

    @field_validator("subjects")
    @classmethod
    def _words_are_words(cls, subjects: dict[str, list[str]]) -> dict[str, list[str]]:
        if any(not word.strip() for words in subjects.values() for word in words):
            raise ValueError("a subject's words are not empty")
        return subjects

    def of_subject(self, subject: str) -> Self:
        """The subject and those before it, which take photographs away from it."""
        names = list(self.subjects)
        return self.model_copy(
            update={"subjects": {name: self.subjects[name] for name in names[: names.index(subject) + 1]}}
        )

    @property
    def words(self) -> GenderWords:
        return WIDER_WORDS if self.gender_words == "wider" else WORDS

    @property
    def reader(self) -> dict[str, str]:
        """The face reader as a role, where an attribute is to be perceived."""
        return {"face_reader": self.face_reader} if self.perceived else {}

    @property
    def photographs(self) -> Photographs:
        return Photographs(self.images)

    def crop_matcher(self, device: str) -> Matcher | None:
        """The model that embeds crops, where the recipe needs one."""
        return None


class EditedPart(Part):
    """A part of `gensynth` or `genswap`, whose sets are photographs."""

    settings: PhotographSettings

    def continued(self, subject: str, before: Before, ids: Sequence[str]) -> Iterator[list[SetRows]]:
        """Stored sets as starting sets, in an order of this part: the first accepted are a random sample of all."""
        stored = before.sets(drawn(ids, self.settings.recipe, subject, self.settings, self.name))
        copies = (replace(each, rows=[dict(row) for row in each.rows], columns=dict(each.columns)) for each in stored)
        return in_shards(copies, self.settings)


class MembersPart(EditedPart):
    """The part that makes the members: it ends with the wanted number of sets, where one is set."""

    ignores = ("sets", "wave")

    def target_sets(self, subject: str) -> int | None:
        """None: the paper keeps what it finds."""
        return self.settings.sets

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        return [trace.set_id for trace in traces if trace.kept][: self.settings.sets]


class PhotographsPart(EditedPart):
    """Photographs of a subject -> those with one person and one gender named, each with its crop as member `photo`."""

    name: ClassVar[str] = "photos"

    def __init__(self, settings: PhotographSettings) -> None:
        super().__init__(settings)
        read = {*PhotographSettings.model_fields, "matcher"} - {"sets"}
        self.ignores = tuple(name for name in type(settings).model_fields if name not in read)

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """Every captioned image of the subject, by ascending id."""
        return in_shards((self._start(subject, image) for image in images_of(self.settings, subject)), self.settings)

    def _start(self, subject: str, image: AnnotatedImage) -> SetRows:
        name, columns = f"{image.image_id:012d}", {PHOTO: image.file, **image.columns()}
        return SetRows(
            name, subject, (self.settings.recipe, subject, name), self.settings.seed, [{"member": PHOTO}], columns
        )

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """Annotations first: no photograph is opened that they rule out."""
        settings = self.settings
        steps: list[Step] = [
            OnePerson(settings.min_side),
            LabelByCaptions(settings.words),
            CropPerson(settings.photographs, settings.crop_matcher(device)),
        ]
        if settings.perceived:
            reader = open_model("face_reader", settings.face_reader, device=device)
            steps.append(PerceivePerson(reader, tuple(settings.perceived)))
        return steps


class EditedPhotographs(Recipe):
    """Pairs of one photograph."""

    paper: ClassVar[str] = PAPER
    counterfactual = True
    settings: PhotographSettings

    def subjects(self) -> list[str]:
        """What the captions are searched for; the paper has one subject, the person."""
        return list(self.settings.subjects)

    def attributes(self) -> Mapping[str, Sequence[str]]:
        """Gender, as captions, instructions and the labels of faces name it."""
        return {"gender": list(GROUPS)}

    def inputs(self) -> Mapping[str, Path]:
        """The annotations. Photographs are held against their digests one by one."""
        return {"captions": self.settings.captions, "instances": self.settings.instances}

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        return [{**row, "recipe": self.name} for row in super().finish(rows)]


def images_of(settings: PhotographSettings, subject: str) -> list[AnnotatedImage]:
    """The images whose captions name this subject and no earlier one of `subjects`. Raises RecipeError for none."""
    annotated = _read(settings.captions, settings.instances, category=settings.category)
    images = [image for image in annotated if _subject(settings.subjects, image.captions) == subject]
    if not images:
        raise RecipeError(
            f"no image's captions name the subject '{subject}'.",
            where=f"subjects: {subject}: {', '.join(settings.subjects[subject])}",
            remedy="give words that captions contain, or an empty list to take every image",
        )
    return images


def _subject(subjects: Mapping[str, Sequence[str]], captions: Sequence[str]) -> str | None:
    text = "\n".join(captions)
    for subject, words in subjects.items():
        either = "|".join(map(re.escape, words))
        if not words or re.search(rf"(?<!\w)(?:{either})(?!\w)", text, re.IGNORECASE):
            return subject
    return None


_read = lru_cache(maxsize=1)(read_coco)
