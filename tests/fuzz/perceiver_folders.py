"""Folders of the models that judge pictures while a dataset is made: configs from a stranger, weights that are fine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from world import TESTS, World

ROLES = {"vilt": "asker", "grounding_dino": "detector", "sam": "segmenter", "sam2": "segmenter", "dinov2": "matcher"}
_CONFIGS = ("config.json", "processor_config.json", "preprocessor_config.json", "tokenizer_config.json")


def folders(world: World) -> dict[str, Path]:
    """One tiny model of each kind, made once."""
    home = world.root / "perceivers"
    if not home.exists():
        sys.path.insert(0, str(TESTS / "models" / "generation"))
        from perceiver_world import save_perceiver

        for kind in ROLES:
            save_perceiver(kind, home / kind)
    return {kind: home / kind for kind in ROLES}


def seeds(world: World) -> list[Any]:
    """All configs of a folder in one JSON object, by file name, with the folder's kind."""
    made = []
    for kind, folder in folders(world).items():
        there = [name for name in _CONFIGS if (folder / name).is_file()]
        configs = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in there}
        made.append({"kind": kind, **configs})
    return made


def use(world: World, data: bytes) -> None:
    """Load the folder and have it judge a picture."""
    from PIL import Image

    from fairgate.models.generation import Box, open_model

    try:
        files = json.loads(data)
    except (ValueError, RecursionError):
        files = {}
    files = files if isinstance(files, dict) else {}
    kind = files.get("kind")
    kind = kind if isinstance(kind, str) and kind in ROLES else "vilt"
    folder = folders(world)[kind]
    for name in _CONFIGS:
        (folder / name).unlink(missing_ok=True)
        if name in files:
            (folder / name).write_text(json.dumps(files[name]), encoding="utf-8", errors="surrogatepass")
    model = open_model(ROLES[kind], f"hf:{folder}")  # type: ignore[arg-type]
    image = Image.new("RGB", (96, 80), "tan")
    if kind == "vilt":
        model.ask([image], ["is this image real or fake?"], model._answers[:1])
    elif kind == "grounding_dino":
        model.detect([image], "person", box_threshold=0.35, text_threshold=0.25)
    elif kind == "dinov2":
        model.embed_images([image])
    else:
        model.segment([image], [Box(10, 10, 60, 60)])
