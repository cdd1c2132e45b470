"""Find a suite by name and read it strictly; errors say where they are and how to fix them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairgate.errors import SuiteError, did_you_mean, suggestion
from fairgate.hashing import digest
from fairgate.measures import METRICS
from fairgate.probes import PROBES
from fairgate.suites import schema
from fairgate.suites.validate import check_makes_sense, leaves, require_inside, require_utility
from fairgate.suites.yaml_source import Loc, Source, parse_source, read_source

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
        listed = f"suites here: {', '.join(known)}" if known else f"there is no suite in {FOLDER}/ yet"
        raise SuiteError(
            f"there is no fairness suite '{name}'.",
            where=f"{FOLDER}/",
            remedy=suggestion(name, known, listed),
        )
    return root / FOLDER / f"{name}.yaml"


def load_suite(path: Path, root: Path) -> LoadedSuite:
    """Read and check a suite file. Everything that can be known without the dataset is checked here."""
    shown = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    if path.is_relative_to(root) and leaves(path.relative_to(root), root):
        raise SuiteError(
            "the suite is a link to a file outside of the repository.",
            where=shown,
            remedy="put the suite itself there",
        )
    loaded = _checked(read_source(path, shown=shown))
    require_inside(loaded.suite, loaded.source, root)
    return loaded


def load_text(text: bytes, path: Path, *, shown: str) -> LoadedSuite:
    """Check a suite's text, such as that of another commit; `shown` is how its errors name the file."""
    return _checked(parse_source(text, path, shown=shown))


def _checked(source: Source) -> LoadedSuite:
    path = source.path
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
        check_makes_sense(suite, check, source, index)
    require_utility(suite, source)
    return LoadedSuite(suite, path, source, digest(suite.model_dump(mode="json", by_alias=True)))


def _suite_error(error: ValidationError, source: Source) -> SuiteError:
    """The first of pydantic's errors; an unknown key comes before the missing key that it may be meant for."""
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
            remedy=suggestion(key, known, f"known keys: {', '.join(known)}" if known else "") or None,
        )
    if first["type"] == "missing":
        return SuiteError(
            f"'{place}' is missing{more}.", where=source.where(loc), remedy=f"add the key '{loc[-1] if loc else ''}'"
        )
    message = re.sub(r"^Value error, ", "", first["msg"])
    remedy = "see the JSON schema (`fairgate suite schema`) or an example in fairness_suites/"
    if loc[-1:] == ("metric",):
        remedy = did_you_mean(str(first.get("input")), METRICS) or remedy
        remedy += "; a package that adds the metric may not be installed"
    return SuiteError(f"{place}: {message}{more}.", where=source.where(loc), remedy=remedy)


def _known_loc(loc: tuple[Any, ...], source: Source) -> Loc:
    """pydantic's location without the names of union branches, which are no places in the file."""
    kept: list[str | int] = []
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if (*kept, part) in source.lines or (last and not _is_branch(part)):
            kept.append(part)
    return tuple(kept)


def _is_branch(part: Any) -> bool:
    return not isinstance(part, str) or "[" in part or part in {"str", "literal", *PROBES}


_SECTIONS: dict[str, type[Any]] = {
    "checks": schema.Check,
    "groups": schema.Groups,
    "decision": schema.DecisionRule,
    "waivers": schema.Waived,
}


def _known_keys(parent: Loc, source: Source) -> list[str]:
    model: type[Any] = _SECTIONS.get(str(parent[0]), schema.Suite) if parent else schema.Suite
    if parent[:1] == ("probes",):
        probe = source.data["probes"].get(parent[1], {}) if len(parent) > 1 else {}
        model = PROBES.get(str(probe.get("kind"))) or PROBES["zero_shot_classification"]
    own: Iterable[str] = ()
    if model is schema.Check and len(parent) > 1:
        metric = source.data["checks"][parent[1]].get("metric")
        own = schema.own_settings(metric) if isinstance(metric, str) and metric in METRICS else ()
    return [*(field.alias or name for name, field in model.model_fields.items()), *own]
