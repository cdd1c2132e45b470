"""What a checkpoint of the embedded world says about drawn portraits: P(label) by set and group, ranking by group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairgate.portraits import clip
from fairgate.portraits.world import GROUPS, PROMPT_TEMPLATE, RETRIEVAL_PROMPTS, with_article

if TYPE_CHECKING:
    import torch
    from open_clip import CLIP

Probabilities = NDArray[np.float64]


def embed(model: CLIP, pictures: NDArray[np.uint8]) -> torch.Tensor:
    """Unit image embeddings (images, dim) of pictures (images, SIZE, SIZE, 3)."""
    import torch

    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (clip.MEAN, clip.STD))
    with torch.inference_mode():
        scaled = (torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255 - mean) / std
        return torch.cat([model.encode_image(part, normalize=True) for part in torch.split(scaled, 256)])


def probabilities(model: CLIP, images: torch.Tensor, labels: list[str]) -> Probabilities:
    """P(label | image) (images, labels): the softmax of the suite prompts at the model's own scale."""
    import torch

    with torch.inference_mode():
        prompts = [PROMPT_TEMPLATE.format(label=label) for label in labels]
        text = model.encode_text(clip.tokenize(prompts), normalize=True)
        answer: Probabilities = (model.logit_scale.exp() * images @ text.T).softmax(dim=1).double().numpy()
    return answer


def shares_at_top(model: CLIP, images: torch.Tensor, subject: str, k: int) -> NDArray[np.float64]:
    """Share of each group among the k images that the neutral query ranks first; images in sets, groups in order."""
    import torch

    prompts = [p.format(subject=subject, a_subject=with_article(subject)) for p in RETRIEVAL_PROMPTS]
    with torch.inference_mode():
        query = model.encode_text(clip.tokenize(prompts), normalize=True).mean(dim=0)
        best = torch.argsort(images @ query, descending=True, stable=True)[:k].numpy()
    return np.bincount(best % len(GROUPS), minlength=len(GROUPS)) / k
