"""Adapters of peft (LoRA, LoHa, LoKr, OFT, IA3, ...), merged into their base by peft itself.

peft gets plain settings and the tensors, and no name of a base or file. Each of its layers is then tried: if it gives
other numbers merged than not merged, the adapter is refused; so it is for a tensor that peft leaves out or makes up.
"""

from __future__ import annotations

import inspect
import re
import time
import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairgate.ground.errors import FairgateError, ModelError, listed
from fairgate.ground.validation_words import fault_words

MERGED = frozenset(
    {
        *("LORA", "ADALORA", "C3A", "DELORA", "FOURIERFT", "HRA", "IA3", "LN_TUNING", "LOHA", "LOKR", "MISS", "OFT"),
        *("RANDLORA", "SHIRA", "VBLORA", "VERA"),
    }
)
"""Types whose settings name no file and no model, and whose layers peft merges. Not BOFT: peft compiles code for it."""
MERGE = "merge the adapter where it was trained (merge_and_unload), and save the whole model"
_NEAR = 1e-4
"""How far a merged layer may be from the one that is not, relative to its largest output: products of float32."""
_NOT_READ = frozenset(
    {
        *("peft_type", "peft_version", "base_model_name_or_path", "revision", "inference_mode"),
        *("megatron_core", "megatron_config"),
        *("qalora_group_size", "task_type", "auto_mapping", "init_lora_weights", "eva_config"),
    }
)
"""Of training, and of where things were: nothing that a trained adapter's answers depend on."""
_CHOICES = ("target_modules", "exclude_modules")
_SEEDS = ("seed", "key")
_SECONDS = 5.0
"""For all names together: an expression may be one that takes for ever."""
_LINEAR_TOO = ("timm.layers.linear", "timm.layers.conv2d_same")
"""Modules of layers that compute as PyTorch's, with a padding of their own: peft adds a layer of the same kind."""
_Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)]
_Whole = Annotated[int, Field(ge=-1, le=8_192)]
_Word = Annotated[str, Field(pattern=r"^\w{0,40}$")]
_Pattern = Annotated[str, Field(pattern=r"^\^?(\\\.|[\w.])+$", max_length=500)]
_Names = Annotated[list[_Pattern], Field(max_length=10_000)]
_Values = Annotated[dict[_Pattern, _Whole | _Number], Field(max_length=10_000)]
_Setting = bool | _Whole | _Number | _Word | _Names | Annotated[list[_Whole], Field(max_length=10_000)] | _Values | None


class PeftSettings(BaseModel):
    """adapter_config.json without notes: numbers, switches, ends of layers' names, and expressions that choose some."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    peft_type: str
    settings: Annotated[dict[str, _Setting], Field(max_length=100)]
    expressions: dict[str, Annotated[str, Field(max_length=2_000)]]
    seeds: dict[str, int | None]

    @property
    def kind(self) -> str:
        """For a note."""
        return f"LoRA, rank {self.settings.get('r', 8)}" if self.peft_type == "LORA" else self.peft_type


def read_peft_settings(config: Mapping[str, Any], where: str) -> PeftSettings:
    """The settings that decide. Raises ModelError for a type that is not merged, an adapter that changes more than it
    holds, and a setting that is a path, a group or an expression that may not end."""
    kind = config.get("peft_type")
    if not isinstance(kind, str) or kind not in MERGED:
        raise ModelError(
            f"the adapter is of type '{str(kind)[:80]}', which fairgate does not merge.",
            where=where,
            remedy=f"{MERGE}; if it cannot be merged, as prompts, judge a table of its answers: answers:, labels: or "
            "scores:FILE",
        )
    start = config.get("init_lora_weights")
    if start not in (None, True, False, "gaussian", "orthogonal", "eva"):  # those leave the base as it is
        raise ModelError(
            f"the adapter was started by '{str(start)[:80]}', which changes the base's own weights too.",
            where=where,
            remedy="save it as a plain one (path_initial_model_for_weight_conversion), or " + MERGE,
        )
    settings = {name: value for name, value in config.items() if name not in _NOT_READ}
    expressions = {name: settings.pop(name) for name in _CHOICES if isinstance(settings.get(name), str)}
    seeds = {name: settings.pop(name) for name in list(settings) if name.endswith(_SEEDS)}
    try:
        return PeftSettings(peft_type=kind, settings=settings, expressions=expressions, seeds=seeds)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ModelError(
            f"the config has a setting that fairgate does not give to peft ({'.'.join(map(str, first['loc']))[:100]}: "
            f"{fault_words(first)}).",
            where=where,
            remedy=MERGE,
        ) from error


def _matching(expression: str, names: Collection[str], where: str) -> str:
    """An expression for exactly the names that another one chooses, which never takes long. A list would not do: peft
    takes each of its names for the end of longer ones, too. If peft, which tries it by `re`, chose other layers, the
    tensors do not fit."""
    import regex  # a dependency of transformers; unlike re, it can be given a time

    until = time.monotonic() + _SECONDS
    try:
        return "|".join(
            re.escape(each)
            for each in names
            if regex.fullmatch(expression, each, timeout=max(until - time.monotonic(), 1e-3))
        )
    except (regex.error, TimeoutError) as error:
        raise ModelError(
            f"the config chooses layers by an expression that is wrong or takes too long ('{expression[:80]}').",
            where=where,
            remedy="list the layers' names in target_modules (exclude_modules)",
        ) from error


def merge_by_peft(model: Any, config: PeftSettings, tensors: Mapping[str, Any], where: str) -> None:
    """Merge an adapter, whose `tensors` are finite, into a network, in place. Raises ModelError for tensors that are
    not exactly the adapter's, and for a layer that gives other numbers merged."""
    import torch

    from fairgate.models.checkpoints.encoder import versions

    versions("peft")  # where it is missing, the error says how to install it
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import ModulesToSaveWrapper

    uses = Counter(each.data_ptr() for _, each in model.named_parameters(remove_duplicate=False))
    shared = {address for address, count in uses.items() if count > 1}  # an embedding that is also the last layer
    parents = dict(model.named_modules())
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            adapted = _adapted(model, config, tensors, where)
            for each in adapted.modules():
                if isinstance(each, ModulesToSaveWrapper):
                    _require_alone("a layer that was trained whole", each.original_module, shared, where)
            for name, layer in adapted.base_model.model.named_modules():
                if isinstance(layer, BaseTunerLayer):
                    _require_alone(f"'{name}'", layer.get_base_layer(), shared, where)
                    _merge_layer(parents[name.rpartition(".")[0]], name, layer, where)
            adapted.merge_and_unload()
    except FairgateError:
        raise
    except Exception as error:  # of any type: settings and shapes that do not fit end in several
        raise _unfit(f"{type(error).__name__}: {str(error)[:200].rstrip('.')}", where) from error


def _adapted(model: Any, config: PeftSettings, tensors: Mapping[str, Any], where: str) -> Any:
    """The network with the adapter's layers around its own. Raises ModelError unless each tensor has its place, and
    each place a tensor."""
    from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
    from peft.utils import PeftType

    names = [name for name, _ in model.named_modules()]
    config_class: Any = PEFT_TYPE_TO_CONFIG_MAPPING[PeftType(config.peft_type)]
    known = {field.name for field in fields(config_class)}
    chosen = {name: _matching(each, names, where) for name, each in config.expressions.items()}
    settings = {name: value for name, value in config.settings.items() if name in known or value}
    adapted: Any = PeftModel(model, config_class(inference_mode=True, **settings, **chosen, **config.seeds)).eval()
    for place in get_peft_model_state_dict(adapted, save_embedding_layers=False).values():
        if place.is_floating_point():
            place.fill_(float("nan"))  # what no tensor takes the place of would else be made up
    report: Any = set_peft_model_state_dict(adapted, dict(tensors))
    own = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    empty = sorted(name for name, place in own.items() if place.is_floating_point() and place.isnan().any())
    counted = [] if len(own) == len(tensors) else sorted(set(own) ^ set(tensors))
    if odd := sorted(report.unexpected_keys) or empty or counted:
        raise _unfit(f"peft leaves out, or makes up, {listed(odd)}", where)
    return adapted


def _merge_layer(parent: Any, name: str, layer: Any, where: str) -> None:
    """Merge one layer of peft. Raises ModelError if it gives other numbers merged, on its own or in its parent."""
    import torch

    base = layer.get_base_layer()
    reason = _differs_unmerged(parent, name.rpartition(".")[2], base)
    weights = [weight.clone() for weight in base.parameters()] if reason else []
    shown = _input(base, name, where)
    before = layer(shown)
    layer.merge(safe_merge=True)
    if not float((before - layer(shown)).abs().max()) <= _NEAR * float(before.abs().max()):
        raise _unfit(f"'{name}' gives other numbers when it is merged", where)
    if reason and not all(map(torch.equal, weights, base.parameters())):
        raise _unfit(f"an adapter of '{name}' does something else before it is merged: {reason}", where)


def _input(layer: Any, name: str, where: str) -> Any:
    """Something that a layer takes."""
    import torch

    if isinstance(layer, torch.nn.Embedding):
        return torch.arange(min(layer.num_embeddings, 64))
    if isinstance(layer, torch.nn.LayerNorm):
        return torch.randn(8, *layer.normalized_shape)
    if isinstance(layer, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
        return torch.randn(2, layer.in_channels, *(3 * side for side in layer.kernel_size))
    if isinstance(layer, torch.nn.Linear):
        return torch.randn(8, layer.in_features)
    if type(layer).__name__ == "Conv1D":  # the linear layer of GPT-2
        return torch.randn(8, len(layer.weight))
    raise _unfit(f"'{name}' is a {type(layer).__name__}, of which fairgate merges no update", where)


def _require_alone(what: str, layer: Any, shared: set[int], where: str) -> None:
    if any(weight.data_ptr() in shared for weight in layer.parameters()):
        raise _unfit(f"the weight of {what} is another layer's too, which would change with it", where)


def _differs_unmerged(parent: Any, name: str, layer: Any) -> str | None:
    """Why peft's layer around this one gives other numbers in its parent than the merged one; None if both give the
    same."""
    import torch

    kinds = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    kind = next((each for each in kinds if isinstance(layer, each)), None)
    if kind and type(layer).forward is not kind.forward and type(layer).__module__ not in _LINEAR_TOO:
        return f"{type(layer).__name__} is no plain {kind.__name__}"
    if getattr(layer, "padding_mode", "zeros") != "zeros":
        return "it does not pad with zeros"
    taken = re.compile(rf"(?<!isinstance\()\bself\.{re.escape(name)}\.weight\b(?!\.(?:dtype|device|shape)\b)")
    for method, function in inspect.getmembers(type(parent), inspect.isfunction):
        if "forward" in method and taken.search(_source(function)):
            return f"{type(parent).__name__} takes its weight alone, without what peft adds"
    return None


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except OSError:  # installed without
        return ""


def _unfit(fault: str, where: str) -> ModelError:
    return ModelError(f"the adapter is not merged by peft: {fault}.", where=where, remedy=MERGE)
