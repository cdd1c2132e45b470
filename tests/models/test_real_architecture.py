"""A real architecture on real photographs: ViT-B-32 with random weights, from file to scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model_world import PROMPTS, Pictures

from fairgate.models import EmbeddingCache, open_scorer

PHOTOGRAPHS = Path(__file__).parents[2] / "../shared/real/fairface_photos"


@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the photographs are not beside this checkout")
@pytest.mark.nightly
def test_vit_b_32_scores_photographs_as_the_library_does(tmp_path: Path, cache: EmbeddingCache) -> None:
    import open_clip
    import torch
    from PIL import Image
    from safetensors.torch import save_file

    paths = sorted(PHOTOGRAPHS.glob("*.jpg"))[:6]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = open_clip.model.CLIP(**open_clip.get_model_config("ViT-B-32")).eval()
    save_file(model.state_dict(), tmp_path / "random.safetensors")
    source = Pictures([path.read_bytes() for path in paths])
    uri = "open_clip:ViT-B-32@random.safetensors"
    scorer = open_scorer(uri, source, device="cpu", cache=cache, base=tmp_path, batch_size=4)
    transform = open_clip.image_transform(224, is_train=False)
    with torch.no_grad():
        image, text, scale = model(
            torch.stack([transform(Image.open(path)) for path in paths]), open_clip.get_tokenizer("ViT-B-32")(PROMPTS)
        )
    np.testing.assert_allclose(scorer.image_embeddings(), image.numpy(), atol=1e-5)
    np.testing.assert_allclose(scorer.logits(PROMPTS), (scale * image @ text.T).numpy(), atol=1e-3)
    np.testing.assert_allclose(np.exp(scorer.log_probabilities(PROMPTS)).sum(axis=1), 1.0)
