"""Files that timm's train.py and torchvision's references leave are judged as these validate, or refused by name."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifier_world import LABELS
from model_world import Pictures
from nightly import some
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models import EmbeddingCache, open_scorer

ARGS: dict[str, Any] = {
    **{"model": "test_resnet", "num_classes": 3, "gp": None, "bn_eps": None, "model_kwargs": {}, "in_chans": None},
    **{"img_size": None, "input_size": None, "mean": None, "std": None, "interpolation": "", "crop_pct": None},
    **{"pretrained": True, "lr": 0.1, "output": "/home/somebody"},
}


def opened(uri: str, pictures: Pictures, base: Path) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base, batch_size=4)


def trained(root: Path, averaged: bool = False, **changed: Any) -> tuple[Any, Any]:
    """The model that train.py would build, and what its CheckpointSaver writes: model_best.pth.tar."""
    import timm
    from timm.utils import CheckpointSaver, ModelEmaV3

    args = Namespace(**{**ARGS, **changed})
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = timm.create_model(
            args.model, num_classes=3, global_pool=args.gp, bn_eps=args.bn_eps, **args.model_kwargs
        ).eval()
        for parameter in model.parameters():
            if parameter.ndim > 1:  # with smaller ones all pictures have the same outputs
                torch.nn.init.kaiming_normal_(parameter)
    ema = ModelEmaV3(model)
    for parameter in ema.module.parameters():
        parameter.data *= 0.5
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    saver = CheckpointSaver(model, optimizer, args, ema if averaged else None, checkpoint_dir=str(root))
    saver.save_checkpoint(1, metric=71.5)
    (root / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    return (ema.module.eval() if averaged else model), args


def library(model: Any, args: Namespace, pictures: Pictures) -> Any:
    from timm.data import create_transform, resolve_data_config

    transform = create_transform(**resolve_data_config(vars(args), model=model), is_training=False)
    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    with torch.no_grad():
        return model(torch.stack([transform(image) for image in images])).double().numpy()


SETTINGS: dict[str, dict[str, Any]] = {
    "as the architecture is": {},
    "another size and crop": {"img_size": 96, "crop_pct": 0.8, "interpolation": "bilinear"},
    "other colours": {"mean": [0.5], "std": (0.2, 0.3, 0.4)},
    "another pooling and eps": {"model": "test_efficientnet", "gp": "max", "bn_eps": 0.1},
    "a fixed size": {"model": "test_vit", "img_size": 64, "model_kwargs": {"img_size": 64}},
    "with the tag of its first weights": {"model": "test_vit2.r160_in1k"},
}


@pytest.mark.parametrize("case", some(list(SETTINGS), 3))
def test_a_checkpoint_of_timms_training_is_judged_as_timm_validates(
    case: str, tmp_path: Path, pictures: Pictures
) -> None:
    logits = library(*trained(tmp_path, **SETTINGS[case]), pictures)
    found = opened("timm:model_best.pth.tar?labels=labels.txt", pictures, tmp_path)
    np.testing.assert_allclose(found.outputs(), logits, atol=1e-5 * max(1.0, abs(logits).max()))
    assert np.ptp(logits, axis=0).max() > 1e-2 * abs(logits).max()  # pictures differ


def test_of_averaged_weights_of_timm_the_uri_chooses(tmp_path: Path, pictures: Pictures) -> None:
    logits = library(*trained(tmp_path, averaged=True), pictures)
    uri = "timm:model_best.pth.tar?labels=labels.txt"
    averaged = opened(f"{uri}&key=state_dict_ema", pictures, tmp_path)
    np.testing.assert_allclose(averaged.outputs(), logits, atol=1e-5 * max(1.0, abs(logits).max()))
    assert averaged.note == "its weights are those under 'state_dict_ema' in the checkpoint"
    assert averaged.fingerprint != opened(uri, pictures, tmp_path).fingerprint
    with pytest.raises(ModelError, match="several weights of one model: state_dict, state_dict_ema"):
        opened(uri, pictures, tmp_path).outputs()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a hub": ({"model": "hf-hub:evil/net"}, "has no architecture .hf-hub:evil/net."),
    "a folder": ({"model": "local-dir:/elsewhere"}, "has no architecture .local-dir:/elsewhere."),
    "a hub as a tag": ({"model": "test_resnet.hf-hub:evil/net"}, "cannot be built with|another form"),
    "no name": ({"model": None}, "has no arguments of timm's train.py"),
    "an unknown tag": ({"model": "test_resnet.mine"}, "cannot be built with the training's arguments"),
    "code of its own": ({"model_kwargs": {"block_fn": "os.system"}}, "passes on numbers alone"),
    "weights from elsewhere": ({"model_kwargs": {"checkpoint_path": "/etc/passwd"}}, "passes on numbers alone"),
    "a huge model": ({"model_kwargs": {"embed_dim": 100_000}}, "passes on numbers alone"),
    "an argument that it does not take": ({"bn_eps": 0.1}, "be loaded"),
    "odd settings": ({"model_kwargs": "embed_dim"}, "cannot be built with"),
    "an odd pooling": ({"gp": "../x"}, "global_pool in the config"),
    "giant pictures": ({"img_size": 10**9}, "input_size.1 in the config: at most 2048"),
    "sizes by chance": ({"interpolation": "random"}, "interpolation in the config: 'nearest', "),
    "an odd size": ({"img_size": "a"}, "cannot be built with"),
    "an odd mean": ({"mean": "abc"}, "mean.0 in the config: a number is expected"),
    "grey pictures": ({"in_chans": 1}, "pictures that are not prepared here \\(in_chans\\)"),
    "pictures in patches": ({"naflex_loader": True}, "not prepared here \\(naflex_loader\\)"),
    "another number of labels": ({"num_classes": 4}, "3 labels are named, and the model has 4"),
    "another architecture": ({"model": "test_convnext"}, "does not fit timm's test_convnext"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_arguments_that_reach_out_or_do_not_fit_are_refused(case: str, tmp_path: Path, pictures: Pictures) -> None:
    changed, problem = REFUSED[case]
    state = {"head.fc.weight": torch.ones(3, 2)}
    torch.save({"state_dict": state, "args": Namespace(**{**ARGS, **changed})}, tmp_path / "last.pth.tar")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    with pytest.raises(ModelError, match=problem):
        opened("timm:last.pth.tar?labels=labels.txt", pictures, tmp_path).outputs()


def test_a_file_without_arguments_and_one_that_would_run_code_are_refused(tmp_path: Path, pictures: Pictures) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    torch.save({"a": torch.ones(2)}, tmp_path / "bare.pth")
    torch.save({"args": print}, tmp_path / "evil.pth")
    for name, problem in (("bare", "has no arguments of timm's train.py"), ("evil", "have to run pickled code")):
        with pytest.raises(ModelError, match=problem):
            opened(f"timm:{name}.pth?labels=labels.txt", pictures, tmp_path)


def test_a_file_of_a_training_that_does_not_exist_is_called_a_file(tmp_path: Path, pictures: Pictures) -> None:
    (tmp_path / "model_best.pth.tar").touch()
    with pytest.raises(ModelError, match=r"(?s)the file does not exist.*did you mean 'model_best.pth.tar'"):
        opened("timm:model_bst.pth.tar?labels=labels.txt", pictures, tmp_path)


def test_a_checkpoint_of_torchvisions_references_is_judged_as_these_validate(
    tmp_path: Path, pictures: Pictures
) -> None:
    from torchvision import models, transforms

    with torch.random.fork_rng():
        torch.manual_seed(6)
        model = models.get_model("squeezenet1_1", num_classes=3).eval()
    args = Namespace(model="squeezenet1_1", val_crop_size=64, val_resize_size=72, interpolation="bicubic", device="cpu")
    averaged = torch.optim.swa_utils.AveragedModel(model, use_buffers=True).state_dict()
    halved = {name: value * (0.5 if value.is_floating_point() else 1) for name, value in averaged.items()}
    schedule = {"_milestones": [2], "last_epoch": 3, "_schedulers": [{"base_lrs": [0.1]}]}
    held = {"model": model.state_dict(), "model_ema": halved, "lr_scheduler": schedule, "epoch": 3, "args": args}
    torch.save(held, tmp_path / "model_3.pth")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    prepare = transforms.Compose(
        [
            transforms.Resize(72, interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(64),
            transforms.PILToTensor(),
            transforms.ConvertImageDtype(torch.float),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    with torch.no_grad():
        logits = model(torch.stack([prepare(image) for image in images])).double().numpy()
    uri = "torchvision:squeezenet1_1@model_3.pth?labels=labels.txt&key=model"
    found = opened(uri, pictures, tmp_path)
    np.testing.assert_allclose(found.outputs(), logits, atol=1e-5 * max(1.0, abs(logits).max()))
    assert not np.allclose(opened(f"{uri}_ema", pictures, tmp_path).outputs(), logits, atol=1e-3)
    assert opened(f"{uri}&crop=64&resize=64", pictures, tmp_path).preprocessing != found.preprocessing
    with pytest.raises(ModelError, match="of a training of squeezenet1_1, and the URI names resnet18"):
        opened(uri.replace("squeezenet1_1", "resnet18"), pictures, tmp_path)


def with_head(architecture: str, place: str, layers: Any) -> Any:
    """A network of torchvision with layers in the place of a module, as people fine-tune it."""
    from torchvision import models

    with torch.random.fork_rng():
        torch.manual_seed(6)
        model = models.get_model(architecture, num_classes=3)
        parent, _, last = place.rpartition(".")
        setattr(model.get_submodule(parent), last, layers)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.kaiming_normal_(parameter)
    return model.eval()


def heads() -> dict[str, tuple[str, str, Any, str]]:
    """By name: architecture, place, layers, and what the URI calls them."""
    nn = torch.nn
    torch.manual_seed(6)
    norm = nn.BatchNorm1d(1024)
    norm.running_mean += torch.randn(1024)
    deep = nn.Sequential(norm, nn.Linear(1024, 8), nn.GELU(), nn.Linear(8, 3, bias=False))
    flat = nn.Sequential(nn.Dropout(0.2), nn.Linear(576, 8), nn.ReLU(), nn.Linear(8, 3))
    return {
        "a linear layer after dropout": (
            "shufflenet_v2_x0_5",
            "fc",
            nn.Sequential(nn.Dropout(0.5), nn.Linear(1024, 3)),
            "Dropout,Linear",
        ),
        "two with a norm": ("shufflenet_v2_x0_5", "fc", deep, "BatchNorm1d,Linear,GELU,Linear"),
        "in the place of a whole classifier": ("mobilenet_v3_small", "classifier", flat, "Dropout,Linear,ReLU,Linear"),
        "in a classifier": (
            "mobilenet_v2",
            "classifier.1",
            nn.Sequential(nn.LayerNorm(1280), nn.Tanh(), nn.Linear(1280, 3)),
            "LayerNorm,Tanh,Linear",
        ),
    }


@pytest.mark.parametrize("case", some(list(heads()), 2))
def test_a_head_of_several_layers_is_computed_as_the_uri_names_them(
    case: str, tmp_path: Path, pictures: Pictures
) -> None:
    from torchvision import models

    architecture, place, layers, named = heads()[case]
    model = with_head(architecture, place, layers)
    torch.save(model.state_dict(), tmp_path / "best.pth")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    transform = models.get_model_weights(architecture).IMAGENET1K_V1.transforms(crop_size=64, resize_size=64)
    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    with torch.no_grad():
        logits = model(torch.stack([transform(image) for image in images])).double().numpy()
    uri = f"torchvision:{architecture}@best.pth?labels=labels.txt&weights=IMAGENET1K_V1&crop=64&resize=64"
    found = opened(f"{uri}&head={place}:{named}", pictures, tmp_path)
    np.testing.assert_allclose(found.outputs(), logits, atol=1e-5 * max(1.0, abs(logits).max()))
    assert found.fingerprint != opened(uri, pictures, tmp_path).fingerprint
    with pytest.raises(ModelError, match=rf"layers of your own .* by &head=fc:Dropout,Linear.*{place}\."):
        opened(uri, pictures, tmp_path).outputs()


def test_a_head_of_timm_is_computed_as_the_uri_names_it(tmp_path: Path, pictures: Pictures) -> None:
    model, args = trained(tmp_path)
    model.fc = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(model.num_features, 3))
    torch.save({"state_dict": model.state_dict(), "args": args}, tmp_path / "last.pth.tar")
    logits = library(model.eval(), args, pictures)
    uri = "timm:last.pth.tar?labels=labels.txt&head=fc:Dropout,Linear"
    np.testing.assert_allclose(opened(uri, pictures, tmp_path).outputs(), logits, atol=1e-5 * abs(logits).max())


@pytest.fixture(scope="module")
def headed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("headed")
    model = with_head("shufflenet_v2_x0_5", "fc", torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(1024, 3)))
    torch.save(model.state_dict(), folder / "best.pth")
    (folder / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    return folder


WRONG_HEADS = {
    "an unknown layer": ("fc:?,Linear", "a layer that is not built: '\\?'"),
    "code": ("fc:os.system", "a layer that is not built: 'os.system'"),
    "no layers": ("fc", "a layer that is not built: ''"),
    "no place": (":Linear", "no module '' for the head"),
    "no such place": ("fcc:Dropout,Linear", "(?s)no module 'fcc' for the head.*its parts: .*fc$"),
    "another order": ("fc:Linear,Dropout", "no weights of a Linear as 'fc.0'"),
    "a layer too few": ("fc:Dropout", "are not of this architecture: fc.1.weight"),
    "another kind": ("fc:Dropout,LayerNorm", "no weights of a LayerNorm as 'fc.1'"),
    "in another place": ("conv5:Dropout,Linear", "no weights of a Linear as 'conv5.1'"),
}


@pytest.mark.parametrize("case", list(WRONG_HEADS))
def test_a_head_that_is_not_the_weights_is_refused(case: str, headed: Path, pictures: Pictures) -> None:
    named, problem = WRONG_HEADS[case]
    with pytest.raises(ModelError, match=problem):
        opened(f"torchvision:shufflenet_v2_x0_5@best.pth?labels=labels.txt&head={named}", pictures, headed).outputs()


def test_a_head_for_other_features_than_the_networks_is_refused(tmp_path: Path, pictures: Pictures) -> None:
    model = with_head("shufflenet_v2_x0_5", "fc", torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(500, 3)))
    torch.save(model.state_dict(), tmp_path / "best.pth")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    with pytest.raises(ModelError, match="classify pictures"):
        opened(
            "torchvision:shufflenet_v2_x0_5@best.pth?labels=labels.txt&head=fc:Dropout,Linear", pictures, tmp_path
        ).outputs()


@pytest.mark.parametrize("uri", ["timm:model_best.pth.tar", "timm:folder", "torchvision:squeezenet1_1@plain.pth"])
def test_a_file_or_folder_whose_outputs_are_cached_is_opened_without_the_library(
    uri: str, tmp_path: Path, pictures: Pictures, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timm.models import save_for_hf
    from torchvision import models

    save_for_hf(trained(tmp_path)[0], tmp_path / "folder", model_config={}, safe_serialization=True)
    torch.save(models.squeezenet1_1(num_classes=3).state_dict(), tmp_path / "plain.pth")
    uri += "?labels=labels.txt"
    first = open_scorer(uri, pictures, device="cpu", base=tmp_path, cache=cache)
    outputs = first.outputs()
    for name in ("timm", "torchvision"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("the file was read"))
    again = open_scorer(uri, pictures, device="cpu", base=tmp_path, cache=cache)
    np.testing.assert_array_equal(again.outputs(), outputs)
    assert again.preprocessing == first.preprocessing
