"""`genswap`: a face in a photograph replaced by one of each gender, the weak baseline of `gensynth` (paper 5).

Smith et al.: Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023, appendix
A.2. Two parts: `photos` as in `gensynth`, and `swaps`: a face is detected (MTCNN in the paper; here any detector that
takes a text), and FairFace faces of age 20 and above, drawn at random, one of each gender, are pasted over it. Nothing
is filtered: what comes of it is meant to be worse.

Departures. The face is looked for in the person's box, and the largest one is taken. The paper swaps faces in the same
subset as GenSynth, the photographs of which it kept an edit of each gender. That is `only`, a built `gensynth` dataset;
without it, which is the default, all photographs with one person and one gender are used, and the two do not compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from fairgate.builds.opening import open_model
from fairgate.builds.recipes.contract import Before, Part, RecipeSettings, register
from fairgate.builds.recipes.edited_photographs import (
    GROUPS,
    EditedPhotographs,
    MembersPart,
    PhotographSettings,
    PhotographsPart,
)
from fairgate.builds.steps import DescribeMembers, FacePool, FindFace, SetRows, Step, SwapFace
from fairgate.data import inside, read_labels
from fairgate.ground.errors import RecipeError

MIN_AGE = 20
"""The paper: "age attribute is greater than 19"; FairFace's groups are 0-2, 3-9, 10-19, 20-29, ..., more than 70."""
FAIRFACE_GENDERS = {"male": "Male", "female": "Female"}


class GenswapSettings(PhotographSettings):
    """Settings of `genswap`; the defaults are the paper's, but for `only`, which is empty."""

    recipe: ClassVar[str] = "genswap"

    only: Path | None = Field(None, description="A built dataset whose sets say which photographs are used.")
    faces: Path = Field(Path("data/fairface"), description="Folder of face photographs.")
    face_labels: Path = Field(Path("data/fairface/fairface_label_train.csv"), description="CSV of their labels.")
    face_file_column: str | None = Field(None, description="Column with the files' paths, where it is not plain.")
    face_gender_column: str = "gender"
    face_age_column: str = "age"
    face_genders: dict[str, str] = Field(FAIRFACE_GENDERS, description="Group -> its word in the labels.")
    min_age: int = Field(MIN_AGE, ge=0, description="Youngest age of a face, in years.")
    detector: str = "grounding-dino"
    face_text: str = Field("face", description="The detector's text.")
    box_threshold: float = Field(0.35, ge=0, le=1)
    text_threshold: float = Field(0.25, ge=0, le=1)

    @field_validator("face_genders")
    @classmethod
    def _both_groups_have_a_word(cls, words: dict[str, str]) -> dict[str, str]:
        if sorted(words) != sorted(GROUPS):
            raise ValueError(f"give the labels' word for each of: {', '.join(GROUPS)}")
        return {group: words[group] for group in GROUPS}


class Swaps(MembersPart):
    """A photograph -> a member per gender, or dropped where no face is found."""

    name: ClassVar[str] = "swaps"
    settings: GenswapSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """The photographs that `only` names, in random order."""
        only = self.settings.only
        used = None if only is None else _sets_of(only)
        ids = [name for name in before.set_ids if used is None or name in used]
        if not ids:
            raise RecipeError(
                f"none of the photographs of '{subject}' is to be used.",
                where=f"only: {only}",
                remedy="name a dataset that was built from the same photographs, or none",
            )
        return self.continued(subject, before, ids)

    def context(self, subject: str, before: Before) -> FacePool:
        return faces_of(self.settings)

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        detector = open_model("detector", settings.detector, device=device)
        return [
            FindFace(
                detector, settings.photographs, settings.face_text, settings.box_threshold, settings.text_threshold
            ),
            SwapFace(settings.photographs, context),
            DescribeMembers(settings.words),
        ]


def faces_of(settings: GenswapSettings) -> FacePool:
    """The faces old enough, group by group. Raises RecipeError where a group has none, DatasetError for bad labels."""
    labels = read_labels(settings.face_labels)
    column = labels.image_column(settings.face_file_column)
    labels.column(settings.face_gender_column, "should hold genders")
    labels.column(settings.face_age_column, "should hold ages")
    found: dict[str, list[str]] = {group: [] for group in settings.face_genders}
    for line, fields in labels:
        age = fields[settings.face_age_column]
        youngest = re.search(r"\d+", age)  # 20 of "20-29", 70 of "more than 70"
        if youngest is None:
            raise RecipeError(
                f"'{age}' is no age.",
                where=labels.place(line),
                remedy="give ages like FairFace's: 20-29, more than 70, or a number",
            )
        if int(youngest[0]) < settings.min_age:
            continue
        for group, word in settings.face_genders.items():
            if fields[settings.face_gender_column] == word:
                found[group].append(str(inside(fields[column], labels.place(line))))
    for group, paths in found.items():
        if not paths:
            raise RecipeError(
                f"there is no face of group '{group}' and age {settings.min_age} or above.",
                where=str(settings.face_labels),
                remedy=f"check face_genders: '{settings.face_genders[group]}' in column "
                f"'{settings.face_gender_column}'",
            )
    return FacePool(settings.faces, {group: tuple(paths) for group, paths in found.items()})


@lru_cache(maxsize=1)
def _sets_of(folder: Path) -> frozenset[str]:
    from fairgate.data import read_dataset

    return frozenset(read_dataset(folder).index.set_id.tolist())


@register
class Genswap(EditedPhotographs):
    """Pairs of one photograph: its face replaced by a male one, and by a female one."""

    name: ClassVar[str] = "genswap"
    Settings: ClassVar[type[RecipeSettings]] = GenswapSettings
    settings: GenswapSettings

    def parts(self) -> Sequence[Part]:
        return [PhotographsPart(self.settings), Swaps(self.settings)]

    def models(self) -> Mapping[str, str]:
        """One role, and a face reader where an attribute is perceived."""
        return {"detector": self.settings.detector, **self.settings.reader}

    def inputs(self) -> Mapping[str, Path]:
        """Annotations, labels, and the manifest of the dataset that says which photographs are used."""
        files = {**super().inputs(), "face_labels": self.settings.face_labels}
        return files if self.settings.only is None else {**files, "only": self.settings.only / "manifest.json"}
