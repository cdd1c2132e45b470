"""Weights of a checkpoint as a state dict: read without running its code, and held against the architecture."""

from __future__ import annotations

import argparse
import json
import pickle
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from fairgate.ground.errors import ModelError, did_you_mean, listed
from fairgate.models.checkpoints.closed import damaged, is_archive

StateDict = dict[str, torch.Tensor]
_SHOWN = 4
_STEPS = "n_averaged"  # beside the weights that torch's AveragedModel holds (torchvision's `model_ema`)
_OLD_BUFFERS = ("position_ids",)  # transformers wrote it into checkpoints before 4.31
_HOLDERS = ("state_dict", "model")
"""open_clip, timm, Lightning and accelerate save a state dict under the first, DINO, DeiT and MAE under the second.
Averaged weights (`state_dict_ema`, `model_ema`) are another model: if there are both, a name has to choose."""
_WRAPPERS = ("module.", "_orig_mod.")
"""DistributedDataParallel; torch.compile, which may also wrap parts."""
_WRAPPED = re.compile(r"(?:module\.|_orig_mod\.|model\.)*")
_MODULES = ("model.", "timm_model.")
"""Attributes that hold the model: a LightningModule's usual one, and that of transformers' wrapper of timm. Names of
some models begin so themselves."""
_ROUNDS = 4  # a compiled model inside a distributed one inside a Lightning module
_SAVE_AGAIN = "config and weights are not of one model: save both into the folder again with save_pretrained"
T = TypeVar("T")


def read_state_dict(path: Path, *, key: str | None = None, own: Collection[str] = ()) -> StateDict:
    """Tensors by name, on the CPU, out of a file that `files.require_weights` has accepted.

    Reads safetensors, a bare state dict, and what training writes (`{"epoch", "name", "state_dict", "optimizer"}`, with
    the prefixes that `without_prefixes` takes off, of which `own`, the model's names, decide one). With a
    `key`, the state dict under it (`state_dict_ema`). Raises ModelError for a file that would have to run pickled
    code, and for one that is damaged, holds no state dict, or several of one model.
    """
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return _unwrapped(load_file(path), path, key, own)
    return _unwrapped(_unpickled(path), path, key, own)


def training_args(path: Path) -> dict[str, Any]:
    """`args` of a checkpoint that timm's train.py or torchvision's references saved, as plain data; nothing of other
    files. Raises ModelError as `read_state_dict` does."""
    if path.suffix == ".safetensors" or not is_archive(path):
        return {}
    contents = _unpickled(path, mapped=True)
    args = contents.get("args") if isinstance(contents, dict) else None
    if not isinstance(args, argparse.Namespace):
        return {}
    try:
        return dict(json.loads(json.dumps(vars(args), skipkeys=True, default=lambda _: None)))
    except (ValueError, RecursionError):  # it holds itself
        return {}


def _unpickled(path: Path, mapped: bool = False) -> Any:
    """What torch.save wrote. A training's arguments, a Namespace, are attributes alone: reading them runs nothing."""
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals([argparse.Namespace]):
            # an unusual protocol or a TorchScript archive either loads or is refused below, with a remedy
            warnings.filterwarnings("ignore", "Detected pickle protocol|.*looks like a TorchScript", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise _would_run_code(path, str(error)) from error
    except MemoryError:  # of this machine, not of the file
        raise
    except Exception as error:  # of any type, for bytes that torch.save did not write
        if "TorchScript" in str(error):
            raise _would_run_code(path, "it is a TorchScript archive") from error
        raise damaged(path, _first_line(error)) from error


def _would_run_code(path: Path, reason: str) -> ModelError:
    called = re.search(r"GLOBAL ([\w.]{1,120})", reason)  # PyTorch's own advice is for those who load the file by hand
    cause = f"it holds a {called[1]}" if called else _first_line(reason)
    return ModelError(
        f"the checkpoint would have to run pickled code to be read, which is refused ({cause}).",
        where=str(path),
        remedy="convert it to safetensors where you trust it (`safetensors.torch.save_file(state_dict, ...)`)",
    )


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _unwrapped(held: Any, path: Path, key: str | None, own: Collection[str]) -> StateDict:
    state: Any = _inner_state(held, str(path), key)
    named = isinstance(state, Mapping) and all(isinstance(name, str) for name in state)
    if not named or not state or not all(isinstance(value, torch.Tensor) for value in state.values()):
        found = [str(key)[:40] for key in list(held)[:_SHOWN]] if isinstance(held, Mapping) else [type(held).__name__]
        raise ModelError(
            f"the file holds no state dict (found: {', '.join(found)}).",
            where=str(path),
            remedy="save model.state_dict(), alone or under the key 'state_dict'",
        )
    plain: StateDict = {name: value for name, value in state.items() if name != _STEPS}
    if odd := [name for name, value in plain.items() if not _is_plain(value)]:
        raise ModelError(
            f"{len(odd)} tensors are not plain arrays in memory: {listed(odd)}.",
            where=str(path),
            remedy="save dense tensors of numbers, on the CPU, with `safetensors.torch.save_file`",
        )
    return without_prefixes(plain, str(path), own)


def _is_plain(value: torch.Tensor) -> bool:
    """Whether a tensor is dense and no larger than what it stores: a stride of 0 makes billions of one number."""
    dense = value.layout is torch.strided and value.device.type == "cpu" and not value.is_quantized
    return dense and value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def require_finite(state: Mapping[str, torch.Tensor], where: str) -> None:
    """Raises ModelError naming the tensors that hold a NaN or an infinity."""
    bad = [name for name, value in state.items() if value.is_floating_point() and not torch.isfinite(value).all()]
    if bad:
        raise ModelError(
            f"{len(bad)} tensors hold NaN or infinite weights: {listed(bad)}.",
            where=where,
            remedy="take a checkpoint from before training diverged",
        )


def require_fit(state: Mapping[str, torch.Tensor], model: torch.nn.Module, where: str, architecture: str) -> None:
    """Raises ModelError unless the names and shapes are exactly those of the model."""
    expected = model.state_dict()
    shapes = [(name, own.shape, state[name].shape) for name, own in expected.items() if name in state]
    missing = [name for name in expected if name not in state]
    unexpected = [name for name in state if name not in expected]
    remedy = "name the architecture that the checkpoint was trained with"
    _require_exact(missing, unexpected, shapes, where, architecture, remedy)


def require_stored(model: torch.nn.Module, weights: Iterable[Path], where: str) -> None:
    """Raises ModelError for a model with more parameters than its weight files have bytes.

    `model` is built from its config on the device "meta". transformers and diffusers would make missing parameters up,
    at any size, before they report them.
    """
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(path.stat().st_size for path in weights)
    if described > stored:
        fault = f"it has {described:,} parameters, and the weights {stored:,} bytes"
        raise _misfit(fault, where, "its config.json", _SAVE_AGAIN)


def require_loaded(report: Mapping[str, Any], where: str, architecture: str, unused: tuple[str, ...] = ()) -> None:
    """Raises ModelError unless a `from_pretrained` loaded exactly the model's tensors, by its `loading_info`.

    transformers and diffusers fill what is missing or misshapen with random numbers and go on. Weights whose names
    start with one of `unused` may be there.
    """
    if report.get("error_msgs"):
        raise _misfit(str(report["error_msgs"])[:300], where, architecture, _SAVE_AGAIN)
    missing, unexpected = (
        [name for name in sorted(report[f"{kind}_keys"]) if not name.endswith(_OLD_BUFFERS)]
        for kind in ("missing", "unexpected")
    )
    unexpected = [name for name in unexpected if not name.startswith(unused)]
    shapes = [(name, expected, found) for name, found, expected in sorted(report.get("mismatched_keys") or ())]
    _require_exact(missing, unexpected, shapes, where, architecture, _SAVE_AGAIN)


def _require_exact(
    missing: Sequence[str],
    unexpected: Sequence[str],
    shapes: Iterable[tuple[str, Sequence[int], Sequence[int]]],
    where: str,
    architecture: str,
    remedy: str,
) -> None:
    """Raises ModelError for names that are not the model's, and for shapes (name, expected, found) that differ. The
    `remedy` is for names that training did not wrap."""
    odd = [
        f"{name} (expected {tuple(expected)}, found {tuple(found)})"
        for name, expected, found in shapes
        if tuple(expected) != tuple(found)
    ]
    faults = [f"{len(odd)} tensors have other shapes: {listed(odd, separator='; ')}"] if odd else []
    faults += [f"{len(missing)} tensors are missing: {listed(missing)}"] if missing else []
    faults += [f"{len(unexpected)} are not of this architecture: {listed(unexpected)}"] if unexpected else []
    if faults:
        near = did_you_mean(missing[0], unexpected) if missing else None
        if wrapper := next((each for each in (*_WRAPPERS, *_MODULES) if _all_begin(unexpected, each)), None):
            remedy = f"the names begin with '{wrapper}': save the model inside of what wraps it"
        raise _misfit("; ".join(faults) + (f" ({near})" if near else ""), where, architecture, remedy)


def _misfit(fault: str, where: str, architecture: str, remedy: str) -> ModelError:
    return ModelError(f"the checkpoint does not fit {architecture}: {fault}.", where=where, remedy=remedy)


def _inner_state(held: Any, where: str, wanted: str | None = None) -> Any:
    """The state dict in what a training loop saved, by its usual key or by the `wanted` one (`state_dict_ema`); `held`
    itself where it is one already. Raises ModelError for a wanted key that is not there."""
    inside = {key: held[key] for key in held if isinstance(held[key], Mapping)} if isinstance(held, Mapping) else {}
    key = wanted or next((key for key in _HOLDERS if key in inside), None)
    if key is None:
        return held
    if key not in inside:
        known = [str(other)[:40] for other in inside]
        raise ModelError(
            f"the checkpoint has no state dict under the key '{key[:80]}'.",
            where=where,
            remedy=did_you_mean(key, known) or f"state dicts are under: {listed(known) or 'no key'}",
        )
    own = _tensor_names(inside[key])
    others = [str(other)[:40] for other in inside if other != key and own & _tensor_names(inside[other])]
    if others and wanted is None:
        raise ModelError(
            f"the checkpoint holds several weights of one model: {listed([key, *others])}.",
            where=where,
            remedy=f"choose in the URI of a torchvision: or timm: file, &key={key} or &key={others[0]}; elsewhere save "
            "those alone that are meant",
        )
    return inside[key]


def _tensor_names(state: Mapping[Any, Any]) -> set[str]:
    return {_WRAPPED.sub("", str(name), count=1) for name in state if isinstance(state[name], torch.Tensor)}


def without_prefixes(state: Mapping[str, T], where: str, own: Collection[str] = ()) -> dict[str, T]:
    """A state dict under the model's own names.

    `module.` and `_orig_mod.` go wherever all names begin with them, `_orig_mod.` inside of names too. `model.` and
    `timm_model.` go where all names begin so and those of the model, `own`, do not: without these they stay. Raises
    ModelError for names that become one.

    >>> without_prefixes({"module.model.fc.weight": 1, "module.model.fc.bias": 2}, "a.pt", ["fc.weight", "fc.bias"])
    {'fc.weight': 1, 'fc.bias': 2}
    """
    found = dict(state)
    droppable = _WRAPPERS if not own or any(name.startswith(_MODULES) for name in own) else (*_WRAPPERS, *_MODULES)
    for prefix in droppable * _ROUNDS:
        if _all_begin(found, prefix):
            found = {name.removeprefix(prefix): value for name, value in found.items()}
    plain = {name.replace("_orig_mod.", ""): value for name, value in found.items()}
    if len(plain) < len(found):
        raise ModelError(
            "the checkpoint has the same tensor with and without the prefix '_orig_mod.' of torch.compile.",
            where=where,
            remedy="save the state dict of the model before it was compiled",
        )
    return plain


def _all_begin(names: Collection[str], prefix: str) -> bool:
    return bool(names) and all(name.startswith(prefix) for name in names)
