"""Variants of a model's files for the differential test: functions that edit what a layout's library wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from differential_models import Layout
from differential_settings import further
from family_files import _plain, _sharded

Edit = Callable[[Path, Layout], None]
"""Edits the folder of a layout."""


def tensors(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Edit:
    def edit(folder: Path, layout: Layout) -> None:
        from safetensors.torch import load_file

        path = folder / layout.weights
        _plain(path, change(load_file(path)))

    return edit


def _matrix(state: dict[str, Any], place: int) -> str:
    return [name for name in sorted(state) if state[name].ndim > 1][place]


def renamed(place: int, name: str = "{}_before") -> Edit:
    """A matrix, by its place among them, under another name alone."""

    def change(state: dict[str, Any]) -> dict[str, Any]:
        first = _matrix(state, place % len([one for one in state.values() if one.ndim > 1]))
        return {(name.format(first) if key == first else key): value for key, value in state.items()}

    return tensors(change)


def doubled(place: int, name: str) -> Edit:
    """Another matrix under a second name, next to the first."""

    def change(state: dict[str, Any]) -> dict[str, Any]:
        first = _matrix(state, place % len([one for one in state.values() if one.ndim > 1]))
        stem, _, leaf = first.rpartition(".")
        second = name.format(first, stem=stem, leaf=leaf)
        return {**state, second: state[first].flip(0) + 0.5}

    return tensors(change)


def legacy(state: dict[str, Any]) -> dict[str, Any]:
    """A norm's weight also under the name that transformers once gave it."""
    norms = [name for name in sorted(state) if state[name].ndim == 1 and name.endswith(".weight")]
    return {**state, **{f"{name.removesuffix('weight')}gamma": state[name] + 0.5 for name in norms[:1]}}


def cast(kind: str) -> Edit:
    import torch

    dtype = getattr(torch, kind)
    return tensors(
        lambda state: {name: one.to(dtype) if one.is_floating_point() else one for name, one in state.items()}
    )


def _extra(state: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {**state, "another.weight": torch.ones(3, 3)}


def config_key(name: str, value: Any) -> Edit:
    """A key of the config's top level."""
    return lambda folder, layout: _edit_json(folder / layout.config, **{name: value})


def pictures(**settings: Any) -> Edit:
    """Other picture settings, by the names that transformers gives them: `crop`, `mean`, `std`, `interpolation` (a
    name)."""

    def edit(folder: Path, layout: Layout) -> None:
        path = folder / layout.pictures
        said = json.loads(path.read_text(encoding="utf-8"))
        if layout.pictures == "open_clip_config.json":
            said["preprocess_cfg"].update({key: value for key, value in settings.items() if key != "crop"})
            if "crop" in settings:
                said["preprocess_cfg"]["resize_mode"] = "shortest" if settings["crop"] % 2 else "longest"
        elif layout.pictures == "config.json":
            own = dict(settings)
            if "crop" in own:
                own["crop_pct"] = own.pop("crop") / 32
            said["pretrained_cfg"].update(own)
        else:
            own = dict(settings)
            for name in {"mean", "std"} & set(own):
                own[f"image_{name}"] = own.pop(name)
            if "interpolation" in own:
                own["resample"] = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}[own.pop("interpolation")]
            if "crop" in own:
                side = own.pop("crop")
                wider = dict.fromkeys(said["size"], side + 16)
                own |= {"size": wider, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}}
            said.update(own)
        path.write_text(json.dumps(said), encoding="utf-8")

    return edit


def _edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def sharded(spoil: Callable[[Path], None] | None = None) -> Edit:
    def edit(folder: Path, layout: Layout) -> None:
        from safetensors.torch import load_file

        path = folder / layout.weights
        index = _sharded(path, load_file(path), "")
        if spoil is not None:
            spoil(index)

    return edit


def doubled_in_index(index: Path) -> None:
    """JSON with a name twice: the second time in the other shard, which holds another tensor of that name."""
    from safetensors.torch import load_file

    placed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    first = min(placed)
    other = max(placed.values())
    state = load_file(index.parent / other)
    own = load_file(index.parent / placed[first])
    _plain(index.parent / other, {**state, first: own[first] + 0.5})
    text = index.read_text(encoding="utf-8")
    index.write_text(text.replace('"weight_map": {', f'"weight_map": {{"{first}": "{other}", '), encoding="utf-8")


def both_shards(index: Path) -> None:
    """The index names one shard of a tensor, and the other shard holds it, too."""
    text = index.read_text(encoding="utf-8")
    doubled_in_index(index)
    index.write_text(text, encoding="utf-8")


def omitted_shard(index: Path) -> None:
    said = json.loads(index.read_text(encoding="utf-8"))
    last = max(said["weight_map"].values())
    said["weight_map"] = {name: shard for name, shard in said["weight_map"].items() if shard != last}
    index.write_text(json.dumps(said), encoding="utf-8")


def _as_saved(folder: Path, layout: Layout) -> None:
    """Nothing."""


_WEIGHTS: dict[str, Edit] = {
    "as saved": _as_saved,
    "renamed first": renamed(0),
    "renamed last": renamed(-1),
    "under module.": renamed(0, "module.{}"),
    "doubled under model.": doubled(-1, "model.{}"),
    "doubled under module.": doubled(-1, "module.{}"),
    "doubled under base_layer": doubled(-1, "{stem}.base_layer.{leaf}"),
    "doubled under default": doubled(0, "{stem}.default.{leaf}"),
    "doubled, as old norms": tensors(legacy),
    "another tensor": tensors(_extra),
    "bfloat16": cast("bfloat16"),
    "float16": cast("float16"),
}
_CONFIG: dict[str, Edit] = {
    "another key": config_key("another_key", 3),
    "global_pool": config_key("global_pool", "max"),
}
_PICTURES: dict[str, Edit] = {
    "crop": pictures(crop=25),
    "mean": pictures(mean=[0.1, 0.4, 0.7]),
    "std": pictures(std=[0.2, 0.4, 0.6]),
    "interpolation": pictures(interpolation="bilinear"),
    "bicubic": pictures(interpolation="bicubic"),
}
_SHARDED: dict[str, Edit] = {
    "shards": sharded(),
    "shards, a name twice": sharded(doubled_in_index),
    "shards, a tensor in both": sharded(both_shards),
    "shards, one not named": sharded(omitted_shard),
}


def variants(layout: Layout) -> dict[str, Edit]:
    """Those that a layout can have."""
    if layout.brief:
        return {"as saved": _as_saved, **further(layout.group)}
    return {
        **_WEIGHTS,
        **(_CONFIG if layout.config else {}),
        **(_PICTURES if layout.pictures else {}),
        **(_SHARDED if layout.shards else {}),
        **further(layout.group),
    }
