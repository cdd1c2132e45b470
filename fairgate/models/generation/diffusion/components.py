"""Parts of a pipeline from its hashed files: networks and tokenizers, whole and finite or an error; their place, on the
device for good or while they compute; and a LoRA, merged into the UNet and text encoders.

A LoRA is a file as diffusers or kohya's scripts save it. Names and layouts are read by diffusers' own conversions; the
sums are `merge_low_rank`'s. What is not applied is an error: a LoRA that has no effect would be judged as its base. So
is what diffusers applies otherwise than it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import accelerate
import diffusers
import torch
import transformers
from accelerate.hooks import ModelHook, add_hook_to_module
from diffusers.utils import convert_state_dict_to_diffusers, convert_state_dict_to_peft, convert_unet_state_dict_to_peft
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    LoraConfig,
    LowRank,
    Targets,
    is_adaptable,
    merge_low_rank,
    naming_folder,
    read_lora_config,
    require_finite,
    require_loaded,
    require_stored,
)
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.generation.diffusion.schedule import quiet
from fairgate.models.generation.diffusion.single_file import load_part
from fairgate.models.generation.offload import Offload


def load_component(
    model_class: Any, found: PipelineFiles, name: str, variant: str | None = None, **options: Any
) -> Any:
    """A component from its hashed files. Raises ModelError: tensors missing, misshapen, made up or NaN."""
    if found.is_in_file(name):
        return load_part(found, name, **options)
    folder = found.folder_of(name)
    with quiet(), found.closed(name) as shown, naming_folder(folder, shown), torch.random.fork_rng(devices=[]):
        require_stored(_described(model_class, shown), shown.glob("*.safetensors"), str(folder))
        model, report = model_class.from_pretrained(
            shown,
            variant=variant,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    require_loaded(report, str(folder), model_class.__name__)
    require_finite(model.state_dict(), str(folder))
    return model.requires_grad_(False).eval()


def load_tokenizer(class_name: str, found: PipelineFiles, name: str) -> Any:
    """A tokenizer of transformers. Raises ModelError."""
    with quiet(), found.closed(name) as shown, naming_folder(found.folder / name, shown):
        return getattr(transformers, class_name).from_pretrained(shown, local_files_only=True, trust_remote_code=False)


def _described(model_class: Any, folder: Path) -> Any:
    """The model of a folder's config, without weights."""
    with torch.device("meta"):
        if issubclass(model_class, diffusers.ModelMixin):
            return model_class.from_config(model_class.load_config(folder, local_files_only=True))
        return model_class(model_class.config_class.from_pretrained(folder, local_files_only=True))


class Placement:
    """Of one pipeline and its refiner: with `model`, their parts take turns on one device."""

    def __init__(self, device: torch.device, how: Offload) -> None:
        self.device, self.how = device, how
        self.there: Any = None
        """The part that is on the device, where they take turns."""

    def place(self, part: Any) -> Any:
        """The part, where it is to lie. Call it once for each, when its weights are final."""
        if self.how == "none":
            return part.to(self.device)
        if self.how == "sequential":  # as diffusers' enable_sequential_cpu_offload
            return accelerate.cpu_offload(part, self.device, offload_buffers=bool(part._parameters))
        return add_hook_to_module(part.to("cpu"), _Turn(self))

    def bring(self, part: Any) -> None:
        """Put a part on the device, and the one that was there back into the machine's memory."""
        if part is not self.there:
            if self.there is not None:
                self.there.to("cpu")
            self.there = part.to(self.device)


class _Turn(ModelHook):  # type: ignore[misc] # accelerate has no types
    """Runs before a part computes; diffusers calls it before `encode` and `decode` of a VAE, too."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def pre_forward(self, module: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Bring the part."""
        self._placement.bring(module)
        return args, kwargs


_PARTS = ("unet", "text_encoder", "text_encoder_2")
_NAME = re.compile(r"(?P<layer>.+)\.lora_(?P<side>[AB])\.weight")
_HEADER = "lora_adapter_metadata"
"""Where diffusers notes the settings of peft in a file."""
State = Mapping[str, torch.Tensor]


def merge_lora(found: PipelineFiles, parts: Mapping[str, Any]) -> None:
    """Merge a pipeline's LoRA into its parts, by name. Raises ModelError for tensors that are not applied, for layers
    that there are not, and for settings that change how they are applied."""
    path = found.files.paths.get("lora")
    if path is None:
        return
    where, scale = str(path), found.address.lora_scale
    header, converted, alphas = _read(path, found, parts["unet"].config)
    configs = _configs(header, where)
    if configs is not None and alphas:
        raise _unfit("it has alphas, and a header that says them too", where)
    if odd := [name for name in converted if name.partition(".")[0] not in _PARTS]:
        raise _unfit(f"it has the tensor '{odd[0][:80]}', which is no update of a known layer", where)
    for part in _PARTS:
        own = {name.removeprefix(f"{part}."): one for name, one in converted.items() if name.startswith(f"{part}.")}
        if own and part not in parts:
            raise _unfit(f"it is for the part '{part}', which the pipeline does not have", where)
        if own:
            layers = _layers(parts[part], part, own, where)
            said = [alpha for name, alpha in alphas.items() if name.startswith(f"{part}.")]
            scales = _scales(part, parts[part], layers, said, configs, where)
            updates = {name: LowRank(*both, scales[name] * scale) for name, both in layers.items()}
            merge_low_rank(parts[part], updates, where)


def _read(path: Path, found: PipelineFiles, config: Any) -> tuple[dict[str, str], State, Mapping[str, float]]:
    """Header, tensors and alphas, as diffusers names them."""
    where = str(path)
    try:
        with safe_open(path, framework="pt") as handle:
            header = handle.metadata() or {}
        state = load_file(path)
    except SafetensorError as error:
        raise _unfit(f"it cannot be read ({error})", where) from error
    if odd := [name for name in state if "dora" in name or "magnitude" in name]:
        raise _unfit(f"it has magnitudes (DoRA), such as '{odd[0][:80]}'", where)
    with naming_folder(path):
        pipeline = getattr(diffusers, found.pipeline)
        converted, alphas = pipeline.lora_state_dict(dict(state), unet_config=config)
    given = sum(not name.endswith(".alpha") for name in state)
    if not given or len(converted) != given:
        raise _unfit(f"{len(converted)} of its {given} tensors have names that diffusers knows", where)
    return header, converted, alphas or {}


def _layers(model: Any, part: str, state: State, where: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Both halves of each update, by the name that its layer has in the model: as diffusers converts names."""
    with naming_folder(Path(where)):
        if part != "unet":
            named = convert_state_dict_to_peft(convert_state_dict_to_diffusers(dict(state)))
            if not hasattr(model, "text_model"):  # text encoders lost the prefix in later transformers
                named = {name.removeprefix("text_model."): one for name, one in named.items()}
        else:
            named = dict(state) if "lora_A" in next(iter(state)) else convert_unet_state_dict_to_peft(dict(state))
    if len(named) < len(state):
        raise _unfit(f"several tensors of '{part}' are one half of one update", where)
    sides: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in named.items():
        parsed = _NAME.fullmatch(name)
        if parsed is None:
            raise _unfit(f"it has the tensor '{part}.{name[:80]}', which is no update of a known layer", where)
        sides.setdefault(parsed["layer"], {})[parsed["side"]] = tensor
    if halves := [name for name, both in sides.items() if len(both) < 2]:
        raise _unfit(f"of '{part}.{halves[0]}' it has one half of the update alone", where)
    return {name: (both["A"], both["B"]) for name, both in sides.items()}


def _scales(
    part: str,
    model: torch.nn.Module,
    layers: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
    alphas: list[float],
    configs: Mapping[str, LoraConfig] | None,
    where: str,
) -> dict[str, float]:
    """What the update of each layer is multiplied with: by the header, else by the file's alphas, else 1."""
    ranks = {name: len(down) for name, (down, _) in layers.items()}
    if configs is not None:
        targets = Targets(configs[part], where) if part in configs else ()
        if stray := [name for name in ranks if name not in targets]:
            raise _unfit(f"it has an update of '{part}.{stray[0]}', which its header does not name", where)
        lacking = [name for name, one in model.named_modules() if name not in ranks and is_adaptable(one)]
        if absent := [name for name in lacking if name in targets]:
            raise _unfit(f"its header names '{part}.{absent[0]}', of which it has no update", where)
        return {name: configs[part].scale(name, rank, where) for name, rank in ranks.items()}
    if alphas and (len(set(alphas)) > 1 or len(alphas) < len(ranks)):
        raise _unfit(f"layers of '{part}' have different alphas, or some have none: diffusers mixes them up", where)
    return {name: alphas[0] / rank if alphas else 1.0 for name, rank in ranks.items()}


def _configs(header: Mapping[str, str], where: str) -> dict[str, LoraConfig] | None:
    """Part -> settings of peft, which diffusers writes into a file's header; None for a file without."""
    if _HEADER not in header:
        return None
    try:
        held = json.loads(header[_HEADER])
    except ValueError as error:
        raise _unfit("its header is no JSON", where) from error
    found = {}
    for part in _PARTS if isinstance(held, dict) else ():
        settings = {name.removeprefix(f"{part}."): value for name, value in held.items() if name.startswith(f"{part}.")}
        if settings:
            found[part] = read_lora_config({"peft_type": "LORA", **settings}, where)
            if found[part].bias != "none" or found[part].use_dora or found[part].modules_to_save:
                raise _unfit(f"its header sets bias, use_dora or modules_to_save of {part}, which is not merged", where)
    return found


def _unfit(fault: str, where: str) -> ModelError:
    return ModelError(
        f"the LoRA does not fit the pipeline: {fault}.",
        where=where,
        remedy="save it whole for this pipeline (pipeline.save_lora_weights, or a script of kohya); or fuse it "
        "(pipeline.fuse_lora), save the pipeline, and name that",
    )
