"""Two towers and language models that see, of types for which fairgate has no code, tiny."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import seeing_world
from differential_models import Images, Layout, Numbers, _logits, _towers
from differential_seeing import CHAT, LONGEST, QUESTION, _loaded, _spelled
from tower_world import save_towers

from fairgate.ground.errors import clean

_TOWERS = {
    "BAAI/AltCLIP": "AltCLIP",
    "facebook/metaclip-2-worldwide-huge-quickgelu": "MetaCLIP 2",
    "clip-italian/clip-italian": "a pair of towers",
}
_ANSWERING: Mapping[str, Callable[[Any], tuple[Any, Any]]] = {
    "google/gemma-3-4b-it": seeing_world.gemma3,
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": seeing_world.mistral3,
    "Qwen/Qwen3.5-0.8B": seeing_world.qwen3_5,
    "florence-community/Florence-2-base": seeing_world.florence2,
}


def _pair(kind: str) -> Layout:
    def save(root: Path) -> str:
        save_towers(kind, root / "towers")
        return "hf:towers"

    return Layout(save, "towers", "model.safetensors", _towers("towers"), _logits)


def _answers(root: Path, images: Images) -> Numbers:
    """As the library's pages show it: the chat template makes the tokens, or without one the processor."""
    import torch

    model, processor = _loaded(root / "vlm-seeing")
    before, after = CHAT.replace("{question}", QUESTION).split("{image}")
    said = []
    for image in images:
        parts: list[Any] = [{"type": "text", "text": before}, {"type": "image", "image": image}]
        asked = [{"role": "user", "content": [*parts[not before :], {"type": "text", "text": after}]}]
        tensors: dict[str, Any] = {"return_tensors": "pt"}
        if processor.chat_template:
            tensors |= {"add_generation_prompt": True, "tokenize": True, "return_dict": True}
            inputs = processor.apply_chat_template(asked, **tensors)
        else:
            inputs = processor(images=[image], text=[before + after], **tensors)
        with torch.no_grad():
            made = model.generate(**inputs, max_new_tokens=LONGEST)
        length = 0 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        said.append(clean(processor.batch_decode(made[:, length:], skip_special_tokens=True)[0].strip()))
    return _spelled(said)


def _answering(make: Callable[[Any], tuple[Any, Any]]) -> Layout:
    def save(root: Path) -> str:
        from safetensors.torch import load_file, save_file

        folder = seeing_world.save_seeing(make, root / "vlm-seeing")
        if make is seeing_world.florence2:  # else all pictures have one answer
            path = folder / "model.safetensors"
            state = load_file(path).items()
            wider = {name: 3 * each if "encoder.layers" in name and each.ndim > 1 else each for name, each in state}
            save_file(wider, path, metadata={"format": "pt"})
        return f"vlm:vlm-seeing?chat={CHAT}"

    def ours(model: Any) -> Any:
        return _spelled(model.answer([QUESTION] * 8, LONGEST))

    return Layout(save, "vlm-seeing", "model.safetensors", _answers, ours, near=1e-9)


def seeing_rows() -> dict[str, Layout]:
    """By the published name."""
    pairs = {name: _pair(kind) for name, kind in _TOWERS.items()}
    return pairs | {name: _answering(make) for name, make in _ANSWERING.items()}
