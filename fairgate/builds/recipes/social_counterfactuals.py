"""`social_counterfactuals`: captions that differ in two social attributes, painted with shared attention (paper 3).

Howard et al.: Probing Intersectional Biases in Vision-Language Models with Counterfactual Examples, 2023. A set is all
combinations of two attributes for one prefix and subject. Stable Diffusion 1.5 with the ft-mse VAE paints 100 attempts
at every set; an attempt is accepted if every picture matches its caption, and the best of those, up to 10, are chosen
by directional similarity in CLIP space. It shares no steps with other recipes.

Departures. The paper speaks of cross-attention control (Prompt-to-Prompt); the authors' code shares self-attention
scores, in every layer and both halves of the guidance. `sharing: self`, the default, is the code; `sharing: cross` is
the paper. The authors run a set in sub-batches that each make the base member again; here it is made once, and the
pictures are the same but for rounding. Schedules come from diffusers, which interpolates noise levels linearly between
training steps (k-diffusion, which the authors use, interpolates their logarithms). Subjects (tables 6 and 7) are
package data, as they are printed; of the 261 occupations 181 are different when case is ignored, and each is built
once. Physical traits are the 14 of the authors' caption files; table 8 prints nine of them. The paper names three of
its four religions (table 9); the fourth is ours, a word that can be a noun too, as captions of traits need it. Pictures
are PNG (theirs: JPEG). Seeds are drawn from named streams. A build has one pair of attributes; `params.yaml` has one
for each of table 5's nine. The release that the authors published (Intel/SocialCounterfactuals, 170,832 images) departs
from the paper itself: it has three of the nine pairs and 5 of the 14 physical traits, keeps more than ten of a set's
attempts (ranks reach 96, up to 60 of one set in a list of what they generated with), and merges spellings ("Baker",
"baker") into one name, as this recipe does. `prune_keep` gives up attempts half way, which the authors
do not; it is off by default.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from math import ceil, prod
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from fairgate.builds.opening import open_model
from fairgate.builds.recipes.contract import Before, Part, Recipe, RecipeSettings, Work, register, require_fields
from fairgate.builds.steps import (
    SHARE,
    CaptionMatcher,
    EveryCaptionMatches,
    MatchCaptions,
    MembersDiffer,
    PaintSets,
    Pruning,
    Row,
    SetRows,
    Step,
    Trace,
)
from fairgate.models.generation import Sampling

PAPER = "Howard et al., Probing Intersectional Biases in Vision-Language Models with Counterfactual Examples, 2023"
PAINTER = "hf:stable-diffusion-v1-5/stable-diffusion-v1-5?vae=stabilityai/sd-vae-ft-mse"
MATCHER = "clip-l14"
STEPS, SCHEDULER = 100, "euler_ancestral"
SHARES = (0.1, 0.9)
GUIDANCES = (7.5, 15.0)
ATTEMPTS, KEPT = 100, 10
MIN_CAPTION_COSINE = 0.2
PRUNE_AT = 0.5
Range = tuple[float, float]

Kind = Literal["occupations", "traits"]

PREFIXES = ("", "A photo of", "A picture of", "An image of")
RACES = ("White", "Black", "Indian", "Asian", "Middle Eastern", "Latino")
GENDERS = ("male", "female")
RELIGIONS = ("Christian", "Muslim", "Hindu", "Buddhist")
PHYSICAL_TRAITS = (
    *("attractive", "beautiful", "handsome", "pretty", "slim", "skinny", "young"),
    *("unattractive", "fat", "overweight", "obese", "scarred", "tattooed", "old"),
)
ATTRIBUTES: dict[str, dict[str, str]] = {
    "race": {word: word for word in RACES},
    "gender": {word: word for word in GENDERS},
    "religion": {word: word for word in RELIGIONS},
    "physical_trait": {word: word for word in PHYSICAL_TRAITS},
}
"""Attribute -> group -> its word in a caption."""

IN_NAMES = {"physical_trait": "physical"}
"""Attribute -> its word in the names of the authors' sets, where that is another."""

TEMPLATES: dict[Kind, str] = {"occupations": "{groups} {subject}", "traits": "{subject} {groups}"}

_SILENT_H = re.compile(r"(hour|honest|honou?r|heir)", re.IGNORECASE)
_LIKE_YOU = re.compile(r"(uni([^mn]|$)|u[st][aeiu]|eu|one\b|once\b)", re.IGNORECASE)


@cache
def subjects_of(kind: Kind) -> tuple[str, ...]:
    """The published subjects, as printed: 261 occupations (some twice, some in two spellings), or 63 traits.

    >>> len(subjects_of("occupations")), len(subjects_of("traits"))
    (261, 63)
    """
    text = resources.files(__package__).joinpath("social_subjects.json").read_text("utf-8")
    return tuple(json.loads(text)[kind])


def different(subjects: Sequence[str]) -> list[str]:
    """Each subject once, in its first spelling: "Baker" and "baker" are one caption to Stable Diffusion and CLIP.

    >>> different(["baker", "chef", "Baker"])
    ['baker', 'chef']
    """
    first: dict[str, str] = {}
    for subject in subjects:
        first.setdefault(subject.casefold(), subject)
    return list(first.values())


def with_article(phrase: str) -> str:
    """A phrase with the article that it is spoken with.

    >>> [with_article(phrase) for phrase in ("Indian male pilot", "honest person", "union worker", "Latino")]
    ['an Indian male pilot', 'an honest person', 'a union worker', 'a Latino']
    """
    vowel = bool(_SILENT_H.match(phrase)) or (phrase[:1].lower() in "aeiou" and not _LIKE_YOU.match(phrase))
    return f"{'an' if vowel else 'a'} {phrase}"


def caption_set(
    prefix: str, subject: str, words: Mapping[str, Mapping[str, str]], template: str = TEMPLATES["occupations"]
) -> list[Row]:
    """The members of one set, base member first: all combinations of groups, the last attribute changing fastest.

    `words` has attribute -> group -> word, in the order in which the caption names them.

    >>> caption_set("A photo of", "pilot", {"race": {"White": "White"}, "gender": {"f": "female"}})
    [{'member': 'White-f', 'caption': 'A photo of a White female pilot', 'race': 'White', 'gender': 'f'}]
    """
    members = []
    for chosen in itertools.product(*(mapping.items() for mapping in words.values())):
        phrase = template.format(groups=" ".join(word for _, word in chosen), subject=subject)
        groups = [group for group, _ in chosen]
        caption = f"{prefix} {with_article(phrase)}".strip()
        members.append({"member": "-".join(groups), "caption": caption, **dict(zip(words, groups, strict=True))})
    return members


def set_name(prefix: str, attributes: Sequence[str], subject: str) -> str:
    """The name of a set of captions, as in the authors' files.

    >>> set_name("A photo of", ["race", "gender"], "police officer")
    'a_photo_of_race_gender_police_officer'
    >>> set_name("", ["physical_trait", "gender"], "pilot")
    'physical_gender_pilot'
    """
    spoken = [IN_NAMES.get(attribute, attribute) for attribute in attributes]
    return "_".join([prefix, *spoken, subject]).strip("_").lower().replace(" ", "_")


class SocialSettings(RecipeSettings):
    """Settings of `social_counterfactuals`; the defaults are the paper's, for race and gender of occupations."""

    shard_sets: int = Field(25, ge=1, description="Attempts of a shard; with `prune_keep`, all attempts are one shard.")
    of: Kind = "occupations"
    pair: tuple[str, str] = Field(("race", "gender"), description="The attributes, in the order of the captions.")
    attributes: dict[str, dict[str, str]] = Field(ATTRIBUTES, description="Attribute -> group -> its word.")
    prefixes: list[str] = Field(list(PREFIXES), min_length=1)
    subjects: list[str] = Field(default_factory=list, description="Empty: the published ones of `of`, each once.")
    template: str = Field("", description="Of `{groups}` and `{subject}`; empty: the published one of `of`.")
    painter: str = PAINTER
    matcher: str = MATCHER
    sharing: Literal["self", "cross"] = "self"
    steps: int = Field(STEPS, ge=1)
    scheduler: str | None = SCHEDULER
    size: int | None = None
    shares: Range = Field(SHARES, description="The part of the steps that share attention is drawn between these.")
    guidances: Range = Field(GUIDANCES, description="Classifier-free guidance is drawn between these.")
    attempts: int = Field(ATTEMPTS, ge=1, description="At each set of captions.")
    kept: int = Field(KEPT, ge=1, description="At most so many of the attempts at a set of captions are chosen.")
    min_caption_cosine: float = Field(MIN_CAPTION_COSINE, description="Of every picture with its caption.")
    prune_at: float = Field(PRUNE_AT, gt=0.0, lt=1.0, description="The part of the steps after which to prune.")
    prune_keep: float | None = Field(None, gt=0.0, le=1.0, description="The share of attempts that goes on; none: all.")
    rows: int = Field(48, ge=1, description="UNet rows of one pass, guidance's halves counted.")

    @model_validator(mode="after")
    def _names_fit_together(self) -> SocialSettings:
        unknown = [name for name in self.pair if name not in self.attributes]
        if unknown or self.pair[0] == self.pair[1]:
            raise ValueError(f"`pair` names two of `attributes`: {', '.join(self.attributes)}")
        if min(len(self.attributes[name]) for name in self.pair) < 2:
            raise ValueError("an attribute of `pair` has fewer than two groups")
        if self.template:
            require_fields("template", self.template, "groups", "subject")
        if len({set_name("", self.pair, subject) for subject in self.subjects}) < len(self.subjects):
            raise ValueError("two of `subjects` differ in case or spaces alone")
        if len({set_name(prefix, self.pair, "") for prefix in self.prefixes}) < len(self.prefixes):
            raise ValueError("two of `prefixes` differ in case or spaces alone")
        for name in ("shares", "guidances"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"`{name}` is a range: its first number is the smaller")
        return self

    def of_subject(self, subject: str) -> SocialSettings:
        return self.model_copy(update={"subjects": [subject]})

    @property
    def words(self) -> dict[str, dict[str, str]]:
        return {name: self.attributes[name] for name in self.pair}


class Attempts(Part):
    """Attempts at the sets of one subject: one for each prefix.

    With pruning attempts are compared with each other, and `kept` decides how many go on.
    """

    name: ClassVar[str] = "sets"
    settings: SocialSettings

    def __init__(self, settings: SocialSettings) -> None:
        super().__init__(settings)
        pruned = settings.prune_keep is not None
        self.ignores, self.block = ((), settings.attempts) if pruned else (("kept",), settings.shard_sets)

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """A block of the attempts at one set of captions."""
        settings, block = self.settings, self.block
        for prefix in settings.prefixes:
            for first in range(0, settings.attempts, block):
                numbers = range(first, min(first + block, settings.attempts))
                yield [self._attempt(prefix, subject, number) for number in numbers]

    def _attempt(self, prefix: str, subject: str, number: int) -> SetRows:
        settings, name = self.settings, set_name(prefix, self.settings.pair, subject)
        rows = SetRows(
            set_id=f"{name}-{number:03d}",
            subject=subject,
            names=(SocialCounterfactuals.name, name, number),
            seed=settings.seed,
            rows=caption_set(prefix, subject, settings.words, settings.template or TEMPLATES[settings.of]),
        )
        rows.columns[SHARE] = float(rows.stream("share").uniform(*settings.shares))
        rows.columns["guidance"] = float(rows.stream("guidance").uniform(*settings.guidances))
        return rows

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        matcher = CaptionMatcher(open_model("matcher", settings.matcher, device=device))
        pruning = None
        if settings.prune_keep is not None:
            pruning = Pruning(
                matcher, settings.min_caption_cosine, settings.kept, settings.prune_at, settings.prune_keep
            )
        paint = PaintSets(
            open_model("painter", settings.painter, device=device),
            Sampling(settings.steps, settings.guidances[0], size=settings.size, scheduler=settings.scheduler),
            settings.sharing,
            settings.rows,
            tuple(word for words in settings.words.values() for word in words.values()),
            pruning,
        )
        return [paint, MatchCaptions(matcher), EveryCaptionMatches(settings.min_caption_cosine), MembersDiffer()]

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """Of each set of captions the best `kept` attempts by directional similarity, best first."""
        found: dict[str, list[Trace]] = defaultdict(list)
        for trace in traces:
            if trace.kept:
                found[trace.set_id.rpartition("-")[0]].append(trace)
        return [
            trace.set_id
            for same in found.values()
            for trace in sorted(same, key=lambda trace: (-trace.numbers["directional"], trace.set_id))[
                : self.settings.kept
            ]
        ]


@register
class SocialCounterfactuals(Recipe):
    """Counterfactual sets over two social attributes."""

    name: ClassVar[str] = "social_counterfactuals"
    paper: ClassVar[str] = PAPER
    Settings: ClassVar[type[RecipeSettings]] = SocialSettings
    counterfactual = True
    settings: SocialSettings

    def parts(self) -> Sequence[Part]:
        return [Attempts(self.settings)]

    def subjects(self) -> list[str]:
        return list(self.settings.subjects) or different(subjects_of(self.settings.of))

    def attributes(self) -> Mapping[str, Sequence[str]]:
        return {name: list(self.settings.attributes[name]) for name in self.settings.pair}

    def models(self) -> Mapping[str, str]:
        return {"painter": self.settings.painter, "matcher": self.settings.matcher}

    def work(self) -> Sequence[Work]:
        """Two evaluations a step; of attempts that pruning ends, the first steps alone."""
        settings = self.settings
        members = prod(len(groups) for groups in settings.words.values())
        attempts = len(self.subjects()) * len(settings.prefixes) * settings.attempts
        kept = 1.0 if settings.prune_keep is None else settings.prune_keep
        each = 2 * settings.steps * (settings.prune_at + (1 - settings.prune_at) * kept)
        return [Work(Attempts.name, "painter", attempts * members, ceil(each))]

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        return [{**row, "recipe": self.name} for row in super().finish(rows)]
