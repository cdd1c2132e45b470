"""Find a suite by name, read it strictly, and say where and how to mend what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairgate.errors import SuiteError, did_you_mean
from fairgate.hashing import digest
from fairgate.suites import schema
from fairgate.suites.catalog import METRICS, MetricSpec
from fairgate.suites.source import Loc, Source, read_source

FOLDER = "fairness_suites"


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A valid suite with the file it came from. `digest` names its meaning, not its comments or line breaks."""

    suite: schema.Suite
    path: Path
    source: Source
    digest: str

    @property
    def name(self) -> str:
        """The suite's name."""
        return self.suite.suite

    def where(self, *loc: str | int) -> str:
        """`file:line` of a value of the suite."""
        return self.source.where(loc)


def suite_names(root: Path) -> list[str]:
    """Names of the suites in a repository."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))


def suite_path(name: str, root: Path) -> Path:
    """The file of a suite. Raises SuiteError with the nearest name for an unknown one."""
    known = suite_names(root)
    if name not in known:
        listed = f"suites here: {', '.join(known)}" if known else f"no suite stands in {FOLDER}/ yet"
        raise SuiteError(
            f"there is no fairness suite '{name}'.",
            where=f"{FOLDER}/",
            remedy=" ".join(filter(None, [did_you_mean(name, known), listed])),
        )
    return root / FOLDER / f"{name}.yaml"


def load_suite(path: Path, root: Path) -> LoadedSuite:
    """Read and check a suite file. Everything that can be known without the dataset is checked here."""
    shown = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    source = read_source(path, shown=shown)
    try:
        suite = schema.Suite.model_validate(source.data)
    except ValidationError as error:
        raise _suite_error(error, source) from error
    if suite.suite != path.stem:
        raise SuiteError(
            f"the file is named '{path.stem}' and the suite in it '{suite.suite}'.",
            where=source.where(("suite",)),
            remedy="give both the same name",
        )
    for index, check in enumerate(suite.checks):
        _check_makes_sense(suite, check, source, index)
    return LoadedSuite(suite, path, source, digest(suite.model_dump(mode="json", by_alias=True)))


def _check_makes_sense(suite: schema.Suite, check: schema.Check, source: Source, index: int) -> None:
    def refuse(problem: str, remedy: str, *key: str) -> SuiteError:
        return SuiteError(f"check '{check.id}' {problem}", where=source.where(("checks", index, *key)), remedy=remedy)

    spec = METRICS[check.metric]
    probe = suite.probes.get(check.probe)
    if probe is None:
        near = did_you_mean(check.probe, suite.probes)
        raise refuse(
            f"asks the probe '{check.probe}', which this suite does not define.",
            " ".join(filter(None, [near, f"probes here: {', '.join(suite.probes)}"])),
            "probe",
        )
    if probe.kind != spec.probe_kind:
        raise refuse(
            f"measures {check.metric} on a {probe.kind} probe.",
            f"{check.metric} needs a {spec.probe_kind} probe",
            "probe",
        )
    if spec.needs_k != (check.k is not None):
        raise refuse(f"{'lacks' if spec.needs_k else 'has'} a `k`.", f"`k` is for rankings: {_rankings()}", "k")
    if spec.per_group == "yes" and check.over is None:
        raise refuse(
            f"measures {check.metric} over no attribute.", "say `over: each`, `over: crossed` or name attributes"
        )
    if spec.per_group == "no" and check.over is not None:
        raise refuse(
            f"gives `over`, which {check.metric} does not use.",
            "remove `over`: the spread inside a set already is over its members",
            "over",
        )
    _bound_is_reachable(check, spec, refuse)


def _rankings() -> str:
    return ", ".join(name for name, spec in METRICS.items() if spec.needs_k)


def _bound_is_reachable(check: schema.Check, spec: MetricSpec, refuse: Any) -> None:
    if check.no_worse_than:
        if check.bound >= spec.highest - spec.lowest:
            raise refuse(
                f"has a margin of {check.bound:g}, and {check.metric} cannot fall that far: it would never fail.",
                "choose the smallest loss that you would not accept",
                "margin",
            )
        return
    wanted = "at_least" if spec.better == "higher" else "at_most"
    bound, given = check.bound, check.rule
    if given != wanted:
        raise refuse(
            f"puts `{given}` on {check.metric}, of which {spec.better} is better.",
            f"write `{wanted}: {bound:g}`",
            given,
        )
    if not spec.lowest <= bound <= spec.highest:
        raise refuse(
            f"has a bound of {bound:g} that {check.metric} cannot reach: it lies between {spec.lowest:.3g} and "
            f"{spec.highest:.3g}.",
            "choose a bound inside that range",
            given,
        )


def _suite_error(error: ValidationError, source: Source) -> SuiteError:
    """What pydantic found first, in the words of the suite's writer; an unknown key before what is missing for it."""
    first = min(error.errors(include_url=False), key=lambda found: found["type"] != "extra_forbidden")
    loc = _known_loc(first["loc"], source)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    place = ".".join(str(part) for part in loc) or "the suite"
    if first["type"] == "extra_forbidden":
        key, parent = str(loc[-1]), loc[:-1]
        known = _known_keys(parent, source)
        return SuiteError(
            f"unknown key '{key}' in {'.'.join(map(str, parent)) or 'the suite'}{more}.",
            where=source.where(loc),
            remedy=" ".join(
                filter(None, [did_you_mean(key, known), f"known keys: {', '.join(known)}" if known else None])
            ),
        )
    if first["type"] == "missing":
        return SuiteError(
            f"'{place}' is missing{more}.", where=source.where(loc), remedy=f"add the key '{loc[-1] if loc else ''}'"
        )
    message = re.sub(r"^Value error, ", "", first["msg"])
    remedy = "see the JSON schema (`fairgate suite schema`) or an example in fairness_suites/"
    near = did_you_mean(str(first.get("input")), METRICS) if loc[-1:] == ("metric",) else None
    return SuiteError(f"{place}: {message}{more}.", where=source.where(loc), remedy=near or remedy)


def _known_loc(loc: tuple[Any, ...], source: Source) -> Loc:
    """pydantic's location without the names of union branches, which are no places in the file."""
    kept: list[str | int] = []
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if (*kept, part) in source.lines or (last and not _is_branch(part)):
            kept.append(part)
    return tuple(kept)


def _is_branch(part: Any) -> bool:
    return (
        not isinstance(part, str) or "[" in part or part in {"str", "literal", "zero_shot_classification", "retrieval"}
    )


def _known_keys(parent: Loc, source: Source) -> list[str]:
    model: type[Any] = schema.Suite
    if parent[:1] == ("checks",):
        model = schema.Check
    elif parent[:1] == ("groups",):
        model = schema.Groups
    elif parent[:1] == ("decision",):
        model = schema.DecisionRule
    elif parent[:1] == ("probes",):
        probe = source.data["probes"].get(parent[1], {}) if len(parent) > 1 else {}
        model = schema.RetrievalProbe if probe.get("kind") == "retrieval" else schema.ZeroShotProbe
    return [field.alias or name for name, field in model.model_fields.items()]
