"""What an adapter's config says that its tensors do not: how strongly it counts, and which layers it is for."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.validation_words import fault_words

MERGE = "merge the adapter where it was trained (merge_and_unload), and save the whole model"
NOTES = frozenset(
    {
        *("peft_version", "base_model_name_or_path", "revision", "inference_mode"),
        *("megatron_core", "qalora_group_size"),
    }
)
"""Of training, and of where things were: nothing that a trained adapter's answers depend on."""
_PATTERN = re.compile(r"(?:\(\?(?::|=|!|<=|<!)|\((?!\?)|\\[.dwb]|\{\d{1,2}(?:,\d{0,2})?\}|[\w.*+?|)\[\]^$:=!-])*")
"""Expressions without flags, long repeats and what only one of the modules re and regex knows."""
_UNLIKE = ("[[", "[:", "--", "||", "(?#")
_SECONDS = 5.0
"""For all names together: an expression may be one that takes for ever."""

Name = Annotated[str, Field(min_length=1, max_length=2_000)]
Names = Annotated[list[Name], Field(max_length=10_000)]
Layer = Annotated[int, Field(ge=0, le=10_000)]
Pattern = Annotated[str, Field(pattern=r"^\^?(\\\.|[\w.])+$", max_length=500)]


class LoraConfig(BaseModel):
    """adapter_config.json of a LoRA, without notes; a setting that is not listed here has to be off."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    peft_type: Literal["LORA"]
    task_type: (
        Literal["SEQ_CLS", "SEQ_2_SEQ_LM", "CAUSAL_LM", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION"] | None
    ) = None
    lora_dropout: Annotated[float, Field(ge=0, le=1)] = 0.0
    eva_config: dict[str, Any] | None = None
    """Of training; peft takes no other values."""
    r: Annotated[int, Field(ge=1, le=8_192)] = 8
    lora_alpha: Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)] = 8.0
    use_rslora: bool | None = False
    use_dora: bool | None = False
    fan_in_fan_out: bool | None = False
    """Follows from the kind of layer, of which peft says the same."""
    rank_pattern: Annotated[dict[Pattern, Annotated[int, Field(ge=1, le=8_192)]], Field(max_length=10_000)] | None = (
        None
    )
    alpha_pattern: (
        Annotated[dict[Pattern, Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=10_000)] | None
    ) = None
    bias: Literal["none", "all", "lora_only"] = "none"
    target_modules: Names | Name
    exclude_modules: Names | Name | None = None
    modules_to_save: Names | None = None
    layers_to_transform: Annotated[list[Layer], Field(max_length=10_000)] | Layer | None = None
    layers_pattern: Annotated[list[Pattern], Field(max_length=100)] | Pattern | None = None

    @property
    def kind(self) -> str:
        """For a note."""
        return f"LoRA, rank {self.r}"

    def scale(self, layer: str, rank: int, where: str) -> float:
        """What the product of an update is multiplied with. Raises ModelError for another rank than the config's."""
        said = _by_pattern(self.rank_pattern, layer, self.r)
        if rank != said:
            raise ModelError(
                f"the update of '{layer}' is of rank {rank}, and the config says {said:g}.",
                where=where,
                remedy="save the adapter again: config and weights together",
            )
        return _by_pattern(self.alpha_pattern, layer, self.lora_alpha) / (rank**0.5 if self.use_rslora else rank)

    def is_saved(self, layer: str) -> bool:
        """Whether a layer, or one around it, is saved whole (`modules_to_save`): peft compares the end of its name."""
        parts = layer.split(".")
        around = [".".join(parts[: place + 1]) for place in range(len(parts))]
        return any(path.endswith(name) for path in around for name in self.modules_to_save or ())


def read_lora_config(config: Mapping[str, Any], where: str) -> LoraConfig:
    """The settings that decide. Raises ModelError for another kind of adapter, and for what is not merged, by name."""
    kind = config.get("peft_type")
    if kind != "LORA":
        raise ModelError(
            f"the adapter is of type '{str(kind)[:80]}', which fairgate does not merge.",
            where=where,
            remedy=f"{MERGE}; if it cannot be merged, as prompts, judge a table of its answers: answers:, labels: or "
            "scores:FILE",
        )
    require_library_base(config, where)
    _require_plain_start(config, where)
    known = LoraConfig.model_fields
    kept = {name: value for name, value in config.items() if name in known and value is not None}
    for name, value in config.items():
        if not _is_off(name, value) and name not in {*known, *NOTES, "auto_mapping", "init_lora_weights"}:
            near = did_you_mean(name, known)
            fault = f"the config sets '{name[:80]}', which fairgate does not merge{f' ({near})' if near else ''}."
            raise ModelError(fault, where=where, remedy=MERGE)
    try:
        return LoraConfig.model_validate(kept)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ModelError(
            f"the config is none of a LoRA ({'.'.join(map(str, first['loc']))[:100]}: {fault_words(first)}).",
            where=where,
            remedy="save the adapter again with peft",
        ) from error


def _is_off(name: str, value: Any) -> bool:
    """Whether a setting has the value of one that is not used. peft takes no `false` for a group of settings."""
    return value is None or value == {} or (value is False and not name.endswith(("_config", "use_bdlora")))


def require_library_base(config: Mapping[str, Any], where: str) -> None:
    """Raises ModelError for an adapter of a base whose class no library has."""
    named = config.get("auto_mapping")
    library = named.get("parent_library") if isinstance(named, dict) else named
    if library and not re.match(r"(transformers|timm|open_clip)(\.|$)", str(library)):
        raise ModelError(
            f"the config names a class of its own code ('{str(library)[:80]}' in auto_mapping).",
            where=where,
            remedy="use a base of a library's own class, and remove the key",
        )


def _require_plain_start(config: Mapping[str, Any], where: str) -> None:
    start = config.get("init_lora_weights")
    if start not in (None, True, False, "gaussian", "orthogonal", "eva"):  # those leave the base as it is
        raise ModelError(
            f"the adapter was started by '{str(start)[:80]}', which changes the base's own weights too.",
            where=where,
            remedy="save it as a plain one (path_initial_model_for_weight_conversion), or " + MERGE,
        )


def _by_pattern(patterns: Mapping[str, float] | None, layer: str, otherwise: float) -> float:
    """The first pattern that fits the end of a layer's name decides, as in peft."""
    return next((value for key, value in (patterns or {}).items() if re.match(rf"(.*\.)?({key})$", layer)), otherwise)


class Targets:
    """Which layers a config is for, as peft's `check_target_module_exists` decides. Raises ModelError for an expression
    that cannot be tried safely."""

    def __init__(self, config: LoraConfig, where: str) -> None:
        self.config, self.where = config, where
        self._until = time.monotonic() + _SECONDS

    def __contains__(self, layer: object) -> bool:
        name, config = str(layer), self.config
        if self._named(config.exclude_modules, name) or config.is_saved(name):
            return False
        if not self._named(config.target_modules, name):
            return False
        chosen = config.layers_to_transform
        if isinstance(config.target_modules, str) or chosen is None or chosen == [] or name in config.target_modules:
            return True
        number = self._layer_number(name)
        return number is not None and number in (chosen if isinstance(chosen, list) else [chosen])

    def _layer_number(self, name: str) -> int | None:
        """Of the block that a layer is in: the first number in its name, or the one after one of `layers_pattern`."""
        given = self.config.layers_pattern or r"[^.]*"
        for pattern in given if isinstance(given, list) else [given]:
            before = r"(?:^|.*?\.)" if self.config.layers_pattern else r".*?\."
            if found := re.match(rf"{before}{pattern}\.(\d+)\.", name):
                return int(found[1])
        return None

    def _named(self, which: list[str] | str | None, name: str) -> bool:
        if isinstance(which, str):
            return self._matches(which, name)
        return any(name == one or name.endswith(f".{one}") for one in which or ())

    def _matches(self, pattern: str, name: str) -> bool:
        import regex  # a dependency of transformers; unlike re, it can be given a time

        refused = ModelError(
            f"the config chooses layers by an expression that fairgate does not try ('{pattern[:80]}').",
            where=self.where,
            remedy="list the layers' names in target_modules (exclude_modules)",
        )
        if not _PATTERN.fullmatch(pattern) or any(one in pattern for one in _UNLIKE):
            raise refused
        try:
            left = max(self._until - time.monotonic(), 1e-3)
            return regex.fullmatch(pattern, name, timeout=left) is not None
        except (regex.error, TimeoutError) as error:
            raise refused from error
