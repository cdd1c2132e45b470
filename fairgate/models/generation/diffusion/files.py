"""A pipeline's files: found, refused where they cannot be trusted, and hashed before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.generation.roles import ALIASES
from fairgate.models.input_digests import read_by_library, tokenizer_digest

SD = ("StableDiffusionPipeline", "StableDiffusionImg2ImgPipeline", "StableDiffusionInpaintPipeline")
XL = ("StableDiffusionXLPipeline", "StableDiffusionXLImg2ImgPipeline", "StableDiffusionXLInpaintPipeline")
EDIT = ("StableDiffusionInstructPix2PixPipeline",)
PIPELINES = (*SD, *XL, *EDIT)
Closed = Callable[[Any, str, Collection[str]], None]

_TOKENIZERS = frozenset({"CLIPTokenizer", "CLIPTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"})
# part -> (library, classes); a scheduler may be any of diffusers
_KNOWN: dict[str, tuple[str, frozenset[str]]] = {
    "unet": ("diffusers", frozenset({"UNet2DConditionModel"})),
    "vae": ("diffusers", frozenset({"AutoencoderKL"})),
    "text_encoder": ("transformers", frozenset({"CLIPTextModel", "CLIPTextModelWithProjection"})),
    "text_encoder_2": ("transformers", frozenset({"CLIPTextModelWithProjection"})),
    "tokenizer": ("transformers", _TOKENIZERS),
    "tokenizer_2": ("transformers", _TOKENIZERS),
    "scheduler": ("diffusers", frozenset()),
}
_NETWORKS = ("unet", "vae", "text_encoder", "text_encoder_2")
_READ = frozenset({".json", ".txt", ".model", ".jinja"})
_STORED = frozenset({".safetensors", ".bin", ".pt", ".ckpt"})
_OPTIONS = ("refiner", "vae", "lora", "lora_scale", "vae_tile")
_SMALLEST_TILE = 16
INDEX = "model_index.json"
LORA = "pytorch_lora_weights.safetensors"
_WEIGHTS = {"diffusers": "diffusion_pytorch_model.safetensors", "transformers": "model.safetensors"}
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
    """A pipeline that is found at an address and hashed: its model_index.json, and the library and class of each part.

    The roles of `files` are paths in the folder from which diffusers could load it, whatever the files are called and
    wherever they lie; besides, "lora", and "single" for the file with all networks.
    """

    address: PipelineAddress
    folder: Path
    index: Mapping[str, Any]
    components: Mapping[str, tuple[str, str]]
    files: checkpoints.HashedFiles
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
    def pipeline(self) -> str:
        """Its class."""
        return str(self.index["_class_name"])

    @property
    def is_xl(self) -> bool:
        return self.pipeline in XL

    @property
    def is_refiner(self) -> bool:
        """Whether the UNet takes an aesthetic score, and was trained on the last part of the schedule alone."""
        return bool(self.index.get("requires_aesthetics_score", False))

    @property
    def channels(self) -> Any:
        """Of the UNet: 4 for text to image, 8 for edits by instruction, 9 for inpainting models."""
        return self.config("unet/config.json").get("in_channels", 4)

    @property
    def kind(self) -> str:
        """For messages."""
        return "SDXL's refiner" if self.is_refiner else f"a {self.pipeline} with {self.channels} UNet channels"

    @property
    def tokenizer(self) -> str:
        """Digest of how its tokenizers cut text."""
        parts = {name: self.of_part(name) for name in self.components if name.startswith("tokenizer")}
        files = {name: [self.files.paths[role] for role in roles] for name, roles in parts.items()}
        return digest({name: tokenizer_digest(paths, **read_by_library(paths)) for name, paths in files.items()})

    def config(self, role: str) -> dict[str, Any]:
        """One of its configs. Raises ModelError if it is missing or cannot be trusted."""
        return checkpoints.read_config(self.files.paths.get(role, self.folder / role))

    def of_part(self, name: str) -> dict[str, str]:
        """Digests of a part's files."""
        return {role: sha256 for role, sha256 in self.files.hashes.items() if role.startswith(f"{name}/")}

    def folder_of(self, name: str) -> Path:
        """Where a part's files are; the VAE may be another pipeline's."""
        return self.files.paths[next(iter(self.of_part(name)))].parent

    def is_in_file(self, part: str) -> bool:
        """Whether a part is a network of a pipeline in one file, whose configs alone are in the folder."""
        return "single" in self.files.paths and part in _NETWORKS and not (part == "vae" and self.address.vae)

    def closed(self) -> AbstractContextManager[Path]:
        """A folder that shows the hashed files and no others, a variant's weights under the usual name: where weights
        lie side by side, whole, in shards and as variants, libraries differ in which of them they load."""
        return self.files.closed({role: role for role in self.files.paths if role not in ("single", "lora")})


def find_pipeline(
    address: PipelineAddress,
    base: Path,
    folder_of: Callable[[str, Path], Path] = checkpoints.model_folder,
    *,
    plain: bool = False,
) -> PipelineFiles:
    """Find and hash a pipeline, its refiner, and the VAE that may replace its own, by the rules of `folder_of`; a
    `plain` one of any class, for the isolated process. Raises ModelError."""
    folder = folder_of(address.config or address.model, base)
    closed = checkpoints.require_no_code if plain else checkpoints.require_closed
    index = _read_index(folder, closed)
    components = _any_parts(index, folder / INDEX) if plain else _known_parts(index, folder)
    places = {name: folder / name for name in components}
    if address.vae:
        places["vae"] = folder_of(address.vae, base)
        if (places["vae"] / INDEX).is_file():  # another pipeline's; else a folder with nothing but a VAE
            places["vae"] /= "vae"
    paths = {INDEX: folder / INDEX}
    for name, place in places.items():
        stored = address.config is None or place != folder / name
        files = _part_files(place, name, components[name][0], closed, stored)
        paths |= {f"{name}/{file}": path for file, path in files.items()}
        if not plain and name.startswith("tokenizer"):
            checkpoints.require_companion(place, files, checkpoints.VOCABULARIES)
    if address.config is not None:
        paths["single"] = _safetensors(checkpoints.resolve(address.model, base), "the checkpoint")
    if address.lora is not None:
        paths["lora"] = _lora_file(address.lora, base)
    second = find_pipeline(PipelineAddress(address.refiner), base, folder_of) if address.refiner else None
    found = PipelineFiles(address, folder, index, components, checkpoints.HashedFiles.of(paths), second)
    if second and not (
        second.is_refiner and second.is_xl and second.channels == 4 and found.is_xl and not found.is_refiner
    ):
        raise ModelError(
            f"{second.folder} ({second.pipeline}) cannot refine what {folder} ({found.pipeline}) makes.",
            where=address.model,
            remedy="the base is to be an SDXL model, and the refiner SDXL's (requires_aesthetics_score in its "
            "model_index.json): hf:BASE?refiner=stabilityai/stable-diffusion-xl-refiner-1.0",
        )
    return found


def is_plain(folder: Path) -> bool:
    """Whether a folder holds a pipeline of a class that fairgate does not run itself."""
    name = (checkpoints.read_small_config(folder / INDEX) or {}).get("_class_name")
    return isinstance(name, str) and name.isidentifier() and name not in PIPELINES


def _lora_file(named: str, base: Path) -> Path:
    """The file of a LoRA, or the one that diffusers writes into a folder or the hub has. Raises ModelError."""
    path = checkpoints.resolve(named, base)
    if path.is_dir() or checkpoints.is_hub_id(named):
        path = checkpoints.judged_folder(named, base) / LORA
    return _safetensors(path, "the LoRA")


def _safetensors(path: Path, what: str) -> Path:
    checkpoints.require_weights(path)
    if path.suffix != ".safetensors":
        raise ModelError(
            f"'{path.name}' is no safetensors file.", where=str(path), remedy=f"save {what} as safetensors"
        )
    return path


def _read_index(folder: Path, closed: Closed) -> dict[str, Any]:
    if not (folder / INDEX).is_file():
        raise ModelError(
            "the folder holds no model_index.json.",
            where=str(folder),
            remedy=checkpoints.right_uri(folder, "diffusion")
            or checkpoints.converted(folder, "diffusion")
            or "name a pipeline that diffusers saved (pipeline.save_pretrained(FOLDER)), not one of its parts",
        )
    return checkpoints.read_config(folder / INDEX, closed=closed)


def _any_parts(index: Mapping[str, Any], path: Path) -> dict[str, tuple[str, str]]:
    """Library and class of each part. Raises ModelError for a part that is code of the model's own."""
    parts = {name: entry for name, entry in index.items() if isinstance(entry, list) and any(entry)}
    for name, entry in parts.items():
        named = len(entry) == 2 and isinstance(entry[1], str) and entry[1].isidentifier() and name.isidentifier()
        if not named or entry[0] not in tuple(_WEIGHTS):
            raise _own_code(f"part '{name[:80]}'", entry, path)
    return {name: (entry[0], entry[1]) for name, entry in parts.items()}


def _known_parts(index: Mapping[str, Any], folder: Path) -> dict[str, tuple[str, str]]:
    """The same, of a Stable Diffusion, without what is not run. Raises ModelError for another pipeline, for parts of
    classes that are not known, and for parts that are missing."""
    pipeline, path = index.get("_class_name"), folder / INDEX
    if not isinstance(pipeline, str):
        raise _own_code("the pipeline's class", pipeline, path)
    if pipeline not in PIPELINES:
        raise ModelError(
            f"the pipeline is a {pipeline[:80]}, which the hf: adapter does not run.",
            where=str(path),
            remedy=checkpoints.right_uri(folder, "diffusion")
            or did_you_mean(pipeline, PIPELINES)
            or f"classes it runs: {', '.join(PIPELINES)}",
        )
    parts = _any_parts({name: index[name] for name in _KNOWN if name in index}, path)
    for name, (library, part) in parts.items():
        known = _KNOWN[name][1]
        if library != _KNOWN[name][0] or (part not in known if known else not part.endswith("Scheduler")):
            raise ModelError(
                f"part '{name}' is a {part[:80]} of {library}, which the hf: adapter does not run.",
                where=str(path),
                remedy=f"classes it runs: {', '.join(sorted(known)) or 'schedulers of diffusers'}",
            )
    encoder, tokenizer = ("text_encoder_2", "tokenizer_2") if pipeline in XL else ("text_encoder", "tokenizer")
    absent = [name for name in ("unet", "vae", "scheduler", encoder, tokenizer) if name not in parts]
    if absent or ("text_encoder" in parts) != ("tokenizer" in parts):
        raise ModelError(
            f"the pipeline lacks {', '.join(absent) or 'a text encoder or its tokenizer'}.",
            where=str(path),
            remedy="save the whole pipeline again with save_pretrained",
        )
    return parts


def _own_code(what: str, named: Any, path: Path) -> ModelError:
    """The error for a class that is none of a library's."""
    return ModelError(
        f"{what} is code of the model's own ({str(named)[:80]}), which fairgate does not run.",
        where=str(path),
        remedy="use a checkpoint whose classes diffusers and transformers know, or judge pictures that it painted as a "
        "dataset",
    )


def _part_files(folder: Path, name: str, library: str, closed: Closed, stored: bool) -> dict[str, Path]:
    """A part's configs, tokenizer's files and, if they are `stored` there, weights, by the names under which its
    library reads them. Raises ModelError for missing, pickled, truncated or untrusted ones."""
    if not folder.is_dir():
        raise ModelError("a part's folder is missing.", where=str(folder), remedy="save the whole pipeline again")
    there = [path for path in sorted(folder.iterdir()) if path.is_file()]
    configs = {path.name for path in there if path.name.endswith(("config.json", "special_tokens_map.json"))}
    for file in sorted(configs | ({"config.json"} if name in _NETWORKS else set())):
        config = checkpoints.read_config(folder / file, closed=closed)
        if file == "config.json":
            checkpoints.refuse_other_weights(folder, config)
    found = {path.name: path for path in there if path.suffix in _READ and not path.name.endswith(".index.json")}
    if stored and (name in _NETWORKS or any(path.suffix in _STORED for path in there)):
        found |= _stored_weights(folder, library)
    return found


def _stored_weights(folder: Path, library: str) -> dict[str, Path]:
    """A network's weights by name: in shards, or else whole, or else the only variant (`model.fp16.safetensors`) under
    the name of the whole. Raises ModelError for none, and for pickled, truncated or untrusted ones."""
    whole = folder / _WEIGHTS[library]
    index = whole.with_name(f"{whole.name}.index.json")
    variants = [path for path in sorted(folder.glob(f"{whole.stem}.*.safetensors")) if "-of-" not in path.name]
    if index.is_file():
        weights = {shard.name: shard for shard in checkpoints.shards_of(index)}
    elif whole.is_file() or len(variants) == 1:
        weights = {whole.name: whole if whole.is_file() else variants[0]}
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
    return weights | ({index.name: index} if index.is_file() else {})
