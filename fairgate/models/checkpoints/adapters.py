"""An adapter that peft saved: a folder with adapter_config.json and adapter_model.safetensors, merged into its base.

LoRA here; other types are merged by peft (peft_merge.py). The tensors say which layers are changed; the config has to
say the same, since peft leaves out the others. Nothing in the config is followed: neither the base model's name, nor a
class, nor a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairgate.ground.errors import ModelError, did_you_mean, listed
from fairgate.models.checkpoints.advice import right_uri
from fairgate.models.checkpoints.files import IMAGE_CONFIGS, TOKENIZER_FILES, HashedFiles, read_config, require_weights
from fairgate.models.checkpoints.lora_config import MERGE, LoraConfig, Targets, read_lora_config
from fairgate.models.checkpoints.peft_merge import MERGED, PeftSettings, merge_by_peft, read_peft_settings

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_PARTS = ("lora_A.weight", "lora_B.weight")
_OF_EMBEDDINGS = ("lora_embedding_A", "lora_embedding_B")
_MAGNITUDE = ("lora_magnitude_vector", "lora_magnitude_vector.weight")  # the name of older and newer versions of peft
_AGAIN = "save the adapter again with peft's save_pretrained, for the base that the URI names"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter that was found trustworthy, with its files hashed; its weights are not read yet. `bases` are the
    folders that took it."""

    path: Path
    config: LoraConfig | PeftSettings
    files: HashedFiles
    bases: list[str] = field(default_factory=list)

    @property
    def packages(self) -> tuple[str, ...]:
        """Whose versions numbers depend on beside the base's: peft's, if it merges the adapter."""
        return ("peft",) if isinstance(self.config, PeftSettings) else ()

    def companions(self, names: Sequence[str]) -> dict[str, Path]:
        """Files of its own that decide how texts and pictures are read, by name."""
        return {name: self.path / name for name in names if (self.path / name).is_file()}


_PENDING: ContextVar[Adapter | None] = ContextVar("adapter", default=None)


@contextlib.contextmanager
def adapting(adapter: Adapter, where: str) -> Iterator[None]:
    """The checkpoint that is found inside gets the adapter, merged into it when it is loaded.

    Raises ModelError at the end unless exactly one was found: a family whose models are no such folder takes no
    adapter, and of two networks it is open which one is meant.
    """
    token = _PENDING.set(adapter)
    try:
        yield
    finally:
        _PENDING.reset(token)
    if len(adapter.bases) != 1:
        found = f"opens {listed(adapter.bases)}" if adapter.bases else "takes none"
        raise ModelError(
            f"an adapter is merged into one checkpoint of transformers, timm or open_clip, and its base {found}.",
            where=where,
            remedy="name the model that it was trained on, such as peft:DIR?base=hf:FOLDER (a LoRA of a Stable "
            f"Diffusion is named by diffusion:FOLDER?lora=FILE); or {MERGE}",
        )


def taken_adapter(folder: Path) -> Adapter | None:
    """The adapter for a folder that is being found; None outside of `adapting`."""
    adapter = _PENDING.get()
    if adapter is not None:
        adapter.bases.append(str(folder))
    return adapter


def taken_weights(path: Path) -> Adapter | None:
    """As `taken_adapter`, for a base whose way to read texts and pictures stays its own. Raises ModelError for an
    adapter that brings files that decide it."""
    adapter = taken_adapter(path)
    if adapter and (own := sorted(adapter.companions((*TOKENIZER_FILES, *IMAGE_CONFIGS)))):
        raise ModelError(
            f"the adapter brings its own {', '.join(own)}, which its base does not read.",
            where=str(adapter.path),
            remedy="remove these files, if the model was trained as the base reads texts and pictures",
        )
    return adapter


def find_adapter(folder: Path) -> Adapter:
    """Look into an adapter's folder, which `judged_folder` has accepted, refuse what cannot be trusted, and hash the
    rest. Raises ModelError."""
    if not (folder / CONFIG).is_file():
        inside = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}"))
        raise ModelError(
            f"the folder holds no {CONFIG}.",
            where=str(folder),
            remedy=f"name the adapter in it: {folder / inside[0]}"
            if inside
            else right_uri(folder, "peft") or "save it with peft's save_pretrained",
        )
    settings, where = read_config(folder / CONFIG), str(folder / CONFIG)
    by_peft = str(settings.get("peft_type")) in MERGED
    config = (read_peft_settings if by_peft else read_lora_config)(settings, where)
    if not (folder / WEIGHTS).is_file():
        pickled = ", only pickled weights (adapter_model.bin)" if (folder / "adapter_model.bin").is_file() else ""
        raise ModelError(
            f"the folder holds no {WEIGHTS}{pickled}.",
            where=str(folder),
            remedy="save the adapter with peft's save_pretrained, which writes safetensors",
        )
    require_weights(folder / WEIGHTS)
    return Adapter(folder, config, HashedFiles.of({"config": folder / CONFIG, "weights": folder / WEIGHTS}))


def named_base(folder: Path) -> str:
    """What an adapter's config calls its base, for a message: a hub id, or a path of the machine that trained it."""
    with contextlib.suppress(ModelError):
        return str(read_config(folder / CONFIG).get("base_model_name_or_path") or "")[:200]
    return ""


def merge_adapter(model: Any, adapter: Adapter) -> None:
    """Merge an adapter into a network of transformers, in place: all of it, or a ModelError says what is left over."""
    import torch
    from safetensors.torch import load_file

    from fairgate.models.checkpoints.low_rank import LowRank, is_adaptable, merge_low_rank
    from fairgate.models.checkpoints.weights import require_finite

    adapter.files.require_unchanged()
    where, config = str(adapter.path), adapter.config
    tensors = load_file(adapter.path / WEIGHTS)
    require_finite(tensors, where)
    if isinstance(config, PeftSettings):
        merge_by_peft(model, config, tensors, where)
        return
    layers = dict(model.named_modules())
    parts, whole = _sorted_out(tensors, where)
    places = _places(model, parts, layers)
    if len(set(places.values())) < len(places):
        raise _misfit("several of its updates are of one layer", where)
    targets = Targets(config, where)
    if stray := [name for name, place in places.items() if name not in targets and place not in targets]:
        raise _misfit(f"it has updates of layers that its config does not name: {listed(stray)}", where)
    lacking = set(layers) - set(places.values())
    if absent := sorted(name for name in lacking if is_adaptable(layers[name]) and name in targets):
        raise _misfit(f"it has no update of layers that its config names: {listed(absent)}", where)
    _put_whole(model, whole, config, set(places.values()), where)
    updates = {}
    for name, held in parts.items():
        down, up = _OF_EMBEDDINGS if isinstance(layers.get(places[name]), torch.nn.Embedding) else _PARTS
        if {*held} != {down, up, *(_MAGNITUDE[:1] if config.use_dora else ())}:
            raise _misfit(f"the update of '{name}' is not whole (it has: {listed(sorted(held))})", where)
        scale = config.scale(name, len(held[down]), where)
        updates[places[name]] = LowRank(held[down], held[up], scale, held.get(_MAGNITUDE[0]))
    merge_low_rank(model, updates, where)


def _sorted_out(
    tensors: Mapping[str, torch.Tensor], where: str
) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """Updates by layer and part, and tensors that replace the base's, by name."""
    parts: dict[str, dict[str, torch.Tensor]] = {}
    whole: dict[str, torch.Tensor] = {}
    for key, tensor in tensors.items():
        name = key.removeprefix(_PREFIX)
        part = next((end for end in (*_PARTS, *_OF_EMBEDDINGS, *_MAGNITUDE) if name.endswith(f".{end}")), None)
        if name == key or (part is None and ".lora_" in name):
            raise _misfit(f"it has a tensor that fairgate does not merge: '{key[:200]}'", where)
        if part is None:
            whole[name] = tensor
            continue
        held = parts.setdefault(name.removesuffix(f".{part}"), {})
        part = _MAGNITUDE[0] if part in _MAGNITUDE else part
        if part in held:
            raise _misfit(f"two of its tensors are one part of an update: '{key[:200]}'", where)
        held[part] = tensor
    if not parts and not whole:
        raise _misfit("it holds no tensor", where)
    return parts, whole


def _places(model: Any, names: Collection[str], layers: Mapping[str, Any]) -> dict[str, str]:
    """The layers that names mean: of an adapter from an older transformers, what its weights are called by now."""
    old = [name for name in names if name not in layers]
    places = {name: name for name in names}
    if not old or not hasattr(model, "base_model_prefix"):
        return places
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightRenaming, rename_source_key
    except ImportError:  # transformers 4, whose models have the names that they were saved with
        return places
    renamings = [one for one in get_model_conversion_mapping(model) if isinstance(one, WeightRenaming)]
    state = model.state_dict()
    for name in old:
        renamed, _ = rename_source_key(f"{name}.weight", renamings, [], model.base_model_prefix, state)
        places[name] = str(renamed).removesuffix(".weight")
    return places


def _put_whole(
    model: Any, tensors: Mapping[str, torch.Tensor], config: LoraConfig, updated: Collection[str], where: str
) -> None:
    """Replace the layers that were trained whole (`modules_to_save`), and biases where the config says so.

    peft reads the bias of an `updated` layer as `LAYER.base_layer.bias`, and everything else by its plain name: it
    leaves out a tensor under the other name.
    """
    import torch

    from fairgate.models.checkpoints.low_rank import shared_weights

    state: dict[str, torch.Tensor] = model.state_dict()
    saved = {name for name in state if config.is_saved(name.rpartition(".")[0])}
    biases = {name for name in state if name.endswith(".bias")} - saved if config.bias != "none" else set[str]()
    read_as = {_bias_name(name, updated): name for name in biases} | {name: name for name in saved}
    meant = {*read_as.values()}
    if ignored := [name for name in tensors if name not in read_as and name.replace(".base_layer.", ".") in meant]:
        raise _misfit(f"peft leaves out tensors under these names: {listed(ignored)}", where)
    whole = {read_as.get(name, name): tensor for name, tensor in tensors.items()}
    if stray := sorted(set(whole) - saved - biases):
        near = did_you_mean(stray[0], state)
        raise _misfit(
            f"it has tensors for which its config has no place: {listed(stray)}{f' ({near})' if near else ''}", where
        )
    if absent := sorted(saved - set(whole)):
        raise _misfit(f"its config says that it has layers whole, and it lacks {listed(absent)}", where)
    uses = shared_weights(model)
    with torch.no_grad():
        for name, tensor in whole.items():
            if state[name].data_ptr() in uses:
                raise _misfit(f"'{name}' is another layer's too, which would change with it", where)
            if tensor.shape != state[name].shape:
                raise _misfit(
                    f"'{name}' is {tuple(state[name].shape)} in the base, and {tuple(tensor.shape)} here", where
                )
            state[name].copy_(tensor)


def _bias_name(name: str, updated: Collection[str]) -> str:
    """The name under which peft saves and reads a bias."""
    layer = name.removesuffix(".bias")
    return f"{layer}.base_layer.bias" if layer in updated else name


def _misfit(fault: str, where: str) -> ModelError:
    return ModelError(f"the adapter does not fit its base: {fault}.", where=where, remedy=_AGAIN)
