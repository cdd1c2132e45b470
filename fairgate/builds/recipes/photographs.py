"""`photographs`: photographs of one person whose gender the captions name, as they are; nothing is edited (paper 5).

Smith et al.: Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023, section 3.2
and table 2, "Original": what `gensynth` and `genswap` start from, with which it shares `photos`. Set ids are those of
the edited photographs, so that the originals of an edited dataset are found by id. Two parts: `photos`, and `whole`,
which stores the photograph instead of its crop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from fairgate.builds.recipes.contract import Before, Part, RecipeSettings, register
from fairgate.builds.recipes.edited_photographs import (
    EditedPhotographs,
    MembersPart,
    PhotographSettings,
    PhotographsPart,
)
from fairgate.builds.steps import DescribeMembers, SetRows, Step, WholePhotograph


class OriginalSettings(PhotographSettings):
    """Settings of `photographs`."""

    recipe: ClassVar[str] = "photographs"


class WholePart(MembersPart):
    """A photograph's own person as a crop -> the whole photograph."""

    name: ClassVar[str] = "whole"

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """The photographs in a drawn order."""
        return self.continued(subject, before, before.set_ids)

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        return [WholePhotograph(self.settings.photographs), DescribeMembers(self.settings.words)]


@register
class OriginalPhotographs(EditedPhotographs):
    """Photographs of one person, unedited."""

    name: ClassVar[str] = "photographs"
    Settings: ClassVar[type[RecipeSettings]] = OriginalSettings
    counterfactual = False
    settings: OriginalSettings

    def parts(self) -> Sequence[Part]:
        return [PhotographsPart(self.settings), WholePart(self.settings)]

    def models(self) -> Mapping[str, str]:
        """None, but for a face reader where an attribute is perceived."""
        return self.settings.reader
