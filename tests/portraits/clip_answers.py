"""What a tiny CLIP answers about drawn portraits: P(label) by set and group, ranking by group."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from open_clip import CLIP

from fairgate.portraits.clip import MEAN, STD, tokenize
from fairgate.portraits.world import GROUPS, PROMPT_TEMPLATE, RETRIEVAL_PROMPTS, with_article


def embed(model: CLIP, pictures: NDArray[np.uint8]) -> torch.Tensor:
    """Unit image embeddings (images, dim) of pictures (images, SIZE, SIZE, 3)."""
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    with torch.inference_mode():
        scaled = (torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255 - mean) / std
        return torch.cat([model.encode_image(part, normalize=True) for part in torch.split(scaled, 256)])


def probabilities(model: CLIP, images: torch.Tensor, labels: list[str]) -> NDArray[np.float64]:
    """P(label | image) (images, labels): the softmax of the suite prompts at the model's own scale."""
    with torch.inference_mode():
        prompts = [PROMPT_TEMPLATE.format(label=label) for label in labels]
        text = model.encode_text(tokenize(prompts), normalize=True)
        answer: NDArray[np.float64] = (model.logit_scale.exp() * images @ text.T).softmax(dim=1).double().numpy()
    return answer


def shares_at_top(model: CLIP, images: torch.Tensor, subject: str, k: int) -> NDArray[np.float64]:
    """Share of each group among the k images that the neutral query ranks first; images in sets, groups in order."""
    prompts = [p.format(subject=subject, a_subject=with_article(subject)) for p in RETRIEVAL_PROMPTS]
    with torch.inference_mode():
        query = model.encode_text(tokenize(prompts), normalize=True).mean(dim=0)
        best = torch.argsort(images @ query, descending=True, stable=True)[:k].numpy()
    return np.bincount(best % len(GROUPS), minlength=len(GROUPS)) / k
