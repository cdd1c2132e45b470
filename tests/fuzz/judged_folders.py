"""Folders of models that judge, which transformers builds of several parts: configs from a stranger, good weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from world import TESTS, World

KINDS = {
    "vlm": {"llava": "vlm:{}?question=Who?", "qwen2_5_vl": "vlm:{}?chat={{image}} {{question}}"}
    | dict.fromkeys(("llava_next", "llava_onevision", "idefics3"), "vlm:{}?question=Who?"),
}
FLUX = tuple(f"{part}/config.json" for part in ("transformer", "vae", "text_encoder", "text_encoder_2"))
FLUX += ("model_index.json", "scheduler/scheduler_config.json", "tokenizer_2/tokenizer_config.json")
_CONFIGS = (
    *("config.json", "processor_config.json", "preprocessor_config.json", "tokenizer_config.json"),
    "generation_config.json",
)


def folders(world: World, family: str) -> dict[str, Path]:
    """One tiny model of each kind, made once."""
    home = world.root / f"{family}s"
    if not home.exists():
        sys.path.insert(0, str(TESTS / "models"))
        from vlm_world import save_vlm

        for kind in KINDS[family]:
            save_vlm(kind, home / kind)
    return {kind: home / kind for kind in KINDS[family]}


def seeds(family: str) -> Callable[[World], list[Any]]:
    """All configs of a folder in one JSON object, by file name, with the folder's kind."""

    def made(world: World) -> list[Any]:
        found = []
        for kind, folder in folders(world, family).items():
            there = [name for name in _CONFIGS if (folder / name).is_file()]
            read = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in there}
            found.append({"kind": kind, **read})
        return found

    return made


def use(family: str) -> Callable[[World, bytes], None]:
    """Load the folder and have it judge pictures."""

    def judge(world: World, data: bytes) -> None:
        from fairgate.models import open_scorer

        try:
            files = json.loads(data)
        except (ValueError, RecursionError):
            files = {}
        files = files if isinstance(files, dict) else {}
        kind = files.get("kind")
        kind = kind if isinstance(kind, str) and kind in KINDS[family] else next(iter(KINDS[family]))
        folder = folders(world, family)[kind]
        for name in _CONFIGS:
            (folder / name).unlink(missing_ok=True)
            if name in files:
                (folder / name).write_text(json.dumps(files[name]), encoding="utf-8", errors="surrogatepass")
        uri = KINDS[family][kind].format(folder)
        model: Any = open_scorer(uri, world.source, device="cpu", cache=None)
        if "answer" in model.capabilities:
            model.answer(["a doctor"] * len(world.source), 2)
        else:
            model.log_probabilities(["doctor", "nurse"])

    return judge


def flux_folder(world: World) -> Path:
    """A tiny FLUX, saved once."""
    folder = world.root / "flux"
    if not folder.exists():
        sys.path.insert(0, str(TESTS / "models" / "generation"))
        from flux_world import save_flux

        save_flux(folder)
    return folder


def flux_seeds(world: World) -> list[Any]:
    """Its configs in one JSON object, by file name."""
    folder = flux_folder(world)
    return [{name: json.loads((folder / name).read_text(encoding="utf-8")) for name in FLUX}]


def use_flux(world: World, data: bytes) -> None:
    """Hash it as a painter that is judged: it is loaded in an isolated process alone, which takes too long here."""
    from fairgate.models import Generating, open_scorer

    folder = flux_folder(world)
    try:
        files = json.loads(data)
    except (ValueError, RecursionError):
        files = {}
    for name in FLUX:
        content = files.get(name, {}) if isinstance(files, dict) else {}
        (folder / name).write_bytes(json.dumps(content).encode("utf-8", "surrogatepass"))
    model: Any = open_scorer(f"diffusion:{folder}?size=32", world.source, device="cpu", cache=None)
    assert len(model.generate(["a photo of doctor"] * len(world.source), Generating(steps=1))) == len(world.source)
