"""Read DVC's pointers, `*.dvc` and `dvc.lock`, as plain YAML: neither DVC nor its templates run.

An MD5 says which object is meant. It protects from mistakes and broken transfers and not from somebody who makes two
files of one MD5 (collisions are cheap): what a run judges is identified by the SHA-256 of what it reads.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairgate.ground.errors import DatasetError, first_harmful

MAX_BYTES, MAX_LEVELS = 32 << 20, 20
_MD5 = re.compile(r"([0-9a-f]{32})(\.dir)?")
MAX_PATH, MAX_NAME, MAX_DEPTH = 2048, 255, 64
_RESERVED = frozenset({".git", ".dvc", ".github", ".hg", "pyvenv.cfg", "site-packages", "dist-packages"})
"""Names that git, DVC, GitHub and Python act on. What else makes a virtual environment is seen when it is there."""

Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Tracked:
    """A file or folder that DVC tracks. `path` starts at the root; `problem` says why it cannot be fetched."""

    path: str
    md5: str
    folder: bool
    pointer: str
    remote: str | None = None
    problem: str | None = None


def is_pointer(name: str) -> bool:
    """Whether a file of a repository is a pointer of DVC, by its name."""
    base = posixpath.basename(name)
    return base == "dvc.lock" or (base.endswith(".dvc") and base != ".dvc")


def read_pointers(names: Iterable[str], read: Read) -> list[Tracked]:
    """Everything that the pointers among `names` track; `read` returns a file's bytes, None where there is none.

    Outputs that DVC does not cache are left out. Raises DatasetError for a file that is no pointer of DVC 3.
    """
    tracked: list[Tracked] = []
    for name in sorted(filter(is_pointer, names)):
        data = _mapping(_load(read(name) or b"", name))
        tracked += _of_lock(name, data, read) if name.endswith(".lock") else _of_pointer(name, data)
    return tracked


def _of_pointer(name: str, data: Mapping[str, Any]) -> Iterator[Tracked]:
    folder = posixpath.join(posixpath.dirname(name), _text(data.get("wdir")) or ".")
    problem = None
    if data.get("deps"):
        kind = "dvc import" if any("repo" in _mapping(dep) for dep in _list(data["deps"])) else "dvc import-url"
        problem = f"it comes from elsewhere (`{kind}`), and only the repository's own remote is read"
    for out in _list(data.get("outs")):
        if _flag(_mapping(out), "cache"):
            yield _tracked(_mapping(out), folder, name, _text(_mapping(out).get("remote")), problem)


def _of_lock(name: str, data: Mapping[str, Any], read: Read) -> Iterator[Tracked]:
    yaml_name = posixpath.join(posixpath.dirname(name), "dvc.yaml")
    stages = _mapping(_mapping(_load(read(yaml_name) or b"", yaml_name)).get("stages"))
    for full, locked in _mapping(data.get("stages")).items():
        stage = _mapping(stages.get(full.partition("@")[0]))
        stage = _mapping(stage.get("do")) or stage  # what a `foreach` repeats
        stage = {**_mapping(stage.get("<<")), **stage}
        wdir, problem = _text(stage.get("wdir")) or ".", None
        if "${" in wdir:
            wdir, problem = ".", f"the stage's `wdir: {wdir}` is a template"
        flags = [(_pattern(path), options) for path, options in _declared(stage)]
        for out in _list(_mapping(locked).get("outs")):
            path = _text(_mapping(out).get("path")) or ""
            options = next((declared for pattern, declared in flags if pattern.fullmatch(path)), {})
            if _flag(options, "cache"):
                folder = posixpath.join(posixpath.dirname(name), wdir)
                yield _tracked(_mapping(out), folder, name, _text(options.get("remote")), problem)


def _declared(stage: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Paths of a stage's outputs as dvc.yaml writes them, with their flags (`cache`, `remote`)."""
    for kind in ("outs", "metrics", "plots"):
        for out in _list(stage.get(kind)):
            if isinstance(out, str):
                yield out, {}
            for path, flags in _mapping(out).items():
                yield path, _mapping(flags)


def _pattern(path: str) -> re.Pattern[str]:
    """What a templated path (`build/${item}/set`) can become."""
    return re.compile(".+".join(re.escape(part) for part in re.split(r"\$\{[^}]*\}", path)), re.DOTALL)


def _tracked(out: Mapping[str, Any], folder: str, pointer: str, remote: str | None, problem: str | None) -> Tracked:
    path = inside(_text(out.get("path")) or "", folder, pointer)
    match = _MD5.fullmatch(_text(out.get("md5")) or "")
    if match is None:
        versioned = any(key in out for key in ("files", "version_id", "etag", "cloud", "checksum"))
        problem = problem or (
            "it is kept by cloud versioning" if versioned else "the pointer has no MD5 of DVC (was it ever committed?)"
        )
    elif _text(out.get("hash")) != "md5":
        problem = problem or "it was tracked by DVC 2: `dvc cache migrate --dvc-files`, then `dvc push`"
    return Tracked(path, match[1] if match else "", bool(match and match[2]), pointer, remote, problem)


def _flag(out: Mapping[str, Any], name: str) -> bool:
    return (_text(out.get(name)) or "true").lower() != "false"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return {key: each for key, each in value.items() if isinstance(key, str)} if isinstance(value, dict) else {}


@functools.lru_cache(maxsize=8)
def _load(text: bytes, where: str) -> Any:
    """YAML whose every scalar stays text. Levels are counted before anything is built of them. A run asks for the same
    bytes at several commits: they are parsed once."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    starts, ends = (yaml.CollectionStartEvent, yaml.CollectionEndEvent)
    try:
        if len(text) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES:,} bytes")
        level = 0
        for event in yaml.parse(text, Loader=loader):
            level += isinstance(event, starts) - isinstance(event, ends)
            if level > MAX_LEVELS:
                raise ValueError(f"more than {MAX_LEVELS} levels")
        return yaml.load(text, Loader=loader)  # noqa: S506 - it makes text, lists and mappings alone
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise DatasetError(
            f"the file is no pointer of DVC: {error}.",
            where=where,
            remedy="restore it from the main branch, or track the data again with `dvc add`",
        ) from error


def inside(path: str, folder: str, where: str) -> str:
    """The path of an output, which starts at `folder`, from the repository's root. DatasetError where it leaves it."""
    if "://" in path or path.startswith(("/", "~")):
        raise _refused(path, "is no path of this repository", where)
    joined = posixpath.normpath(posixpath.join(folder, path))
    if joined == "." or joined.split("/")[0] == "..":
        raise _refused(path, "leads out of the repository", where)
    return checked(joined, where)


def checked(path: str, where: str) -> str:
    """A path as it is, where every part of it is a plain name. Raises DatasetError for any other."""
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise _refused(path, "leads elsewhere", where)
    if first_harmful([path]) is not None or "\\" in path or "\n" in path:
        raise _refused(path, "has characters that no file name needs", where)
    if len(parts) > MAX_DEPTH or len(path) > MAX_PATH or any(len(part.encode()) > MAX_NAME for part in parts):
        raise _refused(path, "is too long or too deep", where)
    if reserved := [part for part in parts if part.casefold() in _RESERVED]:
        raise _refused(path, f"has a part '{reserved[0]}', which programs act on", where)
    return path


def _refused(path: str, why: str, where: str) -> DatasetError:
    shown = path if len(path) < 200 else f"{path[:200]}…"
    return DatasetError(
        f"'{shown}' {why}: nothing is written there.",
        where=where,
        remedy="track data in a folder of its own: `dvc add FOLDER`",
    )
