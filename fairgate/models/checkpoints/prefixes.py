"""What training loops and wrappers put around a state dict: a key that holds it, and prefixes of its names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from fairgate.ground.errors import ModelError, did_you_mean, listed

_HOLDERS = ("state_dict", "model")
"""open_clip, timm, Lightning and accelerate save a state dict under the first, DINO, DeiT and MAE under the second.
Averaged weights (`state_dict_ema`, `model_ema`) are another model, and are read only where they are named."""
_WRAPPERS = ("module.", "_orig_mod.")
"""DistributedDataParallel; torch.compile, which may also wrap parts."""
_MODULES = ("model.", "timm_model.")
"""Attributes that hold the model: a LightningModule's usual one, and that of transformers' wrapper of timm. Names of
some models begin so themselves."""
_INSIDE: Mapping[str, str] = {
    "module.": "model.module, inside of DistributedDataParallel",
    "_orig_mod.": "model._orig_mod, inside of what torch.compile returns",
    "model.": "the model itself, not the module that trains it",
    "timm_model.": "the model itself, not the wrapper around it",
}
_ROUNDS = 4  # a compiled model inside a distributed one inside a Lightning module
T = TypeVar("T")


def inner_state(held: Any, where: str, wanted: str | None = None) -> Any:
    """The state dict in what a training loop saved, by its usual key or by the `wanted` one (`state_dict_ema`); `held`
    itself where it is one already. Raises ModelError for a wanted key that is not there."""
    inside = {key: held[key] for key in held if isinstance(held[key], Mapping)} if isinstance(held, Mapping) else {}
    if wanted is None:
        return next((inside[key] for key in _HOLDERS if key in inside), held)
    if wanted not in inside:
        known = [str(key)[:40] for key in inside]
        usual = f"state dicts are under: {listed(known) or 'no key'}"
        raise ModelError(
            f"the checkpoint has no state dict under the key '{wanted[:80]}'.",
            where=where,
            remedy=did_you_mean(wanted, known) or usual,
        )
    return inside[wanted]


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
        if found and all(name.startswith(prefix) for name in found):
            found = {name.removeprefix(prefix): value for name, value in found.items()}
    plain = {name.replace("_orig_mod.", ""): value for name, value in found.items()}
    if len(plain) < len(found):
        raise ModelError(
            "the checkpoint has the same tensor with and without the prefix '_orig_mod.' of torch.compile.",
            where=where,
            remedy="save the state dict of the model before it was compiled",
        )
    return plain


def wrapped(names: Collection[str]) -> str | None:
    """A remedy for names of tensors that do not fit and all begin as training wraps them; None for others."""
    for prefix, inside in _INSIDE.items():
        if names and all(name.startswith(prefix) for name in names):
            return f"the names begin with '{prefix}': save {inside}"
    return None
