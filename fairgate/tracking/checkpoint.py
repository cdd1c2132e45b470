"""Which checkpoint a downloaded folder holds: exactly one, in safetensors, or a refusal that lists what is there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from fairgate.errors import ModelError

ARCHITECTURE_TAG: Final = "fairgate.architecture"
"""Tag of a registered model, or of one version, that names the open_clip architecture of bare weights."""

_PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib", ".cloudpickle")
_SHOWN = 12
_REMEDY = (
    "register one checkpoint in safetensors: a folder with open_clip_config.json, a folder of transformers, or one "
    f".safetensors file with the tag {ARCHITECTURE_TAG}"
)


def checkpoint_uri(folder: Path, architecture: str | None = None) -> str:
    """The model URI of the one checkpoint under `folder`, at any depth (an mlflow flavour has subfolders).

    `architecture` is the open_clip architecture of a bare .safetensors file. Raises ModelError for none, for several,
    for weights that are pickled, and for links.
    """
    from fairgate.checkpoints.files import require_folder

    require_folder(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    if link := next((path for path in folder.rglob("*") if path.is_symlink()), None):
        raise ModelError("the downloaded model holds a link.", where=str(link), remedy="register the files themselves")
    weights = [path for path in files if path.suffix == ".safetensors"]
    named: dict[Path, str] = {}
    for path in files:
        home = path.parent
        if path.name == "open_clip_config.json":
            named[home] = f"open_clip:local-dir:{home}"
        elif path.name == "config.json" and any(one.parent == home for one in weights):
            named.setdefault(home, f"hf:{home}")
    bare = [path for path in weights if path.parent not in named]
    if len(named) + len(bare) != 1:
        found = "no checkpoint" if not named and not bare else f"{len(named) + len(bare)} checkpoints"
        raise _refusal(f"the registered model holds {found} that could be meant", folder, files)
    if bare:
        return _bare(bare[0], architecture)
    ((home, uri),) = named.items()
    if pickled := [path for path in files if path.parent == home and path.suffix in _PICKLED]:
        raise _refusal("the checkpoint of the registered model has pickled weights", home, pickled)
    return uri


def gather_components(folder: Path) -> None:
    """Lay tokenizer and image processor beside the weights, where `mlflow.transformers.log_model` keeps them apart."""
    from fairgate.checkpoints.files import TOKENIZER_FILES

    home = folder / "model"
    if not (folder / "MLmodel").is_file() or not (home / "config.json").is_file():
        return
    wanted = TOKENIZER_FILES | {"preprocessor_config.json", "processor_config.json"}
    for path in sorted((folder / "components").glob("*/*")):
        if path.name in wanted and path.is_file() and not path.is_symlink() and not (home / path.name).exists():
            shutil.copyfile(path, home / path.name)


def _bare(weights: Path, architecture: str | None) -> str:
    if not architecture or "@" in architecture:
        raise ModelError(
            "the registered model is a file of bare weights, and nothing says of which architecture.",
            where=str(weights),
            remedy=f"set the tag {ARCHITECTURE_TAG} of the version, such as ViT-B-32; or register a folder with its "
            "config",
        )
    return f"open_clip:{architecture}@{weights}"


def _refusal(problem: str, folder: Path, files: list[Path]) -> ModelError:
    names = [str(path.relative_to(folder)) for path in files]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f": {', '.join(names[:_SHOWN])}{more}" if names else "; it is empty"
    pickled = any(path.suffix in _PICKLED for path in files)
    why = " Pickled files can run code, and are not read." if pickled else ""
    return ModelError(f"{problem}{there}.{why}", where=str(folder), remedy=_REMEDY)
