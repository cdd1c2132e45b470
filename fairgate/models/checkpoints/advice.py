"""Which URI names the model in a folder, by its files and by what its config.json says it is; and how files that no
family reads are converted.

The one table of this: a family that refuses a folder names the URI of the family that judges it. Reads one small file,
loads nothing, and trusts nothing: what a config says here only chooses the words of an error.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError

MOST_BYTES = 4 << 20  # of a config that is read for an error's sake


@dataclass(frozen=True, slots=True)
class Home:
    """What a folder holds, and the URI that names it, FOLDER standing for the folder; `loads` is False where no family
    runs such a model, and the URI is that of a table of its answers."""

    what: str
    uri: str
    loads: bool = True

    @property
    def scheme(self) -> str:
        """Of the URI."""
        return self.uri.partition(":")[0]

    @property
    def advice(self) -> str:
        """A remedy: what it is, and how to name it."""
        if not self.loads:
            return f"this is {self.what}, which no family runs: judge a table of its answers, {self.uri}"
        return f"this is {self.what}: name it {self.uri}"


_CLASSIFIER = Home("an image classifier", "classifier:FOLDER")
_DETECTOR = Home("a detector", "detector:FOLDER")
_FEATURES = Home("a model of images alone, without a head", "features:FOLDER?head=FILE")
_SEEING = Home("a language model that sees", "vlm:FOLDER?question=TEXT")
_READING = Home("a language model", "captions:FOLDER?question=TEXT&captioner=vlm:FOLDER?prompt=TEXT")
_TOWERS = Home("a model with two towers", "hf:FOLDER")
_PEFT = Home("an adapter without its base model", "peft:FOLDER?base=URI")
_TIMM = Home("a model of timm", "timm:FOLDER")
OPEN_CLIP = Home("a model of open_clip", "open_clip:local-dir:FOLDER")
_DIFFUSION = Home("a pipeline of diffusers", "diffusion:FOLDER")
_LORA = Home("a LoRA of diffusers without its base model", "diffusion:BASE?lora=FOLDER")
_MATCHING = Home("a model that matches pictures and texts", "scores:FILE", loads=False)
_ANSWERING = Home("a model that answers in words", "answers:FILE", loads=False)

LANGUAGE_MODELS: Mapping[str, str] = {
    "t5": "T5ForConditionalGeneration",
    "opt": "OPTForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "gemma": "GemmaForCausalLM",
}
"""Classes of transformers by `model_type` of config.json; below the types alone."""
READ_TEXTS = ("grounding-dino", "mm-grounding-dino", "owlvit", "owlv2")
"""Types of detectors of which a text is looked for, and not one of the model's own classes."""
DETECTORS = (
    *("detr", "conditional_detr", "deformable_detr", "rt_detr", "rt_detr_v2", "d_fine", "yolos"),
    *READ_TEXTS,
)
BACKBONES = (
    *("dinov2", "dinov2_with_registers", "dinov3_vit", "vit"),
    *("convnext", "convnextv2", "dinov3_convnext"),
)
CLASSIFIERS = (
    *("vit", "deit", "convnext", "convnextv2", "dinov2", "dinov2_with_registers", "swin", "swinv2", "resnet"),
    *("clip", "siglip", "siglip2"),
)
VISION_LANGUAGE = (
    *("llava", "qwen2_vl", "qwen2_5_vl", "paligemma", "blip-2", "internvl"),
    *("qwen3_vl", "llava_next", "llava_onevision", "idefics3", "smolvlm"),
)
"""Types in which all labels continue one pass over picture and prompt, and give the library's numbers."""
TYPES: Mapping[str, tuple[Home, Collection[str]]] = {
    "hf": (_TOWERS, ("clip", "siglip", "siglip2", "chinese_clip", "align", "flava")),
    "vlm": (_SEEING, VISION_LANGUAGE),
    "captions": (_READING, LANGUAGE_MODELS),
    "detector": (_DETECTOR, DETECTORS),
    "features": (_FEATURES, BACKBONES),
    "classifier": (_CLASSIFIER, CLASSIFIERS),
}
"""The model types that each family knows; the first one that knows a type has it where its class says nothing."""

_CLASSES: Mapping[str, Home] = {
    "ForImageClassification": _CLASSIFIER,
    "ForObjectDetection": _DETECTOR,
    **dict.fromkeys(("BlipForImageTextRetrieval", "Blip2ForImageTextRetrieval"), _MATCHING),
    **dict.fromkeys(("BlipForConditionalGeneration", "BlipForQuestionAnswering"), _ANSWERING),
}
"""By the class in `architectures`, or how it ends, which decides before the model's type: whose it is."""

_FILES: Mapping[str, Home] = {
    "open_clip_config.json": OPEN_CLIP,
    "model_index.json": _DIFFUSION,
    "pytorch_lora_weights.safetensors": _LORA,
}
JUDGING = ("score", "detect with")
"""What judged models are used for, in messages. Those of a build have other uses: no URI of a judged one helps."""
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def home_of(folder: Path) -> Home | None:
    """What a folder holds; None where that is not known."""
    config = read_small_config(folder / "config.json")
    if config is None:
        if (folder / "adapter_config.json").is_file():
            return _PEFT
        return next((home for name, home in _FILES.items() if (folder / name).is_file()), None)
    kind = config.get("model_type")
    if kind == "timm_wrapper" or (kind is None and "pretrained_cfg" in config):  # transformers' wrapper; timm's own
        return _TIMM
    return _by_class(config) or _by_type(config)


def _by_class(config: Mapping[str, Any]) -> Home | None:
    """By the class that saved it; None where that says nothing."""
    named = config.get("architectures")
    for name in map(str, named) if isinstance(named, list) else ():
        for ending, home in _CLASSES.items():
            if name == ending or (ending.startswith("For") and name.endswith(ending)):
                return home
        if name.endswith("Model"):  # a network without a head
            return _by_type(config)
    return None


def _by_type(config: Mapping[str, Any]) -> Home | None:
    return next((home for home, types in TYPES.values() if str(config.get("model_type")) in types), None)


def right_uri(folder: Path, scheme: str) -> str | None:
    """A remedy that names another family's URI for a folder; None where it is of `scheme`, or of none that is known."""
    home = home_of(folder)
    return home.advice if home is not None and home.scheme != scheme else None


def no_config(folder: Path, scheme: str) -> ModelError:
    """The error for a folder without config.json: an adapter, a pipeline, a run's folder, bare weights."""
    advice = right_uri(folder, scheme)
    steps = [int(step) for path in folder.glob("checkpoint-*") if (step := path.name.rpartition("-")[2]).isdecimal()]
    if advice is None and steps:  # of transformers' Trainer
        advice = (
            f"it is the folder of a training run: name one of its checkpoints, {scheme}:FOLDER/checkpoint-{max(steps)}"
        )
    elif advice is None and any((folder / name).is_file() for name in _WEIGHTS):
        advice = "it holds weights alone: copy the config.json and the processor's files of the model that was trained"
    return ModelError(
        "the folder holds no config.json.",
        where=str(folder),
        remedy=advice
        or converted(folder, scheme)
        or f"save it with model.save_pretrained(FOLDER), and its processor with it{table_instead(scheme)}",
    )


def no_weights(folder: Path, name: str, remedy: str, scheme: str | None = None) -> ModelError:
    """The error for a folder without a file of weights, which names others that are there."""
    others = sorted(path.name for path in folder.glob("*.bin") if path.name != "training_args.bin")
    return ModelError(
        f"the folder holds no {name}" + (f", only pickled weights ({', '.join(others)})." if others else "."),
        where=str(folder),
        remedy=converted(folder, scheme) or f"{remedy}{table_instead(scheme)}",
    )


def other_type(folder: Path, scheme: str, kinds: Sequence[str], use: str = "score") -> ModelError:
    """The error for a model of a type that is none of the `kinds` that an adapter knows, or saved by a class of another
    family."""
    config = read_small_config(folder / "config.json") or {}
    named = config.get("model_type")
    of_class = f" ({str(config['architectures'][0])[:80]})" if _by_class(config) else ""
    problem = f"the model is of type '{str(named)[:80]}'{of_class}, which the {scheme}: adapter does not {use}."
    if named is None:
        problem = f"config.json names no type of the model{of_class}, and the {scheme}: adapter needs one."
    listed = f"types it knows: {', '.join(kinds)}"
    if use in JUDGING:
        listed += f"; of others, config.json has to name a class for this task (`architectures`){table_instead(scheme)}"
    return ModelError(
        problem,
        where=str(folder / "config.json"),
        remedy=(right_uri(folder, scheme) if use in JUDGING else None) or listed,
    )


def is_of_another(config: Mapping[str, Any], scheme: str) -> bool:
    """Whether a class of another family saved a model, whose type several families may know."""
    home = _by_class(config)
    return home is not None and home.scheme != scheme


def read_small_config(path: Path) -> dict[str, Any] | None:
    """A JSON object; None for anything else, and for a file that no config is as large as."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


_SAVED = "then model.save_pretrained(FOLDER)"
_CONVERTED = "judge the checkpoint that it was converted from"
_FORMATS = (
    ("*.onnx", "a model in ONNX: name it onnx:FILE?labels=FILE"),
    ("*.gguf", f"weights for llama.cpp: load them by from_pretrained(FOLDER, gguf_file=NAME), {_SAVED}"),
    (
        "*.distcp",
        "a checkpoint in parts: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE, then "
        "load FILE into the model and save_pretrained",
    ),
    ("zero_to_fp32.py", "a checkpoint of DeepSpeed: python zero_to_fp32.py . FOLDER --safe_serialization, in it"),
    ("modules.json", "a pipeline of sentence-transformers: name the folder of its first module, such as 0_CLIPModel"),
    ("*.mlpackage", f"a model for Core ML: {_CONVERTED}"),
    ("*.tflite", f"a model for LiteRT: {_CONVERTED}"),
    ("openvino_model.xml", f"a model for OpenVINO: {_CONVERTED}"),
    ("*.engine", f"a model for TensorRT: {_CONVERTED}"),
    ("tf_model.h5", f"weights of TensorFlow: {_CONVERTED}, or load them with an older transformers, {_SAVED}"),
    ("flax_model.msgpack", f"weights of Flax: {_CONVERTED}, or load them with an older transformers, {_SAVED}"),
    ("pytorch_model*.bin", f"pickled weights: load them by from_pretrained(FOLDER), {_SAVED}"),
)
"""Endings and names, and what they say; the first that is there is told."""
_ONE_FILE = (
    "weights in one file: of a Stable Diffusion name them diffusion:FILE?config=FOLDER; of another pipeline load them "
    "by PIPELINE.from_single_file(FILE, config=FOLDER), then save_pretrained"
)
_TABLES = {
    "classifier": "labels",
    "timm": "labels",
    "torchvision": "labels",
    "detector": "detections",
    "vlm": "answers",
}


def converted(path: Path, scheme: str | None = None) -> str | None:
    """A remedy for a file, or a folder's files, that no family reads: what they are, and how to convert them; None for
    others. With the table of answers that a `scheme` can be judged by instead."""
    names = [path] if path.is_file() else sorted(path.iterdir())
    forms = [*_FORMATS, *([("*.safetensors", _ONE_FILE)] if scheme == "diffusion" else [])]
    told = next((words for form, words in forms if any(each.match(form) for each in names)), None)
    return None if told is None else f"this holds {told}{table_instead(scheme)}"


def table_instead(scheme: str | None) -> str:
    """The end of a remedy: the table that is read whatever the model is; nothing where that depends on the probe."""
    if scheme in (None, "diffusion"):
        return ""
    return f"; a table of its answers always works: {_TABLES.get(str(scheme), 'scores')}:FILE"
