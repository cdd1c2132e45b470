"""Families of the differential test: where the files of a tiny model are, and what its library itself computes.

`library` is the library's plain forward pass on pictures that the library's own preprocessing prepares; it reads the
files as they are now. `ours` is what fairgate computes in its place, in the same shape. Pictures are RGB for either.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from family_rows import LABELS, ROWS
from model_world import PROMPTS, TINY
from PIL import Image

from fairgate.models.generation.fairface import AGES, GENDERS, RACES

Numbers = Any
Images = Sequence[Image.Image]


@dataclass(frozen=True)
class Layout:
    """A layout of files. `save(root)` returns the URI; `folder` is what variants edit, with weights, config and the
    picture settings in the files named ("" for none); `depth` counts the sums that one number goes through, and
    `near` may say in its place how near is equal; `group` names further variants (`differential_settings`),
    and a `brief` layout has those alone: another one of its family has those of weights."""

    save: Callable[[Path], str]
    folder: str
    weights: str
    library: Callable[[Path, Images], Numbers]
    ours: Callable[[Any], Numbers]
    config: str = "config.json"
    pictures: str = "preprocessor_config.json"
    depth: int = 24
    shards: bool = True
    near: float = 0.0
    group: str = ""
    brief: bool = False


def save_row(key: str, kind: str) -> Callable[[Path], str]:
    return lambda root: ROWS[key].save(kind, root)


def _towers(folder: str, adapter: str = "") -> Callable[[Path, Images], Numbers]:
    def library(root: Path, images: Images) -> Numbers:
        import torch
        import transformers as t

        model: Any = t.AutoModel.from_pretrained(root / folder, dtype=torch.float32)
        model = _adapted(model, root / adapter) if adapter else model
        prepare: Any = t.AutoImageProcessor.from_pretrained(root / folder)
        words: Any = t.AutoTokenizer.from_pretrained(root / folder)
        tokens = words(PROMPTS, padding="max_length", max_length=12, return_tensors="pt")
        named = ("input_ids",) if "siglip" in folder else ("input_ids", "attention_mask")
        pixels = prepare(images=list(images), return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            return model.eval()(pixel_values=pixels, **{name: tokens[name] for name in named}).logits_per_image.numpy()

    return library


def _classes(folder: str, adapter: str = "") -> Callable[[Path, Images], Numbers]:
    def library(root: Path, images: Images) -> Numbers:
        import torch
        import transformers as t

        model: Any = t.AutoModelForImageClassification.from_pretrained(root / folder, dtype=torch.float32)
        model = _adapted(model, root / adapter) if adapter else model
        prepare: Any = t.AutoImageProcessor.from_pretrained(root / folder)
        with torch.no_grad():
            return model.eval()(**prepare(images=list(images), return_tensors="pt")).logits.numpy()

    return library


def _adapted(model: Any, folder: Path) -> Any:
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PeftModel.from_pretrained(model, folder, autocast_adapter_dtype=False).float()


def _features(root: Path, images: Images) -> Numbers:
    import torch
    import transformers as t
    from safetensors.torch import load_file

    model: Any = t.AutoModel.from_pretrained(root / "features-dinov2", dtype=torch.float32).eval()
    prepare: Any = t.AutoImageProcessor.from_pretrained(root / "features-dinov2")
    head = load_file(root / "head-dinov2.safetensors")
    with torch.no_grad():
        read = model(**prepare(images=list(images), return_tensors="pt")).last_hidden_state[:, 0]
        return torch.log_softmax((read @ head["weight"].T + head["bias"]).double(), dim=1).numpy()


def _timm(folder: str) -> Callable[[Path, Images], Numbers]:
    def library(root: Path, images: Images) -> Numbers:
        import timm
        from timm.data import create_transform, resolve_model_data_config

        model = timm.create_model(f"local-dir:{root / folder}", pretrained=True).eval()
        transform: Any = create_transform(**resolve_model_data_config(model), is_training=False)
        return _stacked(model, transform, images)

    return library


def _torchvision(architecture: str) -> Callable[[Path, Images], Numbers]:
    def library(root: Path, images: Images) -> Numbers:
        from safetensors.torch import load_file
        from torchvision import models

        model = models.get_model(architecture, num_classes=len(LABELS))
        model.load_state_dict(load_file(root / "vision" / f"{architecture}.safetensors"))
        return _stacked(model.eval(), next(iter(models.get_model_weights(architecture))).transforms(), images)

    return library


def _save_torchvision(architecture: str) -> Callable[[Path], str]:
    def save(root: Path) -> str:
        import torch
        from safetensors.torch import save_file
        from torchvision import models

        path = root / "vision" / f"{architecture}.safetensors"
        path.parent.mkdir(exist_ok=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            save_file(models.get_model(architecture, num_classes=len(LABELS)).state_dict(), path)
        (root / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
        return f"torchvision:{architecture}@vision/{path.name}?labels=labels.txt"

    return save


def _save_fairface(root: Path) -> str:
    import torch
    from safetensors.torch import save_file
    from torchvision.models import resnet34

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        save_file(resnet34(num_classes=18).state_dict(), root / "fairface.safetensors")
    (root / "groups.txt").write_text("\n".join([*RACES[7], *GENDERS, *AGES]), encoding="utf-8")
    return "torchvision:resnet34@fairface.safetensors?labels=groups.txt&resize=224&crop=224"


def _fairface(root: Path, images: Images) -> Numbers:
    """As the authors' script does with faces, which are square; of other pictures, their middle."""
    from safetensors.torch import load_file
    from torchvision import models, transforms

    model = models.resnet34(num_classes=18)
    model.load_state_dict(load_file(root / "fairface.safetensors"))
    steps = [transforms.Resize(224), transforms.CenterCrop(224), transforms.ToTensor()]
    steps.append(transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    return _stacked(model.eval(), transforms.Compose(steps), images)


def _stacked(model: Any, transform: Any, images: Images) -> Numbers:
    import torch

    with torch.no_grad():
        return model.float()(torch.stack([transform(image) for image in images])).numpy()


def _local_dir(root: Path, images: Images) -> Numbers:
    return _open_clip(f"local-dir:{root / 'open_clip'}", images)


def _file(root: Path, images: Images) -> Numbers:
    return _open_clip("fairgate-differs", images, pretrained=str(root / "alone" / "tiny.safetensors"))


def _open_clip(name: str, images: Images, **given: str) -> Numbers:
    import open_clip
    import torch

    model, _, transform = open_clip.create_model_and_transforms(name, precision="fp32", **given)
    pixels = torch.stack([transform(image) for image in images])
    with torch.no_grad():
        image, text, scale = model.eval()(pixels, open_clip.get_tokenizer(name)(PROMPTS))[:3]
        return (scale * image @ text.T).numpy()


def _save_file(root: Path) -> str:
    import json

    import open_clip
    import torch
    from safetensors.torch import save_file

    config = root / "alone" / "fairgate-differs.json"
    config.parent.mkdir()
    config.write_text(json.dumps(TINY), encoding="utf-8")
    open_clip.add_model_config(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(open_clip.model.CLIP(**TINY).state_dict(), root / "alone" / "tiny.safetensors")
    return "open_clip:fairgate-differs@alone/tiny.safetensors"


def _logits(model: Any) -> Numbers:
    return model.logits(PROMPTS)


def _outputs(model: Any) -> Numbers:
    return model.outputs()


_SAFE = "model.safetensors"
_ADAPTER = {"weights": "adapter_model.safetensors", "config": "adapter_config.json", "pictures": "", "shards": False}
_ALONE: dict[str, Any] = {"config": "", "pictures": "", "shards": False}

LAYOUTS: dict[str, Layout] = {
    "hf clip": Layout(save_row("hf", "clip"), "hf-clip", _SAFE, _towers("hf-clip"), _logits),
    "hf siglip": Layout(save_row("hf", "siglip"), "hf-siglip", _SAFE, _towers("hf-siglip"), _logits),
    "classifier vit": Layout(
        save_row("classifier", "vit"), "classifier-vit", _SAFE, _classes("classifier-vit"), _outputs
    ),
    "classifier convnext": Layout(
        save_row("classifier", "convnext"), "classifier-convnext", _SAFE, _classes("classifier-convnext"), _outputs
    ),
    "timm test_vit": Layout(
        save_row("timm", "test_vit"), "timm-test_vit", _SAFE, _timm("timm-test_vit"), _outputs, pictures="config.json"
    ),
    "open_clip local-dir": Layout(
        save_row("open_clip", ""),
        "open_clip",
        "open_clip_model.safetensors",
        _local_dir,
        _logits,
        config="open_clip_config.json",
        pictures="open_clip_config.json",
    ),
    "open_clip ARCH@FILE": Layout(_save_file, "alone", "tiny.safetensors", _file, _logits, **_ALONE),
    "peft on hf clip": Layout(
        save_row("peft-hf", "clip"),
        "lora-hf-clip",
        library=_towers("hf-clip", "lora-hf-clip"),
        ours=_logits,
        **_ADAPTER,
    ),
    "peft on classifier vit": Layout(
        save_row("peft-classifier", "vit"),
        "lora-classifier-vit",
        library=_classes("classifier-vit", "lora-classifier-vit"),
        ours=_outputs,
        **_ADAPTER,
    ),
    "torchvision squeezenet": Layout(
        _save_torchvision("squeezenet1_1"),
        "vision",
        "squeezenet1_1.safetensors",
        _torchvision("squeezenet1_1"),
        _outputs,
        depth=32,
        **_ALONE,
    ),
    "torchvision efficientnet": Layout(
        _save_torchvision("efficientnet_b0"),
        "vision",
        "efficientnet_b0.safetensors",
        _torchvision("efficientnet_b0"),
        _outputs,
        depth=160,
        **_ALONE,
    ),
    "features dinov2": Layout(
        save_row("features", "dinov2"),
        "features-dinov2",
        _SAFE,
        _features,
        lambda model: model.log_probabilities(LABELS),
    ),
    "fairface": Layout(_save_fairface, "", "fairface.safetensors", _fairface, _outputs, depth=72, **_ALONE),
}
