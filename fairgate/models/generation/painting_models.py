"""Pipelines of diffusers that are judged by what they paint alone: `flux:FOLDER`, a FLUX that is loaded from checked
parts, and one of any other class (`diffusion:FOLDER`), which the library opens and calls in an isolated process. Local
files, safetensors, and no code from the folder. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import (
    HashedFiles,
    judged_folder,
    option_number,
    read_config,
    read_small_config,
    require_no_code,
    require_weights,
    right_uri,
    split_options,
)
from fairgate.models.contract import Capability, Generating, ImageSource, Request, register
from fairgate.models.family import FolderFamily, JudgedModel
from fairgate.models.generation.diffusion.files import (
    PIPELINES,
    TEXT_TOKENIZERS,
    PipelineAddress,
    PipelineFiles,
    component_class,
    component_files,
)
from fairgate.models.generation.diffusion_classifier.sampling import tokenizers_digest
from fairgate.models.input_digests import preprocessing_digest, read_by_library, tokenizer_digest
from fairgate.models.isolated import IsolatedPainter
from fairgate.models.made_pictures import GeneratedPictures, PictureMaker

if TYPE_CHECKING:
    from fairgate.models.generation.plain_painting import FluxPainter

PLAIN_CODE = 1  # raise it when this adapter, or what it calls, gives other pictures for the same files
MAX_SIDE = 2048  # pixels: attention grows with the fourth power of it
_INDEX = "model_index.json"
_FLUX = "FluxPipeline"
_LIBRARIES = ("diffusers", "transformers")
_READ = frozenset({".json", ".txt", ".model", ".jinja"})
Painting = TypeVar("Painting", bound=PictureMaker)
_WEIGHTS = ("model.safetensors", "diffusion_pytorch_model.safetensors")


@dataclass(frozen=True, slots=True)
class PlainPipeline:
    """A pipeline's hashed files by their path in its folder; `components`: library and class of each part; `absent`:
    parts that it was saved without."""

    path: Path
    pipeline: str
    components: Mapping[str, tuple[str, str]]
    absent: tuple[str, ...]
    files: HashedFiles


def is_plain_pipeline(folder: Path) -> bool:
    """Whether a folder holds a pipeline of a class that fairgate does not run itself."""
    name = (read_small_config(folder / _INDEX) or {}).get("_class_name")
    return isinstance(name, str) and name.isidentifier() and name not in (*PIPELINES, _FLUX)


def open_plain_pipeline(folder: Path, options: Mapping[str, str], request: Request) -> PlainPaintingModel:
    """The pipeline, hashed. Raises ModelError, also for an option that only a Stable Diffusion has."""
    if odd := sorted(set(options) - {"size"}):
        raise ModelError(
            f"the option '{odd[0]}' is for a Stable Diffusion, and the folder holds another pipeline.",
            where=request.uri,
            remedy="leave it out; ?size= is the side of a picture",
        )
    side = int(option_number(request.uri, "size", options["size"], 8, MAX_SIDE)) if "size" in options else None
    return PlainPaintingModel(find_plain_pipeline(folder), side, request)


def find_plain_pipeline(folder: Path) -> PlainPipeline:
    """Hash what diffusers may read of a folder. Raises ModelError for a part that is code of the model's own, or whose
    weights are no safetensors."""
    index = read_config(folder / _INDEX, closed=require_no_code)
    where, name = str(folder / _INDEX), index.get("_class_name")
    parts = {part: entry for part, entry in index.items() if isinstance(entry, list) and any(entry)}
    for what, entry in [("pipeline", ["diffusers", name]), *parts.items()]:
        named = (
            what.isidentifier()
            and len(entry) == 2
            and entry[0] in _LIBRARIES
            and isinstance(entry[1], str)
            and entry[1].isidentifier()
        )
        if not named:
            raise ModelError(
                f"{what[:80]} is code of the model's own ({str(entry)[:80]}), which fairgate does not run.",
                where=where,
                remedy="use a checkpoint whose classes diffusers and transformers know, or judge pictures that it "
                "painted as a dataset",
            )
    paths = {_INDEX: folder / _INDEX}
    for part in parts:
        paths |= {f"{part}/{path.name}": path for path in _files_of(folder / part)}
    components = {part: (str(entry[0]), str(entry[1])) for part, entry in parts.items()}
    absent = tuple(part for part, entry in index.items() if isinstance(entry, list) and not any(entry))
    return PlainPipeline(folder, str(name), components, absent, HashedFiles.of(paths))


def _files_of(folder: Path) -> list[Path]:
    """Of one part: configs, tokenizer's files, and the weights that a library takes unless it is told a variant."""
    if not folder.is_dir():
        raise ModelError("a part's folder is missing.", where=str(folder), remedy="save the whole pipeline again")
    there = [path for path in sorted(folder.iterdir()) if path.is_file()]
    for path in there:
        if path.name.endswith("config.json"):
            read_config(path, closed=require_no_code)
    whole = [path for path in there if path.name in _WEIGHTS]
    shards = [path for path in there if path.suffix == ".safetensors" and "-of-" in path.name]
    if any(path.suffix in (".bin", ".pt", ".ckpt") for path in there) and not (whole or shards):
        raise ModelError(
            "the part's weights are pickled, and no code of a model is run.",
            where=str(folder),
            remedy="save the pipeline again: pipeline.save_pretrained(FOLDER) writes safetensors",
        )
    for path in (*whole, *shards):
        require_weights(path)
    return [*(path for path in there if path.suffix in _READ), *(whole or shards)]


class PaintingModel(JudgedModel[Painting]):
    """A judged pipeline, loaded when a picture is not in the cache. `side`: pixels of a side; None: its own."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"generate"})

    def __init__(self, adapter: str, code: int, files: str, side: int | None, request: Request) -> None:
        super().__init__(request)
        self.side = side
        self.fingerprint = digest({"files": files, "size": side})
        self.preparation = f"{adapter}/{code}"
        self.preprocessing = preprocessing_digest(adapter=adapter, pixels=side)

    @property
    def source(self) -> ImageSource:
        """The rows whose prompts it paints."""
        return self._request.source

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        """A picture of every row's prompt, as diffusers' pipeline makes it, made as it is read, cached.

        `how.guidance` of a FLUX is what FLUX.1-dev was distilled with; a FLUX.1-schnell takes none. Raises ModelError
        unless every row has a prompt, and when read for a picture that is not finite or, of a FLUX, a prompt that is
        too long.
        """
        request, key = self._request, digest(self._ways("diffusers"))
        return GeneratedPictures(request.source, prompts, how, key, self._engine, request.cache, request.progress)


class PlainPaintingModel(PaintingModel[IsolatedPainter]):
    """A pipeline of any class."""

    def __init__(self, found: PlainPipeline, side: int | None, request: Request) -> None:
        super().__init__("plain", PLAIN_CODE, found.files.fingerprint(), side, request)
        self._found = found
        tokenizers = {
            part: [path for role, path in found.files.paths.items() if role.startswith(f"{part}/")]
            for part in found.components
            if part.startswith("tokenizer")
        }
        read = {part: tokenizer_digest(files, **read_by_library(files)) for part, files in tokenizers.items()}
        self.tokenizer = digest(read)
        self.note = f"painted by diffusers' own {found.pipeline[:80]}, in a process of its own"

    def _load(self) -> IsolatedPainter:
        found = self._found
        task: dict[str, Any] = {"path": str(found.path), "pipeline": found.pipeline, "side": self.side}
        task |= {"components": dict(found.components), "absent": list(found.absent)}
        return IsolatedPainter(task, found.files, self._device)


FLUX_CODE = 1  # raise it when this adapter, or what it calls, gives other pictures for the same files
LATENT_SIDE = 128
"""Latents of a side of a picture by default: 1,024 pixels, as FluxPipeline's."""
_KNOWN: Mapping[str, tuple[str, frozenset[str]]] = {
    "transformer": ("diffusers", frozenset({"FluxTransformer2DModel"})),
    "vae": ("diffusers", frozenset({"AutoencoderKL"})),
    "text_encoder": ("transformers", frozenset({"CLIPTextModel"})),
    "text_encoder_2": ("transformers", frozenset({"T5EncoderModel"})),
    "tokenizer": ("transformers", TEXT_TOKENIZERS),
    "tokenizer_2": ("transformers", TEXT_TOKENIZERS | {"T5Tokenizer", "T5TokenizerFast"}),
    "scheduler": ("diffusers", frozenset({"FlowMatchEulerDiscreteScheduler"})),
}
"""Library and classes of each component."""


@register
class FluxFamily(FolderFamily):
    """Folders that diffusers saved, of a FluxPipeline."""

    scheme: ClassVar[str] = "flux"
    forms: ClassVar[tuple[str, ...]] = ("flux:FOLDER?size=1024",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"generate"})
    folders = ()

    def open(self, request: Request) -> FluxModel:
        """Find and hash a pipeline. Raises ModelError; loading waits until a picture is needed."""
        named, options = split_options(request.uri, request.address, ("size",))
        found = find_flux(named, request.base)
        return FluxModel(found, _side(found, options.get("size"), request.uri), request)


def _side(files: PipelineFiles, text: str | None, uri: str) -> int:
    """Pixels of a side. Raises ModelError for one that cannot be made."""
    blocks = read_config(files.vae / "config.json").get("block_out_channels")
    factor = 2 ** len(blocks) if isinstance(blocks, list) and 0 < len(blocks) < 8 else 16  # packed two by two
    try:
        side = LATENT_SIDE * factor // 2 if text is None else int(text)
    except ValueError:
        side = 0
    if not 0 < side <= MAX_SIDE or side % factor:
        raise ModelError(
            f"a picture of '{(text or str(side))[:40]}' pixels a side cannot be made: sides are multiples of {factor}, "
            f"and {MAX_SIDE:,} at most.",
            where=uri,
            remedy="write ?size=1024, or leave it out",
        )
    return side


class FluxModel(PaintingModel["FluxPainter"]):
    """A judged FLUX."""

    def __init__(self, found: PipelineFiles, side: int, request: Request) -> None:
        super().__init__("flux", FLUX_CODE, found.fingerprint, side, request)
        self._found, self._pixels = found, side
        self.tokenizer = tokenizers_digest(found)

    def _load(self) -> FluxPainter:
        from fairgate.models.generation.plain_painting import FluxPainter

        return FluxPainter(self._found, self._pixels, self._device, self.uri)


def find_flux(named: str, base: Path) -> PipelineFiles:
    """Find and hash a pipeline. Raises ModelError."""
    folder = judged_folder(named, base)
    components, settings = _read_index(folder)
    paths: dict[str, Path] = {"model_index.json": folder / "model_index.json"}
    for name in components:
        files = component_files(folder / name, name, None, _KNOWN[name][0])
        paths |= {f"{name}/{role}": path for role, path in files.items()}
    _require_shift(folder / "vae" / "config.json")
    channels = read_config(folder / "transformer" / "config.json").get("in_channels", 64)
    hashed, address = HashedFiles.of(paths), PipelineAddress(named)
    return PipelineFiles(address, folder, _FLUX, components, settings, channels, folder / "vae", hashed)


def _read_index(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    path = folder / "model_index.json"
    index = read_config(path) if path.is_file() else {}
    if index.get("_class_name") != _FLUX:
        what = f"the pipeline is a {str(index.get('_class_name'))[:80]}" if index else "the folder holds no pipeline"
        raise ModelError(
            f"{what}, and flux: runs a {_FLUX}.",
            where=str(path),
            remedy=right_uri(folder, "flux") or "name a folder that diffusers saved: pipeline.save_pretrained(FOLDER)",
        )
    parts = {name: value for name, value in index.items() if isinstance(value, list) and any(value)}
    if absent := [name for name in _KNOWN if name not in parts]:
        raise ModelError(
            f"the pipeline lacks {', '.join(absent)}.",
            where=str(path),
            remedy="save the whole pipeline again with save_pretrained",
        )
    if more := sorted(set(parts) - set(_KNOWN)):
        raise ModelError(
            f"the pipeline has a part that is not run: {more[0][:80]}.",
            where=str(path),
            remedy="save it without: pipeline.register_modules(PART=None)",
        )
    settings = {name: value for name, value in index.items() if not isinstance(value, list) and name[0] != "_"}
    return {name: component_class(name, parts[name], path, _KNOWN[name]) for name in _KNOWN}, settings


def _require_shift(path: Path) -> None:
    shift = read_config(path).get("shift_factor")
    if not isinstance(shift, int | float) or not math.isfinite(shift):
        raise ModelError(
            f"the VAE's shift_factor is {str(shift)[:40]}, which is no number.",
            where=str(path),
            remedy="set it to what the VAE was trained with (0.1159 for FLUX.1)",
        )
