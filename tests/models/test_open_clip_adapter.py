"""Scores of open_clip checkpoints are the library's own."""

from __future__ import annotations

import io
import json
import logging
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import PROMPTS, TINY, Pictures
from PIL import Image
from safetensors.torch import save_file

from fairgate.ground.errors import ModelError
from fairgate.models import EmbeddingCache, open_scorer
from fairgate.models.checkpoints import Device, encoder_of


def library_outputs(name: str, pictures: Pictures, state: dict[str, torch.Tensor]) -> tuple[np.ndarray, ...]:
    """Unit image embeddings, unit text embeddings and logits, by open_clip alone."""
    import open_clip

    model, _, transform = open_clip.create_model_and_transforms(name)
    model.load_state_dict(state)
    model.eval()
    tokens = open_clip.get_tokenizer(name)(PROMPTS)
    images = torch.stack([transform(Image.open(io.BytesIO(blob))) for blob in pictures.blobs])
    with torch.no_grad():
        image, text, scale = model(images, tokens)[:3]
        return image.numpy(), text.numpy(), (scale * image @ text.T).numpy()


def test_a_local_dir_scores_as_the_library_does(local_dir: Path, pictures: Pictures, tiny_model: Any) -> None:
    scorer = open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=None)
    image, text, logits = library_outputs(f"local-dir:{local_dir}", pictures, tiny_model.state_dict())
    np.testing.assert_allclose(scorer.image_embeddings(), image, atol=1e-5)
    np.testing.assert_allclose(scorer.text_embeddings(PROMPTS), text, atol=1e-5)
    np.testing.assert_allclose(scorer.logits(PROMPTS), logits, atol=1e-4)
    np.testing.assert_allclose(np.exp(scorer.log_probabilities(PROMPTS)), torch.tensor(logits).softmax(-1), atol=1e-5)
    assert scorer.logits(PROMPTS).dtype == np.float64
    assert (scorer.precision, scorer.device) == ("fp32", "cpu")


def test_an_ensemble_is_the_renormalised_mean_of_unit_texts(local_dir: Path, pictures: Pictures) -> None:
    scorer = open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=None)
    mean = scorer.text_embeddings(PROMPTS).astype(np.float64).mean(axis=0)
    expected = scorer.image_embeddings() @ (mean / np.linalg.norm(mean))
    found = scorer.similarity([PROMPTS, PROMPTS[:1]])
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-7)
    np.testing.assert_allclose(
        found[:, 1], scorer.image_embeddings() @ scorer.text_embeddings(PROMPTS[:1])[0], atol=1e-6
    )
    with pytest.raises(ModelError, match="ensemble 1 holds no prompt"):
        scorer.similarity([PROMPTS, []])
    with pytest.raises(ModelError, match="there is no prompt to embed"):
        scorer.logits([])


@pytest.mark.parametrize("layout", ["safetensors", "training", "distributed", "bare", "compiled"])
def test_every_layout_of_a_checkpoint_file_gives_the_same_scores(
    layout: str, tmp_path: Path, tiny_arch: str, tiny_model: Any, pictures: Pictures
) -> None:
    state = tiny_model.state_dict()
    optimizer = torch.optim.AdamW(tiny_model.parameters()).state_dict()
    path = tmp_path / ("epoch_1.safetensors" if layout == "safetensors" else "epoch_1.pt")
    if layout == "safetensors":
        save_file(state, path)
    else:
        prefix = {"distributed": "module.", "compiled": "_orig_mod."}.get(layout, "")
        named = {prefix + name: value for name, value in state.items()}
        whole = {"epoch": 1, "name": "run", "state_dict": named, "optimizer": optimizer, "scaler": {"scale": 65536.0}}
        torch.save(named if layout == "bare" else whole, path)
    scorer = open_scorer(f"open_clip:{tiny_arch}@{path.name}", pictures, device="cpu", cache=None, base=tmp_path)
    expected = library_outputs(tiny_arch, pictures, state)[2]
    np.testing.assert_allclose(scorer.logits(PROMPTS), expected, atol=1e-4)


def test_half_precision_weights_are_scored_in_float32(
    tmp_path: Path, tiny_arch: str, tiny_model: Any, pictures: Pictures
) -> None:
    half = {name: value.bfloat16() for name, value in tiny_model.state_dict().items()}
    save_file(half, tmp_path / "half.safetensors")
    scorer = open_scorer(f"open_clip:{tiny_arch}@half.safetensors", pictures, device="cpu", cache=None, base=tmp_path)
    expected = library_outputs(tiny_arch, pictures, {name: value.float() for name, value in half.items()})[2]
    np.testing.assert_allclose(scorer.logits(PROMPTS), expected, atol=1e-4)


def test_a_model_with_a_bias_adds_it(tmp_path: Path, pictures: Pictures) -> None:
    import open_clip

    config = {**TINY, "init_logit_bias": -10, "custom_text": True}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = open_clip.create_model(f"local-dir:{tmp_path}", load_weights=False)
    save_file(model.state_dict(), tmp_path / "open_clip_model.safetensors")
    scorer = open_scorer(f"open_clip:local-dir:{tmp_path}", pictures, device="cpu", cache=None)
    _image, _text, logits = library_outputs(f"local-dir:{tmp_path}", pictures, model.state_dict())
    np.testing.assert_allclose(scorer.logits(PROMPTS), logits - 10, atol=1e-4)


def test_the_same_checkpoint_scores_the_same_twice_and_in_any_batch_size(local_dir: Path, pictures: Pictures) -> None:
    def logits(batch_size: int) -> np.ndarray:
        scorer = open_scorer(
            f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=None, batch_size=batch_size
        )
        return scorer.logits(PROMPTS)

    assert np.array_equal(logits(4), logits(4))
    np.testing.assert_allclose(logits(10), logits(3), atol=1e-5)


def test_loading_leaves_the_callers_random_state_and_torch_settings_alone(local_dir: Path, pictures: Pictures) -> None:
    torch.manual_seed(7)
    random.seed(7)
    before = torch.get_rng_state(), random.getstate(), torch.are_deterministic_algorithms_enabled()
    handlers = list(logging.getLogger().handlers)
    open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=None).logits(PROMPTS)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert torch.are_deterministic_algorithms_enabled() == before[2]
    assert logging.getLogger().handlers == handlers


def test_the_fingerprint_follows_weights_and_config_and_not_the_name(
    tmp_path: Path, tiny_arch: str, tiny_model: Any, local_dir: Path, pictures: Pictures
) -> None:
    def fingerprint(uri: str) -> str:
        return open_scorer(uri, pictures, device="cpu", cache=None, base=tmp_path).fingerprint

    save_file(tiny_model.state_dict(), tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "a.safetensors").read_bytes())
    changed = {name: value.clone() for name, value in tiny_model.state_dict().items()}
    changed["logit_scale"] += 1e-3
    save_file(changed, tmp_path / "c.safetensors")
    first = fingerprint(f"open_clip:{tiny_arch}@a.safetensors")
    assert first == fingerprint(f"open_clip:{tiny_arch}@b.safetensors")
    assert first != fingerprint(f"open_clip:{tiny_arch}@c.safetensors")
    folder = fingerprint(f"open_clip:local-dir:{local_dir}")
    config = local_dir / "open_clip_config.json"
    config.write_text(config.read_text().replace("squash", "shortest"))
    assert folder != fingerprint(f"open_clip:local-dir:{local_dir}")


def test_scores_of_two_models_do_not_meet_in_one_cache(
    tmp_path: Path, tiny_arch: str, tiny_model: Any, pictures: Pictures, cache: EmbeddingCache
) -> None:
    changed = {name: value.clone() for name, value in tiny_model.state_dict().items()}
    changed["text_projection"] = changed["text_projection"].flip(1).contiguous()
    save_file(tiny_model.state_dict(), tmp_path / "a.safetensors")
    save_file(changed, tmp_path / "b.safetensors")
    first, second = (
        open_scorer(f"open_clip:{tiny_arch}@{name}", pictures, device="cpu", cache=cache, base=tmp_path).logits(PROMPTS)
        for name in ("a.safetensors", "b.safetensors")
    )
    assert not np.allclose(first, second)
    np.testing.assert_allclose(second, library_outputs(tiny_arch, pictures, changed)[2], atol=1e-4)


@pytest.mark.parametrize(
    ("uri", "problem", "remedy"),
    [
        ("open_clip:ViT-B-33@weights.safetensors", "no architecture 'ViT-B-33'", "did you mean 'ViT-B-32'"),
        ("open_clip:ViT-B-32", "does not say which weights", "open_clip:ARCH@FILE"),
        ("open_clip:ViT-B-32@laion2b_s34b_b79", "open_clip has no weights 'laion2b_s34b_b79'", "laion2b_s34b_b79k"),
        ("open_clip:ViT-B-32@openai", "trained with QuickGELU", "ViT-B-32-quickgelu@openai"),
        ("open_clip:ViT-B-32@tuned.safetensor", "the file does not exist", "did you mean 'tuned.safetensors'"),
    ],
)
def test_a_name_that_leads_nowhere_is_an_error_with_the_nearest_one(
    uri: str, problem: str, remedy: str, tmp_path: Path, pictures: Pictures
) -> None:
    (tmp_path / "tuned.safetensors").touch()
    uri = uri.replace("tuned.safetensor", "./tuned.safetensor")
    with pytest.raises(ModelError, match=problem) as caught:
        open_scorer(uri, pictures, device="cpu", cache=None, base=tmp_path)
    assert remedy in str(caught.value.remedy)


def test_a_tag_whose_weights_cannot_be_downloaded_is_a_clear_error(
    pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fairgate.models.open_clip_network as adapter

    def unreachable(settings: dict[str, Any]) -> str:
        raise FileNotFoundError("no connection")

    monkeypatch.setattr(adapter, "download_pretrained", unreachable)
    with pytest.raises(ModelError, match="could not be downloaded") as caught:
        open_scorer("open_clip:ViT-B-32@laion2b_s34b_b79k", pictures, device="cpu", cache=None)
    assert "check the network" in str(caught.value.remedy)


def test_a_tag_is_scored_with_its_own_preprocessing(
    tmp_path: Path, tiny_arch: str, tiny_model: Any, pictures: Pictures, cache: EmbeddingCache, monkeypatch: Any
) -> None:
    import open_clip

    import fairgate.models.open_clip_network as adapter

    save_file(tiny_model.state_dict(), tmp_path / "hub.safetensors")
    file = open_scorer(f"open_clip:{tiny_arch}@{tmp_path}/hub.safetensors", pictures, device="cpu", cache=cache)
    settings = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0), "resize_mode": "squash", "hf_hub": "x/"}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, tiny_arch, {"tag": settings})
    monkeypatch.setattr(adapter, "download_pretrained", lambda _: str(tmp_path / "hub.safetensors"))
    tag = open_scorer(f"open_clip:{tiny_arch}@tag", pictures, device="cpu", cache=cache)
    assert tag.fingerprint == file.fingerprint
    assert not np.allclose(tag.logits(PROMPTS), file.logits(PROMPTS))
    transform = open_clip.image_transform(32, is_train=False, mean=(0, 0, 0), std=(1, 1, 1), resize_mode="squash")
    images = torch.stack([transform(Image.open(io.BytesIO(blob))) for blob in pictures.blobs])
    with torch.no_grad():
        expected = tiny_model.encode_image(images, normalize=True).numpy()
    np.testing.assert_allclose(tag.image_embeddings(), expected, atol=1e-5)


SHIPPED = Path(__file__).parents[2] / "build" / "portraits" / "checkpoints" / "base"


def with_vocabulary(folder: Path, **ids: int) -> Path:
    """The embedded world's checkpoint, its tokenizer edited: words get other numbers."""
    shutil.copytree(SHIPPED, folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["model"]["vocab"] |= ids
    path.write_text(json.dumps(tokenizer))
    return folder


def test_prompts_of_equal_tokens_are_one_text_whatever_their_batch(tmp_path: Path, pictures: Pictures) -> None:
    folder = with_vocabulary(tmp_path / "edited", nurse=3, pharmacist=3)  # 3 is "a"
    prompts = [f"a photo of a {word}" for word in ("doctor", "nurse", "chef", "pharmacist", "a")]
    for before in (0, 3, 61, 64, 130):  # the same tokens at other places of batches of 64
        scorer = open_scorer(f"open_clip:local-dir:{folder}", pictures, device="cpu", cache=None)
        scorer.text_embeddings([f"a photo of {'a ' * number}" for number in range(before)] or ["chef"])
        scorer.text_embeddings(prompts[:2])
        assert scorer.indistinct([[prompt] for prompt in prompts]) == [(1, 3), (1, 4), (3, 4)]
    whole = open_scorer(f"open_clip:local-dir:{SHIPPED}", pictures, device="cpu", cache=None)
    assert whole.indistinct([[prompt] for prompt in prompts]) == []


def test_averaged_queries_are_told_apart_by_their_average(tmp_path: Path, pictures: Pictures) -> None:
    folder = with_vocabulary(tmp_path / "edited", nurse=11)  # 11 is "doctor"
    scorer = open_scorer(f"open_clip:local-dir:{folder}", pictures, device="cpu", cache=None)
    queries = [[job, f"a picture of a {job}"] for job in ("doctor", "nurse", "chef")]
    assert scorer.indistinct(queries) == [(0, 1)]
    assert scorer.indistinct([queries[0], queries[0]]) == []


def test_half_precision_alone_makes_no_two_texts_one(
    pictures: Pictures, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = [["a photo of a firefighter"], ["a picture of a firefighter"], ["a photo of a chef"]]
    scorer = open_scorer(f"open_clip:local-dir:{SHIPPED}", pictures, device="cpu", cache=cache)
    monkeypatch.setattr(scorer, "precision", "amp_bf16")  # 0.013 apart: nearer than its rounding can be far
    assert scorer.indistinct(close) == []
    shared = [*close, ["a photo of a chef "]]  # the tokenizer takes both for the same words
    assert scorer.indistinct(shared) == [(2, 3)]


def test_a_scale_that_makes_every_logit_infinite_is_an_error(
    tmp_path: Path, tiny_arch: str, tiny_model: Any, pictures: Pictures
) -> None:
    save_file({**tiny_model.state_dict(), "logit_scale": torch.tensor(1000.0)}, tmp_path / "a.safetensors")
    scorer: Any = open_scorer(f"open_clip:{tiny_arch}@a.safetensors", pictures, device="cpu", cache=None, base=tmp_path)
    with pytest.raises(ModelError, match="scale or bias of its logits is NaN or infinite"):
        scorer.logits(PROMPTS)


def test_a_model_without_a_scale_of_its_own_is_not_given_one() -> None:
    parts: dict[str, Any] = dict.fromkeys(("prepare", "images", "tokens", "texts"), torch.nn.Identity())
    with pytest.raises(AttributeError, match="logit_scale"):
        encoder_of(torch.nn.Identity(), Device("cpu", "fp32"), vocabulary=1, **parts)
    assert encoder_of(torch.nn.Identity(), Device("cpu", "fp32"), vocabulary=1, scale=1.0, **parts).scale == 1.0
