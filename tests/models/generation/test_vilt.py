"""ViLT's answers are the library's own, whatever they are asked together with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from perceiver_world import ANSWERS, PHOTOS, QUESTIONS, edit, portrait
from PIL import Image
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.models.generation import open_model


@pytest.fixture
def folder(perceivers: dict[str, Path], tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(perceivers["vilt"], tmp_path / "vilt"))


def stock_logits(folder: Path, image: Image.Image, question: str) -> torch.Tensor:
    from transformers import ViltForQuestionAnswering, ViltProcessor

    model = ViltForQuestionAnswering.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**ViltProcessor.from_pretrained(folder)(image, question, return_tensors="pt")).logits[0]


def set_head(folder: Path, *logits: float) -> None:
    """Every question about every picture gets these logits."""
    weights = load_file(folder / "model.safetensors")
    weights["classifier.3.weight"] = torch.zeros_like(weights["classifier.3.weight"])
    weights["classifier.3.bias"] = torch.tensor(logits)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_probabilities_are_the_sigmoids_of_the_librarys_logits(perceivers: dict[str, Path]) -> None:
    images = [portrait(1), portrait(2, (64, 96)), portrait(3)]
    asker = open_model("asker", f"hf:{perceivers['vilt']}")
    found = asker.ask(images, QUESTIONS, ["real", "yes"])
    expected = [
        [torch.sigmoid(stock_logits(perceivers["vilt"], image, question))[[2, 0]].tolist() for question in QUESTIONS]
        for image in images
    ]
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert np.ptp(found[:, 2, 0]) > 1e-3  # pictures matter
    assert dict(asker.spent) == {"vilt": 9}


def test_ranking_by_real_is_ranking_by_its_logit(perceivers: dict[str, Path]) -> None:
    images = [portrait(seed) for seed in range(5)]
    asker = open_model("asker", f"hf:{perceivers['vilt']}")
    probabilities = asker.ask(images, QUESTIONS[2:], ["real"])[:, 0, 0]
    logits = [float(stock_logits(perceivers["vilt"], image, QUESTIONS[2])[2]) for image in images]
    assert np.argsort(probabilities).tolist() == np.argsort(logits).tolist()


def test_answers_follow_the_configs_labels(folder: Path) -> None:
    set_head(folder, 0.0, 2.0, 1.0, -1.0, -2.0)
    asker = open_model("asker", "hf:vilt", base=folder.parent)
    np.testing.assert_allclose(asker.ask([portrait(1)], QUESTIONS[:1], ["yes", "no"]), [[[0.5, 0.880797]]], atol=1e-6)
    turned = dict(zip(map(str, range(5)), reversed(ANSWERS), strict=True))
    edit(folder / "config.json", id2label=turned, label2id={label: int(number) for number, label in turned.items()})
    asker = open_model("asker", f"hf:{folder}")
    np.testing.assert_allclose(asker.ask([portrait(1)], QUESTIONS[:1], ["fake"]), [[[0.880797]]], atol=1e-6)


def test_the_same_bits_come_again_and_the_callers_random_state_stays(perceivers: dict[str, Path]) -> None:
    asker = open_model("asker", f"hf:{perceivers['vilt']}")
    images = [portrait(1), portrait(4)]
    first = asker.ask(images, QUESTIONS, ["real"])
    torch.manual_seed(77)
    before = torch.get_rng_state()
    np.testing.assert_array_equal(asker.ask(images, QUESTIONS, ["real"]), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_cannot_be_asked_or_answered_is_an_error(perceivers: dict[str, Path]) -> None:
    asker = open_model("asker", f"hf:{perceivers['vilt']}")
    with pytest.raises(ModelError, match="'fakes' is not among the 5 answers") as caught:
        asker.ask([portrait(1)], QUESTIONS, ["fakes"])
    assert "did you mean 'fake'" in str(caught.value.remedy)
    with pytest.raises(ModelError, match="longer than the 24 tokens"):
        asker.ask([portrait(1)], ["is this a doctor " * 9], ["yes"])
    assert asker.ask([], QUESTIONS, ["yes"]).shape == (0, len(QUESTIONS), 1)
    assert asker.ask([portrait(1)], [], ["yes"]).shape == (1, 0, 1)


def pickled(folder: Path) -> Path:
    """As the published ViLT is stored: weights in a pickled state dict, image settings under an old name."""
    state = {
        **load_file(folder / "model.safetensors"),
        "vilt.embeddings.text_embeddings.position_ids": torch.arange(24),
    }
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    settings: dict[str, Any] = json.loads((folder / "processor_config.json").read_text())["image_processor"]
    settings.pop("image_processor_type")
    (folder / "preprocessor_config.json").write_text(
        json.dumps({**settings, "feature_extractor_type": "ViltFeatureExtractor"})
    )
    (folder / "processor_config.json").unlink()
    return folder


def test_the_published_layout_is_read_and_gives_the_same_answers(perceivers: dict[str, Path], folder: Path) -> None:
    asked = ([portrait(1), portrait(2)], QUESTIONS, ["real"])
    old = open_model("asker", f"hf:{pickled(folder)}")
    new = open_model("asker", f"hf:{perceivers['vilt']}")
    np.testing.assert_array_equal(old.ask(*asked), new.ask(*asked))
    assert old.fingerprint != new.fingerprint


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


def test_weights_that_run_code_or_do_not_fit_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    weights = load_file(folder / "model.safetensors")
    lacking = {name: value for name, value in weights.items() if name != "classifier.3.bias"}
    save_file(lacking, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 tensors are missing: classifier.3.bias"):
        open_model("asker", f"hf:{folder}")
    (folder / "model.safetensors").unlink()
    torch.save({**weights, "head": Bomb()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="would have to run pickled code"):
        open_model("asker", f"hf:{folder}")
    assert not (folder / "exploded").exists()
    edit(folder / "config.json", auto_map={"AutoModel": "mine.Model"})
    with pytest.raises(ModelError, match="names code of its own"):
        open_model("asker", f"hf:{folder}")


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the photographs are not here")
def test_photographs_are_prepared_as_the_library_does(perceivers: dict[str, Path]) -> None:
    image = Image.open(PHOTOS / "1005.jpg").convert("RGB").crop((0, 0, 224, 180))
    found = open_model("asker", f"hf:{perceivers['vilt']}").ask([image], QUESTIONS, ANSWERS)[0]
    expected = [torch.sigmoid(stock_logits(perceivers["vilt"], image, question)).tolist() for question in QUESTIONS]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_settings_that_would_enlarge_every_picture_without_end_are_refused(
    folder: Path, perceivers: dict[str, Path], tmp_path: Path
) -> None:
    edit(folder / "processor_config.json", image_processor={"size": {"shortest_edge": 2200}, "size_divisor": 16})
    with pytest.raises(ModelError, match=r"a picture of 2,\d+ x 2,\d+ pixels"):
        open_model("asker", f"hf:{folder}").ask([portrait(1)], QUESTIONS, ["yes"])
    dino = Path(shutil.copytree(perceivers["dinov2"], tmp_path / "dinov2"))
    edit(dino / "preprocessor_config.json", size={"shortest_edge": 2100}, crop_size={"height": 2100, "width": 2100})
    with pytest.raises(ModelError, match="a picture of 2,100 x 2,100 pixels"):
        open_model("matcher", f"hf:{dino}").embed_images([portrait(1)])


def test_numbers_that_overflow_are_an_error_and_never_an_answer(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    # The norm's outputs overflow one by one, and their sums meet both infinities. (Products that overflow inside of a
    # sum are no good: a processor that multiplies and adds in one step never rounds them.)
    weights["vilt.layernorm.weight"] = torch.full((32,), 3e38)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="answered with NaN"):
        open_model("asker", f"hf:{folder}").ask([portrait(1)], QUESTIONS, ["yes"])
