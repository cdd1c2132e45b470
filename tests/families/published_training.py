"""Files as the training scripts of timm and torchvision leave them, tiny."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import published_classifiers
from differential_models import Images, Layout, Numbers, _outputs, _stacked
from published_classifiers import LABELS, fill

_LAYERS = ["q_proj", "v_proj", "query", "value"]
_TIMM = {"num_classes": 3, "gp": None, "model_kwargs": {}, "img_size": None, "crop_pct": 0.9, "interpolation": ""}


def _network(library: str, architecture: str) -> Any:
    import timm
    import torch
    from torchvision import models

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        make = timm.create_model if library == "timm" else models.get_model
        model = make(architecture, num_classes=3).eval()
        fill(model)
    return model


def _averaged(model: Any) -> dict[str, Any]:
    return {name: one * 0.9 if one.is_floating_point() else one for name, one in model.state_dict().items()}


def timm_training(architecture: str, averaged: bool) -> Layout:
    """model_best.pth.tar of timm's train.py, with `state_dict_ema` or without."""
    args = Namespace(model=architecture, **_TIMM)

    def save(root: Path) -> str:
        import torch

        model = _network("timm", architecture)
        held = {"epoch": 3, "arch": architecture, "state_dict": model.state_dict(), "args": args, "version": 2}
        held |= {"state_dict_ema": _averaged(model)} if averaged else {}
        (root / "run").mkdir()
        torch.save(held, root / "run" / "model_best.pth.tar")
        (root / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
        return f"timm:run/model_best.pth.tar?labels=labels.txt{'&key=state_dict_ema' if averaged else ''}"

    def library(root: Path, images: Images) -> Numbers:
        from timm.data import create_transform, resolve_data_config
        from timm.models import load_checkpoint

        model = _network("timm", architecture)
        load_checkpoint(model, str(root / "run" / "model_best.pth.tar"), use_ema=averaged)
        resolve: Any = resolve_data_config
        transform: Any = create_transform(**resolve(vars(args), model=model), is_training=False)
        return _stacked(model, transform, images)

    return Layout(save, "run", "model_best.pth.tar", library, _outputs, depth=160)


def torchvision_training(architecture: str, averaged: bool) -> Layout:
    """model_N.pth of torchvision's references, with `model_ema` or without."""
    args = Namespace(model=architecture, val_crop_size=64, val_resize_size=72, interpolation="bilinear")

    def save(root: Path) -> str:
        import torch

        model = _network("torchvision", architecture)
        held = {"epoch": 3, "model": model.state_dict(), "args": args}
        mean = {f"module.{name}": one for name, one in _averaged(model).items()} | {"n_averaged": torch.tensor(3)}
        held |= {"model_ema": mean} if averaged else {}
        (root / "run").mkdir()
        torch.save(held, root / "run" / "model_3.pth")
        (root / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
        return f"torchvision:{architecture}@run/model_3.pth?labels=labels.txt{'&key=model_ema' if averaged else ''}"

    def library(root: Path, images: Images) -> Numbers:
        from torchvision.transforms._presets import ImageClassification

        model = _network("torchvision", architecture)
        model.load_state_dict(_averaged(model) if averaged else model.state_dict())
        return _stacked(model, ImageClassification(crop_size=64, resize_size=72), images)

    return Layout(save, "run", "model_3.pth", library, _outputs, depth=160)


def checkpoint(file: str, prefix: str, **beside: Any) -> Layout:
    """A resnet18 of torchvision in the checkpoint of a training loop."""

    def save(root: Path) -> str:
        import torch

        state = _network("torchvision", "resnet18").state_dict()
        (root / "run").mkdir()
        torch.save(
            {"state_dict": {f"{prefix}{name}": one for name, one in state.items()}, **beside}, root / "run" / file
        )
        (root / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
        return f"torchvision:resnet18@run/{file}?labels=labels.txt"

    def library(_: Path, images: Images) -> Numbers:
        from torchvision.transforms._presets import ImageClassification

        return _stacked(_network("torchvision", "resnet18"), ImageClassification(crop_size=224), images)

    return Layout(save, "run", file, library, _outputs, depth=160)


def own_head(named: str) -> Layout:
    """A resnet18 of torchvision with dropout and a linear layer as its head; `named` is the end of the URI."""

    def network() -> Any:
        import torch

        model = _network("torchvision", "resnet18")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(8)
            model.fc = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(512, 3))
        return model.eval()

    def save(root: Path) -> str:
        import torch

        (root / "run").mkdir()
        torch.save(network().state_dict(), root / "run" / "best.pth")
        (root / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
        return f"torchvision:resnet18@run/best.pth?labels=labels.txt{named}"

    def library(_: Path, images: Images) -> Numbers:
        from torchvision.transforms._presets import ImageClassification

        return _stacked(network(), ImageClassification(crop_size=224), images)

    return Layout(save, "run", "best.pth", library, _outputs, depth=160)


def peft_adapter(kind: str, model_type: str, **settings: Any) -> Layout:
    """An adapter of peft of another type than LoRA, on a classifier; the library does not merge it."""

    def save(root: Path) -> str:
        import torch
        import transformers as t
        from peft import PeftType, get_peft_model
        from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

        published_classifiers.save(model_type, root / "model")
        model: Any = t.AutoModelForImageClassification.from_pretrained(root / "model")
        config: Any = PEFT_TYPE_TO_CONFIG_MAPPING[PeftType(kind)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            adapted: Any = get_peft_model(model, config(**settings))
            for parameter in adapted.parameters():
                if parameter.requires_grad:
                    parameter.data.add_(0.1 * torch.randn_like(parameter))
        adapted.save_pretrained(root / "adapter")
        return "peft:adapter?base=classifier:model"

    def library(root: Path, images: Images) -> Numbers:
        import torch
        import transformers as t
        from peft import PeftModel

        base: Any = t.AutoModelForImageClassification.from_pretrained(root / "model")
        model = PeftModel.from_pretrained(base, root / "adapter").eval()
        prepare: Any = t.AutoImageProcessor.from_pretrained(root / "model")
        with torch.no_grad():
            return model(**prepare(images=list(images), return_tensors="pt")).logits.numpy()

    return Layout(save, "adapter", "adapter_model.safetensors", library, _outputs, depth=160)


def training_rows() -> dict[str, Layout]:
    """By what the file is."""
    return {
        "model_best.pth.tar of timm's train.py": timm_training("test_resnet", False),
        "model_best.pth.tar of timm's train.py, averaged": timm_training("test_resnet", True),
        "model_N.pth of torchvision's references": torchvision_training("resnet18", False),
        "model_N.pth of torchvision's references, averaged": torchvision_training("resnet18", True),
        "model_best.pth.tar of PyTorch's ImageNet example": checkpoint(
            "model_best.pth.tar", "module.", epoch=3, arch="resnet18", best_acc1=71.5, optimizer={"state": {}}
        ),
        "a checkpoint of Lightning": checkpoint(
            "best.ckpt", "model.", hyper_parameters={"lr": 0.1}, callbacks={}, **{"pytorch-lightning_version": "2.5"}
        ),
        "fc.1.weight: a Sequential in the place of a head of torchvision": own_head("&head=fc:Dropout,Linear"),
        "a LoHa of peft on google/vit-base-patch16-224": peft_adapter("LOHA", "vit", r=4, target_modules=_LAYERS),
        "a LoKr of peft on google/vit-base-patch16-224": peft_adapter("LOKR", "vit", r=4, target_modules=_LAYERS),
        "an OFT of peft on google/vit-base-patch16-224": peft_adapter(
            "OFT", "vit", r=0, oft_block_size=8, target_modules=_LAYERS
        ),
        "an IA3 of peft on google/vit-base-patch16-224": peft_adapter(
            "IA3", "vit", target_modules=[*_LAYERS, "fc1"], feedforward_modules=["fc1"]
        ),
        "a LoHa of peft on microsoft/beit-base-patch16-224": peft_adapter("LOHA", "beit", r=4, target_modules=_LAYERS),
    }
