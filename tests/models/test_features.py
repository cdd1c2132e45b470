"""A backbone with a head answers as the library's features under that head; a head never judges where it was fitted."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifier_world import SMALL, processor
from feature_world import BACKBONES, LABELS, linear, save_backbone
from hf_world import save_folder
from model_world import Pictures
from nightly import some
from PIL import Image
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from fairgate.ground.errors import CapabilityError, ModelError
from fairgate.interfaces.cli.main import app
from fairgate.models import local_paths, open_scorer, require_capability
from fairgate.models.checkpoints import Device, find_plain, of_processor
from fairgate.models.features import load_backbone

sys.path.insert(0, str(Path(__file__).parents[1]))
from toy_repository import toy_repository


def opened(uri: str, pictures: Any, base: Path) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base, batch_size=4)


@pytest.mark.parametrize("kind", some(list(BACKBONES), 3))
def test_a_linear_head_is_on_the_librarys_features(kind: str, tmp_path: Path, pictures: Pictures) -> None:
    from transformers import AutoImageProcessor

    model = save_backbone(kind, tmp_path / "net")
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    with torch.no_grad():
        out = model(**AutoImageProcessor.from_pretrained(tmp_path / "net")(images=images, return_tensors="pt"))
    tokens = {"dinov2": 1, "dinov2_with_registers": 5, "dinov3_vit": 3, "vit": 1}.get(kind)
    if tokens is None:
        pools = {"pooled": out.pooler_output}
    else:
        cls, mean = out.last_hidden_state[:, 0], out.last_hidden_state[:, tokens:].mean(dim=1)
        pools = {"cls": cls, "mean": mean, "cls_mean": torch.cat([cls, mean], dim=1)}
    for pool, features in pools.items():
        head = linear(tmp_path / f"{pool}.safetensors", features.shape[1], prefix="fc.")
        expected = features.double() @ torch.from_numpy(head["weight"]).double().T + torch.from_numpy(head["bias"])
        scorer = opened(f"features:net?head={pool}.safetensors&pool={pool}", pictures, tmp_path)
        np.testing.assert_allclose(scorer.outputs(), expected, atol=1e-4)
        assert scorer.predict("gender").labels.tolist() == [LABELS[place] for place in expected.argmax(dim=1)]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_a_head_is_on_the_features_of_a_two_tower_models_image_tower(
    kind: str, tmp_path: Path, pictures: Pictures
) -> None:
    from transformers import AutoImageProcessor, AutoModel

    model = AutoModel.from_pretrained(save_folder(kind, tmp_path / "net")).eval()
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    pixels = AutoImageProcessor.from_pretrained(tmp_path / "net")(images=images, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        features = model.get_image_features(pixel_values=pixels)
    features = getattr(features, "pooler_output", features)
    head = linear(tmp_path / "head.safetensors", features.shape[1], prefix="fc.")
    expected = features.double() @ torch.from_numpy(head["weight"]).double().T + torch.from_numpy(head["bias"])
    scorer = opened("features:net?head=head.safetensors", pictures, tmp_path)
    np.testing.assert_allclose(scorer.outputs(), expected, atol=1e-4)
    assert f"own class for {kind}, in a process of its own" in scorer.note


def test_the_isolated_process_gives_the_librarys_features_of_a_clips_image_tower(
    tmp_path: Path, pictures: Pictures
) -> None:
    from transformers import AutoImageProcessor, AutoModel

    model = AutoModel.from_pretrained(save_folder("clip", tmp_path)).eval()
    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    pixels = AutoImageProcessor.from_pretrained(tmp_path)(images=images, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        wanted = model.get_image_features(pixel_values=pixels)
        loaded = load_backbone(find_plain(tmp_path, None, "features"), Device("cpu", "fp32"), "pooled")
        found = loaded.outputs([loaded.prepare(image) for image in images])
    np.testing.assert_allclose(found, getattr(wanted, "pooler_output", wanted), atol=1e-5)


@pytest.mark.nightly
def test_features_of_any_encoder_are_pooled_by_the_library_or_the_mean_of_its_tokens(
    tmp_path: Path, pictures: Pictures
) -> None:
    from transformers import AutoImageProcessor, BeitConfig, BeitModel, IJepaConfig, IJepaModel

    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    for name, network, pool in (
        ("beit", BeitModel(BeitConfig(**SMALL)), "pooled"),
        ("ijepa", IJepaModel(IJepaConfig(**SMALL), add_pooling_layer=False), "mean"),
    ):
        network.save_pretrained(tmp_path / name)
        processor("ViTImageProcessor").save_pretrained(tmp_path / name)
        inputs = AutoImageProcessor.from_pretrained(tmp_path / name)(images=images, return_tensors="pt")
        with torch.no_grad():
            out = network.eval()(**inputs)
        wanted = out.pooler_output if pool == "pooled" else out.last_hidden_state.mean(dim=1)
        found = opened(f"features:{name}?pool={pool}", pictures, tmp_path).outputs()
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    with pytest.raises(ModelError, match="IJepaModel gives no features that are pooled"):
        opened("features:ijepa", pictures, tmp_path).outputs()


def test_an_encoder_that_hides_parts_of_pictures_at_random_is_refused_until_it_hides_none(tmp_path: Path) -> None:
    from transformers import ViTMAEConfig, ViTMAEModel

    ViTMAEModel(ViTMAEConfig(**SMALL)).save_pretrained(tmp_path)
    processor("ViTImageProcessor").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="a vit_mae gives other features of the same picture each time"):
        load_backbone(find_plain(tmp_path, None, "features"), Device("cpu", "fp32"), "mean")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "mask_ratio": 0.0}))
    load_backbone(find_plain(tmp_path, None, "features"), Device("cpu", "fp32"), "mean")


@pytest.mark.parametrize("kind", [["vit"], {"vit": 1}, 5, None])
def test_a_config_whose_type_is_no_name_is_refused(kind: Any, dino: Path, pictures: Pictures) -> None:
    (dino / "dino/config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(ModelError):
        opened("features:dino", pictures, dino)


def test_a_processor_that_cuts_a_picture_into_pieces_is_refused() -> None:
    from transformers import GotOcr2ImageProcessor

    cutting = GotOcr2ImageProcessor(size={"height": 8, "width": 8}, crop_to_patches=True, min_patches=4, max_patches=6)
    with pytest.raises(ModelError, match=r"GotOcr2ImageProcessor.* makes \d pictures of one"):
        of_processor(cutting)(Image.new("RGB", (40, 40)))


@pytest.fixture
def dino(tmp_path: Path) -> Path:
    save_backbone("dinov2", tmp_path / "dino")
    return tmp_path


def test_a_head_is_fitted_on_one_release_and_judges_another(dino: Path) -> None:
    from fairgate.data import open_dataset

    toy_repository(dino, sets=6)
    given = ["head", "fit", "head.safetensors", "--model", "features:dino", "--data", "toy", "--attribute", "skin_tone"]
    result = CliRunner().invoke(app, [*given, "--root", str(dino)])
    assert result.exit_code == 0, result.output
    assert "features:dino?head=head.safetensors" in result.output
    release = open_dataset("toy", dino / "datasets")
    with pytest.raises(ModelError, match=r"fitted on toy@v1, whose pictures judge here") as caught:
        opened("features:dino?head=head.safetensors", release, dino)
    assert "fairgate head fit" in str(caught.value.remedy)
    blobs = [blob for _, batch in release.image_batches(64) for blob in batch]
    scorer = opened("features:dino?head=head.safetensors", Pictures(blobs), dino)
    assert scorer.predict("skin_tone").labels.tolist() == release.index.attributes["skin_tone"].tolist()
    assert "by its own file, was fitted on toy@v1" in scorer.note
    with pytest.raises(ModelError, match="no labels of 'gender'"):
        scorer.predict("gender")


def test_the_fitted_head_is_the_minimum_of_the_penalised_cross_entropy(dino: Path, pictures: Pictures) -> None:
    from fairgate.models import fit_head

    codes = np.array([0, 1] * 5)
    backbone = opened("features:dino", pictures, dino)
    head = fit_head(backbone, codes, ["a", "b"], attribute="x", release="r@v1", fingerprint="f", penalty=0.05)
    features = backbone.outputs().astype(np.float64)
    shown = (features - features.mean(axis=0)) / features.std(axis=0)
    weight = head.weight.astype(np.float64) * features.std(axis=0)
    p = np.exp(head.logits(features.astype(np.float32)).astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    slope = (p - np.eye(2)[codes]).T @ shown / len(shown) + 2 * 0.05 * weight
    np.testing.assert_allclose(slope, 0, atol=2e-4)


def test_a_head_of_another_backbone_is_refused(dino: Path, pictures: Pictures) -> None:
    linear(dino / "head.safetensors", 16, origin="f" * 64)
    with pytest.raises(ModelError, match="features of another backbone"):
        opened("features:dino?head=head.safetensors", pictures, dino)


def test_a_backbone_without_a_head_answers_no_probe(dino: Path, pictures: Pictures) -> None:
    with pytest.raises(CapabilityError, match=r"lacks the capability 'predict' \(it has: none\)"):
        require_capability(opened("features:dino", pictures, dino), "predict", "probe 'gender'")


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no labels": ({"labels": None}, "head=head.safetensors", "what its outputs are called"),
    "a width of another pool": (
        {},
        "head=head.safetensors&pool=cls_mean",
        "takes 16 numbers, and the backbone gives 32",
    ),
    "a pool that it was not fitted on": ({"pool": "mean"}, "head=head.safetensors&pool=cls", "pool is 'cls'"),
    "a pool that is none": ({"pool": "best"}, "head=head.safetensors", "its `pool` is 'best'"),
    "too few labels": ({"labels": ["a", "b"]}, "head=head.safetensors", "2 labels are named, and the model has 3"),
    "no pool of the URI": ({}, "head=head.safetensors&pool=best", "pool is 'best'"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_heads_that_do_not_fit_are_refused(case: str, dino: Path, pictures: Pictures) -> None:
    said, options, problem = REFUSED[case]
    linear(dino / "head.safetensors", 16, **said)
    with pytest.raises(ModelError, match=problem):
        opened(f"features:dino?{options}", pictures, dino).predict("gender")


TENSORS: dict[str, dict[str, Any]] = {
    "two weights": {"a.weight": np.ones((2, 16), np.float32), "b.weight": np.ones((2, 16), np.float32)},
    "a bias of another length": {"weight": np.ones((2, 16), np.float32), "bias": np.ones(3, np.float32)},
    "NaN": {"weight": np.full((2, 16), np.nan, np.float32)},
    "neighbours": {"features": np.ones((2, 16), np.float32), "codes": np.array([1, 0])},
    "nothing": {"x": np.ones(3, np.float32)},
}


@pytest.mark.parametrize("case", list(TENSORS))
def test_files_that_are_no_heads_are_refused(case: str, dino: Path, pictures: Pictures) -> None:
    save_file(TENSORS[case], dino / "head.safetensors", metadata={"labels": json.dumps(["a", "b"])})
    with pytest.raises(ModelError, match="the file is no head"):
        opened("features:dino?head=head.safetensors", pictures, dino)


def test_a_head_whose_labels_are_no_list_or_that_is_a_pickle_is_refused(dino: Path, pictures: Pictures) -> None:
    for said in ("[", "[" * 100_000, '{"a": 1}', "[1, 2]"):
        save_file({"weight": np.ones((2, 16), np.float32)}, dino / "head.safetensors", metadata={"labels": said})
        with pytest.raises(ModelError, match="its `labels`"):
            opened("features:dino?head=head.safetensors", pictures, dino)
    torch.save({"weight": torch.ones(2, 16)}, dino / "head.pt")
    with pytest.raises(ModelError, match=r"a head is a \.safetensors file"):
        opened("features:dino?head=head.pt", pictures, dino)


def test_the_files_of_a_head_are_known_to_the_gate_and_part_of_the_fingerprint(dino: Path, pictures: Pictures) -> None:
    linear(dino / "head.safetensors", 16)
    uri = "features:dino?head=head.safetensors"
    assert local_paths(uri) == (Path("dino"), Path("head.safetensors"))
    before = opened(uri, pictures, dino).fingerprint
    held = load_file(dino / "head.safetensors")
    held["bias"][0] += 1
    save_file(held, dino / "head.safetensors", metadata={"labels": json.dumps(LABELS)})
    assert opened(uri, pictures, dino).fingerprint != before
