"""Pipelines of diffusers that are judged by what they paint alone (`diffusion:FOLDER` of a FLUX, an SD3, a Sana, ...):
the library opens and calls them in an isolated process. Local files, safetensors, and no code from the folder. No
torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.contract import Capability, Generating, ImageSource, Request
from fairgate.models.family import JudgedModel
from fairgate.models.generation.diffusion.files import (
    LORA,
    PIPELINES,
    WEIGHTS,
    lora_file,
    lora_scale,
    own_code,
    stored_weights,
)
from fairgate.models.input_digests import preprocessing_digest, read_by_library, tokenizer_digest
from fairgate.models.isolated import IsolatedPainter
from fairgate.models.made_pictures import GeneratedPictures

PLAIN_CODE = 1  # raise it when this adapter, or what it calls, gives other pictures for the same files
MAX_SIDE = 2048  # pixels: attention grows with the fourth power of it
_INDEX = "model_index.json"
_LIBRARIES = ("diffusers", "transformers")
_READ = frozenset({".json", ".txt", ".model", ".jinja"})
_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".ckpt"})


@dataclass(frozen=True, slots=True)
class PlainPipeline:
    """A pipeline's hashed files by their path in its folder; `components`: library and class of each part; `absent`:
    parts that it was saved without."""

    path: Path
    pipeline: str
    components: Mapping[str, tuple[str, str]]
    absent: tuple[str, ...]
    files: checkpoints.HashedFiles
    lora_scale: float | None = None
    """What its LoRA is multiplied with; None without one."""


def is_plain_pipeline(folder: Path) -> bool:
    """Whether a folder holds a pipeline of a class that fairgate does not run itself."""
    name = (checkpoints.read_small_config(folder / _INDEX) or {}).get("_class_name")
    return isinstance(name, str) and name.isidentifier() and name not in PIPELINES


def open_plain_pipeline(folder: Path, options: Mapping[str, str], request: Request) -> PlainPaintingModel:
    """The pipeline, hashed. Raises ModelError, also for an option that only a Stable Diffusion has."""
    if odd := sorted(set(options) - {"size", "lora", "lora_scale"}):
        raise ModelError(
            f"the option '{odd[0]}' is for a Stable Diffusion, and the folder holds another pipeline.",
            where=request.uri,
            remedy="leave it out; ?size= is the side of a picture, ?lora=FILE a LoRA",
        )
    side = (
        int(checkpoints.option_number(request.uri, "size", options["size"], 8, MAX_SIDE)) if "size" in options else None
    )
    scale = lora_scale(request.uri, options)
    lora = lora_file(options["lora"], request.base) if "lora" in options else None
    if lora:
        checkpoints.versions("peft")  # where it is missing, the error says how to install it
    return PlainPaintingModel(find_plain_pipeline(folder, lora, scale), side, request)


def find_plain_pipeline(folder: Path, lora: Path | None = None, scale: float = 1.0) -> PlainPipeline:
    """Hash what diffusers may read of a folder, and a LoRA. Raises ModelError for a part that is code of the model's
    own, or whose weights are no safetensors."""
    index = checkpoints.read_config(folder / _INDEX, closed=checkpoints.require_no_code)
    name = index.get("_class_name")
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
            raise own_code(what[:80], entry, folder / _INDEX)
    paths = {_INDEX: folder / _INDEX}
    for part in parts:
        paths |= {f"{part}/{file}": path for file, path in _files_of(folder / part, parts[part][0]).items()}
    components = {part: (str(entry[0]), str(entry[1])) for part, entry in parts.items()}
    absent = tuple(part for part, entry in index.items() if isinstance(entry, list) and not any(entry))
    paths |= {LORA: lora} if lora else {}
    return PlainPipeline(
        folder, str(name), components, absent, checkpoints.HashedFiles.of(paths), scale if lora else None
    )


def _files_of(folder: Path, library: str) -> dict[str, Path]:
    """Of one part, by the names under which its library reads them: configs, tokenizer's files and weights."""
    if not folder.is_dir():
        raise ModelError("a part's folder is missing.", where=str(folder), remedy="save the whole pipeline again")
    there = [path for path in sorted(folder.iterdir()) if path.is_file()]
    for path in there:
        if path.name.endswith("config.json"):
            checkpoints.read_config(path, closed=checkpoints.require_no_code)
    found = {path.name: path for path in there if path.suffix in _READ and not path.name.endswith(".index.json")}
    if any(path.suffix in _WEIGHTS for path in there):
        weights = stored_weights(folder, library).items()
        found |= {WEIGHTS[library] if role == "weights" else path.name: path for role, path in weights}
    return found


class PlainPaintingModel(JudgedModel[IsolatedPainter]):
    """A judged pipeline, loaded when a picture is not in the cache. `side`: pixels of a side; None: its own."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"generate"})

    def __init__(self, found: PlainPipeline, side: int | None, request: Request) -> None:
        added = "" if found.lora_scale is None else f", with a LoRA at {found.lora_scale:g}"
        super().__init__(
            request, note=f"painted by diffusers' own {found.pipeline[:80]}, in a process of its own{added}"
        )
        self.side, self._found = side, found
        scale = {} if found.lora_scale is None else {"lora_scale": repr(found.lora_scale)}
        self.fingerprint = digest({"files": found.files.fingerprint(**scale), "size": side})
        self.preparation = f"plain/{PLAIN_CODE}"
        self.preprocessing = preprocessing_digest(adapter="plain", pixels=side)
        tokenizers = {
            part: [path for role, path in found.files.paths.items() if role.startswith(f"{part}/")]
            for part in found.components
            if part.startswith("tokenizer")
        }
        read = {part: tokenizer_digest(files, **read_by_library(files)) for part, files in tokenizers.items()}
        self.tokenizer = digest(read)

    @property
    def source(self) -> ImageSource:
        """The rows whose prompts it paints."""
        return self._request.source

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        """A picture of every row's prompt, as diffusers' pipeline makes it, made as it is read, cached.

        `how.guidance` of a FLUX is what FLUX.1-dev was distilled with; a FLUX.1-schnell takes none. Raises ModelError
        unless every row has a prompt, and when read for a picture that is not finite or a prompt that is too long.
        """
        request, key = (
            self._request,
            digest(self._ways("diffusers", *(() if self._found.lora_scale is None else ("peft",)))),
        )
        return GeneratedPictures(request.source, prompts, how, key, self._engine, request.cache, request.progress)

    def _load(self) -> IsolatedPainter:
        found = self._found
        task: dict[str, Any] = {"path": str(found.path), "pipeline": found.pipeline, "side": self.side}
        task |= {"components": dict(found.components), "absent": list(found.absent), "lora_scale": found.lora_scale}
        return IsolatedPainter(task, found.files, self._device)
