"""Changes that a person has to weigh: listed in the record, and closed until the default branch approves them.

An approval binds a suite, a kind of change, and the digests of what there was before and is now, until a day: it clears
neither the way back nor the next change. What a branch approves itself does not count. An anchor is a commit: its name
is for people, and a tag that moves moves no anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from fairgate import suites
from fairgate.gate.baselines import RESULTS, SCORES, BaselineSpec, Repository, parse_baseline
from fairgate.gate.bases import BaseCommit, branch_name, is_full_hash
from fairgate.gate.model_runs import ComparedRun
from fairgate.gate.preparation import Approving, Prepared
from fairgate.ground.errors import BaselineError, SuiteError
from fairgate.ground.hashing import sha256_bytes
from fairgate.ground.text import without_json
from fairgate.records import Against, ApprovalKind, DefinitionChange, ModelInfo, NeededApproval
from fairgate.version import __version__

NOTHING = "none"
"""The digest of what is not there."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Weighed:
    """What is left to approve, and sentences about what was approved, or is only reported."""

    open: list[NeededApproval]
    notices: list[str]


def approving(
    here: suites.LoadedSuite, repository: Repository, settings: suites.Settings, places: Sequence[BaseCommit]
) -> Approving:
    """Whose approvals count in a run that has a base: the suite as the default branch has it.

    Without a default branch that is known, a run of a pull request has nobody who approves.
    """
    named = settings.bases or ()
    if len(named) == 1 and is_full_hash(named[0]):  # a push to the default branch, as the action names it
        ref: str | None = named[0]
    else:
        ref = named[1] if len(named) > 1 else repository.default_branch()
        if ref is None and not settings.pull_request:
            ref = places[0].ref
    if ref is None:
        return Approving(None, "the default branch, which is not known here")
    try:
        commit = repository.tip(ref)
        text = repository.read(commit, f"{suites.FOLDER}/{here.name}.yaml")
        shown = f"{suites.FOLDER}/{here.name}.yaml at {commit[:7]}"
        suite = None if text is None else suites.load_text(text, here.path, shown=shown).suite
    except (BaselineError, SuiteError):
        return Approving(None, f"{ref}, whose suite cannot be read")
    return Approving(suite, ref if is_full_hash(ref) else branch_name(ref))


def weigh(prepared: Prepared, needed: Iterable[NeededApproval], today: date) -> Weighed:
    """Set aside what the default branch approves, or asks only to have reported (`approval: note`).

    Without any base (a folder without git, `--fairness-base none`), the suite that is judged approves for itself.
    """
    place = prepared.approving or Approving(prepared.loaded.suite, "this suite")
    open_, notices = list[NeededApproval](), list[str]()
    approvals = place.suite.approvals if place.suite is not None else []
    for approval_needed in {(each.kind, each.before, each.now): each for each in reversed([*needed])}.values():
        bound = (approval_needed.kind, approval_needed.before, approval_needed.now)
        matching = [approval for approval in approvals if (approval.kind, approval.before, approval.now) == bound]
        valid = [approval for approval in matching if approval.until >= today]
        if valid:
            notices.append(
                f"approved on {place.words} until {valid[0].until}: {approval_needed.what} ({valid[0].reason})"
            )
        elif place.suite is not None and place.suite.approval == "note":
            notices.append(f"{approval_needed.what} (reported alone, as `approval: note` of {place.words} has it)")
        else:
            late = f" (its approval expired on {matching[0].until})" if matching else ""
            open_.append(approval_needed.model_copy(update={"what": f"{approval_needed.what}{late}"}))
    return Weighed(open_, notices)


def weaker_definition(before: suites.Suite, now: suites.Suite, words: str) -> list[NeededApproval]:
    """The approval that a definition needs by which a model may pass that the old one stops; none if it is stricter."""
    changes = suites.weaker(before, now)
    if not changes:
        return []
    what = f"the gate may be weaker than at {words}: {_listed(changes)}"
    return [_needed("definition", what, suites.definition_digest(before), suites.definition_digest(now))]


def other_model(before: str, now: str, words: str) -> NeededApproval:
    """The approval that another `model:` than the base's needs."""
    what = f"the suite judges {now}, and {before} at {words}"
    return _needed("model", what, *(sha256_bytes(uri.encode("utf-8", "surrogateescape")) for uri in (before, now)))


def another_suite(before: bytes | None, now: suites.Suite | None, what: str) -> NeededApproval:
    """The approval that a suite needs which is deleted (`now` is None), or cannot be compared with what was there."""
    old = NOTHING if before is None else sha256_bytes(before)
    return _needed("definition", what, old, NOTHING if now is None else suites.definition_digest(now))


def comparisons(
    model: ModelInfo, plugins: Mapping[str, str], others: Mapping[Against, ComparedRun]
) -> list[NeededApproval]:
    """What differs from the baseline (without one, from the anchor) besides the weights: the tokenizer, the
    preprocessing, and the packages that took part."""
    needed = [weighed for other in others.values() for weighed in other.weighed]
    judged = [model, *(other.model for other in others.values() if other.environment is None)]
    for served in (each.served for each in judged if each.served is not None):  # no file: what it reports is approved
        what = f"a server gives the answers, and nothing binds them to weights; it reports: {served}"
        needed.append(_needed("server", what, None, sha256_bytes(served.encode())))
    against = next(iter(others), None)
    if against is None:
        return needed
    other = others[against]
    for name in filter(None, other.counterpart.changed.split(" and ")):
        kind: ApprovalKind = "preprocessing" if name == "preprocessing" else "tokenizer"
        digests = (getattr(compared, kind) for compared in (other.model, model))
        needed.append(_needed(kind, f"the {name} of the model is not the {against}'s", *digests))
    then = other.environment.plugins if other.environment is not None else None
    if then is not None:
        packages = sorted(name for name in {*plugins, *then} if plugins.get(name) != then.get(name))
        needed += [_plugin(name, then.get(name), plugins.get(name), against) for name in packages]
    return needed


def _plugin(package: str, before: str | None, now: str | None, against: Against) -> NeededApproval:
    old, new = ("not there" if version is None else version.partition(" sha256:")[0] for version in (before, now))
    what = f"the package {package}, which takes part in the verdict, was {old} in the {against}'s run and is {new} here"
    digests = (None if version is None else sha256_bytes(f"{package} {version}".encode()) for version in (before, now))
    return _needed("plugin", what, *digests)


def _needed(kind: ApprovalKind, what: str, before: str | None, now: str | None) -> NeededApproval:
    return NeededApproval(kind=kind, what=what, before=before or NOTHING, now=now or NOTHING)


def _listed(changes: Sequence[DefinitionChange]) -> str:
    shown = [f"{change.what} {_short(change.before)} → {_short(change.now)}" for change in changes[:_SHOWN]]
    more = len(changes) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more else shown)


def _short(text: str | None) -> str:
    if text is None:
        return "(not there)"
    text = without_json(text)
    return text if len(text) <= 60 else f"{text[:60]}…"


def record_approval(folder: str, prepared: Prepared, what: str) -> NeededApproval:
    """It binds both files of the record in a folder of the repository, before and now."""
    base = prepared.compared.commit if prepared.compared is not None else "HEAD"
    before = [prepared.repository.read(base, f"{folder}/{name}") for name in (RESULTS, SCORES)]
    paths = [prepared.root / folder / name for name in (RESULTS, SCORES)]
    now = [path.read_bytes() if path.is_file() else None for path in paths]
    digests = (sha256_bytes(b"\0".join(map(_named, files))) if any(files) else None for files in (before, now))
    return _needed("record", f"the edited record in {folder} {what}", *digests)


def _named(content: bytes | None) -> bytes:
    return b"" if content is None else sha256_bytes(content).encode()


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
    return [] if now in (None, commit) else [_needed("anchor", what, commit, now)]


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
    return [_needed("anchor", what, *(text and sha256_bytes(text.encode()) for text in (before, now)))]


def unpinned_anchors(loaded: Sequence[suites.LoadedSuite], repository: Repository) -> list[str]:
    """A line to paste for each anchor of a suite that names a tag or branch alone.

    Raises BaselineError from version `PINNED_FROM` on.
    """
    lines = []
    for suite in loaded:
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
