"""The data that a change's bases judge on: if a release is other data than this change's, both count.

Somebody has to weigh edits of tables, since their author can write any number.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from fairgate.data import Dataset
from fairgate.data.remote import Tracked
from fairgate.gate.baselines import Repository, content_digest, pointers_at, pointers_here, release_at, same_data
from fairgate.gate.bases import THERE, BaseCommit, branch_name, is_full_hash
from fairgate.gate.preparation import Prepared, planned_on
from fairgate.ground.errors import BaselineError, DatasetError, FairgateError, ModelError, NoVerdict, SuiteError
from fairgate.ground.hashing import digest, sha256_bytes, sha256_file
from fairgate.models import local_paths, schemes
from fairgate.models.checkpoints import repositories_of
from fairgate.records import DefinitionChange, NeededApproval
from fairgate.suites import LoadedSuite, same_verdicts


@dataclass
class BaseReleases:
    """The bases' suites, planned on the bases' own releases: as far as those are not the data of this change."""

    prepared: Prepared
    repository: Repository
    planned: list[Prepared] = field(default_factory=list)

    def of(self, suite: LoadedSuite, place: BaseCommit) -> Dataset | None:
        """The release that a suite of a base means there; None if it is the data of this change.

        Raises NoVerdict if it is not to be had.
        """
        try:
            return release_at(self.repository, place.commit, suite.suite.dataset, self.prepared.dataset.manifest)
        except (BaselineError, DatasetError) as error:
            behind = f"; or rebase onto {place.ref}" if place.decider != "merge base" else ""
            pull = f"`fairgate dataset pull` on a checkout of {place.commit[:7]} brings it, if DVC has it"
            raise NoVerdict(
                f"{place.words} judges on dataset '{suite.suite.dataset}', and this run needs it as it is there: "
                f"{error.problem}",
                where=error.where or suite.where("dataset"),
                remedy=f"{error.remedy}; {pull}{behind}",
            ) from error

    def add(self, suite: LoadedSuite, place: BaseCommit) -> Dataset | None:
        """Judge a base's suite on its own release, too, if that is other data; the release, or None.

        Raises NoVerdict if the release is not to be had, or the suite cannot be evaluated on it.
        """
        dataset = self.of(suite, place)
        if dataset is None:
            return None
        known = next(
            (planned for planned in self.planned if same_data(planned.dataset.manifest, dataset.manifest)), None
        )
        if known is not None and any(same_verdicts(suite.suite, each.loaded.suite) for each in known.definitions):
            return dataset
        try:
            definition = planned_on(suite, dataset if known is None else known.dataset, place.decider)
        except SuiteError as error:
            raise NoVerdict(
                f"the checks of {place.words} cannot be evaluated on its own dataset: {error.problem}",
                where=error.where,
                remedy="correct the suite there, in a change of its own with `--fairness-base none`",
            ) from error
        if known is not None:
            self.planned[self.planned.index(known)] = replace(known, others=(*known.others, definition))
            return dataset
        whose = "the base's" if is_full_hash(place.ref) else f"{branch_name(place.ref)}'s"
        self.planned.append(
            Prepared(
                suite,
                definition.planned,
                definition.null,
                place.decider,
                dataset=dataset,
                repository=self.prepared.repository,
                release=f"{whose} release {_named(dataset, self.prepared.dataset)}",
            )
        )
        return dataset


def other_dataset(before: Dataset, now: Dataset, words: str) -> NeededApproval:
    """The approval that other data than a base's need; `words` name the base."""
    what = f"this change judges on {_named(now, before)}, {words} on {_named(before, now)}"
    digests = content_digest(before.manifest, now.manifest), content_digest(now.manifest, before.manifest)
    return NeededApproval(kind="dataset", what=what, before=digests[0], now=digests[1])


def edited_dataset(dataset: Dataset, repository: Repository, base: BaseCommit) -> list[DefinitionChange]:
    """A dataset in git that a commit of this change edits or adds; `tracked` reports DVC's pointers."""
    folder = f"{dataset.folder.parents[1].name}/{dataset.name}/{dataset.version}"
    then, now = (repository.tree(commit, folder) for commit in (base.commit, "HEAD"))
    before, what = (THERE, "edited") if then else (None, "added")
    return [DefinitionChange(what=folder, before=before, now=f"{what} by this change")] if now and now != then else []


def judged_on_both(now: Dataset, there: Sequence[tuple[Prepared, float]]) -> list[str]:
    """Which releases of bases were judged on as well, and the seconds that each took."""
    return [
        f"dataset: this change is judged on {_named(now, judged.dataset)}, and by the base's checks on "
        f"{judged.release} as well: for each check the stricter verdict counts. That took {seconds:.1f} s more"
        for judged, seconds in there
    ]


def _named(dataset: Dataset, other: Dataset) -> str:
    """A release by name and version; by its content, too, if another one has the same."""
    name = f"{dataset.name}/{dataset.version}"
    if name != f"{other.name}/{other.version}":
        return name
    return f"{name} ({content_digest(dataset.manifest, other.manifest)[:12]})"


TABLES: Final = ("scores", "embeddings", "detections", "labels", "answers", "numbers")
"""Schemes of models that are tables of somebody's numbers or words."""
_MOST_LINKS: Final = 40


def edited_tables(repository: Repository, commit: str, words: str, uris: Sequence[str]) -> list[NeededApproval]:
    """The tables of these model URIs that a base commit (`words`) has, in git or by DVC, with other content."""
    needed = []
    for path in dict.fromkeys(path for uri in uris for path in _paths(uri)):
        in_git = _in_git(repository, commit, path)
        digests = in_git or _by_dvc(repository, commit, path)
        if digests is not None:
            table = f"a table in {'git' if in_git else 'DVC'} that {words} has"
            what = f"this change edits {path.as_posix()}, {table}: any number can be written into it"
            needed.append(NeededApproval(kind="table", what=what, before=digests[0], now=digests[1]))
    return needed


def _paths(uri: str) -> tuple[Path, ...]:
    try:
        return local_paths(uri) if set(schemes(uri)) & set(TABLES) else ()
    except ModelError:  # a URI of another kind; the run reports it
        return ()


def edited(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    """The digests of a file or folder before and now, if a commit has it, in git or by DVC, with other content.

    A link is followed to where it led then, and to where it leads now.
    """
    return _in_git(repository, commit, path) or _by_dvc(repository, commit, path)


def _in_git(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    for top, place in _places(repository.root, path):
        work_tree = Repository(top)
        name = _led_to(work_tree, commit, place.relative_to(top).as_posix())
        entries = work_tree.tree(commit, name) if place.exists() else []
        elsewhere = place.resolve() != (top.resolve() / name).resolve()
        if not entries or not (elsewhere or work_tree.differs(commit, name)):
            continue
        try:
            before = {entry.name: sha256_bytes(work_tree.read(commit, entry.name) or b"") for entry in entries}
        except FairgateError:  # Git LFS: known by the blob of its pointer
            before = {entry.name: entry.blob for entry in entries}
        if place.is_dir():
            files = sorted(each for each in place.rglob("*") if each.is_file())
            now = digest({each.relative_to(place).as_posix(): sha256_file(each) for each in files})
            then = digest({each.removeprefix(f"{name}/"): content for each, content in before.items()})
        else:
            then, now = before.get(name, digest(before)), sha256_file(place)
        if then != now:
            return then, now
    return None


def _by_dvc(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    """By the MD5 of a file before, as a pointer has it; a folder, and what is in one, by the folder's pointer."""
    for top, place in _places(repository.root, path):
        work_tree = Repository(top)
        try:
            name = _led_to(work_tree, commit, place.relative_to(top).as_posix())
            then = next((pointer for pointer in pointers_at(work_tree, commit) if _holds(pointer, name)), None)
            now = [pointer.md5 for pointer in pointers_here(work_tree) if _holds(pointer, name)]
        except FairgateError:  # the run reports pointers that cannot be read
            return None
        if then is None or not place.exists():
            continue
        if not then.folder and place.is_file():
            with place.open("rb") as handle:
                now = [hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()]
        if now != [then.md5] or (then.folder and work_tree.tree("HEAD", name)):  # git's files lie over DVC's
            here = sha256_file(place) if place.is_file() else sha256_bytes(f"md5:{now}".encode())
            return sha256_bytes(f"md5:{then.md5}".encode()), here
    return None


def _holds(tracked: Tracked, name: str) -> bool:
    return tracked.path == name or (tracked.folder and name.startswith(f"{tracked.path}/"))


def _led_to(repository: Repository, commit: str, name: str) -> str:
    """Where a path led at a commit, with the links followed that git had on the way."""
    links = {entry.name for entry in repository.tree(commit) if entry.kind == "link"}
    for _ in range(_MOST_LINKS):
        parts = name.split("/")
        heads = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        link = next((head for head in heads if head in links), None)
        if link is None:
            return name
        text = os.fsdecode(repository.read(commit, link) or b"")
        name = os.path.normpath(Path(link).parent.joinpath(text, *parts[link.count("/") + 1 :]))
    return name


def _places(root: Path, path: Path) -> Iterator[tuple[Path, Path]]:
    """The work tree and where in it a path leads: as it is written, and with links followed."""
    top = next(iter(repositories_of(root)), root.resolve())
    for place in dict.fromkeys((Path(os.path.normpath(root.resolve() / path)), (root / path).resolve())):
        if place.is_relative_to(top):
            yield top, place
