"""`gensynth`: the person in a photograph edited into each gender, the background as it was (paper 5).

Smith et al.: Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023, sections 3.2
and 4, tables 4 and 7, appendices A and F. Three parts. `photos` takes COCO images with one person box whose captions
name one gender. `pilot` makes every edit of some of them, drawn at random: their crops and edits are the pool of the
nearest-neighbour filter. `edits` looks for one accepted edit of each group per photograph, pasted back into it. It
shares `photos` with `genswap`, and nothing with the other recipes.

Departures. The paper makes all edits of all photographs, filters them against all of them, and takes an accepted one at
random. Here the pool is fixed first (a random sample of photographs with all their edits, so that real and synthetic
images have the paper's proportion, 1 to 16), edits come in random order, and the first accepted one is taken: the same
distribution under that pool, at a fraction of the edits. The group that the photograph does not show is tried first and
a photograph without it is given up. Images of a candidate's own photograph are no neighbours of it (in the paper its 15
sisters are). Embeddings have unit length. Captions are searched on word boundaries and him/her are distinguished, where
the authors' code splits at blanks. Regions of several persons (`iscrowd`) rule an image out. Crops are edited with 512
pixels on their longer side, as InstructPix2Pix's script does; the paper names no size. Seeds are drawn from named
streams. Gender is what captions and instructions name; the annotators and the filter know two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from fairgate.builds.opening import open_model
from fairgate.builds.recipes.contract import Before, Part, RecipeSettings, Work, register
from fairgate.builds.recipes.edited_photographs import (
    GROUPS,
    EditedPart,
    EditedPhotographs,
    MembersPart,
    PhotographSettings,
    PhotographsPart,
)
from fairgate.builds.steps import (
    PHOTO,
    Candidate,
    DescribeMembers,
    EditAll,
    EditUntilAccepted,
    EditWorkshop,
    NeighbourPool,
    NeighbourRule,
    SetRows,
    Step,
    candidates,
)
from fairgate.models.generation import Matcher, Sampling

INSTRUCTIONS = {
    "male": [
        "Make this person more masculine",
        "Make this person look like a man",
        "Turn this person into a man",
        "Convert this into a man",
    ],
    "female": [
        "Make this person more feminine",
        "Make this person look like a woman",
        "Turn this person into a woman",
        "Convert this into a woman",
    ],
}
"""Table 7."""
GUIDANCES = (9.5, 15.0)
EDIT_STEPS = 500
NEIGHBOURS, TAU_REAL, TAU_GROUP = 50, 0.08, 0.5
"""Appendix A.3, with CLIP embeddings (ViT-B/32, as in section 5.1)."""
IMAGE_GUIDANCE = 1.5
"""InstructPix2Pix's own default; the paper names none."""
SIZE = 512
"""Pixels of the longer side, to which InstructPix2Pix's own script scales a picture; the paper names none."""
PILOT_PHOTOS = 500
"""Not from the paper: 8,500 images in the pool, 4% of the edits that the paper made."""


class GensynthSettings(PhotographSettings):
    """Settings of `gensynth`; the defaults are the paper's, with CLIP as the filter's eyes."""

    recipe: ClassVar[str] = "gensynth"

    instructions: dict[str, list[str]] = Field(INSTRUCTIONS, description="Group -> the editor's instructions.")
    guidances: list[float] = Field(list(GUIDANCES), min_length=1)
    edit_steps: int = Field(EDIT_STEPS, ge=1)
    image_guidance: float = IMAGE_GUIDANCE
    size: int | None = Field(
        SIZE, ge=1, description="Longer side at which crops are edited, in pixels; each crop's own when empty."
    )
    scheduler: str | None = None
    editor: str = "instruct-pix2pix"
    matcher: str = "hf:openai/clip-vit-base-patch32"

    neighbours: int = Field(NEIGHBOURS, ge=1)
    tau_real: float = Field(TAU_REAL, ge=0, le=1)
    group_neighbours: int | None = Field(
        None, ge=1, description="Neighbours for tau_group, where they are not the same."
    )
    tau_group: float = Field(TAU_GROUP, ge=0, le=1)

    pilot_photos: int = Field(
        PILOT_PHOTOS, ge=1, description="Photographs whose crops and edits are the filter's pool."
    )
    wave: int = Field(1, ge=1, description="Edits that are made before they are judged; changes no choice.")
    batch: int = Field(8, ge=1, description="Edits that the editor is given at once.")

    @field_validator("instructions")
    @classmethod
    def _both_groups_have_instructions(cls, instructions: dict[str, list[str]]) -> dict[str, list[str]]:
        if sorted(instructions) != sorted(GROUPS) or not all(instructions.values()):
            raise ValueError(f"give instructions for each of: {', '.join(GROUPS)}")
        return {group: instructions[group] for group in GROUPS}

    @model_validator(mode="after")
    def _the_pool_holds_the_neighbours(self) -> GensynthSettings:
        most = max(self.neighbours, self.group_neighbours or 0)
        pool = (self.pilot_photos - 1) * (1 + len(self.candidates))
        if most > pool:
            raise ValueError(
                f"{most} neighbours are needed, and the crops and edits of {self.pilot_photos} photographs "
                f"(`pilot_photos`) are a pool of {pool} for each of them; raise pilot_photos, or lower neighbours and "
                "group_neighbours"
            )
        return self

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every edit that a photograph can get: 4 instructions x 2 guidances x 2 groups, as published."""
        hows = [
            Sampling(
                self.edit_steps, guidance, image_guidance=self.image_guidance, size=self.size, scheduler=self.scheduler
            )
            for guidance in self.guidances
        ]
        return tuple(candidates(self.instructions, hows))

    @property
    def rule(self) -> NeighbourRule:
        """Eq. 5 with these thresholds."""
        return NeighbourRule(self.neighbours, self.group_neighbours or self.neighbours, self.tau_real, self.tau_group)

    def crop_matcher(self, device: str) -> Matcher:
        """The filter's: real crops are in its pool."""
        found: Matcher = open_model("matcher", self.matcher, device=device)
        return found

    def workshop(self, device: str) -> EditWorkshop:
        return EditWorkshop(open_model("editor", self.editor, device=device), self.crop_matcher(device), self.batch)


class Pilot(EditedPart):
    """Every edit of `pilot_photos` photographs; the others pass through. Nothing is dropped."""

    name: ClassVar[str] = "pilot"
    ignores = ("neighbours", "tau_real", "group_neighbours", "tau_group", "sets", "wave")
    settings: GensynthSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """All photographs in a drawn order; the first of them are the pilot."""
        numbers = count()
        for starts in self.continued(subject, before, before.set_ids):
            for start in starts:
                start.columns["pilot"] = next(numbers) < self.settings.pilot_photos
            yield starts

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        return [EditAll(settings.workshop(device), settings.photographs, settings.candidates)]


class Edits(MembersPart):
    """A photograph -> its accepted edit of each group, or dropped with the group that has none."""

    name: ClassVar[str] = "edits"
    settings: GensynthSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """The photographs in another order than the pilot's."""
        return self.continued(subject, before, before.set_ids)

    def context(self, subject: str, before: Before) -> NeighbourPool:
        ids = list(before.set_ids)[: self.settings.pilot_photos]
        real: list[tuple[Any, str, str]] = []
        synthetic: list[tuple[Any, str, str]] = []
        for stored in before.sets(ids):
            for row in stored.rows:
                kind = real if row["member"] == PHOTO else synthetic
                kind.append((row["embedding"], row["gender"], stored.set_id))
        return NeighbourPool.of(real, synthetic)

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        return [
            EditUntilAccepted(
                settings.workshop(device),
                settings.photographs,
                settings.candidates,
                context,
                settings.rule,
                settings.wave,
            ),
            DescribeMembers(settings.words),
        ]


@register
class Gensynth(EditedPhotographs):
    """Pairs of one photograph: its person edited to look male, and female."""

    name: ClassVar[str] = "gensynth"
    Settings: ClassVar[type[RecipeSettings]] = GensynthSettings
    settings: GensynthSettings

    def parts(self) -> Sequence[Part]:
        return [PhotographsPart(self.settings), Pilot(self.settings), Edits(self.settings)]

    def models(self) -> Mapping[str, str]:
        """Two roles, and a face reader where an attribute is perceived."""
        return {"editor": self.settings.editor, "matcher": self.settings.matcher, **self.settings.reader}

    def work(self) -> Sequence[Work]:
        """Three evaluations a step, under text and image guidance. How many photographs show one person of one gender
        is known after the part `photos`; each is edited as often as it takes, at most `candidates` times."""
        settings = self.settings
        each = 3 * settings.edit_steps
        pilot = settings.pilot_photos * len(settings.candidates) * len(settings.subjects)
        return [Work(Pilot.name, "editor", pilot, each), Work(Edits.name, "editor", None, each)]

    def about(self) -> str:
        """What was edited, by what, and how few of the edits are taken for granted."""
        settings = self.settings
        return (
            f"{super().about()} The person in a photograph was edited by {settings.editor} into each gender that "
            "captions name, and pasted back; the background is the photograph's own. An edit was accepted where more "
            f"than {settings.tau_real:g} of its neighbours are real persons and more than {settings.tau_group:g} of "
            f"the instruction's gender, as {settings.matcher} embeds them."
        )

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        rows.columns.pop("pilot", None)
        return super().finish(rows)
