"""What is wrong in a suite file by its schema: the first fault with its line, and the meaning of the key as remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from fairgate.ground.errors import SuiteError, suggestion
from fairgate.ground.validation_words import fault_words
from fairgate.ground.yaml_source import Loc, Source
from fairgate.metrics import METRICS
from fairgate.probes import PROBES
from fairgate.suites.schema import Approved, Check, DecisionRule, Groups, Suite, Waived, own_settings


def suite_error(error: ValidationError, source: Source) -> SuiteError:
    """The first of pydantic's errors; an unknown key comes before the missing key that it may be meant for."""
    faults = error.errors(include_url=False)
    first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
    loc = _known_loc(first["loc"], source)
    places = {_known_loc(fault["loc"], source) for fault in faults}  # of a union, one for all
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    place = ".".join(str(part) for part in loc) or "the suite"
    if first["type"] == "extra_forbidden":
        key, parent = str(loc[-1]), loc[:-1]
        known = _known_keys(parent, source)
        return SuiteError(
            f"unknown key '{key}' in {'.'.join(map(str, parent)) or 'the suite'}{more}.",
            where=source.where(loc),
            remedy=suggestion(key, known, f"known keys: {', '.join(known)}" if known else "") or None,
        )
    if first["type"] == "missing":
        return SuiteError(
            f"'{place}' is missing{more}.", where=source.where(loc), remedy=f"add the key '{loc[-1] if loc else ''}'"
        )
    message = _expected([fault for fault in faults if _known_loc(fault["loc"], source) == loc])
    remedy = _meaning(loc, source) or "`fairgate suite schema` prints each key with its meaning"
    if first["type"] == "string_type" and isinstance(first["input"], int | float):
        remedy = "put it in quotes: without them, YAML reads a number, or true or false"
    if loc[-1:] == ("metric",):
        remedy = suggestion(str(first.get("input")), METRICS, "a package that adds the metric may not be installed")
    if first["type"] == "union_tag_not_found":
        remedy = f"add the key 'kind'; known kinds: {', '.join(PROBES)}"
    if first["type"] == "union_tag_invalid":
        kind, loc = str(first["ctx"]["tag"]), (*loc, "kind")
        message = f"'{kind}' is no kind of probe; known kinds: {', '.join(PROBES)}"
        remedy = suggestion(kind, PROBES, "a package that adds the kind may not be installed")
    return SuiteError(f"{place}: {message}{more}.", where=source.where(loc), remedy=remedy)


def _expected(faults: Sequence[Any]) -> str:
    """What is expected in one place; of a union, all of it: `'each' or a list is expected`."""
    words = list(dict.fromkeys(map(fault_words, faults)))
    kinds = [each.removesuffix(" is expected") for each in words if re.fullmatch("[^,]+ is expected", each)]
    return f"{' or '.join(kinds)} is expected" if len(kinds) == len(words) else words[0]


def _known_loc(loc: tuple[Any, ...], source: Source) -> Loc:
    """pydantic's location without the names of union branches, which are no places in the file."""
    kept: list[str | int] = []
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        branch = not isinstance(part, str) or "[" in part or part in {"str", "literal", *PROBES}
        if (*kept, part) in source.lines or (last and not branch):
            kept.append(part)
    return tuple(kept)


_SECTIONS: dict[str, type[Any]] = {
    "checks": Check,
    "groups": Groups,
    "decision": DecisionRule,
    "waivers": Waived,
    "approvals": Approved,
}


def _meaning(loc: Loc, source: Source) -> str | None:
    """What a key means, or the key of a list that something is in; None of a section's own fault."""
    place = max((at for at, part in enumerate(loc) if isinstance(part, str)), default=0)
    keys = {} if not loc or loc[place] in _SECTIONS else _known_keys(loc[:place], source)
    meaning = keys.get(str(loc[place])) if keys else None
    return f"`{loc[place]}`: {meaning}" if meaning else None


def _section(annotation: Any) -> type[BaseModel] | None:
    """The keys of a value, or of each entry of a list or mapping; None if it has none of its own."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_section, get_args(annotation))), None)


def _known_keys(parent: Loc, source: Source) -> dict[str, str | None]:
    """Keys that may be written at a place, each with its meaning."""
    model: type[Any] = _SECTIONS.get(str(parent[0]), Suite) if parent else Suite
    if parent[:1] == ("probes",):
        probe = source.data["probes"].get(parent[1], {}) if len(parent) > 1 else {}
        model = PROBES.get(str(probe.get("kind"))) or PROBES["zero_shot_classification"]
        for part in parent[2:]:
            field = model.model_fields.get(str(part))
            model = (field and _section(field.annotation)) or model
    own: Mapping[str, FieldInfo] = {}
    if model is Check and len(parent) > 1:
        metric = source.data["checks"][parent[1]].get("metric")
        own = own_settings(metric) if isinstance(metric, str) and metric in METRICS else {}
    return {field.alias or name: field.description for name, field in {**model.model_fields, **own}.items()}
