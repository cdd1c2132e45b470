"""Which module opens which model in which role, the package's own and those that installed packages add; and digests
over the files of models, taken without loading them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from fairgate.ground.errors import ModelError, RecipeError, suggestion
from fairgate.ground.hashing import digest, sha256_file
from fairgate.ground.plugins import Registry, entry_points
from fairgate.models.checkpoints import find_folder, model_folder, read_config
from fairgate.models.generation.roles import ALIASES, Role, full_uri

_DIFFUSION = f"{__package__}.diffusion.open"
ADAPTERS = {
    **{f"hf.{role}": _DIFFUSION for role in ("painter", "inpainter", "editor")},
    **{f"hf.{role}": f"{__package__}.perceivers" for role in ("asker", "detector", "segmenter")},
    "hf.matcher": f"{__package__}.matcher",
    "open_clip.matcher": f"{__package__}.matcher",
    "fairface.face_reader": f"{__package__}.fairface",
}
"""SCHEME.ROLE -> module with a function `open_ROLE(uri, address, *, device, base) -> model`."""


def _checked(name: str, thing: Any) -> Callable[..., Any]:
    if not callable(thing):
        raise TypeError(f"it is no function that opens '{name}'")
    return thing  # type: ignore[no-any-return] # its adapter is known by name alone


ROLES: Registry[Callable[..., Any]] = Registry("role", _checked).with_modules(ADAPTERS)
"""Further functions as those of ADAPTERS, by the entry points `fairgate.roles`."""


def open_model(role: Role, uri: str, *, device: str = "cpu", base: Path = Path()) -> Any:
    """The model that a URI names, loaded on a device, in a role. Raises ModelError where it cannot be found or trusted.

    `hf:` names a folder or a hub id, `open_clip:` as the gate does, `fairface:` a checkpoint file; installed packages
    may add schemes. A short name of ALIASES is replaced by its `hf:` URI, and options may follow it
    (`sdxl?refiner=sdxl-refiner`). There is no fallback.
    """
    full = full_uri(uri)
    scheme, _, address = full.partition(":")
    name = f"{scheme}.{role}"
    if not address or name not in ROLES:
        schemes = ", ".join(f"{each.partition('.')[0]}:" for each in sorted(ROLES) if each.endswith(f".{role}"))
        raise ModelError(
            f"'{uri}' does not name a model that can be a {role.replace('_', ' ')}.",
            remedy=suggestion(uri, ALIASES, f"schemes: {schemes} names: {', '.join(ALIASES)}"),
        )
    own = getattr(importlib.import_module(ADAPTERS[name]), f"open_{role}") if name in ADAPTERS else None
    return (own or ROLES[name])(full, address, device=device, base=base)


def modules_for(uri: str) -> set[str]:
    """Names of the modules that open models of a URI's scheme, in any role; nothing is imported."""
    scheme = full_uri(uri).partition(":")[0]
    own = {module for name, module in ADAPTERS.items() if name.startswith(f"{scheme}.")}
    entries = entry_points("fairgate.roles") if not own else ()
    return own | {entry.module for entry in entries if entry.name.startswith(f"{scheme}.")}


def model_fingerprint(role: str, uri: str) -> str:
    """Digest over the files that are loaded for a model's URI, taken without loading them where they can be found.

    Raises ModelError where the model is not there.
    """
    scheme, _, address = full_uri(uri).partition(":")
    if scheme == "hf" and address:
        return _hf_fingerprint(address, uri)
    for path in (address, address.rpartition(":")[2]):
        if path and Path(path).exists():
            return files_digest(Path(path))
    if role not in get_args(Role):
        raise RecipeError(
            f"the model '{uri}' is no file or folder of this machine, and '{role}' is no role that could open it.",
            where=f"the recipe's models: {role}",
            remedy=f"check the path; roles: {', '.join(get_args(Role))}",
        )
    opened: str = open_model(role, uri).fingerprint  # type: ignore[arg-type] # one of them, as was just seen
    return opened


def _hf_fingerprint(address: str, uri: str) -> str:
    """Of a pipeline of diffusers or a folder of transformers; other files in the folder do not count."""
    from fairgate.models.generation.diffusion.files import PipelineAddress, find_pipeline

    pipeline = PipelineAddress.of(address, uri)  # first: a wrong option is told before anything is fetched
    folder = model_folder(pipeline.model, Path())
    if "?" in address or (folder / "model_index.json").is_file():
        return find_pipeline(pipeline, Path()).fingerprint
    config = folder / "config.json"
    kind = read_config(config).get("model_type") if config.is_file() else None
    return find_folder(folder, (str(kind),), use="hash", tokenizer=False, pickled=True).fingerprint


def files_digest(path: Path) -> str:
    """Digest of a file's bytes, or of a folder's files by name."""
    if path.is_file():
        return sha256_file(path)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return digest({str(each.relative_to(path)): sha256_file(each) for each in files})
