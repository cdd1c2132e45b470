"""What DVC tracks, here and at other commits: fetched without DVC, and compared.

Pointers are the branch's and are reported where they change; which remote they are read from is not (.dvc/config): that
is decided by the default branch.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fairgate.data import RELEASES, remote
from fairgate.gate.baselines.git import Repository
from fairgate.ground.ci import event_default_branch, in_ci
from fairgate.ground.errors import BaselineError, DatasetError, FairgateError, did_you_mean
from fairgate.ground.git import run_git

CONFIG, OWN = ".dvc/config", ".dvc/config.local"
_MOST_BYTES = 32 << 20
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Project:
    """A repository of DVC: the folder with `.dvc`, at `repository.root` or above it; `inner` leads from there to it."""

    repository: Repository
    inner: str

    def path(self, path: str) -> str:
        """A path of the judged folder from the project's root."""
        return os.path.normpath(f"{self.inner}/{path}") if self.inner else os.path.normpath(path)


def project_of(repository: Repository) -> Project:
    """The project of DVC around a folder; the folder itself where there is none."""
    root = repository.root.resolve()
    for folder in (root, *root.parents):
        if (folder / ".dvc").is_dir():
            inner = root.relative_to(folder).as_posix()
            return Project(Repository(folder), "" if inner == "." else inner)
        if (folder / ".git").exists():
            break
    return Project(Repository(root), "")


def work_tree_of(repository: Repository) -> Project:
    """The whole work tree of git around a folder: a `.dvc` that a branch adds hides no pointer above it."""
    root = repository.root.resolve()
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    inner = root.relative_to(top).as_posix()
    return Project(Repository(top), "" if inner == "." else inner)


def pull(
    repository: Repository,
    targets: Sequence[str] = (),
    *,
    base: str | None = None,
    force: bool = False,
    environment: Mapping[str, str] | None = None,
    progress: remote.Progress | None = None,
) -> list[remote.Fetched]:
    """Fetch what this working tree's pointers track: all of it, or the targets (pointers, tracked paths, or below).

    `base` names the commit whose .dvc/config counts. Without it, that is the default branch in CI, and this working
    tree elsewhere. Raises DatasetError or BaselineError where that is impossible.
    """
    env = os.environ if environment is None else environment
    project = project_of(repository)
    here, known = project.repository, pointers_here(project.repository)
    wanted = [entry for target in targets for entry in _targeted(project, target, known)] or [
        (pointer, None) for pointer in known
    ]
    if not wanted:
        return []
    _require_not_in_git(here, [pointer for pointer, _ in wanted])
    with _settings(here, base or (_default_branch(env) if in_ci(env) else None), env) as store:
        done = []
        for only in dict.fromkeys(only for _, only in wanted):
            some = list(dict.fromkeys(pointer for pointer, path in wanted if path == only))
            done += remote.fetch(some, here.root.resolve(), store, only=only, force=force, progress=progress)
    return done


def check_out(repository: Repository, commit: str, path: str, into: Path) -> None:
    """Bring a file or folder back as it was at a commit, from git or from DVC, to `into/path`.

    Raises BaselineError where neither has it. Links are not brought back: they may point anywhere.
    """
    entries = repository.tree(commit, path)
    if not entries:
        _fetch_at(repository, commit, path, into)
        return
    for entry in entries:
        target = into / entry.name
        if entry.kind != "file" or not target.resolve().is_relative_to(into.resolve()):
            raise BaselineError(
                f"{entry.name} is a link or a module at {commit[:7]}, and is not brought back.",
                where=path,
                remedy="commit the checkpoint's files themselves, or track them with `dvc add`",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(repository.read(commit, entry.name) or b"")


def _fetch_at(repository: Repository, commit: str, path: str, into: Path) -> None:
    """Bring what DVC tracked under a path at a commit to `into/path`. Raises BaselineError where that fails."""
    project, env, into = project_of(repository), os.environ, into.resolve()
    there, wanted = project.repository, project.path(path)
    try:
        matches = [pointer for pointer in pointers_at(there, commit) if related(pointer.path, wanted)]
        if not matches:
            raise BaselineError(
                f"neither git nor DVC has {path} at {commit[:7]}.",
                where=path,
                remedy="name a checkpoint with model:URI, or make the baseline again",
            )
        with _settings(there, _trusted(there, commit, env), env) as store:
            target = into / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=into, prefix="fetched-") as scratch:
                remote.fetch(matches, Path(scratch).resolve(), store, only=wanted)
                shutil.move(Path(scratch, wanted), target)
    except DatasetError as error:
        raise BaselineError(error.problem, where=f"{error.where} at {commit[:7]}", remedy=error.remedy) from error
    except OSError as error:
        raise BaselineError(
            f"{path} at {commit[:7]} could not be brought to this disk: {error.strerror or error}.",
            where=str(into),
            remedy="make room there, or set TMPDIR to a folder that can be written",
        ) from error


def names_at(repository: Repository, commit: str, path: str) -> list[str]:
    """What DVC tracked under a path at a commit: pointers below it, and the files of a folder at or above it.

    Raises DatasetError or BaselineError if a folder's listing is not to be had.
    """
    project, env = project_of(repository), os.environ
    there, top = project.repository, project.path(path)
    wanted = [pointer for pointer in pointers_at(there, commit) if related(pointer.path, top)]
    names = [pointer.path for pointer in wanted if pointer.path.startswith(f"{top}/")]
    if above := [pointer for pointer in wanted if not pointer.path.startswith(f"{top}/")]:
        with _settings(there, _trusted(there, commit, env), env) as store:
            names += remote.file_names(above, store)
    return [name.removeprefix(f"{project.inner}/") for name in names]


def changed_pointers(repository: Repository, commit: str, own: Sequence[Path] = ()) -> list[str]:
    """Sentences about pointers of DVC that are not as they were at a commit, but for the candidate's own (`own`)."""
    project, configured = work_tree_of(repository), project_of(repository).repository
    here = project.repository
    try:
        now, then = (
            {pointer.path: pointer for pointer in some} for some in (pointers_here(here), pointers_at(here, commit))
        )
        edited = remote.read_file(configured.root, CONFIG, _MOST_BYTES) != configured.read(commit, CONFIG)
    except FairgateError as error:
        return [f"DVC: the pointers cannot be compared with the merge base's: {error.problem} ({error.where})"]
    except OSError as error:
        return [f"DVC: the pointers cannot be compared with the merge base's: {error}"]
    mine = [path for each in own if not each.is_absolute() and (path := project.path(each.as_posix())) != "."]
    changed, releases = [], [project.path(str(folder)) for folder in RELEASES]
    for path in sorted(now.keys() | then.keys(), key=lambda path: (path not in then, path)):  # new ones hide no others
        after, before = now.get(path), then.get(path)
        released = any(related(path, folder) for folder in releases)
        candidates = not released and any(related(path, folder) for folder in mine)
        if candidates or (after and before and after.md5 == before.md5):
            continue
        if after and before:
            what = f"has other content than at the merge base ({before.md5[:7]}, now {after.md5[:7]})"
        else:
            what = f"is new ({after.md5[:7]})" if after else "is no longer tracked"
        changed.append(f"{(after or then[path]).pointer}: {path} {what}")
    more = f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    lines = [f"DVC: {'; '.join(changed[:_SHOWN])}{more}"] if changed else []
    return lines + ([f"DVC: this change edits {CONFIG}, which has no effect here before it is merged"] * edited)


def pointers_at(repository: Repository, commit: str) -> list[remote.Tracked]:
    """What DVC tracked at a commit."""
    names = [entry.name for entry in repository.tree(commit) if entry.kind == "file"]
    return remote.read_pointers(names, partial(repository.read, commit))


def pointers_here(repository: Repository) -> list[remote.Tracked]:
    """What DVC tracks in this working tree: by the pointers that git has, or all of them where there is no git."""
    root = repository.root.resolve()
    listed = _git(root, "ls-files", "-z")
    if listed is None:
        listed = []
        for top, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            listed += [Path(top, name).relative_to(root).as_posix() for name in names]
    return remote.read_pointers(listed, lambda name: remote.read_file(root, name, _MOST_BYTES))


def is_tracked(repository: Repository, commit: str, path: str) -> bool:
    """Whether DVC tracks something at, above or below a path at a commit."""
    project = work_tree_of(repository)
    return any(related(pointer.path, project.path(path)) for pointer in pointers_at(project.repository, commit))


def _targeted(
    project: Project, target: str, known: Sequence[remote.Tracked]
) -> list[tuple[remote.Tracked, str | None]]:
    """What a target means: the outputs of a pointer, or those at, above or below a path."""
    path = project.path(target)
    if path == ".":
        return [(pointer, None) for pointer in known]
    if remote.is_pointer(path):
        matches = [pointer for pointer in known if pointer.pointer == path]
        if not matches:  # one that is not in git yet
            root = project.repository.root.resolve()
            matches = remote.read_pointers([path], lambda name: remote.read_file(root, name, _MOST_BYTES))
        if matches:
            return [(pointer, None) for pointer in matches]
    some: list[tuple[remote.Tracked, str | None]] = [
        (pointer, path) for pointer in known if related(pointer.path, path)
    ]
    if some:
        return some
    near = did_you_mean(path, [*(pointer.path for pointer in known), *(pointer.pointer for pointer in known)])
    raise DatasetError(
        f"DVC tracks nothing called '{target}'.",
        where=target,
        remedy=near or "name a pointer (NAME.dvc, dvc.lock), or a path that one tracks",
    )


def _require_not_in_git(repository: Repository, wanted: Sequence[remote.Tracked]) -> None:
    """Raise DatasetError for a path that git tracks too: files that were checked out would be overwritten."""
    names = _git(repository.root, "ls-files", "-z") or []
    folders = {name.rsplit("/", depth)[0] for name in names for depth in range(1, name.count("/") + 1)}
    files = set(names)
    for pointer in wanted:
        above = {pointer.path.rsplit("/", depth)[0] for depth in range(1, pointer.path.count("/") + 1)}
        if pointer.path in files or pointer.path in folders or above & files:
            raise DatasetError(
                f"git has files at {pointer.path}, which DVC tracks too: nothing is written over them.",
                where=pointer.pointer,
                remedy=f"let one of both have it: `git rm -r --cached {pointer.path}`, or remove the pointer",
            )


def _settings(repository: Repository, base: str | None, env: Mapping[str, str]) -> AbstractContextManager[remote.Store]:
    """The caches and remotes that a commit configures; with this machine's own settings outside of CI."""
    if base is None:
        return remote.open_store(repository.root, None, own_settings=True, shown="this working tree")
    try:
        commit = repository.tip(base)
    except BaselineError as error:
        remedy = f"{error.remedy}; or name the branch whose {CONFIG} counts: --base origin/main"
        raise BaselineError(error.problem, where=error.where, remedy=remedy) from error
    committed = _git(repository.root, "ls-files", "-z", "--", OWN)
    return remote.open_store(
        repository.root,
        partial(repository.read, commit),
        own_settings=not in_ci(env) and committed == [],
        shown=f"{base} ({commit[:7]})" if base != commit else commit[:7],
    )


def _trusted(repository: Repository, commit: str, env: Mapping[str, str]) -> str:
    """Where the configuration for an older commit is read: on the default branch, where it is known and has one.

    A merge base is on that branch too, but may be a commit of a merged branch that was not reviewed by itself.
    """
    try:
        tip = repository.tip(_default_branch(env))
    except BaselineError:
        return commit
    return tip if repository.read(tip, CONFIG) is not None else commit


def _default_branch(env: Mapping[str, str]) -> str:
    """The remote's default branch, as the CI service names it; `origin/HEAD` where none does."""
    scheduled = env.get("GITHUB_EVENT_NAME") == "schedule"  # whose event names nothing, and which runs there alone
    named = env.get("GITHUB_REF_NAME") if scheduled else env.get("CI_DEFAULT_BRANCH")  # the latter is GitLab's
    return f"origin/{event_default_branch(env) or named or 'HEAD'}"


def related(path: str, other: str) -> bool:
    """Whether two paths are the same, or one is below the other."""
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/") or other == "."


def _git(root: Path, *words: str) -> list[str] | None:
    try:
        done = run_git(root, *words)
    except OSError:
        return None
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name] if done.returncode == 0 else None
