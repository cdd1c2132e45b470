"""An anchor is a commit: its name is for people, and a tag that moves moves no anchor."""

from __future__ import annotations

from collections.abc import Sequence

from fairgate.gate.baselines import BaselineSpec, Repository, parse_baseline
from fairgate.gate.bases import BaseCommit
from fairgate.ground.errors import BaselineError
from fairgate.ground.hashing import sha256_bytes
from fairgate.records import NeededApproval
from fairgate.suites import LoadedSuite
from fairgate.version import __version__

PINNED_FROM = (0, 4)
"""The version from which on an anchor without a commit is an error; before, it is a warning."""


def moved_anchor(spec: BaselineSpec, repository: Repository) -> list[NeededApproval]:
    """The approval that an anchor needs whose tag is another commit by now than the pinned one, which is compared with.

    A branch is meant to move, and a tag that this clone does not have says nothing.
    """
    if spec.pinned is None:
        return []
    name, commit = spec.pinned
    now = repository.tag(name)
    what = f"the tag {name} is {now or '':.7} here, and the anchor is pinned to {commit:.7}, which is compared with"
    return [] if now in (None, commit) else [NeededApproval(kind="anchor", what=what, before=commit, now=now or "none")]


def edited_anchor(
    before: str | None, now: str | None, repository: Repository, base: BaseCommit
) -> list[NeededApproval]:
    """The approval that another `anchor:` than a base's needs; none for one that is added, or pinned where it was: to a
    commit of the base's history, since who may push can move a tag to a commit of their own first."""
    if before is None or before == now:
        return []
    old, new = parse_baseline(before), None if now is None else parse_baseline(now)
    if new is not None and new.pinned is not None and new.pinned[0] == old.target and old.pinned is None:
        try:
            if repository.tip(old.target) == new.pinned[1] and repository.has(new.pinned[1], base.commit):
                return []
        except BaselineError:
            pass
    what = f"the suite's anchor is {now or 'taken away'}, and {before} at {base.words}"
    digests = ["none" if text is None else sha256_bytes(text.encode()) for text in (before, now)]
    return [NeededApproval(kind="anchor", what=what, before=digests[0], now=digests[1])]


def unpinned_anchors(suites: Sequence[LoadedSuite], repository: Repository) -> list[str]:
    """A line to paste for each anchor of a suite that names a tag or branch alone.

    Raises BaselineError from version `PINNED_FROM` on.
    """
    lines = []
    for suite in suites:
        spec = parse_baseline(suite.suite.anchor or "none")
        if spec.kind != "git" or spec.pinned is not None:
            continue
        line = f"anchor: {spec}@{repository.tip(spec.target)}"
        remedy = f"write `{line}` (`fairgate baseline anchor {suite.name} {spec.target}` does)"
        problem = f"the anchor '{spec}' names no commit, and who may push can move a tag."
        if tuple(map(int, __version__.split(".")[:2])) >= PINNED_FROM:
            raise BaselineError(problem, where=suite.where("anchor"), remedy=remedy)
        version = ".".join(map(str, PINNED_FROM))
        lines.append(f"{suite.where('anchor')}: {problem} From version {version} on that is an error: {remedy}")
    return list(dict.fromkeys(lines))
