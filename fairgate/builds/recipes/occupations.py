"""`occupations`: one photograph per set, its person repainted once per group (paper 1).

Lui, Chia, Berrios, Ross and Kiela (`PAPER`). `pool` paints base pictures of an occupation, queries a visual-question
model about each, and chooses the most real ones. `sets` masks the person, repaints it for every group, and drops a set
unless a face reader perceives every member as intended.

Departures. The three questions are one batch. Groups are made in waves, the hardest first, and a set is dropped at its
first failed member: the same sets are accepted, only the cost differs. The pool is processed in random order until
there are enough sets: a random sample of all that would be accepted. Grey pictures are dropped first, as in the
authors' code. The probability of "yes" is its share of "yes" and "no". A picture with several persons is dropped (their
code takes the first). The detector's text is "person" (theirs: "all persons"); of boxes that overlap by more than 0.8
the best is left. 7,500 pictures of each occupation are painted (paper: 5,000 to 10,000). A mask under 1% of the picture
and a member without exactly one face are dropped. Pixels outside the mask are the base picture's; their refiner has no
mask. Pictures and masks are stored without loss (theirs: JPEG). Seeds are drawn from named streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, ClassVar

from pydantic import Field, model_validator

from fairgate.builds.opening import open_model
from fairgate.builds.recipes.contract import (
    Before,
    Part,
    Recipe,
    RecipeSettings,
    Work,
    drawn,
    in_shards,
    register,
    require_fields,
    single_pictures,
)
from fairgate.builds.steps import (
    COLUMNS,
    Ask,
    CountColours,
    Forget,
    Likeness,
    MaskPerson,
    Paint,
    Perceive,
    SetRows,
    Step,
    Trace,
    Trait,
    Variant,
    Vary,
    VisualQuestion,
    Within,
    first_of_each,
)
from fairgate.models.generation import Sampling

PAPER = "Lui et al., Leveraging Diffusion Perturbations for Measuring Fairness in Computer Vision, AAAI 2024"
TEMPLATE = "A photo of the face of a {phrase}"
OCCUPATIONS = {
    "mechanic": "car mechanic",
    "chef": "chef in a chef's jacket",
    "pilot": "commercial pilot",
    "doctor": "doctor in a white coat with a stethoscope",
    "firefighter": "firefighter",
}
ASKED_AS = {"mechanic": "car mechanic", "pilot": "commercial pilot"}
WORDS = {"Black": "Black", "Caucasian": "Caucasian", "East Asian": "Asian", "Indian": "Indian"}
FAIRFACE_WORDS = {"Caucasian": "White", "East Asian": "Asian"}
GENDERS = ("male", "female")
"""The gender-balanced variant (the paper's robustness check) names one in both prompts, after the group's word."""
FAIRFACE_GENDERS = {"male": "Male", "female": "Female"}

PAINT_STEPS, PAINT_GUIDANCE, SIZE = 50, 5.0, 1024
PAINT_NEGATIVE = ""  # the authors' code passes it: SDXL's encoders read it; without one they are replaced by zeros
VARY_STEPS, STRENGTH, REFINE_FROM = 40, 0.7, 0.8
VARY_GUIDANCE, REFINE_GUIDANCE = 7.5, 5.0  # diffusers' for inpainting and img2img: the authors' code passes none
CANDIDATES, POOL, SETS = 7_500, 2_000, 1_200  # the paper paints 5,000 to 10,000
MIN_COLOURS = 10_000
BOX_THRESHOLD, TEXT_THRESHOLD = 0.35, 0.25
PRESENT = "Is there a {occupation} in this image?"
DISTORTED = "Are this person's limbs distorted?"
REAL = "Is this image real or fake?"


class OccupationSettings(RecipeSettings):
    """Settings of `occupations`; the defaults are the paper's."""

    occupations: dict[str, str] = Field(OCCUPATIONS, min_length=1, description="Subject -> its phrase in the prompts.")
    asked_as: dict[str, str] = Field(ASKED_AS, description="Subject -> its name in the question, where it differs.")
    template: str = TEMPLATE
    attribute: str = "race"
    words: dict[str, str] = Field(WORDS, min_length=2, description="Group -> its word in the prompt.")
    reads_as: dict[str, str] = Field(FAIRFACE_WORDS, description="Group -> the face reader's word, where it differs.")
    waves: list[list[str]] = Field(
        default_factory=list,
        description="Groups that are made together, the hardest first; empty: each alone, in the order of `words`.",
    )
    genders: list[str] = Field(default_factory=list, description="Named in the prompts; empty: no gender is named.")
    gender_reads_as: dict[str, str] = Field(FAIRFACE_GENDERS)
    gender_must_match: bool = False

    candidates: int = Field(CANDIDATES, ge=1, description="Base pictures per subject, rounded up to whole shards.")
    pool: int = Field(POOL, ge=1, description="Base pictures that are varied, at most.")
    sets: int = Field(SETS, ge=1, description="Sets to keep per subject (and per gender where genders are named).")

    painter: str = "sdxl"
    inpainter: str = "hf:stabilityai/stable-diffusion-xl-base-1.0?refiner=stabilityai/stable-diffusion-xl-refiner-1.0"
    asker: str = "vilt"
    detector: str = "hf:IDEA-Research/grounding-dino-tiny"  # Swin-T, as in the authors' code
    segmenter: str = "sam"
    face_reader: str = "fairface:models/fairface_alldata_4race_20191111.pt"

    size: int | None = SIZE
    paint_steps: int = Field(PAINT_STEPS, ge=1)
    paint_guidance: float = PAINT_GUIDANCE
    paint_negative: str | None = Field(PAINT_NEGATIVE, description="None: the pipeline's own nothing (SDXL: zeros).")
    vary_steps: int = Field(VARY_STEPS, ge=1)
    vary_guidance: float = VARY_GUIDANCE
    refine_guidance: float | None = Field(REFINE_GUIDANCE, description="The refiner's; None: `vary_guidance`.")
    strength: float = Field(STRENGTH, gt=0, le=1)
    refine_from: float | None = Field(REFINE_FROM, gt=0, lt=1)
    scheduler: str | None = None
    batch: int = Field(8, ge=1, description="Pictures that a model is given at once.")

    present: str = PRESENT
    distorted: str = DISTORTED
    real: str = REAL
    min_colours: int = MIN_COLOURS
    person: str = "person"
    box_threshold: float = BOX_THRESHOLD
    text_threshold: float = TEXT_THRESHOLD
    min_mask: float = Field(0.01, ge=0, description="Share of the picture that the mask covers, at least.")

    @model_validator(mode="after")
    def _every_group_has_its_wave(self) -> OccupationSettings:
        waved = [group for wave in self.waves for group in wave]
        if self.waves and sorted(waved) != sorted(self.words):
            raise ValueError(f"`waves` names each group once: {', '.join(self.words)}")
        return self

    @model_validator(mode="after")
    def _templates_hold_what_is_asked_for(self) -> OccupationSettings:
        require_fields("template", self.template, "phrase")
        require_fields("present", self.present, "occupation")
        return self

    def of_subject(self, subject: str) -> OccupationSettings:
        """One occupation, and one gender where genders are named."""
        occupation, gender = self.split(subject)
        own = {name: question for name, question in self.asked_as.items() if name == occupation}
        mapping = {occupation: self.occupations[occupation]}
        return self.model_copy(update={"occupations": mapping, "asked_as": own, "genders": [gender] if gender else []})

    def phrase(self, subject: str, word: str = "") -> str:
        """The caption of a build's subject, with a group's word before the occupation."""
        occupation, gender = self.split(subject)
        words = [word, gender or "", self.occupations[occupation]]
        return self.template.format(phrase=" ".join(filter(None, words)))

    def split(self, subject: str) -> tuple[str, str | None]:
        """(occupation, gender) of a build's subject: "doctor", or "doctor-female" where genders are named."""
        if not self.genders:
            return subject, None
        occupation, _, gender = subject.rpartition("-")
        return occupation, gender


_OF_POOL = (  # settings and models that the other part does not read
    *("painter", "asker", "paint_steps", "paint_guidance", "paint_negative"),
    *("present", "distorted", "real", "asked_as", "min_colours"),
)
_OF_SETS = (
    *("inpainter", "detector", "segmenter", "face_reader"),
    *("vary_steps", "vary_guidance", "refine_guidance", "strength", "refine_from"),
    *("attribute", "words", "reads_as", "waves", "gender_reads_as", "gender_must_match"),
    *("person", "box_threshold", "text_threshold", "min_mask"),
)


class Pool(Part):
    """Base pictures that show the occupation, undistorted and in colour; the most real of them are chosen."""

    name: ClassVar[str] = "pool"
    ignores = ("candidates", "pool", "sets", *_OF_SETS)
    settings: OccupationSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        row = {"member": "base", "caption": self.settings.phrase(subject)}
        return single_pictures(Occupations.name, subject, self.settings.candidates, self.settings, row)

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        how = Sampling(
            settings.paint_steps,
            settings.paint_guidance,
            negative=settings.paint_negative,
            size=settings.size,
            scheduler=settings.scheduler,
        )
        return [
            Paint(open_model("painter", settings.painter, device=device), how, settings.batch),
            CountColours(),
            Within("n_colours", "grey", at_least=settings.min_colours),
            Ask(open_model("asker", settings.asker, device=device), questions(settings, subject), settings.batch),
            Within("vqa_present", "not_present", at_least=0.5),
            Within("vqa_distorted", "distorted", at_most=0.5),
            Likeness(),
        ]

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """The `pool` most real ones, without duplicates."""
        accepted = [trace for trace in traces if trace.kept]
        ranked = sorted(accepted, key=lambda trace: (-trace.numbers["vqa_real"], trace.set_id))
        return [trace.set_id for trace in first_of_each(ranked)][: self.settings.pool]


class Sets(Part):
    """A base picture -> one member per group, or dropped at the first member that is not perceived as intended."""

    name: ClassVar[str] = "sets"
    ignores = ("candidates", "pool", "sets", *_OF_POOL)
    settings: OccupationSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        ids = drawn(before.set_ids, Occupations.name, subject, self.settings, "order")
        return in_shards(map(self._start, before.sets(ids)), self.settings)

    def _start(self, base: SetRows) -> SetRows:
        row = base.rows[0]
        made = {f"base_{column}": row[column] for column in ("caption", *COLUMNS)}
        scores = {name: value for name, value in base.columns.items() if name not in ("likeness", "mask")}
        return SetRows(
            set_id=base.set_id,
            subject=base.subject,
            names=(Occupations.name, base.subject, base.set_id),
            seed=self.settings.seed,
            columns={**scores, **made, "base": row["image"]},
        )

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        inpainter = open_model("inpainter", settings.inpainter, device=device)
        reader = open_model("face_reader", settings.face_reader, device=device)
        how = Sampling(
            settings.vary_steps,
            settings.vary_guidance,
            strength=settings.strength,
            refine_from=settings.refine_from,
            refine_guidance=settings.refine_guidance,
            size=settings.size,
            scheduler=settings.scheduler,
        )
        steps: list[Step] = [
            MaskPerson(
                open_model("detector", settings.detector, device=device),
                open_model("segmenter", settings.segmenter, device=device),
                settings.person,
                settings.box_threshold,
                settings.text_threshold,
                settings.batch,
            ),
            Within("mask_share", "mask_empty", at_least=settings.min_mask),
        ]
        for wave in settings.waves or [[group] for group in settings.words]:
            steps.append(
                Vary(inpainter, how, tuple(variant(settings, subject, group) for group in wave), settings.batch)
            )
            steps.append(Perceive(reader, traits(settings), settings.batch))
        return [*steps, Forget(("base",))]

    def target_sets(self, subject: str) -> int:
        return self.settings.sets

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """The first `sets`: the same number for every subject."""
        return [trace.set_id for trace in traces if trace.kept][: self.settings.sets]


def questions(settings: OccupationSettings, subject: str) -> tuple[VisualQuestion, ...]:
    """The paper's three questions: is the occupation there, are limbs distorted, is the image real."""
    occupation, _ = settings.split(subject)
    present = settings.present.format(occupation=settings.asked_as.get(occupation, occupation))
    return (
        VisualQuestion("vqa_present", present, "yes", against="no"),
        VisualQuestion("vqa_distorted", settings.distorted, "yes", against="no"),
        VisualQuestion("vqa_real", settings.real, "real"),
    )


def variant(settings: OccupationSettings, subject: str, group: str) -> Variant:
    """The member of a group: its prompt, and its groups as columns."""
    _, gender = settings.split(subject)
    columns = {settings.attribute: group} | ({"gender": gender} if gender else {})
    return Variant(group, settings.phrase(subject, settings.words[group]), columns)


def traits(settings: OccupationSettings) -> tuple[Trait, ...]:
    """What is read off every face: the varied attribute and, where it is named, gender."""
    varied = Trait(settings.attribute, settings.reads_as)
    gender = Trait("gender", settings.gender_reads_as, must_match=settings.gender_must_match)
    return (varied, gender) if settings.genders else (varied,)


@register
class Occupations(Recipe):
    """Counterfactual sets of occupations: one scene, one member per group."""

    name: ClassVar[str] = "occupations"
    paper: ClassVar[str] = PAPER
    Settings: ClassVar[type[RecipeSettings]] = OccupationSettings
    counterfactual = True
    settings: OccupationSettings

    def parts(self) -> Sequence[Part]:
        return [Pool(self.settings), Sets(self.settings)]

    def subjects(self) -> list[str]:
        """Occupations; with genders named, each occupation once per gender, so that both come out equal in number."""
        settings = self.settings
        if not settings.genders:
            return list(settings.occupations)
        return [f"{occupation}-{gender}" for occupation in settings.occupations for gender in settings.genders]

    def attributes(self) -> Mapping[str, Sequence[str]]:
        """The varied attribute and, where it is named, gender (the same for all members of a set)."""
        varied = {self.settings.attribute: list(self.settings.words)}
        return varied | ({"gender": self.settings.genders} if self.settings.genders else {})

    def models(self) -> Mapping[str, str]:
        roles = ("painter", "inpainter", "asker", "detector", "segmenter", "face_reader")
        return {role: getattr(self.settings, role) for role in roles}

    def work(self) -> Sequence[Work]:
        """Two evaluations a step; of a variant's schedule, `strength` is run."""
        settings, subjects = self.settings, len(self.subjects())
        full = ceil(settings.candidates / settings.shard_sets) * settings.shard_sets
        varied = min(settings.pool, full) * len(settings.words)
        return [
            Work(Pool.name, "painter", subjects * full, 2 * settings.paint_steps),
            Work(Sets.name, "inpainter", subjects * varied, 2 * int(settings.vary_steps * settings.strength)),
        ]

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        """Members in the order of the groups; the subject is the occupation."""
        occupation, _ = self.settings.split(rows.subject)
        order = list(self.settings.words)
        members = sorted(super().finish(rows), key=lambda row: order.index(row["member"]))
        return [{**row, "subject": occupation, "recipe": self.name} for row in members]
