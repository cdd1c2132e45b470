"""Language models that see, as a GPU is given them: several pictures at once, weights that are cast once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from model_world import Pictures
from nightly import some
from PIL import Image
from vlm_world import KINDS, build, save_vlm

from fairgate.models import open_scorer
from fairgate.models.checkpoints import Device, cast_once
from fairgate.models.vlm.seeing import VisionLanguage

QUESTION = "Who is it?"
LABELS = ["doctor", "line cook", "x-ray technician"]


@pytest.mark.parametrize("kind", some(KINDS, 3))
def test_weights_that_are_cast_once_give_the_numbers_of_autocast_and_bfloat16_is_as_near(kind: str) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8))
    found = {}
    for name, precision, autocast in (
        ("exact", "fp32", False),
        ("autocast", "fp32", True),
        ("cast", "amp_bf16", True),
        ("bfloat16", "bf16", False),
    ):
        model, processor = build(kind)
        device = Device("cpu", precision)
        prompt = f"{{image}}{QUESTION}"
        engine = VisionLanguage(cast_once(model, device), processor, prompt, device, kind, None)
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            found[name] = engine.log_likelihoods([engine.inputs(image)], engine.tokens(LABELS))
    assert all(own.dtype == torch.bfloat16 for own in model.parameters())
    np.testing.assert_array_equal(found["cast"], found["autocast"])
    assert np.abs(found["cast"] - found["exact"]).max() > 0
    np.testing.assert_allclose(found["bfloat16"], found["exact"], rtol=2e-3, atol=0.1)


@pytest.mark.usefixtures("seeing_here")
def test_a_gpu_is_shown_several_pictures_at_once_and_answers_alike(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_vlm("llava", tmp_path / "llava")
    found = []
    for at_once in (1, 4):
        labels = open_scorer(f"vlm:{folder}?question={QUESTION}", pictures, device="cpu")
        chat = open_scorer(f"vlm:{folder}?chat={{image}}{{question}}", pictures, device="cpu")
        if at_once > 1:
            monkeypatch.setattr(Device, "is_cuda", property(lambda _: True))
            monkeypatch.setattr("fairgate.models.vlm.judged._AT_ONCE_CUDA", at_once)
            monkeypatch.setattr("fairgate.models.checkpoints.require_device", lambda _: None)
        found.append((labels.log_likelihoods(LABELS), chat.answer([QUESTION] * len(pictures), 3).tolist()))
        assert labels.pictures_read == len(pictures)
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=0, atol=3e-4)  # as in test_vlm.py
    assert found[1][1] == found[0][1]


def test_a_cpu_reads_as_many_prompts_at_once_as_their_tokens_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = build("llava")
    engine = VisionLanguage(model, processor, f"{{image}}{QUESTION}", Device("cpu", "fp32"), "llava", None)
    draw = np.random.default_rng(0)
    noise = [Image.fromarray(draw.integers(0, 256, (40, 40, 3), dtype=np.uint8)) for _ in range(5)]
    shown, tokens = [engine.inputs(image) for image in noise], engine.tokens(LABELS)
    length, read = shown[0]["input_ids"].shape[1], list[int]()
    model.model.vision_tower.register_forward_pre_hook(lambda _, given: read.append(len(given[0])))
    with torch.inference_mode():
        found = [(engine.log_likelihoods(shown, tokens), engine.answers(shown, 3))]
        assert read == [5, 5]
        for name, prompts in (("_SCORED_TOKENS", 2), ("_ANSWERED_TOKENS", 0.5)):
            monkeypatch.setattr(f"fairgate.models.vlm.engine.{name}", int(prompts * length))
        found.append((engine.log_likelihoods(shown, tokens), engine.answers(shown, 3)))
    assert read[2:] == [2, 2, 1, 1, 1, 1, 1, 1]
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=0, atol=3e-4)  # as in test_vlm.py
    assert found[1][1] == found[0][1]
