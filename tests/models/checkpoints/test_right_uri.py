"""A folder of another family is refused with the URI that names it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairgate.ground.errors import ModelError
from fairgate.models import hf, open_scorer
from fairgate.models.checkpoints.advice import TYPES

FOLDERS: dict[str, tuple[dict[str, Any], str]] = {
    "a ViT with a classifier": (
        {"config.json": {"model_type": "vit", "architectures": ["ViTForImageClassification"]}},
        "this is an image classifier: name it classifier:FOLDER",
    ),
    "a CLIP tuned as a classifier": (
        {"config.json": {"model_type": "clip", "architectures": ["CLIPForImageClassification"]}},
        "classifier:FOLDER",
    ),
    "a DINOv2 without a head": (
        {"config.json": {"model_type": "dinov2", "architectures": ["Dinov2Model"]}},
        "features:FOLDER?head=FILE",
    ),
    "a BLIP that matches": (
        {"config.json": {"model_type": "blip", "architectures": ["BlipForImageTextRetrieval"]}},
        "a model that matches pictures and texts, which no family runs: judge a table of its answers, scores:FILE",
    ),
    "a BLIP-2 that matches": (
        {"config.json": {"model_type": "blip-2", "architectures": ["Blip2ForImageTextRetrieval"]}},
        "a model that matches pictures and texts, which no family runs: judge a table of its answers, scores:FILE",
    ),
    "a LLaVA": (
        {"config.json": {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}},
        "vlm:FOLDER?question=TEXT",
    ),
    "a DETR": (
        {"config.json": {"model_type": "detr", "architectures": ["DetrForObjectDetection"]}},
        "detector:FOLDER",
    ),
    "a SigLIP 2": (
        {"config.json": {"model_type": "siglip2", "architectures": ["Siglip2Model"]}},
        "hf:FOLDER",
    ),
    "an adapter of PEFT": ({"adapter_config.json": {"peft_type": "LORA"}}, "peft:FOLDER?base=URI"),
    "a Stable Diffusion": ({"model_index.json": {"_class_name": "StableDiffusionPipeline"}}, "diffusion:FOLDER"),
    "a LoRA of diffusers": ({"pytorch_lora_weights.safetensors": {}}, "diffusion:BASE?lora=FOLDER"),
    "transformers' wrapper of timm": (
        {"config.json": {"model_type": "timm_wrapper", "architectures": ["TimmWrapperForImageClassification"]}},
        "timm:FOLDER",
    ),
    "a classifier of a type that is in no list": (
        {"config.json": {"model_type": "beit", "architectures": ["BeitForImageClassification"]}},
        "this is an image classifier: name it classifier:FOLDER",
    ),
    "a detector of a type that is in no list": (
        {"config.json": {"model_type": "dab-detr", "architectures": ["DabDetrForObjectDetection"]}},
        "this is a detector: name it detector:FOLDER",
    ),
    "a BLIP that answers": (
        {"config.json": {"model_type": "blip", "architectures": ["BlipForQuestionAnswering"]}},
        "answers:FILE",
    ),
    "an open_clip": ({"open_clip_config.json": {"model_cfg": {}}}, "open_clip:local-dir:FOLDER"),
    "a timm": (
        {"config.json": {"architecture": "resnet50", "pretrained_cfg": {}, "num_classes": 3}},
        "this is a model of timm: name it timm:FOLDER",
    ),
}
SCHEMES = [
    "hf",
    "vlm",
    "captions",
    "open_clip",
    "diffusion",
    "classifier",
    "timm",
    "features",
    "detector",
    "peft",
]
ASKING = {
    "peft": "?base=hf:a",
    "vlm": "?question=Who?",
    "captions": "?question=Who?&captioner=vlm:a?question=b",
}
SOURCE: Any = SimpleNamespace(fingerprint="0", folder=Path("pictures"))


def written(folder: Path, files: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def refusal(scheme: str, folder: Path) -> ModelError:
    place = f"local-dir:{folder}" if scheme == "open_clip" else str(folder)
    with pytest.raises(ModelError) as caught:
        open_scorer(f"{scheme}:{place}{ASKING.get(scheme, '')}", SOURCE, device="cpu", cache=None)
    return caught.value


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("what", FOLDERS)
def test_a_family_that_refuses_a_folder_names_the_one_that_does_not(what: str, scheme: str, tmp_path: Path) -> None:
    files, uri = FOLDERS[what]
    own = uri.rpartition("name it ")[2].startswith(f"{scheme}:")
    refused = refusal(scheme, written(tmp_path / "model", files))
    advice = str(refused.remedy).partition("; or name a folder that has it")[0]
    assert (uri in advice) != own, str(refused)


def test_the_table_knows_the_types_that_each_family_knows() -> None:
    assert set(TYPES["hf"][1]) == set(hf._TOWERS)
    assert {home.scheme for home, _ in TYPES.values()} == set(TYPES), "each family is named by its own scheme"


def test_what_says_too_little_is_told_what_to_save(tmp_path: Path) -> None:
    run = written(tmp_path / "run" / "checkpoint-500", {"config.json": {}}).parent
    written(run / "checkpoint-1000", {"config.json": {}})
    assert "name one of its checkpoints, hf:FOLDER/checkpoint-1000" in str(refusal("hf", run).remedy)
    bare = written(tmp_path / "bare", {"model.safetensors": {}})
    assert "it holds weights alone: copy the config.json" in str(refusal("hf", bare).remedy)
    assert "model.save_pretrained(FOLDER)" in str(refusal("hf", written(tmp_path / "empty", {})).remedy)
    other = {"config.json": {"model_type": "bert", "architectures": ["BertModel"]}}
    assert "types it knows" in str(refusal("hf", written(tmp_path / "bert", other)).remedy)


@pytest.mark.parametrize(
    "content", ["[1]", "{", "[" * 100_000, '{"model_type": ["vit"], "architectures": 7}', '{"a": 1}']
)
def test_a_config_that_says_nothing_gives_no_advice(content: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "model", {})
    (folder / "config.json").write_text(content, encoding="utf-8")
    assert "name it" not in str(refusal("hf", folder).remedy)
