"""Mitigations of `debiased:` models are fitted: CLIP-clip and prompt arrays on labelled pictures, projections from
prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.metrics import mutual_information
from fairgate.ground.errors import ModelError
from fairgate.models.contract import ImageIndex, Model, Rows
from fairgate.models.debiased import MAX_PROMPT, MAX_PROMPTS, ClipClip, Projection, PromptArray
from fairgate.models.distinct import require_told_apart
from fairgate.models.registry import open_scorer
from fairgate.models.two_towers import as_two_towers


@dataclass(frozen=True, slots=True)
class AttributeData:
    """A release of pictures as a model is bound to it: its name with version, its content, and the code of the
    attribute's group per picture, -1 for undefined."""

    model: Model
    codes: Rows
    release: str
    fingerprint: str


def fit_clip_clip(data: AttributeData, *, attribute: str, drop: int) -> ClipClip:
    """CLIP-clip for a model that is bound to labelled pictures: the `drop` dimensions of highest mutual information.

    Of more than two groups, each is set
    against all others, and the mean decides: Wang et al. have two, and for more their estimate depends on the order of
    codes. Of equal dimensions the earlier one goes. Raises ModelError for a model without two towers and where nothing
    would be left, MetricError for labels of fewer than two groups.
    """
    model, labels = data.model, data.codes
    images = as_two_towers(model, model.uri).image_embeddings()
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
        information = np.mean([mutual_information(images, dimension) for dimension in each], axis=0)
    else:
        information = mutual_information(images, labels)
    return ClipClip(
        origin=model.fingerprint,
        attribute=attribute,
        release=data.release,
        fingerprint=data.fingerprint,
        dimensions=tuple(sorted(np.argsort(-information, kind="stable")[:drop].tolist())),
        width=width,
    )


def fit_prompt_array(
    judged: AttributeData,
    kept: AttributeData,
    *,
    attribute: str,
    prompts: Sequence[str],
    captions: Sequence[str],
    steps: int = 300,
    seed: int = 0,
) -> PromptArray:
    """A learned prompt array (Berg et al. 2022): `judged` pictures have groups of the attribute, of which cosines with
    the neutral `prompts` shall not tell; `kept` ones have one of `captions` each, which shall go on finding them.

    Raises ModelError for a model without two towers or with a text tower that takes no tokens, and for fewer than two
    groups, captions or prompts.
    """
    from fairgate.models import prompt_tokens
    from fairgate.models.checkpoints import one_thread

    one, other = (as_two_towers(each.model, each.model.uri) for each in (judged, kept))
    some = judged.codes >= 0
    groups, codes = np.unique(judged.codes[some], return_inverse=True)
    if min(len(groups), len(captions), len(prompts)) < 2:
        raise ModelError(
            f"{len(groups)} group(s), {len(captions)} caption(s) and {len(prompts)} prompt(s) teach nothing.",
            where=one.uri,
            remedy="give pictures of two groups, two neutral prompts, and a release with two subjects",
        )
    with one_thread():
        lesson = prompt_tokens.Lesson(
            one.image_embeddings()[some], codes, tuple(prompts), other.image_embeddings(), tuple(captions), kept.codes
        )
        array = prompt_tokens.learn_array(one.loaded(), lesson, one.uri, steps=steps, seed=seed)
    return PromptArray(
        origin=one.fingerprint,
        attribute=attribute,
        release=judged.release,
        fingerprint=judged.fingerprint,
        kept=kept.release,
        kept_fingerprint=kept.fingerprint,
        prompts=tuple(prompts),
        array=tuple(tuple(float(np.float32(number)) for number in token) for token in array),
    )


def fit_projection(
    uri: str,
    prompts: Sequence[str],
    *,
    pairs: Sequence[tuple[str, str]] = (),
    strength: float = 1000.0,
    device: str = "auto",
    base: Path = Path(),
) -> Projection:
    """The projection of a model's texts that takes these prompts out, calibrated by `pairs` where there are any.

    `strength` is Chuang et al.'s lambda, 1,000 in their code. Raises ModelError for one without two towers.
    """
    model = as_two_towers(open_scorer(uri, _NoPictures(), device=device, base=base), uri)
    every = [*prompts, *(text for pair in pairs for text in pair)]
    if not 0 < len(prompts) <= len(every) <= MAX_PROMPTS or not all(0 < len(text) <= MAX_PROMPT for text in every):
        raise ModelError(
            f"1 to {MAX_PROMPTS:,} prompts of 1 to {MAX_PROMPT:,} characters are taken out, and these are others.",
            where=uri,
            remedy="name a group in each, such as 'a photo of a man'",
        )
    for texts in (prompts, *pairs):  # which refuses what cannot be embedded, too
        require_told_apart(model, "prompts", {text: text for text in texts}, uri)
    return Projection(
        origin=model.fingerprint,
        prompts=tuple(prompts),
        pairs=tuple((one, other) for one, other in pairs),
        strength=float(strength) if pairs else 0.0,
    )


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
