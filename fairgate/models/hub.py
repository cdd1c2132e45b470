"""The folder that an `hf:` address names: a folder of this machine, or a model in the hub's cache. No download."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from fairgate.errors import ModelError
from fairgate.models.files import require_folder, resolve

_HUB_ID = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
# weights are "model...", "diffusion_pytorch_model..."; a pipeline in one file (v1-5-pruned.safetensors) is not read
_PATTERNS = ("*.json", "*.txt", "*.model", "*model*.safetensors")


def model_folder(address: str, base: Path) -> Path:
    """The folder of a model: `address` is a path (relative ones start at `base`) or a hub id, `ORG/NAME[@REVISION]`.

    A folder that exists wins. A hub id is looked up in huggingface_hub's cache (`HF_HOME`), and nothing is downloaded:
    what a build reads is what somebody fetched, and many workers do not fetch it at once. Links in the folder may lead
    into it, or for a hub id into the cached repository, and no further. Raises ModelError.
    """
    folder = resolve(address, base)
    found = _HUB_ID.fullmatch(address)
    if found is None or folder.exists():
        require_folder(folder)
        return folder
    snapshot = _cached(found["name"], found["revision"], folder)
    require_folder(snapshot, within=snapshot.parent.parent)
    return snapshot


def named_files(name: str, files: Collection[str], *, download: bool) -> dict[str, Path]:
    """Those of some files that a model on the hub has, out of the hub's cache; no folder of this machine stands in.

    With `download`, they are fetched first: a name in the model's URI said so. Raises ModelError where there are none.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=not download, allow_patterns=sorted(files)))
    except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError, OSError) as error:
        raise _not_cached(name, files) from error
    require_folder(folder, within=folder.parent.parent)
    found = {file: folder / file for file in sorted(files) if (folder / file).is_file()}
    if not found:
        raise _not_cached(name, files)
    return found


def _not_cached(name: str, files: Collection[str]) -> ModelError:
    wanted = " ".join(f'--include "{file}"' for file in sorted(files))
    return ModelError(
        f"the architecture takes its text tower or tokenizer from '{name}' on the hub, which is not in the hub's cache "
        "on this machine, and nothing is downloaded while a checkpoint is judged.",
        where=name,
        remedy=f"fetch it once, before: `hf download {name} {wanted}`; or save the model with its tokenizer in one "
        "folder and use open_clip:local-dir:FOLDER",
    )


def _cached(name: str, revision: str | None, folder: Path) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError) as error:
        patterns = " ".join(f'--include "{pattern}"' for pattern in _PATTERNS)
        wanted = f"hf download {name} {f'--revision {revision} ' if revision else ''}{patterns}"
        raise ModelError(
            f"'{name}' is neither a folder ({folder}) nor a model in the hub's cache on this machine.",
            where=f"hf:{name}{f'@{revision}' if revision else ''}",
            remedy=f"fetch it once, where there is a network: `{wanted}`; or check the path",
        ) from error
