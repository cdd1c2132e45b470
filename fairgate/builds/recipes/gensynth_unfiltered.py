"""`gensynth_unfiltered`: every edit of a photograph, with the filter's shares and unfiltered (paper 5, table 2).

Smith et al.: Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023: the row
"GenSynth (unfilt.)" of table 2, and appendix H. Photographs and pilot are `gensynth`'s; its settings are, too, of which
the thresholds are not used. A set has a member for every instruction and guidance of every group (16 as published),
pasted into the photograph. `p_real` and `p_group` are what the filter would compare with its thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fairgate.builds.recipes.contract import Part, RecipeSettings, register
from fairgate.builds.recipes.edited_photographs import PhotographsPart
from fairgate.builds.recipes.gensynth import Edits, Gensynth, GensynthSettings, Pilot
from fairgate.builds.steps import DescribeMembers, KeepEveryEdit, Step


class UnfilteredSettings(GensynthSettings):
    """Settings of `gensynth_unfiltered`: those of `gensynth`."""

    recipe: ClassVar[str] = "gensynth_unfiltered"


class EveryEdit(Edits):
    """A photograph -> all of its edits."""

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        settings = self.settings
        workshop = settings.workshop(device)
        edits = KeepEveryEdit(workshop, settings.photographs, settings.candidates, context, settings.rule)
        return [edits, DescribeMembers(settings.words)]


@register
class GensynthUnfiltered(Gensynth):
    """All edits of one photograph, accepted or not."""

    name: ClassVar[str] = "gensynth_unfiltered"
    Settings: ClassVar[type[RecipeSettings]] = UnfilteredSettings

    def parts(self) -> Sequence[Part]:
        return [PhotographsPart(self.settings), Pilot(self.settings), EveryEdit(self.settings)]

    def about(self) -> str:
        """What was edited, and that nothing was left out."""
        return f"{EVERY} {super(Gensynth, self).about()} The editor was {self.settings.editor}."


EVERY = "Every edit of every photograph, whether or not the filter of `gensynth` would accept it."
