"""Two definitions of one suite, the merge base's and this change's: what differs, and which verdict counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fairgate.hashing import digest
from fairgate.records import CheckResult, Decider, DefinitionChange, Verdict
from fairgate.suites.load import LoadedSuite
from fairgate.suites.schema import Suite

_LONGEST = 300
_NOT_THE_GATE = ("model",)
"""Keys that a change may edit without editing the gate: the checkpoint is what is judged."""

_SEVERITY: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2, "error": 3}


def changes_between(before: Suite, now: Suite) -> list[DefinitionChange]:
    """Everything that a change alters in the gate, key by key; checks and waivers are known by name, not by place."""
    return list(_changes((), _plain(before), _plain(now)))


def asks_the_same(before: Suite, now: Suite) -> bool:
    """Whether both would come to the same verdicts of the same scores. Where the baseline is found does not count."""
    one, other = (_plain(suite) for suite in (before, now))
    for plain in (one, other):
        plain.pop("baseline", None)
        plain.pop("dataset", None)  # both are planned on this change's dataset
    return one == other


def with_probes_of(before: LoadedSuite, now: LoadedSuite) -> LoadedSuite:
    """The merge base's checks over this change's probes."""
    return replace(before, suite=before.suite.model_copy(update={"probes": now.suite.probes}))


def stricter(*, here: Sequence[CheckResult], before: Sequence[CheckResult]) -> list[CheckResult]:
    """Each check under the definition that is harder on it; of equal ones, the merge base's.

    Checks that only one of the two has count as well: a change may add checks, and takes none away.
    """
    old = {check.item: check for check in before}
    merged = []
    for check in here:
        other = old.pop(check.item, None)
        if other is None:
            merged.append(check.model_copy(update={"decided_by": "this change"}))
        elif _same(check, other):
            merged.append(check)
        elif _weight(check) > _weight(other):
            merged.append(_by("this change", check, other))
        else:
            merged.append(_by("merge base", other, check))
    return [*merged, *(check.model_copy(update={"decided_by": "merge base"}) for check in old.values())]


def _by(who: Decider, chosen: CheckResult, other: CheckResult) -> CheckResult:
    return chosen.model_copy(
        update={
            "decided_by": who,
            "other_bound": other.bound,
            "other_verdict": "pass" if other.waived else other.verdict,
        }
    )


def _weight(check: CheckResult) -> int:
    return 0 if check.waived else _SEVERITY[check.verdict]


def _same(one: CheckResult, other: CheckResult) -> bool:
    """Whether both definitions ask this check alike; an adjusted p may differ with the size of the family."""
    asked = ("verdict", "rule", "bound", "metric", "probe", "over", "value", "waiver")
    return all(getattr(one, name) == getattr(other, name) for name in asked)


def _plain(suite: Suite) -> dict[str, Any]:
    """A suite as nested mappings, lists of named things by their names, keys that say nothing left out."""
    data = suite.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["checks"] = {check.pop("id"): check for check in data["checks"]}
    waivers = data.pop("waivers", [])
    data["waivers"] = {_waiver_name(waiver): {k: waiver[k] for k in ("until", "reason")} for waiver in waivers}
    for key in _NOT_THE_GATE:
        data.pop(key, None)
    return data


def _waiver_name(waiver: dict[str, Any]) -> str:
    return f"{waiver['check']}[{waiver['subject']}]" if waiver.get("subject") else str(waiver["check"])


def _changes(path: tuple[str, ...], before: Any, now: Any) -> Iterator[DefinitionChange]:
    if before == now:
        return
    named = path[:1] in (("checks",), ("waivers",), ("probes",)) and len(path) == 2
    whole = named and (before is None or now is None)
    if whole or not (isinstance(before, dict) and isinstance(now, dict)):
        yield DefinitionChange(what=".".join(path), before=_text(before), now=_text(now))
        return
    for key in dict.fromkeys([*before, *now]):
        yield from _changes((*path, key), before.get(key), now.get(key))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({digest(value)[:12]})"
