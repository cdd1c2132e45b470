"""Files that no family reads, and what turns them into one that a family does: by their names, nothing is read."""

from __future__ import annotations

from pathlib import Path

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
    "weights in one file: of a diffusion model load them by PIPELINE.from_single_file(FILE), then save_pretrained"
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
    forms = [*_FORMATS, *([("*.safetensors", _ONE_FILE)] if path.is_file() or scheme == "diffusion" else [])]
    told = next((words for form, words in forms if any(each.match(form) for each in names)), None)
    return None if told is None else f"this holds {told}{table_instead(scheme)}"


def table_instead(scheme: str | None) -> str:
    """The end of a remedy: the table that is read whatever the model is; nothing where that depends on the probe."""
    if scheme in (None, "diffusion"):
        return ""
    return f"; a table of its answers always works: {_TABLES.get(str(scheme), 'scores')}:FILE"
