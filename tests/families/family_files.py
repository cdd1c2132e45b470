"""The second table of docs/reference/families.md: the forms in which weights are saved, as each family reads them.

Each cell writes the weights of a tiny model in another form, and holds what is then answered against the answers of the
file that the library itself wrote.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from family_rows import ROWS
from family_runs import Bench, Cell, Works

State = Mapping[str, Any]


@dataclass(frozen=True)
class Form:
    """How a state dict is written: next to `path`, the safetensors file of the library, or in the place of it; returns
    what a URI of one file names then."""

    title: str
    write: Callable[[Path, State, str], Path]
    rounded: bool = False


@dataclass(frozen=True)
class Stored:
    """A row's model, and where its weights are: in a folder under `file`, or, of a URI that names a file, that file.
    `pickled` is the usual name of a pickle, or its ending."""

    title: str
    row: str
    column: str
    pickled: str
    file: str = ""


def _plain(path: Path, state: State, _: str = "") -> Path:
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path, metadata={"format": "pt"})
    return path


def _sharded(path: Path, state: State, _: str) -> Path:
    path.unlink()
    names = sorted(state)
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    shards = [f"{path.stem}-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for shard, half in zip(shards, halves, strict=True):
        _plain(path.with_name(shard), {name: state[name] for name in half})
    size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    placed = {name: shard for shard, half in zip(shards, halves, strict=True) for name in half}
    index = path.with_name(f"{path.name}.index.json")
    index.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": placed}), encoding="utf-8")
    return index


def _bfloat16(path: Path, state: State, _: str) -> Path:
    return _plain(path, {name: one.bfloat16() if one.is_floating_point() else one for name, one in state.items()})


def _pickled(key: str | None) -> Callable[[Path, State, str], Path]:
    def write(path: Path, state: State, pickled: str) -> Path:
        import torch

        path.unlink()
        target = path.with_suffix(pickled) if pickled.startswith(".") else path.with_name(pickled)
        torch.save(dict(state) if key is None else {key: dict(state), "epoch": 3}, target)
        return target

    return write


def _prefixed(prefix: str) -> Callable[[Path, State, str], Path]:
    return lambda path, state, _: _plain(path, {f"{prefix}{name}": one for name, one in state.items()})


FORMS: dict[str, Form] = {
    "safetensors": Form("safetensors", _plain),
    "sharded": Form("sharded safetensors", _sharded),
    "bfloat16": Form("bfloat16", _bfloat16, rounded=True),
    "pickle": Form("pickle", _pickled(None)),
    "state_dict": Form("pickle, under `state_dict`", _pickled("state_dict")),
    "model": Form("pickle, under `model`", _pickled("model")),
    "module.": Form("`module.` before names", _prefixed("module.")),
    "model.": Form("`model.` before names", _prefixed("model.")),
    "_orig_mod.": Form("`_orig_mod.` before names", _prefixed("_orig_mod.")),
}
_WEIGHTS, _PICKLED = "model.safetensors", "pytorch_model.bin"
STORED: dict[str, Stored] = {
    "open_clip": Stored(
        "open_clip:local-dir:FOLDER",
        "open_clip",
        "retrieval",
        "open_clip_pytorch_model.bin",
        "open_clip_model.safetensors",
    ),
    "hf": Stored("hf:FOLDER", "hf", "retrieval", _PICKLED, _WEIGHTS),
    "vlm": Stored("vlm:FOLDER", "vlm-question", "zero_shot_classification", _PICKLED, _WEIGHTS),
    "captions": Stored("captions:FOLDER", "captions", "zero_shot_classification", _PICKLED, _WEIGHTS),
    "classifier": Stored("classifier:FOLDER", "classifier", "zero_shot_classification", _PICKLED, _WEIGHTS),
    "features": Stored("features:FOLDER", "features", "zero_shot_classification", _PICKLED, _WEIGHTS),
    "detector": Stored("detector:FOLDER", "detector", "detection", _PICKLED, _WEIGHTS),
    "open_clip-file": Stored("open_clip:ARCH@FILE", "open_clip-file", "retrieval", ".pt"),
    "timm": Stored("timm:FOLDER", "timm", "zero_shot_classification", _PICKLED, _WEIGHTS),
    "torchvision": Stored("torchvision:ARCH@FILE", "torchvision", "zero_shot_classification", ".pth"),
    "diffusion": Stored(
        "diffusion:FOLDER, its UNet",
        "diffusion",
        "zero_shot_classification",
        "diffusion_pytorch_model.bin",
        "unet/diffusion_pytorch_model.safetensors",
    ),
    "peft": Stored("peft:DIR", "peft-hf", "retrieval", "adapter_model.bin", "adapter_model.safetensors"),
}


def run_form(bench: Bench, stored: Stored, form: Form) -> Cell:
    """What a family makes of its weights in a form. Answers have to be those of the library's own file, or, of rounded
    weights, those of a file of float32 with the same numbers."""
    from safetensors.torch import load_file

    row = ROWS.get(stored.row)
    uri = tiny_file(bench) if row is None else bench.uri(row, row.kinds[0])
    named = _named(uri, stored)
    work = bench.root / "forms"
    shutil.rmtree(work, ignore_errors=True)
    answers = []
    for write in (form.write, _plain):
        target = work / f"{len(answers)}" / Path(named).name
        target.parent.mkdir(parents=True)
        if (bench.root / named).is_dir():
            shutil.copytree(bench.root / named, target)
        else:
            shutil.copy(bench.root / named, target)
        weights = target / stored.file if stored.file else target
        state = load_file(weights)
        if form.rounded and write is _plain:
            state = {
                name: one.bfloat16().to(one.dtype) if one.is_floating_point() else one for name, one in state.items()
            }
        written = write(weights, state, stored.pickled)
        moved = (target if stored.file else written).relative_to(bench.root).as_posix()
        here = rf"([:@]){re.escape(named)}(?=[?]|$)"
        found = bench.evaluate(re.sub(here, rf"\g<1>{moved}", uri, count=1), stored.column)
        if not isinstance(found, Works):
            return found
        answers.append(found.scores)
    for name, scores in answers[1].items():
        np.testing.assert_allclose(answers[0][name].value, scores.value, rtol=0, atol=1e-6, err_msg=name)
    return Works(answers[0])


def _named(uri: str, stored: Stored) -> str:
    """The folder or file of a URI, as it is written there."""
    address = uri.partition(":")[2].removeprefix("local-dir:").partition("?")[0]
    return address if stored.file else address.rpartition("@")[2]


def tiny_file(bench: Bench) -> str:
    """The URI of a tiny open_clip's weights alone, whose architecture open_clip is told of."""
    import open_clip
    from model_world import TINY

    config = bench.root / "fairgate-tiny.json"
    if not config.exists():
        config.write_text(json.dumps(TINY), encoding="utf-8")
        open_clip.add_model_config(config)
        folder = bench.uri(ROWS["open_clip"], "").rpartition(":")[2]
        shutil.copy(bench.root / folder / "open_clip_model.safetensors", bench.root / "tiny.safetensors")
    return "open_clip:fairgate-tiny@tiny.safetensors"
