"""Digests over the files of the models that builds use, taken without loading them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from fairgate.checkpoints import find_folder, model_folder, read_config
from fairgate.errors import RecipeError
from fairgate.generation.registry import open_model
from fairgate.generation.roles import Role, full_uri
from fairgate.hashing import digest, sha256_file


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
    from fairgate.generation.diffusion.files import PipelineAddress, find_pipeline

    main, _, options = address.partition("?")
    folder = model_folder(main, Path())
    if options or (folder / "model_index.json").is_file():
        named = PipelineAddress.of(address, uri)
        found = {"base": find_pipeline(named, Path())}
        if named.refiner:
            found["refiner"] = find_pipeline(PipelineAddress(named.refiner, variant=named.variant), Path())
        return digest({which: each.files.fingerprint() for which, each in found.items()})
    config = folder / "config.json"
    kind = read_config(config).get("model_type") if config.is_file() else None
    return find_folder(folder, (str(kind),), tokenizer=False, pickled=True).fingerprint


def files_digest(path: Path) -> str:
    """Digest of a file's bytes, or of a folder's files by name."""
    if path.is_file():
        return sha256_file(path)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return digest({str(each.relative_to(path)): sha256_file(each) for each in files})
