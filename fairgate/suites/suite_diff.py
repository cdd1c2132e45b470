"""Definitions of one suite, this change's and those of its base: what differs, and which verdict counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fairgate.ground.hashing import digest
from fairgate.records import STRICTNESS, CheckResult, Decider, DefinitionChange, item_name
from fairgate.suites.load import LoadedSuite
from fairgate.suites.schema import Suite

_LONGEST = 300
_WEIGHED_APART = ("dataset", "anchor", "approvals")
"""Keys of which each change is weighed by itself."""
_FIRST: tuple[Decider, ...] = ("merge base", "base tip", "default branch", "this change")


_HIGHER = {"at_least": True, "at_most": False, "margin": False, "anchor_margin": False}
"""Bounds of a check, and whether the higher one is the stricter."""


def changes_between(before: Suite, now: Suite) -> list[DefinitionChange]:
    """Everything that a change alters in the gate, key by key; checks and waivers are known by name, not by place."""
    return [_described(*difference) for difference in _differences((), _plain(before), _plain(now))]


def weaker(before: Suite, now: Suite) -> list[DefinitionChange]:
    """Those changes of the gate that are not known to be stricter: a check may pass by them that failed before.

    The dataset, the anchor and approvals are left out.
    """
    differences = _differences((), _plain(before, *_WEIGHED_APART), _plain(now, *_WEIGHED_APART))
    return [_described(*difference) for difference in differences if not _tightens(*difference)]


def definition_digest(suite: Suite) -> str:
    """Hex SHA-256 of what `weaker` compares: an approval of a weaker definition binds it."""
    return digest(_plain(suite, *_WEIGHED_APART))


def same_verdicts(before: Suite, now: Suite) -> bool:
    """Whether two suites give the same verdicts on the same scores. Where the baseline is found does not count."""
    left_out = ("baseline", "approval", "approvals", "dataset")  # both are planned on this change's dataset
    return _plain(before, *left_out) == _plain(now, *left_out)


def with_subjects_of(before: LoadedSuite, now: LoadedSuite) -> LoadedSuite:
    """The merge base's suite for a dataset with other subjects: only subjects that it lacks get this change's labels.

    A probe that has no labels by subject on both sides stays as the merge base has it.
    """
    theirs = now.suite.probes
    probes = {
        name: probe.with_subjects_of(theirs[name]) if name in theirs else probe
        for name, probe in before.suite.probes.items()
    }
    return replace(before, suite=before.suite.model_copy(update={"probes": probes}))


def stricter(definitions: Sequence[tuple[Decider, Sequence[CheckResult]]]) -> list[CheckResult]:
    """Each check under the definition that is hardest on it, of this change's (the first) and others.

    Of equally hard ones the one in which more groups fail counts (a larger `min_sets` would leave some out), then the
    merge base's, then the base tip's, the default branch's, this change's. This change's does not, where it measures
    something else, or leaves out a group that fails a base's. Checks that only some of them have count as well: a
    change may add checks, and takes none away.
    """
    by_item: dict[str, dict[Decider, CheckResult]] = {}
    for decider, checks in definitions:
        for check in checks:
            by_item.setdefault(check.item, {})[decider] = check
    return [_strictest(by, [decider for decider, _ in definitions]) for by in by_item.values()]


def stricter_on_other_data(
    own: Sequence[CheckResult], there: Sequence[CheckResult], decider: Decider, release: str
) -> list[CheckResult]:
    """Each check on this change's dataset, or as a base's checks have it on the base's `release`, if that is harder.

    Checks that only the base has are added. Pictures of the worst sets are left out: they are of another dataset.
    """
    merged = {check.item: check for check in own}
    for check in there:
        here = merged.get(check.item)
        if here is not None and _hardness(check) <= _hardness(here):
            continue
        update: dict[str, Any] = {"decided_by": check.decided_by or decider, "other_by": "this change"}
        if here is not None:
            update |= {"other_bound": here.bound, "other_verdict": "pass" if here.excused else here.verdict}
        reason = f"on {release}: {check.reason}"
        merged[check.item] = check.model_copy(
            update={**update, "judged_on": release, "reason": reason, "worst_sets": []}
        )
    return list(merged.values())


def _hardness(check: CheckResult) -> tuple[int, int]:
    """How hard a result is on the candidate: of two failures, the one in which more groups fail."""
    return _weight(check), len(check.failing_groups)


def _strictest(by: dict[Decider, CheckResult], deciders: Sequence[Decider]) -> CheckResult:
    """The hardest of one check's variants, with what another definition says of it, or that one has no such check."""
    hardest = max(map(_weight, by.values()))
    bases = [check for who, check in by.items() if who != "this change" and _weight(check) == hardest]

    def rank(who: Decider) -> tuple[int, bool, int, int]:
        hides = who == "this change" and not all(_covers(by[who], check) for check in bases)
        return -_weight(by[who]), hides, -len(by[who].failing_groups), _FIRST.index(who)

    ranked = sorted(by, key=rank)
    decider, chosen = ranked[0], by[ranked[0]]
    differing = [who for who in ranked if not _same(by[who], chosen)]
    if not differing:
        lacking = [who for who in deciders if who not in by]
        decider = "this change" if "this change" in by else decider
        return by[decider].model_copy(update={"decided_by": decider, "other_by": lacking[0]} if lacking else {})
    other = "this change" if "this change" in differing else differing[0]
    return chosen.model_copy(
        update={
            "decided_by": decider,
            "other_by": other,
            "other_bound": by[other].bound,
            "other_verdict": "pass" if by[other].excused else by[other].verdict,
        }
    )


def _covers(own: CheckResult, other: CheckResult) -> bool:
    """Whether a check measures what another does, and names every group that fails there."""
    alike = all(getattr(own, name) == getattr(other, name) for name in ("metric", "k", "probe", "over"))
    failing = [{group.group for group in check.failing_groups} for check in (own, other)]
    return alike and failing[0] >= failing[1]


def _weight(check: CheckResult) -> int:
    return 0 if check.excused else STRICTNESS[check.verdict]


def _same(own: CheckResult, other: CheckResult) -> bool:
    """Whether two definitions have the same check; an adjusted p may differ with the size of the family."""
    fields = ("verdict", "tier", "rule", "bound", "metric", "k", "probe", "over", "value", "waiver")
    groups = [[(group.group, group.verdict) for group in check.groups] for check in (own, other)]
    return groups[0] == groups[1] and all(getattr(own, name) == getattr(other, name) for name in fields)


def _plain(suite: Suite, *left_out: str) -> dict[str, Any]:
    """A suite as nested mappings, with checks and waivers by name and without keys that are not set, or left out."""
    data = suite.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["checks"] = {check.pop("id"): check for check in data["checks"]}
    waivers = data.pop("waivers", [])
    data["waivers"] = {
        item_name(waiver["check"], waiver.get("subject")): {key: waiver[key] for key in ("until", "reason")}
        for waiver in waivers
    }
    data["approvals"] = {
        f"{approval['kind']} {approval['before'][:12]} to {approval['now'][:12]}": {
            key: approval[key] for key in ("until", "reason")
        }
        for approval in data.pop("approvals", [])
    }
    # the checkpoint is what is judged: a change may edit it without editing the gate
    return {name: value for name, value in data.items() if name not in ("model", *left_out)}


def _differences(path: tuple[str, ...], before: Any, now: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Where two suites differ: the path of keys, what is there before and now (None: nothing)."""
    if before == now:
        return
    named = path[:1] in (("checks",), ("waivers",), ("probes",), ("approvals",)) and len(path) == 2
    whole = named and (before is None or now is None)
    if whole or not (isinstance(before, dict) and isinstance(now, dict)):
        yield path, before, now
        return
    for key in dict.fromkeys([*before, *now]):
        yield from _differences((*path, key), before.get(key), now.get(key))


def _tightens(path: tuple[str, ...], before: Any, now: Any) -> bool:
    """Whether a difference can only make the gate stricter, or changes no verdict.

    The bound of a check is compared with itself alone: its rule and metric are differences of their own.
    """
    if len(path) == 2 and path[0] in ("checks", "probes"):
        return before is None  # added
    if path[0] == "waivers":
        return now is None or path[-1] == "reason" or (path[-1] == "until" and str(now) < str(before))
    if path in (("on_inconclusive",), ("approval",)):
        return now not in ("warn", "note")
    if path[0] == "checks" and path[-1] == "tier":
        return bool(before == "watch")
    if path[0] == "checks" and path[-1] in _HIGHER and isinstance(before, float) and isinstance(now, float):
        return now > before if _HIGHER[path[-1]] else now < before
    return False


def _described(path: tuple[str, ...], before: Any, now: Any) -> DefinitionChange:
    return DefinitionChange(what=".".join(path), before=_text(before), now=_text(now))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({digest(value)[:12]})"
