"""Outputs of timm's and torchvision's classifiers are the libraries' own; what training wraps around weights is off."""

from __future__ import annotations

import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifier_world import LABELS, save_timm
from model_world import Pictures
from nightly import some
from PIL import Image
from safetensors.torch import save_file

from fairgate.ground.errors import ModelError
from fairgate.models import local_paths, open_scorer
from fairgate.models.checkpoints import HashedFiles, find_device
from fairgate.models.classifiers.fixed_labels import loaded_into

NET = "squeezenet1_1"


def opened(uri: str, pictures: Pictures, base: Path) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base, batch_size=4)


def images(pictures: Pictures) -> list[Image.Image]:
    return [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    save_timm("test_vit", tmp_path / "vit", img_size=64)
    return tmp_path


def edit(root: Path, **changes: Any) -> None:
    path = root / "vit" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}), encoding="utf-8")


ARCHITECTURES = ["test_vit", "test_resnet", "test_convnext", "test_efficientnet"]


@pytest.mark.parametrize("architecture", some(ARCHITECTURES, 2))
def test_a_folder_of_timm_is_classified_as_timm_does(architecture: str, tmp_path: Path, pictures: Pictures) -> None:
    from timm.data import create_transform, resolve_model_data_config

    model = save_timm(architecture, tmp_path / "net")
    transform = create_transform(**resolve_model_data_config(model), is_training=False)
    with torch.no_grad():
        logits = model(torch.stack([transform(image) for image in images(pictures)])).double()
    scorer = opened("timm:net", pictures, tmp_path)
    near = 1e-5 * max(1.0, float(logits.abs().max()))
    np.testing.assert_allclose(scorer.outputs(), logits, atol=near)
    expected = torch.log_softmax(logits[:, [2, 0]], dim=1)
    np.testing.assert_allclose(scorer.log_probabilities(["doctor", "chef"]), expected, atol=4 * near)


def test_timm_in_the_wrapper_of_transformers_is_classified_as_the_wrapper_does(
    tmp_path: Path, pictures: Pictures
) -> None:
    import transformers
    from timm.data import create_transform

    with torch.random.fork_rng():
        torch.manual_seed(5)
        names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: place for place, name in enumerate(LABELS)}}
        config = transformers.TimmWrapperConfig(architecture="test_resnet", **names)
        model = transformers.TimmWrapperForImageClassification(config).eval()
    model.save_pretrained(tmp_path / "vit")
    edit(tmp_path, pretrained_cfg={"input_size": [3, 64, 64], "mean": [0.5] * 3, "std": [0.5] * 3, "crop_pct": 1.0})
    transform = create_transform((3, 64, 64), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0, interpolation="bicubic")
    with torch.no_grad():
        logits = model(torch.stack([transform(image) for image in images(pictures)])).logits.double()
    scorer = opened("timm:vit", pictures, tmp_path)
    np.testing.assert_allclose(scorer.outputs(), logits, atol=1e-5 * max(1.0, float(logits.abs().max())))
    assert scorer.predict("job").labels.tolist() == [LABELS[place] for place in logits.argmax(dim=1)]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a hub": ({"architecture": "hf-hub:evil/net"}, "architecture in the config: the text has another form"),
    "a folder": ({"architecture": "local-dir:/elsewhere"}, "architecture in the config: the text has another form"),
    "a misspelt one": ({"architecture": "test_vti"}, r"(?s)has no architecture 'test_vti'.*config\.json"),
    "weights from elsewhere": ({"model_args": {"pretrained": True}}, "be loaded .*'pretrained'"),
    "a checkpoint of its own": ({"model_args": {"img_size": "a.pth"}}, "img_size.0 in the config: a whole number"),
    "code of its own": (
        {"model_args": {"block_fn": "os.system"}},
        "model_args.block_fn in the config: fairgate passes on numbers alone",
    ),
    "a huge model": ({"model_args": {"embed_dim": 100_000}}, "sets 'embed_dim' to 100000"),
    "a giant side": ({"model_args": {"img_size": 1e9}}, "img_size.0 in the config: a whole number"),
    "a side without end": ({"model_args": {"img_size": [64, math.inf]}}, "img_size.1 in the config: a whole number"),
    "a wide stem": ({"model_args": {"stem_width": 8193}}, "passes on numbers alone"),
    "wide dims": ({"model_args": {"dims": [8, 10**9]}}, "passes on numbers alone"),
    "many heads": ({"model_args": {"num_heads": math.nan}}, "passes on numbers alone"),
    "many stages": ({"model_args": {"embed_dims": [8] * 17}}, "passes on numbers alone"),
    "no pictures": (
        {"pretrained_cfg": {"input_size": [3, 64, 64]}},
        "pretrained_cfg.mean in the config: it is missing",
    ),
    "giant pictures": (
        {"pretrained_cfg": {"input_size": [3, 9000, 9000], "mean": [0, 0, 0], "std": [1, 1, 1]}},
        "pretrained_cfg.input_size.1 in the config: at most 2048 is allowed",
    ),
    "an odd pooling": ({"model_args": {"global_pool": "../x"}}, "global_pool in the config"),
    "an odd crop": (
        {"pretrained_cfg": {"input_size": [3, 64, 64], "mean": [0, 0, 0], "std": [1, 1, 1], "crop_pct": 5}},
        "crop_pct in the config: at most 1 is allowed",
    ),
    "sizes by chance": (
        {
            "pretrained_cfg": {
                "input_size": [3, 64, 64],
                "mean": [0, 0, 0],
                "std": [1, 1, 1],
                "interpolation": "random",
                "crop_mode": "border",
            }
        },
        "interpolation in the config: 'nearest', ",
    ),
    "labels in a row": ({"label_names": "chef, doctor"}, "label_names in the config: a list is expected"),
    "unnamed outputs": ({"label_names": None}, "what its outputs are called"),
    "a label too many": ({"label_names": [*LABELS, "nurse"]}, "4 labels are named, and the model has 3"),
    "a gap in the labels": ({"label_names": {"0": "chef", "2": "nurse"}}, "does not name every output"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_folders_of_timm_that_reach_out_or_do_not_fit_are_refused(case: str, vit: Path, pictures: Pictures) -> None:
    changes, problem = REFUSED[case]
    edit(vit, **changes)
    with pytest.raises(ModelError, match=problem):
        opened("timm:vit", pictures, vit).outputs()


def test_another_architecture_than_the_weights_is_refused(vit: Path, pictures: Pictures) -> None:
    edit(vit, architecture="vit_tiny_patch16_224")
    with pytest.raises(ModelError, match="does not fit timm's vit_tiny_patch16_224"):
        opened("timm:vit", pictures, vit).predict("job")


def test_every_architecture_of_torchvision_takes_pictures_as_its_weights_do_or_asks_which(tmp_path: Path) -> None:
    from torchvision import models

    from fairgate.models.classifiers.torchvision_classifier import _pictures_of

    save_file({}, tmp_path / "net.safetensors")
    files = HashedFiles.of({"weights": tmp_path / "net.safetensors"})
    asked = []
    for name in models.list_models(module=models):
        for weights in models.get_model_weights(name):
            own, found = weights.transforms(), _pictures_of(files, name, {"weights": weights.name}, "torchvision:x")
            assert found == {
                **{"crop_size": own.crop_size[0], "resize_size": own.resize_size[0]},
                **{"interpolation": own.interpolation.value, "antialias": own.antialias},
                **{"mean": list(own.mean), "std": list(own.std)},
            }
        with contextlib.suppress(ModelError):
            _pictures_of(files, name, {}, "torchvision:x")
            continue
        asked.append(name)
    with pytest.raises(ModelError, match="&weights=IMAGENET1K_V2"):
        _pictures_of(files, "resnet50", {}, "torchvision:x")
    assert {"resnet50", "vit_b_16"} <= set(asked)
    assert not {"resnet18", "swin_t", "efficientnet_b3"} & set(asked)


@pytest.mark.parametrize("architecture", ["efficientnet_b0", "squeezenet1_1"])
def test_pictures_of_odd_sizes_are_those_of_torchvisions_own_transforms(
    architecture: str, tmp_path: Path, pictures: Pictures
) -> None:
    """efficientnet's weights were trained with bicubic pictures, squeezenet's with bilinear ones."""
    from torchvision import models

    with torch.random.fork_rng():
        torch.manual_seed(6)
        model = models.get_model(architecture, weights=None, num_classes=3).eval()
    save_file(model.state_dict(), tmp_path / "net.safetensors")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    transform = next(iter(models.get_model_weights(architecture))).transforms()
    with torch.no_grad():
        logits = model(torch.stack([transform(image) for image in images(pictures)])).double()
    found = opened(f"torchvision:{architecture}@net.safetensors?labels=labels.txt", pictures, tmp_path)
    np.testing.assert_allclose(found.outputs(), logits, atol=1e-5 * max(1.0, float(logits.abs().max())))


def test_averaged_weights_of_torchvisions_references_are_read_by_their_key(tmp_path: Path, pictures: Pictures) -> None:
    from torchvision import models

    with torch.random.fork_rng():
        torch.manual_seed(6)
        model = models.get_model(NET, weights=None, num_classes=3).eval()
    averaged = torch.optim.swa_utils.AveragedModel(model)
    torch.save({"model": model.state_dict(), "model_ema": averaged.state_dict()}, tmp_path / "checkpoint.pth")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    uri = f"torchvision:{NET}@checkpoint.pth?labels=labels.txt&crop=64&resize=64&key=model"
    plain, mean = (opened(each, pictures, tmp_path).outputs() for each in (uri, f"{uri}_ema"))
    np.testing.assert_array_equal(plain, mean)


@pytest.mark.parametrize("key", ["global_pool", "custom_load", "label_offset", "crop_border"])
def test_keys_that_timm_does_not_know_or_that_bring_other_weights_are_refused(
    key: str, vit: Path, pictures: Pictures
) -> None:
    cfg = json.loads((vit / "vit" / "config.json").read_text(encoding="utf-8"))["pretrained_cfg"]
    edit(vit, pretrained_cfg={**cfg, key: 1})
    with pytest.raises(ModelError, match=key):
        opened("timm:vit", pictures, vit).outputs()


@pytest.mark.parametrize("fixed", [False, True])
def test_a_folder_is_what_timms_own_local_dir_makes_of_it(fixed: bool, tmp_path: Path, pictures: Pictures) -> None:
    """Also where the two sizes differ: of a fixed size `img_size` decides, else `input_size`."""
    import timm
    from timm.data import create_transform, resolve_model_data_config

    save_timm("test_vit", tmp_path / "vit", img_size=64, dynamic_img_size=not fixed)
    config = json.loads((tmp_path / "vit" / "config.json").read_text(encoding="utf-8"))
    edit(tmp_path, pretrained_cfg={**config["pretrained_cfg"], "fixed_input_size": fixed, "input_size": [3, 96, 96]})
    model = timm.create_model(f"local-dir:{tmp_path / 'vit'}", pretrained=True).eval()
    transform = create_transform(**resolve_model_data_config(model), is_training=False)
    with torch.no_grad():
        logits = model(torch.stack([transform(image) for image in images(pictures)])).double()
    near = 1e-5 * max(1.0, float(logits.abs().max()))
    np.testing.assert_allclose(opened("timm:vit", pictures, tmp_path).outputs(), logits, atol=near)


@pytest.fixture(scope="module")
def net() -> Any:
    from torchvision import models

    with torch.random.fork_rng():
        torch.manual_seed(6)
        return models.get_model(NET, weights=None, num_classes=3).eval()


@pytest.fixture
def weights(tmp_path: Path, net: Any) -> Path:
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n", encoding="utf-8")
    return tmp_path


def test_weights_of_torchvision_are_classified_as_its_references_do(
    weights: Path, net: Any, pictures: Pictures
) -> None:
    from torchvision.models import get_model_weights

    transform = get_model_weights(NET).DEFAULT.transforms()
    with torch.no_grad():
        logits = net(torch.stack([transform(image) for image in images(pictures)])).double()
    uri = f"torchvision:{NET}@net.safetensors?labels=labels.txt"
    scorer = opened(uri, pictures, weights)
    np.testing.assert_allclose(scorer.outputs(), logits, atol=1e-5 * max(1.0, float(logits.abs().max())))
    assert scorer.predict("job").labels.tolist() == [LABELS[place] for place in logits.argmax(dim=1)]
    assert local_paths(uri) == (Path("net.safetensors"), Path("labels.txt"))
    smaller = opened(f"{uri}&crop=96&resize=96", pictures, weights)
    assert smaller.fingerprint != scorer.fingerprint
    assert smaller.preprocessing != scorer.preprocessing
    assert not np.allclose(smaller.outputs(), scorer.outputs(), atol=1e-4)


def test_of_a_training_checkpoint_the_uri_chooses_plain_or_averaged_weights(
    weights: Path, net: Any, pictures: Pictures
) -> None:
    state = {f"module._orig_mod.{name}": value for name, value in net.state_dict().items()}
    held = {"model": state, "model_ema": {name: value * 0.5 for name, value in state.items()}, "epoch": 3}
    torch.save(held, weights / "checkpoint.pth")
    plain = opened(f"torchvision:{NET}@net.safetensors?labels=labels.txt&crop=64&resize=64", pictures, weights)
    uri = f"torchvision:{NET}@checkpoint.pth?labels=labels.txt&crop=64&resize=64&key=model"
    np.testing.assert_array_equal(opened(uri, pictures, weights).outputs(), plain.outputs())
    averaged = opened(f"{uri}_ema", pictures, weights)
    assert averaged.note == "its weights are those under 'model_ema' in the checkpoint"
    with pytest.raises(ModelError, match="several weights of one model: model, model_ema"):
        opened(uri.partition("&key")[0], pictures, weights).outputs()
    assert not np.allclose(averaged.outputs(), plain.outputs())
    assert averaged.fingerprint != opened(uri, pictures, weights).fingerprint


BARE = {
    "no labels": (f"torchvision:{NET}@net.safetensors", "what its outputs are called"),
    "no weights": (f"torchvision:{NET}", "which weights to load"),
    "no architecture": ("torchvision:squeezenet1_2@net.safetensors?labels=labels.txt", "no classifier 'squeezenet1_2'"),
    "a detector": ("torchvision:ssd300_vgg16@net.safetensors?labels=labels.txt", "no classifier"),
    "other weights": (
        "torchvision:resnet18@net.safetensors?labels=labels.txt",
        "does not fit torchvision's",
    ),
    "no pixels": (f"torchvision:{NET}@net.safetensors?labels=labels.txt&crop=-1", "crop is '-1'"),
    "too few labels": (f"torchvision:{NET}@net.safetensors?labels=two.txt", "does not fit torchvision's"),
}


@pytest.mark.parametrize("case", list(BARE))
def test_uris_of_torchvision_that_say_too_little_are_refused(case: str, weights: Path, pictures: Pictures) -> None:
    (weights / "two.txt").write_text("chef\ndoctor\n", encoding="utf-8")
    uri, problem = BARE[case]
    with pytest.raises(ModelError, match=problem):
        opened(uri, pictures, weights).predict("job")


def test_a_pickle_that_would_run_code_is_refused(weights: Path, pictures: Pictures) -> None:
    torch.save({"model": print}, weights / "evil.pth")
    with pytest.raises(ModelError, match="have to run pickled code"):
        opened(f"torchvision:{NET}@evil.pth?labels=labels.txt", pictures, weights).predict("job")


def test_what_no_weights_file_holds_has_a_bound_before_memory_is_taken(tmp_path: Path) -> None:
    """Masks and tables that an architecture computes from its settings are in no state dict."""

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 2)
            self.register_buffer("mask", torch.empty(1 << 40), persistent=False)

    save_file(torch.nn.Linear(1, 2).state_dict(), tmp_path / "w.safetensors")
    files = HashedFiles.of({"weights": tmp_path / "w.safetensors"})
    with pytest.raises(ModelError, match="more than 64 MB that are none of its weights"):
        loaded_into(Masked, files, lambda one: one, find_device("cpu"), "a swin")
