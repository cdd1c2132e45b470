"""Find a suite by name and read it strictly; errors say where they are and how to fix them.

Refused before a dataset is known: keys that are unknown, checks that make no sense by themselves, suites without a
check of utility, and names of files outside of the repository.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairgate.ground.errors import SuiteError, suggestion
from fairgate.ground.hashing import digest
from fairgate.ground.validation_words import fault_words
from fairgate.ground.yaml_source import Source, parse_source, read_source
from fairgate.metrics import METRICS, MetricSpec
from fairgate.models import local_paths
from fairgate.probes import with_article
from fairgate.suites.faults import suite_error
from fairgate.suites.schema import Check, Suite
from fairgate.suites.utility import require_utility

FOLDER = "fairness_suites"

Refuse = Callable[..., SuiteError]

# DVC can link what it tracks to a cache elsewhere; there, files are named by their content
_DVC_CACHE = re.compile(r"/files/md5/[0-9a-f]{2}/[0-9a-f]{30}$")


@dataclass(frozen=True, slots=True, repr=False)
class LoadedSuite:
    """A valid suite with the file it came from. `digest` names its meaning, not its comments or line breaks."""

    suite: Suite
    path: Path
    source: Source
    digest: str

    def __repr__(self) -> str:
        """One line: the suite, its dataset, and how many checks it has."""
        return f"LoadedSuite({self.name}: {len(self.suite.checks)} checks on {self.suite.dataset})"

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
        first = f"there is no suite in {FOLDER}/ yet: write one: `fairgate suite new NAME --dataset DATA --model URI`"
        listed = f"suites here: {', '.join(known)}" if known else first
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
        suite = Suite.model_validate(source.data)
    except ValidationError as error:
        raise suite_error(error, source) from error
    if suite.suite != path.stem:
        raise SuiteError(
            f"the file is named '{path.stem}' and the suite in it '{suite.suite}'.",
            where=source.where(("suite",)),
            remedy="give both the same name",
        )
    for index, check in enumerate(suite.checks):
        check_makes_sense(suite, check, source, index)
    require_utility(suite, source)
    judging = suite.model_dump(mode="json", by_alias=True, exclude={"approval", "approvals"})  # not who approved what
    return LoadedSuite(suite, path, source, digest(judging))


def check_makes_sense(suite: Suite, check: Check, source: Source, index: int) -> None:
    """Raise SuiteError for a check that its probe, its metric or its bound makes meaningless."""

    def refuse(problem: str, remedy: str, *key: str) -> SuiteError:
        return SuiteError(f"check '{check.id}' {problem}", where=source.where(("checks", index, *key)), remedy=remedy)

    metric = METRICS[check.metric]
    spec = metric.spec
    probe = suite.probes.get(check.probe)
    if probe is None:
        raise refuse(
            f"names the probe '{check.probe}', which this suite does not define.",
            suggestion(check.probe, suite.probes, f"probes here: {', '.join(suite.probes)}"),
            "probe",
        )
    _fits_its_probe(check, probe, spec, refuse)
    if metric.needs_k != (check.k is not None):
        rankings = ", ".join(name for name, metric_class in METRICS.items() if metric_class.needs_k)
        raise refuse(f"{'lacks' if metric.needs_k else 'has'} a `k`.", f"`k` is for rankings: {rankings}", "k")
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
    for key in ("k", "first", "second"):  # keys of every check that are settings of some metrics only
        if key not in metric.Settings.model_fields and getattr(check, key) is not None:
            raise refuse(f"names `{key}`, which {check.metric} does not use.", f"remove `{key}`", key)
    _settings_are_possible(check, refuse)
    _bound_is_reachable(check, metric.spec_for(check.settings), refuse)


def _fits_its_probe(check: Check, probe: Any, spec: MetricSpec, refuse: Refuse) -> None:
    """Refuse a metric of other answers than the probe's, and rows by words that the probe does not have."""
    if probe.answers_as not in spec.probes:
        raise refuse(
            f"measures {check.metric} on {with_article(probe.kind)} probe.",
            f"{check.metric} needs {with_article(' or '.join(spec.probes))} probe; this one has "
            + ", ".join(name for name in METRICS if probe.answers_as in METRICS[name].spec.probes),
            "probe",
        )
    if probe.views > 1 and not spec.averaged:
        raise refuse(
            f"measures {check.metric} on a probe of {probe.views} views of each image, and {check.metric} is no mean "
            "of a number per image.",
            "measure it on another probe, without `views`",
            "probe",
        )
    if spec.truth and probe.truth_of is None:
        positive = f"'{probe.positive_label}' is a positive label: " if probe.positive_label else ""
        raise refuse(
            f"measures {check.metric} on the probe '{check.probe}', where no image is right or wrong.",
            f"{positive}ask `fairness` or `group_gap` of it, and {check.metric} of a probe with a truth",
            "probe",
        )
    if check.by == "word" and not probe.ranked_words:
        raise refuse(
            "is `by: word`, and its probe has no words.", "write `by: subject`, or ask an association probe", "by"
        )
    if check.by == "category" and not probe.word_categories:
        raise refuse(
            "is `by: category`, and its probe has no categories of words.",
            "give its probe `words: {category: [...]}` or a `taxonomy`, or write `by: word`",
            "by",
        )


def _settings_are_possible(check: Check, refuse: Refuse) -> None:
    try:
        refusal = check.settings.refusal(check.over)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        problem = f"gives {check.metric} a `{key}` that it cannot take: {fault_words(first)}."
        if first["type"] == "missing":
            problem = f"lacks the `{key}` that {check.metric} needs."
        raise refuse(problem, f"set `{key}`", key) from error
    if refusal is not None:
        raise refuse(*refusal)


def _bound_is_reachable(check: Check, spec: MetricSpec, refuse: Refuse) -> None:
    if check.no_worse_than:
        if spec.of_one:
            raise refuse(
                f"compares {check.metric} with the baseline's, which says nothing of a change.",
                f"give it a bound (`{'at_least' if spec.better == 'higher' else 'at_most'}`)",
                "no_worse_than",
            )
        if max(check.bound, check.anchor_margin or 0) >= spec.highest - spec.lowest:
            raise refuse(
                f"has a margin of {check.bound:g}, and {check.metric} cannot fall that far: it would never fail.",
                "choose the smallest loss that you would not accept",
                "margin",
            )
        return
    if spec.of_two:
        raise refuse(
            f"puts `{check.rule}` on {check.metric}, which compares two runs.",
            "write `no_worse_than: baseline` with a `margin`: the share of answers that may change",
            check.rule,
        )
    wanted = "at_least" if spec.better == "higher" else "at_most"
    bound, given = check.bound, check.rule
    if given != wanted:
        meant = (
            bound if spec.lowest <= bound <= spec.highest else -bound
        )  # a gap of at most 0.1 is one of at least -0.1
        raise refuse(
            f"puts `{given}` on {check.metric}, of which {spec.better} is better.",
            f"write `{wanted}: {meant:g}`",
            given,
        )
    if not spec.lowest <= bound <= spec.highest:
        raise refuse(
            f"has a bound of {bound:g} that {check.metric} cannot reach: it lies between {spec.lowest:.3g} and "
            f"{spec.highest:.3g}.",
            "choose a bound inside that range",
            given,
        )


def require_inside(suite: Suite, source: Source, root: Path) -> None:
    """Raise SuiteError where the suite's model, baseline or anchor is a file outside of the repository, by `..`, as an
    absolute path or through a link. Whoever types a URI on the command line may name any file of theirs."""
    for key, text in (("model", suite.model), ("baseline", suite.baseline), ("anchor", suite.anchor)):
        if text is not None and any(leaves(path, root) for path in named_files(text)):
            option = "baseline" if key == "anchor" else key
            raise SuiteError(
                f"`{key}` names a file outside of the repository, which a suite may not.",
                where=source.where((key,)),
                remedy="put it into the repository (DVC can track it), name it by a root of the machine, or "
                f"type it: --fairness-{option} '{text}'",
            )
    for name, probe in suite.probes.items():
        if any(leaves(path, root) for uri in probe.instruments for path in local_paths(uri)):
            raise SuiteError(
                f"the probe '{name}' names a model outside of the repository, which a suite may not.",
                where=source.where(("probes", name)),
                remedy="put it into the repository (DVC can track it), or name one by a hub id",
            )


def named_files(text: str) -> list[Path]:
    """The files and folders that a model URI or a baseline names; of a record, its two files."""
    kind, _, target = text.partition(":")
    if kind == "file":
        path = Path(target)
        return [path, path / "results.json", path / "scores.parquet", path.parent / "scores.parquet"]
    return list(local_paths(target if kind == "model" else text))


def leaves(path: Path, root: Path) -> bool:
    """Whether a path, as it is written or through links, leads out of a repository."""
    if path.parts[:1] and path.parts[0].startswith("~"):
        return True
    try:
        real = (root / path).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL: opening it says what is wrong
        return False
    return not real.is_relative_to(root.resolve()) and not (
        _DVC_CACHE.search(real.as_posix()) and not path.is_absolute()
    )
