"""Folders of models that an isolated process alone loads, which takes too long here: they are hashed, with configs
from a stranger."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from world import TESTS, World

_FLUX = tuple(f"{part}/config.json" for part in ("transformer", "vae", "text_encoder", "text_encoder_2"))
CONFIGS = {
    "flux": (*_FLUX, "model_index.json", "scheduler/scheduler_config.json", "tokenizer_2/tokenizer_config.json"),
    "vlm": ("config.json", "processor_config.json", "tokenizer_config.json", "generation_config.json"),
}


def folder_of(world: World, what: str) -> Path:
    """A tiny FLUX or LLaVA, saved once."""
    folder = world.root / what
    if not folder.exists():
        sys.path += [str(TESTS / "models"), str(TESTS / "models" / "generation")]
        from flux_world import save_flux
        from vlm_world import save_vlm

        save_flux(folder) if what == "flux" else save_vlm("llava", folder)
    return folder


def seeds(what: str) -> Callable[[World], list[Any]]:
    """A folder's configs in one JSON object, by file name."""

    def made(world: World) -> list[Any]:
        folder = folder_of(world, what)
        return [{name: json.loads((folder / name).read_text(encoding="utf-8")) for name in CONFIGS[what]}]

    return made


def use(what: str) -> Callable[[World, bytes], None]:
    """Open it as a painter, or a language model, that is judged."""

    def opened(world: World, data: bytes) -> None:
        from fairgate.models import Generating, open_scorer

        folder = folder_of(world, what)
        try:
            files = json.loads(data)
        except (ValueError, RecursionError):
            files = {}
        for name in CONFIGS[what]:
            content = files.get(name, {}) if isinstance(files, dict) else {}
            (folder / name).write_bytes(json.dumps(content).encode("utf-8", "surrogatepass"))
        uri = f"diffusion:{folder}?size=32" if what == "flux" else f"vlm:{folder}?question=Who?"
        model: Any = open_scorer(uri, world.source, device="cpu", cache=None)
        if what == "flux":
            painted = model.generate(["a photo of doctor"] * len(world.source), Generating(steps=1))
            assert len(painted) == len(world.source)

    return opened
