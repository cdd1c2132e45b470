"""`social_identities`: headshots of intersectional identities, not counterfactual (paper 2).

The synthetic data of the paper's editing and classification probes: Stable Diffusion 2.1 draws 256 headshots for each
identity, and nothing is filtered. Each image is a set of its own: images of two identities share no scene. It shares
painting with `occupations`. Departure: seeds are drawn from named streams (the paper names none).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field, model_validator

from fairgate.builds.opening import open_model
from fairgate.builds.recipes.contract import (
    Before,
    Part,
    Recipe,
    RecipeSettings,
    Work,
    register,
    require_fields,
    single_pictures,
)
from fairgate.builds.steps import Paint, SetRows, Step, Trace
from fairgate.models.generation import Sampling

PAPER = "Saravanan et al., Exploring Social Bias in Downstream Applications of Text-to-Image Foundation Models, 2023"
TEMPLATE = "A color photograph of a {identity}, headshot, high-quality."
IDENTITIES = {
    "Caucasian man": {"race": "Caucasian", "gender": "man"},
    "Caucasian woman": {"race": "Caucasian", "gender": "woman"},
    "African-American man": {"race": "African-American", "gender": "man"},
    "African-American woman": {"race": "African-American", "gender": "woman"},
}
IMAGES = 256
STEPS, GUIDANCE = 100, 8.5


class IdentitySettings(RecipeSettings):
    """Settings of `social_identities`; the defaults are the paper's."""

    identities: dict[str, dict[str, str]] = Field(IDENTITIES, min_length=1, description="Phrase -> its groups.")
    template: str = TEMPLATE
    subject: str = Field("person", description="What every image depicts.")
    images: int = Field(IMAGES, ge=1, description="Per identity.")
    painter: str = "sd21"
    steps: int = Field(STEPS, ge=1)
    guidance: float = GUIDANCE
    size: int | None = None
    scheduler: str | None = None
    batch: int = Field(8, ge=1, description="Pictures that the model is given at once.")

    @model_validator(mode="after")
    def _identities_have_the_same_attributes(self) -> IdentitySettings:
        require_fields("template", self.template, "identity")
        attributes = {tuple(groups) for groups in self.identities.values()}
        if len(attributes) != 1 or not next(iter(attributes)):
            raise ValueError("`identities` gives every phrase its group of the same attributes, in the same order")
        if len({_slug(phrase) for phrase in self.identities}) < len(self.identities):
            raise ValueError("two phrases of `identities` differ in spaces and capitals alone")
        return self

    def of_subject(self, subject: str) -> IdentitySettings:
        own = {phrase: groups for phrase, groups in self.identities.items() if _slug(phrase) == subject}
        return self.model_copy(update={"identities": own})


class Headshots(Part):
    """A picture per set, painted from the identity's caption."""

    name: ClassVar[str] = "headshots"
    ignores = ("images", "subject")
    settings: IdentitySettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        phrase = next(phrase for phrase in self.settings.identities if _slug(phrase) == subject)
        row = {
            "member": "only",
            "caption": self.settings.template.format(identity=phrase),
            **self.settings.identities[phrase],
        }
        number, columns = self.settings.images, {"identity": phrase}
        return single_pictures(SocialIdentities.name, subject, number, self.settings, row, columns)

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        how = Sampling(settings.steps, settings.guidance, size=settings.size, scheduler=settings.scheduler)
        return [Paint(open_model("painter", settings.painter, device=device), how, settings.batch)]

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """The first `images` of them: the same number for every identity."""
        return [trace.set_id for trace in traces if trace.kept][: self.settings.images]


@register
class SocialIdentities(Recipe):
    """Headshots of every identity, the same number of each."""

    name: ClassVar[str] = "social_identities"
    paper: ClassVar[str] = PAPER
    Settings: ClassVar[type[RecipeSettings]] = IdentitySettings
    counterfactual = False
    settings: IdentitySettings

    def parts(self) -> Sequence[Part]:
        return [Headshots(self.settings)]

    def subjects(self) -> list[str]:
        """An identity each, in small letters with hyphens."""
        return [_slug(phrase) for phrase in self.settings.identities]

    def attributes(self) -> Mapping[str, Sequence[str]]:
        """Groups in the order in which identities first name them."""
        identities = list(self.settings.identities.values())
        return {name: list(dict.fromkeys(groups[name] for groups in identities)) for name in identities[0]}

    def models(self) -> Mapping[str, str]:
        return {"painter": self.settings.painter}

    def work(self) -> Sequence[Work]:
        """Two evaluations a step, with and without the caption."""
        pictures = len(self.settings.identities) * self.settings.images
        return [Work(Headshots.name, "painter", pictures, 2 * self.settings.steps)]

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        """The subject is what the image depicts; whom it depicts is in `identity` and the attributes."""
        return [{**row, "subject": self.settings.subject, "recipe": self.name} for row in super().finish(rows)]


def _slug(phrase: str) -> str:
    return phrase.replace(" ", "-").lower()
