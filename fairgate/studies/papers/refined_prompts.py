"""Refined prompts as a mitigation, which Saravanan et al. 2023 leave to future work: a study runs with the plain prompt
and with another one, on the same images under the same noise, and the effect is their difference.

Theirs are those of Bansal et al. 2022 ("if all individuals can be a doctor irrespective of their gender"). A template
may also name what is perceived in each image: `a portrait of a {gender} {word}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset
from fairgate.ground.errors import SettingsError
from fairgate.models import Capable, require_told_apart
from fairgate.probes import filled
from fairgate.records import StudyCell
from fairgate.studies.papers.chosen_images import ChosenImages
from fairgate.studies.papers.contract import ResampledNumber, required_template

REFINED = (
    "Another template, run next to the plain one; also with {ATTRIBUTE}, the image's recorded group, such as {gender}."
)
NOTE = "Refined less plain, of the same images under the same noise, in the same resamples."


def required_refined(template: str, release: Dataset) -> None:
    """Raises SettingsError for a template without `{word}`, or with another placeholder than an attribute's."""
    required_template(template, "word", "--refined", also=release.manifest.attributes)


def parts_of(template: str, chosen: ChosenImages) -> Iterator[tuple[str, NDArray[np.int64], ChosenImages]]:
    """The templates that images have when their groups are filled in; places among the chosen; and these images."""
    named = [name for name in chosen.release.manifest.attributes if f"{{{name}}}" in template]
    groups = chosen.index.attributes
    templates = np.full(len(chosen), template, dtype=object)
    for at in range(len(chosen)):
        for name in named:
            templates[at] = templates[at].replace(f"{{{name}}}", str(groups[name][at]).replace("_", " "))
    for text in dict.fromkeys(templates.tolist()):
        places = np.flatnonzero(templates == text)
        yield text, places, replace(chosen, rows=chosen.rows[places], groups=chosen.groups[places])


def require_another_text(model: Capable, plain: str, refined: str, word: str, where: str) -> None:
    """Raises SettingsError for a refined prompt that is the plain one, and ModelError for a model that reads it so."""
    prompts = {"plain": filled(plain, "word", word), "refined": filled(refined, "word", word)}
    if prompts["plain"] == prompts["refined"]:
        raise SettingsError(
            f"the refined prompt is the plain one: '{prompts['plain']}'.",
            where="--refined",
            remedy="give it another text than --template",
        )
    require_told_apart(model, "prompts", prompts, where, "use words that it knows in --refined")


def effect(plain: ResampledNumber, refined: ResampledNumber) -> list[StudyCell]:
    """Both numbers, and the refined one less the plain one."""
    return [plain.estimate(), refined.estimate(), refined.less(plain, plain.n).estimate()]
