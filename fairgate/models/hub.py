"""The folder that an `hf:` address names: a folder of this machine, or a model in the hub's cache. No download."""

from __future__ import annotations

import re
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
