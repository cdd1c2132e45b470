"""Adapters of other types than LoRA (LoHa, LoKr, OFT, IA3, ...), merged into their base by peft itself.

peft gets plain settings and the tensors, and no name of a base or file. Each of its layers is then tried: if it gives
other numbers merged than not merged, the adapter is refused; so it is for a tensor that peft leaves out or makes up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairgate.ground.errors import ModelError, listed
from fairgate.ground.validation_words import fault_words
from fairgate.models.checkpoints.lora_config import MERGE, NOTES, Pattern, require_library_base

MERGED = frozenset(
    {
        *("ADALORA", "C3A", "DELORA", "FOURIERFT", "HRA", "IA3", "LN_TUNING", "LOHA", "LOKR", "MISS", "OFT"),
        *("RANDLORA", "SHIRA", "VBLORA", "VERA"),
    }
)
"""Types whose settings name no file and no model, and whose layers peft merges. Not BOFT: peft compiles code for it."""
_NEAR = 1e-4
"""How far a merged layer may be from the one that is not, relative to its largest output: products of float32."""
_OF_TRAINING = ("task_type", "auto_mapping")
_SEEDS = ("seed", "key")
_Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)]
_Whole = Annotated[int, Field(ge=-1, le=8_192)]
_Word = Annotated[str, Field(pattern=r"^\w{0,40}$")]
_Names = Annotated[list[Pattern], Field(max_length=10_000)]
_Values = Annotated[dict[Pattern, _Whole | _Number], Field(max_length=10_000)]
_Setting = bool | _Whole | _Number | _Word | _Names | Annotated[list[_Whole], Field(max_length=10_000)] | _Values | None


class PeftSettings(BaseModel):
    """adapter_config.json of a type that peft merges, without notes: numbers, switches and ends of layers' names."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    peft_type: str
    settings: Annotated[dict[str, _Setting], Field(max_length=100)]
    seeds: dict[str, int | None]

    @property
    def kind(self) -> str:
        """For a note."""
        return self.peft_type


def read_peft_settings(config: Mapping[str, Any], where: str) -> PeftSettings:
    """The settings that decide. Raises ModelError for one that is a name, an expression or a group."""
    require_library_base(config, where)
    settings = {name: value for name, value in config.items() if name not in (*NOTES, *_OF_TRAINING, "peft_type")}
    if isinstance(settings.get("target_modules"), str) or isinstance(settings.get("exclude_modules"), str):
        raise ModelError(
            "the config chooses layers by an expression, which fairgate does not give to peft.",
            where=where,
            remedy="list the layers' names in target_modules (exclude_modules)",
        )
    seeds = {name: settings.pop(name) for name in list(settings) if name.endswith(_SEEDS)}
    try:
        return PeftSettings(peft_type=config["peft_type"], settings=settings, seeds=seeds)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ModelError(
            f"the config has a setting that fairgate does not give to peft ({'.'.join(map(str, first['loc']))[:100]}: "
            f"{fault_words(first)}).",
            where=where,
            remedy=MERGE,
        ) from error


def merge_by_peft(model: Any, config: PeftSettings, tensors: Mapping[str, Any], where: str) -> None:
    """Merge an adapter into a network, in place. Raises ModelError for tensors that are not exactly the adapter's, and
    for a layer that gives other numbers merged."""
    import torch

    from fairgate.models.checkpoints.encoder import versions
    from fairgate.models.checkpoints.low_rank import shared_weights

    versions("peft")  # where it is missing, the error says how to install it
    from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import ModulesToSaveWrapper, PeftType

    shared, parents = shared_weights(model), dict(model.named_modules())
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made: Any = PEFT_TYPE_TO_CONFIG_MAPPING[PeftType(config.peft_type)]
            adapted: Any = PeftModel(model, made(inference_mode=True, **config.settings, **config.seeds)).eval()
            report: Any = set_peft_model_state_dict(adapted, dict(tensors))
            own = get_peft_model_state_dict(adapted)
    except Exception as error:  # of any type: settings and shapes that do not fit end in several
        raise _unfit(f"{type(error).__name__}: {str(error)[:200].rstrip('.')}", where) from error
    if odd := sorted(set(own) ^ set(tensors)) or sorted(report.unexpected_keys):
        raise _unfit(f"peft leaves out, or makes up, {listed(odd)}", where)
    layers = [
        (name, each) for name, each in adapted.base_model.model.named_modules() if isinstance(each, BaseTunerLayer)
    ]
    whole = [each for each in adapted.modules() if isinstance(each, ModulesToSaveWrapper)]
    for name, layer in layers:
        _require_same_merged(parents, name, layer, shared, where)
    if any(weight.data_ptr() in shared for each in whole for weight in each.original_module.parameters()):
        raise _unfit("a layer that was trained whole is another layer's too, which would change with it", where)
    with torch.no_grad():
        adapted.merge_and_unload(safe_merge=True)


def _require_same_merged(parents: Mapping[str, Any], name: str, layer: Any, shared: set[int], where: str) -> None:
    """Raises ModelError for a layer of peft that, merged, gives other numbers, or that changes another layer."""
    import torch

    from fairgate.models.checkpoints.low_rank import differs_unmerged

    base = layer.get_base_layer()
    if any(weight.data_ptr() in shared for weight in base.parameters()):
        raise _unfit(f"the weight of '{name}' is another layer's too, which would change with it", where)
    above, _, last = name.rpartition(".")
    if reason := differs_unmerged(parents[above], last, base):
        raise _unfit(f"an adapter of '{name}' does something else before it is merged: {reason}", where)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # IA3 warns of unmerging, and the layer is merged anew below
        torch.manual_seed(0)
        shown = _input(base)
        before = layer(shown)
        layer.merge(safe_merge=True)
        after = layer(shown)
        layer.unmerge()
    if not float((before - after).abs().max()) <= _NEAR * float(before.abs().max()):
        raise _unfit(f"'{name}' gives other numbers when it is merged", where)


def _input(layer: Any) -> Any:
    """Something that a layer takes."""
    import torch

    if isinstance(layer, torch.nn.Embedding):
        return torch.arange(min(layer.num_embeddings, 64))
    if isinstance(layer, torch.nn.LayerNorm):
        return torch.randn(8, *layer.normalized_shape)
    if isinstance(layer, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
        return torch.randn(2, layer.in_channels, *(3 * side for side in layer.kernel_size))
    return torch.randn(8, layer.in_features if isinstance(layer, torch.nn.Linear) else len(layer.weight))


def _unfit(fault: str, where: str) -> ModelError:
    return ModelError(f"the adapter is not merged by peft: {fault}.", where=where, remedy=MERGE)
