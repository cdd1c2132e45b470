"""The commits whose definition of the gate counts as well as the branch's own: the base's, and the default branch's."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairgate.gate.baselines import Repository, baseline_folder, parse_baseline
from fairgate.ground.ci import in_ci
from fairgate.ground.errors import BaselineError, NoVerdict
from fairgate.records import Decider
from fairgate.suites import FOLDER, LoadedSuite, Settings

THERE = "as the merge base has it"
"""What a definition was before a change."""
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PREFIX = re.compile(r"^(?:refs/(?:heads|remotes/origin)/|origin/)")


@dataclass(frozen=True, slots=True)
class BaseCommit:
    """A commit whose definition of the gate counts: its role in records, its hash, and the git reference to it."""

    decider: Decider
    ref: str
    commit: str

    @property
    def words(self) -> str:
        """How messages name it: `the merge base with origin/main (0123456)`."""
        return f"{'the merge base with ' if self.decider == 'merge base' else ''}{self.ref} ({self.commit[:7]})"


def base_commits_of_run(repository: Repository, settings: Settings) -> list[BaseCommit]:
    """The commits whose definitions count in a run with these settings.

    The base is the one that was named (`--fairness-base`, GitHub), else the REF of a `git:` baseline, else the default
    branch. To a baseline that was typed without a base, no default branch is added.
    Raises BaselineError where a named base, or the merge base with it, is not to be found.
    """
    if settings.bases is not None:
        return base_commits(repository, settings.bases)
    spec = parse_baseline(settings.baseline)
    typed = "baseline" not in settings.from_suite
    if spec.kind == "git":
        refs = (spec.target,)
        return _places(repository, refs) if typed else base_commits(repository, refs)
    return [] if typed else base_commits(repository, None)


def base_commits(repository: Repository, bases: tuple[str, ...] | None) -> list[BaseCommit]:
    """The merge base with the first reference, its tip, and the tips of the others; no commit twice.

    The default branch is added to a single branch, and is the base where none was named (None).
    """
    refs = bases or ()
    if bases != () and len(refs) < 2 and not (refs and _HASH.fullmatch(refs[0])):
        default = repository.default_branch()
        refs += (default,) if default is not None and branch_name(default) not in map(branch_name, refs) else ()
    try:
        return _places(repository, refs)
    except BaselineError:
        if bases is None:  # a default branch without common history here (a shallow clone) is no base
            return []
        raise


def base_notices(repository: Repository, settings: Settings, base: BaseCommit) -> list[str]:
    """A base that the author could choose, one that holds the candidate already, and a merge base of git's own that is
    not on the base's first-parent line are reported."""
    notices = [
        f"the merge base that git finds ({place.commit:.7}) is a commit of a branch that was merged into {base.ref}, "
        f"and was not {base.ref} itself: compared with {base.commit:.7}, which was"
        for place in _nearer(repository, base)
    ]
    if settings.bases is None:
        return notices
    default = settings.bases[1] if len(settings.bases) > 1 else repository.default_branch()
    if default is not None and branch_name(default) != branch_name(base.ref):
        try:
            same = repository.tip(default) == repository.tip(base.ref)
        except BaselineError:
            same = False
        if not same:
            notices.append(
                f"the base is {base.ref}, not the default branch {default}: compared with the baseline of {base.ref}; "
                "the definitions of both branches count"
            )
    if settings.pull_request and repository.tip("HEAD") == base.commit:
        notices.append(
            f"this commit is on {base.ref} already: the merge base is the candidate itself, and nothing is compared "
            "with what was there before"
        )
    return notices


def further_starts(repository: Repository, places: Sequence[BaseCommit]) -> list[BaseCommit]:
    """Further commits since which a merge takes what a change alters, besides the merge base (the first of `places`):
    git's own merge bases, and where a change and a base that is not the default branch parted from that."""
    starts = _nearer(repository, places[0])
    for place in places:
        if place.decider != "default branch":
            continue
        start = place
        with contextlib.suppress(BaselineError):  # no history in common: compared with its tip
            start = replace(place, commit=repository.merge_base(place.ref))
        starts += [start, *_nearer(repository, start)]
    return [each for each in starts if each.commit != places[0].commit]


def _nearer(repository: Repository, base: BaseCommit) -> list[BaseCommit]:
    """git's own merge bases, as far as they are others."""
    return [
        replace(base, commit=ancestor) for ancestor in repository.nearest_common(base.ref) if ancestor != base.commit
    ]


def require_as_committed(repository: Repository, suite: LoadedSuite, settings: Settings) -> None:
    """Raise NoVerdict in CI if the suite or its record is not the commit's, which is what a merge brings: an encoding
    in .gitattributes, a link or a module lets a working tree show another one."""
    path, folder = f"{FOLDER}/{suite.name}.yaml", baseline_folder(suite.name)
    if settings.bases is None or not in_ci(os.environ):
        return
    texts = (repository.read("HEAD", path), (repository.root / path).read_bytes())
    same = len({text and text.replace(b"\r\n", b"\n") for text in texts}) == 1
    if not same or repository.differs("HEAD", folder):
        raise NoVerdict(
            f"{folder if same else path} is not here as the commit has it.",
            where=path,
            remedy="commit these files themselves: no link, no module, no encoding or filter in .gitattributes",
        )


def suites_at(repository: Repository, commit: str) -> list[str]:
    """The names of the suites that a commit has."""
    names = (entry.name.removeprefix(f"{FOLDER}/") for entry in repository.tree(commit, FOLDER))
    return [name.removesuffix(".yaml") for name in names if name.endswith(".yaml") and "/" not in name]


def suites_of_bases(root: Path, bases: tuple[str, ...] | None, known: Sequence[BaseCommit]) -> list[str]:
    """Every suite that a base has: one that was named, the default branch, and the commits that are known already."""
    repository = Repository(root)
    commits = {place.commit for place in [*known, *base_commits(repository, bases)]}
    return sorted({name for commit in commits for name in suites_at(repository, commit)})


def branch_name(ref: str) -> str:
    """`main` for `origin/main`, `refs/heads/main` and the like."""
    return _PREFIX.sub("", ref)


def is_full_hash(ref: str) -> bool:
    """Whether a reference is a commit's full hash, and no name."""
    return _HASH.fullmatch(ref) is not None


def _places(repository: Repository, refs: Sequence[str]) -> list[BaseCommit]:
    places = [BaseCommit("merge base", ref, repository.merge_base(ref)) for ref in refs[:1]]
    places += [BaseCommit("base tip", ref, repository.tip(ref)) for ref in refs[:1]]
    places += [BaseCommit("default branch", ref, repository.tip(ref)) for ref in refs[1:]]
    bases: dict[str, BaseCommit] = {}
    for place in places:
        bases.setdefault(place.commit, place)
    return list(bases.values())
