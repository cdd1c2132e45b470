"""What CLIP perceives: the group whose sentence is nearest to an image, as in appendix A.4 of Howard et al."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from fairgate.builds.review.sample import read_picture
from fairgate.data import Dataset
from fairgate.ground.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from fairgate.builds.review.figures import Labels
    from fairgate.models.generation import Matcher

SENTENCE: Final = "A {} person"
"""The paper's queries are "A male person" and "A female person"."""
_BATCH: Final = 32


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """A matcher's URI and device, and a sentence per attribute with `{}` for the group. None named: every attribute,
    in the paper's sentence."""

    uri: str
    device: str = "auto"
    sentences: Mapping[str, str] = field(default_factory=dict)

    def labels(self, dataset: Dataset, rows: Sequence[int]) -> Labels:
        """The nearest group of each row, per attribute. Raises ModelError, or SettingsError for a sentence of none."""
        from fairgate.models.generation import open_model

        attributes = dataset.manifest.attributes
        sentences = dict(self.sentences) or dict.fromkeys(attributes, SENTENCE)
        for attribute, sentence in sentences.items():
            if attribute not in attributes:
                raise SettingsError(
                    f"the dataset does not record '{attribute}'.",
                    where="--ask",
                    remedy=did_you_mean(attribute, attributes) or f"attributes: {', '.join(attributes)}",
                )
            if "{}" not in sentence:
                raise SettingsError(
                    f"the sentence '{sentence}' has no place for a group.",
                    where="--ask",
                    remedy=f'put {{}} in the place of the group: {attribute}="{SENTENCE}"',
                )
        matcher: Matcher = open_model("matcher", self.uri, device=self.device)
        labels = {}
        batches = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
        images = np.concatenate([matcher.embed_images([read_picture(dataset, row) for row in one]) for one in batches])
        for attribute, sentence in sentences.items():
            groups = attributes[attribute]
            texts = matcher.embed_texts([sentence.replace("{}", group.replace("_", " ")) for group in groups])
            nearest = (images @ texts.T).argmax(axis=1)
            labels[f"{attribute} by {self.uri}: “{sentence}”"] = (
                attribute,
                {row: groups[place] for row, place in zip(rows, nearest, strict=True)},
            )
        return labels
