"""The release that a suite's `dataset:` names at another commit, as that commit has it and not as a branch edits it.

A release is tracked by git or by DVC, or lies in a folder that both ignore (a runner has it by other means). Of an
ignored folder there is one copy, which counts for every commit, unless the branch tracks files there itself.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairgate import data
from fairgate.data.remote import Tracked
from fairgate.gate.baselines.git import Repository, TreeEntry
from fairgate.gate.baselines.tracked import check_out, names_at, pointers_at, pointers_here, related, work_tree_of
from fairgate.ground.errors import BaselineError, DatasetError
from fairgate.ground.hashing import digest


def content_digest(manifest: data.Manifest, other: data.Manifest) -> str:
    """What an approval of another release binds: its content's fingerprint; of two releases that share it, and declare
    other groups or sets, the digest of what is declared."""
    return manifest.fingerprint if manifest.fingerprint != other.fingerprint else digest(_declared(manifest))


def release_at(repository: Repository, commit: str, ref: str, ours: data.Manifest) -> data.Dataset | None:
    """The release that `dataset: REF` (NAME or NAME@vN) means at a commit; None if it is the same data as `ours`.

    One that is not here comes from git or DVC into a folder for temporary files, which goes with the Dataset. Raises
    DatasetError or BaselineError if it is not to be had.
    """
    name, at, version = ref.partition("@")
    data.check_name(name, version if at else None)
    there = _Commit(repository, commit)
    version = version or there.newest(name)
    folder = f"{there.root}/{name}/{version}"
    if there.is_here(folder):
        dataset = data.open_dataset(f"{name}@{version}", repository.root / there.root)
        return None if same_data(dataset.manifest, ours) else dataset
    scratch = Path(tempfile.mkdtemp(prefix="fairgate-"))
    try:
        there.bring(f"{folder}/{data.MANIFEST_FILE}", scratch / "described")
        described = data.read_dataset(scratch / "described" / folder)
        if same_data(described.manifest, ours):
            shutil.rmtree(scratch, ignore_errors=True)
            return None
        if _lies_here(repository.root / folder, described):
            dataset = data.open_dataset(f"{name}@{version}", repository.root / there.root)
        else:
            there.bring(folder, scratch / "released")
            dataset = data.open_dataset(f"{name}@{version}", scratch / "released" / there.root)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    weakref.finalize(dataset, shutil.rmtree, scratch, ignore_errors=True)
    return dataset


def _lies_here(folder: Path, described: data.Dataset) -> bool:
    """Whether a folder has the very manifest, and the shards that it names."""
    try:
        here = data.read_dataset(folder)
        here.check_shards()
    except DatasetError:
        return False
    return here.manifest == described.manifest


def same_data(own: data.Manifest, other: data.Manifest) -> bool:
    """Whether two releases give the same verdicts: one content, divided alike into groups and sets."""
    return _declared(own) == _declared(other)


def _declared(manifest: data.Manifest) -> object:
    named = (manifest.attributes, manifest.subjects, manifest.members, manifest.counterfactual)
    return [manifest.fingerprint, *named, manifest.image_encoding]


@dataclass(frozen=True)
class _Commit:
    """What git and DVC track at a commit, next to what they track here."""

    repository: Repository
    commit: str

    @cached_property
    def _pointers(self) -> list[Tracked]:
        return pointers_at(work_tree_of(self.repository).repository, self.commit)

    @cached_property
    def _pointers_here(self) -> list[Tracked]:
        return pointers_here(work_tree_of(self.repository).repository)

    @cached_property
    def root(self) -> str:
        """The folder of its releases: what it tracks counts, and not what this branch brings; of a commit that tracks
        none, the folder that is here."""
        project = work_tree_of(self.repository)
        for folder in map(str, data.RELEASES):
            released = re.compile(rf"{folder}/[^/]+/v[0-9]+/{data.MANIFEST_FILE}")
            in_git = any(
                entry.kind == "module" or released.fullmatch(entry.name)
                for entry in self.repository.tree(self.commit, folder)
            )
            if in_git or any(related(pointer.path, project.path(folder)) for pointer in self._pointers):
                return folder
        return data.releases_folder(self.repository.root).name

    @cached_property
    def _in_git(self) -> list[TreeEntry]:
        """Files, links and modules of this branch: at, above or below the releases."""
        return self.repository.tree("HEAD", self.root)

    @cached_property
    def _in_git_then(self) -> list[TreeEntry]:
        return self.repository.tree(self.commit, self.root)

    def _over(self, pointers: Iterable[Tracked], folder: str) -> dict[str, str]:
        """Pointers of DVC at, above or below a folder: their paths and MD5s."""
        path = work_tree_of(self.repository).path(folder)
        return {pointer.path: pointer.md5 for pointer in pointers if related(pointer.path, path)}

    def is_here(self, folder: str) -> bool:
        """Whether a folder counts as it lies here: DVC's pointers to it are the same, or the commit of a module of git,
        or the commit tracks none.

        Raises BaselineError if the commit tracks none, and this branch brings one itself.
        """
        module = _modules(self._in_git_then, folder)
        if module and module == _modules(self._in_git, folder):
            return True
        in_git = any(related(entry.name, folder) for entry in self._in_git)
        then, now = self._over(self._pointers, folder), self._over(self._pointers_here, folder)
        if any(entry.name.startswith(f"{folder}/") for entry in self._in_git_then):
            return False
        if then:
            return then == now and not in_git and (self.repository.root / folder / data.MANIFEST_FILE).is_file()
        if in_git or now:
            raise BaselineError(
                f"neither git nor DVC has {folder} at {self.commit[:7]}, and this change brings one of that name.",
                where=folder,
                remedy="give it a version of its own (`fairgate release`)",
            )
        return True

    def newest(self, name: str) -> str:
        """The newest version that the commit has. Raises DatasetError if there is none."""
        top = f"{self.root}/{name}"
        names = [entry.name for entry in self._in_git_then]
        names += [
            f"{top}/{version}/"
            for version in self._untouched(top, data.versions(name, self.repository.root / self.root))
        ]
        same = self._over(self._pointers, top) == self._over(self._pointers_here, top)
        if not same or any(related(entry.name, top) for entry in self._in_git):
            names += names_at(self.repository, self.commit, top)
        names_there = {name.removeprefix(f"{top}/").partition("/")[0] for name in names if name.startswith(f"{top}/")}
        every = [version for version in names_there if re.fullmatch(data.VERSION_PATTERN, version)]
        if not every:
            raise DatasetError(
                f"neither git nor DVC has a dataset '{name}' at {self.commit[:7]}, and none is here that this change "
                "does not bring itself.",
                where=top,
                remedy="bring the one that is judged there (`fairgate dataset get`, or as the runner gets it)",
            )
        return max(every, key=lambda version: int(version[1:]))

    def _untouched(self, top: str, here: Iterable[str]) -> Iterator[str]:
        """Versions in this working tree that count at the commit as well."""
        for version in here:
            with contextlib.suppress(BaselineError):
                if self.is_here(f"{top}/{version}"):
                    yield version

    def bring(self, path: str, into: Path) -> None:
        """A file or folder as git or DVC has it at the commit."""
        into.mkdir(exist_ok=True)
        check_out(self.repository, self.commit, path, into)


def _modules(entries: Iterable[TreeEntry], folder: str) -> list[str]:
    """The commits of the modules of git at or above a folder."""
    return [entry.blob for entry in entries if entry.kind == "module" and f"{folder}/".startswith(f"{entry.name}/")]
