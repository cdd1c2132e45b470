"""Fetch tracked files into a folder: all paths are checked first, and every object before it is put in place."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fairgate.data.remote.place import is_object, others, place, remove
from fairgate.data.remote.pointers import Tracked, checked
from fairgate.data.remote.store import Store
from fairgate.ground.errors import DatasetError

MAX_LISTING = 128 << 20
"""Bytes of the list of a folder's files: over a million of them."""
_SHOWN = 5
_AT_ONCE = 16  # files that are hashed, or objects that are on their way
_MD5 = re.compile("[0-9a-f]{32}")

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of one tracked path: how many files it has, and how many of them (and bytes) were fetched now."""

    path: str
    pointer: str
    files: int
    fetched: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """Paths and MD5s of the wanted files of one tracked path; `complete` where these are all that it has."""

    tracked: Tracked
    files: dict[str, str]
    complete: bool


def fetch(
    wanted: Sequence[Tracked],
    root: Path,
    store: Store,
    *,
    only: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> list[Fetched]:
    """Bring tracked files below `root`; what is there already with the right content stays.

    `only` limits it to a path and what is below it. A folder has exactly the files that its listing names: others in
    it, and files with other content, are replaced or removed with `force`, and an error without. Raises DatasetError
    before anything is written where a path leads elsewhere, and where a remote lacks an object.
    """
    for item in wanted:
        if item.problem is not None:
            raise DatasetError(
                f"{item.path} is not fetched: {item.problem}.",
                where=item.pointer,
                remedy="track the files themselves (`dvc add`, `dvc push`), or name the other targets alone",
            )
    plans = [_planned(item, store, only) for item in wanted]
    _require_apart(plans)
    if only is not None and not any(plan.files for plan in plans):
        raise DatasetError(
            f"no tracked folder has a file {only}.",
            where=", ".join(dict.fromkeys(item.pointer for item in wanted)),
            remedy="name a path that is in it, or the folder",
        )
    try:
        done = _carried_out(plans, root, store, force, progress)
    except OSError as error:
        raise DatasetError(
            f"a file could not be read or written: {error.strerror or error}.",
            where=str(error.filename or root),
            remedy="make room there, or see to the rights of the folder, then run again",
        ) from error
    return [
        Fetched(
            plan.tracked.path,
            plan.tracked.pointer,
            len(plan.files),
            sum(path in done for path in plan.files),
            sum(done.get(path, 0) for path in plan.files),
        )
        for plan in plans
    ]


def file_names(wanted: Iterable[Tracked], store: Store) -> list[str]:
    """The paths of all files that are tracked. Raises DatasetError if a folder's listing is not to be had."""
    return [path for tracked in wanted for path in _planned(tracked, store, None).files]


def _carried_out(
    plans: Sequence[_Plan], root: Path, store: Store, force: bool, progress: Progress | None
) -> dict[str, int]:
    """Fetch what is missing; bytes by path."""
    todo = _missing(plans, root, force)
    done = dict[str, int]()

    def bring(path: str, tracked: Tracked, md5: str) -> int:
        size = place(root, path, lambda file: store.copy(md5, "", file, tracked.remote))
        if size is None:
            raise _lacks(path, md5, tracked)
        return size

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = {pool.submit(bring, *step): step[0] for step in todo}
        try:
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                if progress is not None:
                    progress(len(done), len(todo))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done


def _planned(tracked: Tracked, store: Store, only: str | None) -> _Plan:
    if tracked.folder:
        listing = io.BytesIO()
        if not store.copy(tracked.md5, ".dir", listing, tracked.remote, MAX_LISTING):
            raise _lacks(tracked.path, f"{tracked.md5}.dir", tracked)
        files = {f"{tracked.path}/{path}": md5 for path, md5 in _listed(listing.getvalue(), tracked)}
    else:
        files = {tracked.path: tracked.md5}
    kept = {path: md5 for path, md5 in files.items() if only is None or path == only or path.startswith(f"{only}/")}
    return _Plan(tracked, kept, len(kept) == len(files))


def _listed(text: bytes, tracked: Tracked) -> Iterator[tuple[str, str]]:
    """Paths and MD5s of a `.dir` object, none of which leaves its folder."""
    where = f"{tracked.pointer}, object {tracked.md5}.dir"
    try:
        entries = json.loads(text)
        pairs = [(entry["relpath"], entry["md5"]) for entry in entries]
        sound = all(isinstance(path, str) and isinstance(md5, str) and _MD5.fullmatch(md5) for path, md5 in pairs)
        if not sound or len(dict(pairs)) != len(pairs):
            raise ValueError("a path or an MD5 is none, or is there twice")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatasetError(
            f"the list of {tracked.path}'s files is none: {type(error).__name__}: {error}.",
            where=where,
            remedy="restore the pointer from the main branch, or track the folder again: `dvc add`, `dvc push`",
        ) from error
    for path, md5 in pairs:
        checked(f"{tracked.path}/{path}" if not path.startswith("/") else path, where)
        yield path, md5


def _require_apart(plans: Iterable[_Plan]) -> None:
    """Raise DatasetError where two pointers want the same place, or one file is where another needs a folder."""
    owners: dict[str, str] = {}
    for plan in plans:
        for path in (plan.tracked.path, *plan.files):
            if owners.setdefault(path, plan.tracked.pointer) != plan.tracked.pointer:
                raise _twice(path, plan.tracked.pointer)
    tops = sorted(plan.tracked.path.split("/") for plan in plans)
    paths = sorted(path.split("/") for plan in plans for path in plan.files)
    for shorter, longer in (*pairwise(tops), *pairwise(paths)):
        if longer[: len(shorter)] == shorter:
            raise _twice("/".join(shorter), owners["/".join(longer)])


def _missing(plans: Sequence[_Plan], root: Path, force: bool) -> list[tuple[str, Tracked, str]]:
    """What has to be fetched. With `force` the way is cleared, else DatasetError for what is in the way."""
    wanted = [(path, plan.tracked, md5) for plan in plans for path, md5 in plan.files.items()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        states = list(pool.map(lambda item: is_object(root, item[0], item[2]), wanted))
    changed = [path for (path, _, _), same in zip(wanted, states, strict=True) if same is False]
    extra = [
        path
        for plan in plans
        if plan.tracked.folder and plan.complete
        for path in others(root, plan.tracked.path, set(plan.files))
    ]
    if (changed or extra) and not force:
        shown = ", ".join((changed + extra)[:_SHOWN])
        raise DatasetError(
            f"{len(changed)} file(s) have other content than their pointer says, {len(extra)} are in no pointer: "
            f"{shown}{' …' if len(changed + extra) > _SHOWN else ''}.",
            where=", ".join(dict.fromkeys(plan.tracked.path for plan in plans)),
            remedy="keep what is yours elsewhere; --force replaces and removes them",
        )
    for path in extra:
        remove(root, path)
    return [item for item, same in zip(wanted, states, strict=True) if not same]


def _lacks(path: str, name: str, tracked: Tracked) -> DatasetError:
    return DatasetError(
        f"neither DVC's cache here nor the remote has {path} (object {name}).",
        where=tracked.pointer,
        remedy="`dvc push` on the machine that has it, and see that the remote can be reached; one that a change "
        "itself brings does not count",
    )


def _twice(path: str, pointer: str) -> DatasetError:
    return DatasetError(
        f"two pointers want {path}.", where=pointer, remedy="track every path once: remove one of the pointers"
    )
