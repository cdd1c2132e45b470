"""Mitigations of `debiased:` models are fitted: CLIP-clip on labelled pictures, a projection from prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import ModelError
from fairgate.metrics import mutual_information
from fairgate.models.contract import ImageIndex, Model, Rows
from fairgate.models.debiased import MAX_PROMPT, MAX_PROMPTS, ClipClip, Projection, two_towers
from fairgate.models.registry import open_scorer


def fit_clip_clip(model: Model, labels: Rows, *, attribute: str, release: str, fingerprint: str, drop: int) -> ClipClip:
    """CLIP-clip for a model that is bound to labelled pictures: the `drop` dimensions of highest mutual information.

    `labels` are the codes of the attribute's groups (images,), -1 for undefined. Of more than two groups, each is set
    against all others, and the mean decides: Wang et al. have two, and for more their estimate depends on the order of
    codes. Of equal dimensions the earlier one goes. Raises ModelError for a model without two towers and where nothing
    would be left, MetricError for labels of fewer than two groups.
    """
    images = two_towers(model, model.uri).image_embeddings()
    width = images.shape[1]
    if not 0 < drop < width:
        raise ModelError(
            f"{drop} of {width} dimensions cannot be left out.",
            where=model.uri,
            remedy=f"leave out 1 to {width - 1} (Smith et al. 2023: 100 of 512)",
        )
    groups = np.unique(labels[labels >= 0])
    if len(groups) > 2:
        each = [np.where(labels < 0, -1, labels == group) for group in groups]
        information = np.mean([mutual_information(images, one) for one in each], axis=0)
    else:
        information = mutual_information(images, labels)
    return ClipClip(
        origin=model.fingerprint,
        attribute=attribute,
        release=release,
        fingerprint=fingerprint,
        dimensions=tuple(sorted(np.argsort(-information, kind="stable")[:drop].tolist())),
        width=width,
    )


def fit_projection(uri: str, prompts: Sequence[str], *, device: str = "auto", base: Path = Path()) -> Projection:
    """The projection of a model's texts that takes these prompts out. Raises ModelError for one without two towers."""
    model = two_towers(open_scorer(uri, _NoPictures(), device=device, base=base), uri)
    if not 0 < len(prompts) <= MAX_PROMPTS or not all(0 < len(prompt) <= MAX_PROMPT for prompt in prompts):
        raise ModelError(
            f"1 to {MAX_PROMPTS:,} prompts of 1 to {MAX_PROMPT:,} characters are taken out, and these are others.",
            where=uri,
            remedy="name a group in each, such as 'a photo of a man'",
        )
    model.text_embeddings(prompts)  # refuses what cannot be embedded
    return Projection(origin=model.fingerprint, prompts=tuple(prompts))


class _NoPictures:
    """A source for a model whose texts alone are embedded."""

    fingerprint, folder = "", Path()

    @property
    def index(self) -> ImageIndex:
        raise ModelError(
            "it is a table of answers about pictures, without embeddings of texts that a mitigation could change.",
            remedy="name a checkpoint with two towers (open_clip:, hf:)",
        )

    def __len__(self) -> int:
        return 0

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:  # noqa: ARG002
        return iter(())
