"""A pipeline's files: found, refused where they cannot be trusted, and hashed before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.generation.roles import ALIASES

SD = ("StableDiffusionPipeline", "StableDiffusionImg2ImgPipeline", "StableDiffusionInpaintPipeline")
XL = ("StableDiffusionXLPipeline", "StableDiffusionXLImg2ImgPipeline", "StableDiffusionXLInpaintPipeline")
EDIT = ("StableDiffusionInstructPix2PixPipeline",)
PIPELINES = (*SD, *XL, *EDIT)

_TOKENIZERS = frozenset({"CLIPTokenizer", "CLIPTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"})
_TEXT_ENCODERS = frozenset({"CLIPTextModel", "CLIPTextModelWithProjection"})
# component -> (library, classes); a scheduler may be any of diffusers
_KNOWN: dict[str, tuple[str, frozenset[str]]] = {
    "unet": ("diffusers", frozenset({"UNet2DConditionModel"})),
    "vae": ("diffusers", frozenset({"AutoencoderKL"})),
    "text_encoder": ("transformers", _TEXT_ENCODERS),
    "text_encoder_2": ("transformers", _TEXT_ENCODERS),
    "tokenizer": ("transformers", _TOKENIZERS),
    "tokenizer_2": ("transformers", _TOKENIZERS),
    "scheduler": ("diffusers", frozenset()),
}
_OPTIONS = ("refiner", "vae", "lora", "lora_scale", "vae_tile")
_SMALLEST_TILE = 16
LORA = "pytorch_lora_weights.safetensors"
WEIGHTS = {"diffusers": "diffusion_pytorch_model.safetensors", "transformers": "model.safetensors"}
"""What a network's weights are called, by library."""


@dataclass(frozen=True, slots=True)
class PipelineAddress:
    """`FOLDER_OR_ID?refiner=FOLDER_OR_ID&vae=FOLDER_OR_ID&lora=FILE&lora_scale=1&vae_tile=512`, taken apart."""

    model: str
    refiner: str | None = None
    vae: str | None = None
    lora: str | None = None
    lora_scale: float = 1.0
    vae_tile: int | None = None
    config: str | None = None
    """A folder with the configs of a `model` that is one file."""

    @classmethod
    def of(cls, address: str, uri: str) -> PipelineAddress:
        """Raises ModelError for an option that there is not."""
        model, options = checkpoints.split_options(uri, address, _OPTIONS)
        refiner, vae = (_plain(options.get(name)) for name in ("refiner", "vae"))
        side = options.get("vae_tile")
        tile = (
            None
            if side is None
            else int(checkpoints.option_number(uri, "vae_tile", side, _SMALLEST_TILE, checkpoints.MAX_SIDE))
        )
        return cls(model, refiner, vae, options.get("lora"), lora_scale(uri, options), tile)


def lora_scale(uri: str, options: Mapping[str, str]) -> float:
    """`lora_scale` of a URI's options, 1 where it is not there. Raises ModelError."""
    scale = checkpoints.option_number(uri, "lora_scale", options.get("lora_scale", "1"), -1000, 1000, whole=False)
    if scale == 0 or ("lora_scale" in options and "lora" not in options):
        raise ModelError(
            f"lora_scale is {scale:g}, or there is no lora that it scales.",
            where=uri,
            remedy="write ?lora=FILE&lora_scale=0.8, a number other than 0; or leave it out, for 1",
        )
    return scale


def _plain(named: str | None) -> str | None:
    """An address without `hf:`, for a model that may be named by a short name."""
    return None if named is None else ALIASES.get(named, named).removeprefix("hf:")


@dataclass(frozen=True, slots=True)
class PipelineFiles:
    """A pipeline that is found at an address and hashed: its class, the class of each component, and its own settings.

    `channels` are the UNet's: 4 for text to image, 8 for edits by instruction, 9 for inpainting models.
    """

    address: PipelineAddress
    folder: Path
    pipeline: str
    components: Mapping[str, str]
    settings: Mapping[str, Any]
    channels: int
    vae: Path
    files: checkpoints.HashedFiles
    checked: bool = False
    """Whether the pipeline has a safety checker, which is not run."""
    refiner: PipelineFiles | None = None

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over the files, the refiner's too, and over the options that change numbers: a LoRA's scale, the
        VAE's tiles."""
        address = self.address
        scale = {} if address.lora is None else {"lora_scale": repr(address.lora_scale)}
        tile = {} if address.vae_tile is None else {"vae_tile": str(address.vae_tile)}
        own = self.files.fingerprint(**scale, **tile)
        return own if self.refiner is None else digest({"base": own, "refiner": self.refiner.fingerprint})

    @property
    def is_xl(self) -> bool:
        return self.pipeline in XL

    @property
    def is_refiner(self) -> bool:
        """Whether the UNet takes an aesthetic score, and was trained on the last part of the schedule alone."""
        return bool(self.settings.get("requires_aesthetics_score", False))

    def is_in_file(self, component: str) -> bool:
        """Whether a component is a network of a pipeline in one file, whose configs alone are in the folder."""
        network = not component.startswith("tokenizer") and component != "scheduler"
        return "single" in self.files.paths and network and not (component == "vae" and self.address.vae)

    @property
    def kind(self) -> str:
        """For messages."""
        return "SDXL's refiner" if self.is_refiner else f"a {self.pipeline} with {self.channels} UNet channels"

    def folder_of(self, component: str) -> Path:
        """Where a component's files are; the VAE may be another pipeline's."""
        return self.vae if component == "vae" else self.folder / component

    def closed(self, component: str) -> AbstractContextManager[Path]:
        """A folder that shows a component's hashed files and no others, a variant's weights under the usual name: where
        weights lie side by side, whole, in shards and as variants, libraries differ in which of them they load."""
        names = {role: path.name for role, path in self.files.paths.items() if role.startswith(f"{component}/")}
        if (weights := f"{component}/weights") in names:
            names[weights] = WEIGHTS[_KNOWN[component][0]]
        return self.files.closed(names)


def find_pipeline(
    address: PipelineAddress, base: Path, folder_of: Callable[[str, Path], Path] = checkpoints.model_folder
) -> PipelineFiles:
    """Find and hash a pipeline, its refiner, and the VAE that may replace its own, by the rules of `folder_of`. Raises
    ModelError."""
    folder = folder_of(address.config or address.model, base)
    pipeline, components, settings = _read_index(folder)
    checked = any(checkpoints.read_config(folder / "model_index.json").get("safety_checker") or ())
    paths: dict[str, Path] = {"model_index.json": folder / "model_index.json"}
    for name in components:
        if name == "vae" and address.vae:
            continue
        files = _component_files(folder / name, name, weights=address.config is None)
        paths |= {f"{name}/{role}": path for role, path in files.items()}
    vae = folder / "vae"
    if address.vae:
        vae = folder_of(address.vae, base)
        if (vae / "model_index.json").is_file():  # another pipeline's; else a folder with nothing but a VAE
            vae /= "vae"
        paths |= {f"vae/{role}": path for role, path in _component_files(vae, "vae").items()}
    channels = checkpoints.read_config(folder / "unet" / "config.json").get("in_channels", 4)
    if address.config is not None:
        paths["single"] = _safetensors(checkpoints.resolve(address.model, base), "the checkpoint")
    if address.lora is not None:
        paths["lora"] = lora_file(address.lora, base)
    second = find_pipeline(PipelineAddress(address.refiner), base, folder_of) if address.refiner else None
    hashed = checkpoints.HashedFiles.of(paths)
    found = PipelineFiles(address, folder, pipeline, components, settings, channels, vae, hashed, checked, second)
    if second and not (
        second.is_refiner and second.is_xl and second.channels == 4 and found.is_xl and not found.is_refiner
    ):
        raise ModelError(
            f"{second.folder} ({second.pipeline}) cannot refine what {folder} ({pipeline}) makes.",
            where=address.model,
            remedy="the base is to be an SDXL model, and the refiner SDXL's (requires_aesthetics_score in its "
            "model_index.json): hf:BASE?refiner=stabilityai/stable-diffusion-xl-refiner-1.0",
        )
    return found


def lora_file(named: str, base: Path) -> Path:
    """The file of a LoRA, or the one that diffusers writes into a folder or the hub has. Raises ModelError."""
    path = checkpoints.judged_folder(named, base) if checkpoints.is_hub_id(named) else checkpoints.resolve(named, base)
    if path.is_dir():
        if not checkpoints.is_hub_id(named):  # of those, `judged_folder` has looked at the links
            checkpoints.require_folder(path)
        path /= LORA
    return _safetensors(path, "the LoRA")


def _safetensors(path: Path, what: str) -> Path:
    checkpoints.require_weights(path)
    if path.suffix != ".safetensors":
        raise ModelError(
            f"'{path.name}' is no safetensors file.", where=str(path), remedy=f"save {what} as safetensors"
        )
    return path


def _read_index(folder: Path) -> tuple[str, dict[str, str], dict[str, Any]]:
    path = folder / "model_index.json"
    if not path.is_file():
        raise ModelError(
            "the folder holds no model_index.json.",
            where=str(folder),
            remedy=checkpoints.right_uri(folder, "diffusion")
            or checkpoints.converted(folder, "diffusion")
            or "name a pipeline that diffusers saved (pipeline.save_pretrained(FOLDER)), not one of its parts",
        )
    index = checkpoints.read_config(path)
    pipeline = index.pop("_class_name", None)
    if not isinstance(pipeline, str):
        raise own_code("the pipeline's class", pipeline, path)
    if pipeline not in PIPELINES:
        raise ModelError(
            f"the pipeline is a {pipeline[:80]}, which the hf: adapter does not run.",
            where=str(path),
            remedy=checkpoints.right_uri(folder, "diffusion")
            or did_you_mean(pipeline, PIPELINES)
            or f"classes it runs: {', '.join(PIPELINES)}",
        )
    parts = {name: value for name, value in index.items() if isinstance(value, list)}
    settings = {name: value for name, value in index.items() if not isinstance(value, list) and name[0] != "_"}
    components = {name: _component_class(name, parts[name], path) for name in _KNOWN if any(parts.get(name) or ())}
    encoder, tokenizer = ("text_encoder_2", "tokenizer_2") if pipeline in XL else ("text_encoder", "tokenizer")
    absent = [name for name in ("unet", "vae", "scheduler", encoder, tokenizer) if name not in components]
    if absent or ("text_encoder" in components) != ("tokenizer" in components):
        raise ModelError(
            f"the pipeline lacks {', '.join(absent) or 'a text encoder or its tokenizer'}.",
            where=str(path),
            remedy="save the whole pipeline again with save_pretrained",
        )
    return pipeline, components, settings


def _component_class(component: str, entry: Any, path: Path) -> str:
    """The class of a component, by its entry in model_index.json. Raises ModelError for one that is not known."""
    library, classes = _KNOWN[component]
    if len(entry) != 2 or entry[0] != library or not isinstance(entry[1], str):
        raise own_code(f"component '{component}'", entry, path)
    if entry[1] not in classes and not (component == "scheduler" and entry[1].endswith("Scheduler") and not classes):
        raise ModelError(
            f"component '{component}' is a {entry[1][:80]}, which the hf: adapter does not run.",
            where=str(path),
            remedy=f"classes it runs: {', '.join(sorted(classes)) or 'schedulers of diffusers'}",
        )
    return entry[1]


def own_code(what: str, named: Any, path: Path) -> ModelError:
    """The error for a class that is none of a library's."""
    return ModelError(
        f"{what} is code of the model's own ({str(named)[:80]}), which fairgate does not run.",
        where=str(path),
        remedy="use a checkpoint whose classes diffusers and transformers know, or judge pictures that it painted as a "
        "dataset",
    )


def _component_files(folder: Path, component: str, *, weights: bool = True) -> dict[str, Path]:
    """One component's files by role. Raises ModelError for a missing, pickled, truncated or untrusted one."""
    if component.startswith("tokenizer"):
        paths = {path.name: path for path in sorted(folder.glob("*")) if path.name in checkpoints.TOKENIZER_FILES}
        checkpoints.require_companion(folder, paths, checkpoints.VOCABULARIES)
        for name in sorted({"tokenizer_config.json", "special_tokens_map.json"} & set(paths)):
            checkpoints.read_config(paths[name])
        return paths
    if component == "scheduler":
        checkpoints.read_config(folder / "scheduler_config.json")
        return {"scheduler_config.json": folder / "scheduler_config.json"}
    config = checkpoints.read_config(folder / "config.json")
    checkpoints.refuse_other_weights(folder, config)
    if component == "vae":
        _require_factor(config, folder / "config.json")
    paths = stored_weights(folder, _KNOWN[component][0]) if weights else {}
    return {"config.json": folder / "config.json", **paths}


def _require_factor(config: Mapping[str, Any], path: Path) -> None:
    factor = config.get("scaling_factor", 1.0)
    if not isinstance(factor, int | float) or not 0 < factor < math.inf:
        raise ModelError(
            f"the VAE's scaling_factor is {str(factor)[:40]}, which is no positive number: no picture would be left.",
            where=str(path),
            remedy="set it to what the VAE was trained with (0.18215 for Stable Diffusion 1 and 2, 0.13025 for SDXL)",
        )


def stored_weights(folder: Path, library: str) -> dict[str, Path]:
    """A network's weights by role: in shards, or else whole, or else the only variant (`model.fp16.safetensors`).
    Raises ModelError for none, and for pickled, truncated or untrusted ones."""
    whole = folder / WEIGHTS[library]
    index = whole.with_name(f"{whole.name}.index.json")
    variants = [path for path in sorted(folder.glob(f"{whole.stem}.*.safetensors")) if "-of-" not in path.name]
    if index.is_file():
        weights = {f"weights/{number}": shard for number, shard in enumerate(checkpoints.shards_of(index))}
    elif whole.is_file() or len(variants) == 1:
        weights = {"weights": whole if whole.is_file() else variants[0]}
    else:
        pickled = sorted(path.name for path in (*folder.glob("*.bin"), *folder.glob("*.ckpt"), *folder.glob("*.pt")))
        there = f", only pickled weights ({', '.join(pickled)}), which are refused" if pickled else ""
        raise ModelError(
            f"the folder holds no {whole.name}{there}.",
            where=str(folder),
            remedy=f"leave one of {', '.join(path.name for path in variants)} there"
            if variants
            else "save the pipeline where you trust it with save_pretrained, which writes safetensors",
        )
    for path in weights.values():
        checkpoints.require_weights(path)
    return weights | ({"index": index} if index.is_file() else {})
