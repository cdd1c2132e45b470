"""Where the address of a model leads: a path, under a root of this machine, or to a model of the hub by its id.

Named roots are folders of the machine that runs fairgate, for models that no repository holds (`hf:@models/clip` is
`clip` in the folder that the environment variable FAIRGATE_ROOT_MODELS names). Nothing of the repository says where a
root is: a branch that could would choose what the machine reads. A record holds the name, `@models/clip`, and the
fingerprint of the files. A branch decides what lies in the repository whose models are judged: that is never the
machine's.

Models of the hub are found in huggingface_hub's cache (`HF_HOME`). Nothing is downloaded while a checkpoint is judged,
and what is judged is named by its full commit: a branch or a tag can move.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError, listed, suggestion
from fairgate.ground.local_paths import require_local
from fairgate.models.checkpoints.files import WEIGHTS, require_folder, where_it_may_be

PREFIX = "FAIRGATE_ROOT_"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_JUDGED: ContextVar[Path | None] = ContextVar("judged", default=None)


def is_rooted(address: str | Path) -> bool:
    """Whether a path of a URI is under a root; a folder of the repository that is called so is `./@models`."""
    return str(address).startswith("@")


def rooted_path(address: str, base: Path) -> Path:
    """The path that `@ROOT/PATH` names on this machine; `base` is the repository, which a root is no part of.

    Raises ModelError for a root that is not set, or is no absolute path of a folder, for a path that leaves it, by `..`
    or through a link, and for one that leads into the repository, or holds it.
    """
    name, _, rest = address.removeprefix("@").partition("/")
    root, repositories = _root(name, address), [base.resolve(), *repositories_of(base)]
    path = root / rest
    if ".." in Path(rest).parts or rest.startswith("/") or not path.resolve().is_relative_to(root):
        raise ModelError(
            f"the path leaves the root '{name}', by `..` or through a link.",
            where=address,
            remedy="name a file or folder that lies in the root itself",
        )
    real = path.resolve()
    if any(real.is_relative_to(one) or one.is_relative_to(real) for one in repositories):
        raise ModelError(
            f"the path under the root '{name}' lies in the repository, or holds it: a branch decides what there is.",
            where=address,
            remedy="name the path in the repository itself, without a root, or keep the model in a folder elsewhere",
        )
    return path


def _root(name: str, address: str) -> Path:
    variable = PREFIX + re.sub(r"\W", "_", name).upper()
    given = os.environ.get(variable, "") if _NAME.fullmatch(name) else ""
    if Path(given).is_absolute() and Path(given).is_dir():
        return Path(given).resolve()
    known = sorted({key.removeprefix(PREFIX).lower() for key in os.environ if key.startswith(PREFIX)} - {name})
    state = f"not set on this machine (it has {listed([f'@{each}' for each in known]) or 'no other'})"
    if given:
        state = f"'{given}', which is no folder by its absolute path"
    raise ModelError(
        f"the root '{name}' is {state}.",
        where=address,
        remedy=suggestion(
            name,
            known,
            f"set it where fairgate runs, to the absolute path of a folder: {variable}=/path/of/it (a root's name has "
            f"small letters, digits and `_`; a path in the repository is ./@{name})",
        ),
    )


@contextlib.contextmanager
def judging(root: Path) -> Iterator[None]:
    """While a checkpoint is opened from a copy (a baseline's, in a scratch folder): `root` is what it is a copy of."""
    token = _JUDGED.set(root)
    try:
        yield
    finally:
        _JUDGED.reset(token)


def repositories_of(base: Path) -> list[Path]:
    """The tops of the git work trees that hold `base`, and what it is a copy of; without git, none."""
    real = [folder.resolve() for folder in (base, _JUDGED.get()) if folder is not None]
    tops = (next((top for top in (one, *one.parents) if (top / ".git").exists()), None) for one in real)
    return [top for top in tops if top is not None]


def resolve(address: str, base: Path) -> Path:
    """A path from a URI: `~` is expanded, `@ROOT/PATH` starts at a root of this machine, and another relative one at
    `base`. Raises ModelError for no path at all, and for an address of a store, `s3://bucket/name`."""
    require_local(address, address, ModelError)
    try:
        path = rooted_path(address, base) if is_rooted(address) else base / Path(address).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, `~nobody`, a NUL
        raise ModelError(f"the path cannot be looked up ({error}).", where=address, remedy="check the path") from error
    return path


_HUB_ID = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]+)(?:@(?P<revision>(?!/)[\w./-]+))?")
# weights are "model...", "diffusion_pytorch_model..."; a pipeline in one file (v1-5-pruned.safetensors) is not read
_PATTERNS = ("*.json", "*.txt", "*.model", "*model*.safetensors")
_PICKLED = ("dandelin/vilt-b32-finetuned-vqa", "openai/clip-vit-base-patch32", "facebook/dino-vitb16")
"""Published without safetensors but in a pull request of the hub, whose ref may move."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def local_folder(address: str) -> Path | None:
    """The folder that an address names, without its options; None for a model of the hub, `ORG/NAME@COMMIT`. Which it
    is depends on the address alone, not on what files there are."""
    named = address.partition("?")[0]
    return None if is_hub_id(named) else Path(named)


def is_hub_id(named: str) -> bool:
    """Whether `judged_folder` takes a name for that of a model of the hub, `ORG/NAME@COMMIT`."""
    found = _HUB_ID.fullmatch(named)
    return found is not None and _COMMIT.fullmatch(found["revision"] or "") is not None


def judged_folder(address: str, base: Path) -> Path:
    """The folder of a model that is judged: `address` is a path (relative ones start at `base`), or `ORG/NAME@COMMIT`
    with the 40 digits of a commit on the hub.

    What it holds is trusted no further: its files are to be hashed. Raises ModelError for a folder that does not exist,
    a revision that is no commit, and as `hub_folder` does.
    """
    folder, found = resolve(address, base), _HUB_ID.fullmatch(address)
    if found is None or folder.exists():
        if is_hub_id(address):
            raise ModelError(
                f"'{address}' is the name of a model on the hub, and of a folder here.",
                where=str(folder),
                remedy="give the folder another name: a branch may not put its own files in a published model's place",
            )
        require_folder(folder)
        return folder
    if found["revision"]:
        return hub_folder(found["name"], found["revision"], base)  # refuses one that is no commit
    commit = _commit_of(found["name"], "main")
    known = commit is not None or not folder.parent.is_dir()
    hint = f"; a model of the hub is named with its commit: {found['name']}@{commit or 'COMMIT'}" if known else ""
    raise ModelError("the model folder does not exist.", where=str(folder), remedy=where_it_may_be(folder) + hint)


def option_folder(options: Mapping[str, str], name: str, base: Path) -> Path | None:
    """The folder that an option of a URI names, as `judged_folder` finds it; None without the option."""
    return judged_folder(options[name], base) if name in options else None


def hub_folder(name: str, commit: str, base: Path) -> Path:
    """The snapshot of a commit in the hub's cache. `base` is the repository whose models are judged.

    Raises ModelError for a revision that is no full commit, a snapshot that is not there or without weights, a link out
    of the cached model, and a cache inside of the repository: whatever a branch commits there would be taken for the
    model of that name.
    """
    if not _COMMIT.fullmatch(commit):
        full = _commit_of(name, commit)
        raise ModelError(
            f"the revision '{commit[:80]}' is no full commit (40 hexadecimal digits): what a branch or a tag stands "
            "for can change.",
            where=f"{name}@{commit}",
            remedy=f"name the commit: {name}@{full}"
            if full
            else f"name the commit, which `git ls-remote https://huggingface.co/{name}` lists",
        )
    cached = _cached(name)
    require_outside(base, name)
    folder = cached / "snapshots" / commit
    if not folder.is_dir() or not any(path.suffix in WEIGHTS for path in folder.rglob("*")):
        raise ModelError(
            f"'{name}' at commit {commit[:12]} is not in the hub's cache on this machine, or without weights, and "
            "nothing is downloaded while a model is judged.",
            where=str(folder),
            remedy=f"fetch it once, where there is a network: `{_command(name, commit)}`; if there are no weights "
            "then, it was published without safetensors",
        )
    require_folder(folder, within=cached)
    return folder


def require_outside(base: Path, name: str = "") -> None:
    """Raises ModelError for a hub's cache, or a model of that name in it, inside of the repository of `base`."""
    cached = _cached(name) if name else _cached("/").parent
    if any(map(cached.resolve().is_relative_to, repositories_of(base))):
        raise ModelError(
            "the hub's cache is inside of the repository, where a branch can put files of its own under any name.",
            where=str(cached),
            remedy="set HF_HOME to a folder outside of the repository, and fetch the model again",
        )


def _cached(name: str) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def _commit_of(name: str, revision: str) -> str | None:
    """The full commit of a branch or a tag, if the cache knows it."""
    with contextlib.suppress(ModelError):
        return _snapshot(name, ModelError("no such revision"), revision=revision, local_files_only=True).name
    return None


def _command(name: str, revision: str | None) -> str:
    """What fetches a model's configs, vocabularies and safetensors, and no checkpoint of another kind next to them."""
    weights = ("pytorch_model.bin",) if name in _PICKLED else ()
    patterns = " ".join(f'--include "{pattern}"' for pattern in (*_PATTERNS, *weights))
    return f"hf download {name} {f'--revision {revision} ' if revision else ''}{patterns}"


def model_folder(address: str, base: Path) -> Path:
    """The folder of a model of a build: `address` is a path (relative ones start at `base`) or a hub id,
    `ORG/NAME[@REVISION]`.

    A folder that exists wins. A hub id is looked up in huggingface_hub's cache (`HF_HOME`), and nothing is downloaded:
    what a build reads is what somebody fetched, and many workers do not fetch it at once. Links in the folder may lead
    into it, or for a hub id into the cached repository, and no further. Raises ModelError.
    """
    folder = resolve(address, base)
    found = _HUB_ID.fullmatch(address)
    if found is None or folder.exists():
        require_folder(folder)
        return folder
    name, revision = found["name"], found["revision"]
    missing = ModelError(
        f"'{name}' is neither a folder ({folder}) nor a model in the hub's cache on this machine.",
        where=f"hf:{name}{f'@{revision}' if revision else ''}",
        remedy=f"fetch it once, where there is a network: `{_command(name, revision)}`; or check the path",
    )
    return _snapshot(name, missing, revision=revision, local_files_only=True)


def named_files(name: str, files: Collection[str], base: Path, *, download: bool) -> dict[str, Path]:
    """The files of these names that a model on the hub has, from the hub's cache and from no other folder; `base` is
    the repository whose models are judged.

    With `download`, they are fetched first: the model's URI names a tag. Raises ModelError where there are none, and
    for a cache inside of the repository.
    """
    require_outside(base, name)
    wanted = " ".join(f'--include "{file}"' for file in sorted(files))
    missing = ModelError(
        f"the architecture takes its text tower or tokenizer from '{name}' on the hub, which is not in the hub's cache "
        "on this machine, and nothing is downloaded while a checkpoint is judged.",
        where=name,
        remedy=f"fetch it once, before: `hf download {name} {wanted}`; or save the model with its tokenizer in one "
        "folder and use open_clip:local-dir:FOLDER",
    )
    folder = _snapshot(name, missing, local_files_only=not download, allow_patterns=sorted(files))
    found = {file: folder / file for file in sorted(files) if (folder / file).is_file()}
    if not found:
        raise missing
    return found


def _snapshot(name: str, missing: ModelError, *, revision: str | None = None, **options: Any) -> Path:
    """What the hub's cache holds of a model, links followed no further than its repository. Raises `missing`."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        refs = (_cached(name) / "refs").resolve()
        ref = (refs / (revision or "main")).resolve()
        # huggingface_hub reads it, whatever it is and wherever it leads
        if not ref.is_relative_to(refs) or (ref.exists() and not ref.is_file()):
            raise missing
        folder = Path(snapshot_download(name, revision=revision, **options))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        raise missing from error
    require_folder(folder, within=folder.parent.parent)
    return folder
