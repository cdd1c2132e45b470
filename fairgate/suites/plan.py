"""Plan a suite on a dataset: which checks on which subjects, words and groups, before anything is scored; and refuse
checks that no model can meet: of groups that no image shows, or with bounds that even a fair ranker misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fairgate.data import Manifest, TextColumn, TextRows
from fairgate.formulas.metrics import NullSkew
from fairgate.ground.errors import SuiteError, listed, suggestion
from fairgate.ground.yaml_source import Loc, Source
from fairgate.metrics import METRICS, Crossing, FairRankings, GroupedRows, Metric, MetricRequest, cells_of, galleries_of
from fairgate.probes import Probe, dataset_has, require_views
from fairgate.records import CROSS, Against, MetricSpec, item_name
from fairgate.suites.load import LoadedSuite
from fairgate.suites.schema import Check, Suite
from fairgate.suites.utility import require_utility


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """One check on one subject (None: on all), or with one word or category: one pytest item, one row of every table.

    `words` are those of an association probe that the check averages over, of a check `by: category` those of its
    `category`; of other probes there are none. `against`
    says what a `no_worse_than` check is compared with: the baseline, or, as an item of its own, the suite's anchor.
    """

    check: Check
    subject: str | None
    groupings: tuple[Crossing, ...]
    where: str
    words: tuple[str, ...] = ()
    against: Against | None = None
    category: str | None = None
    probe: Probe | None = None
    clusters: bool = False

    @property
    def word(self) -> str | None:
        """The one word that a check `by: word` is about."""
        return self.words[0] if self.check.by == "word" else None

    @property
    def item(self) -> str:
        """`skew[doctor]`, `c-asc[nurse]`, or `skew` when it is over all subjects and words."""
        return item_name(self.check.id, self.about, self.against)

    @property
    def about(self) -> str | None:
        """The subject, word or category that the item is about."""
        return self.subject or self.word or self.category

    @property
    def views(self) -> int:
        """Views of each image whose mean is its number."""
        return 1 if self.probe is None else self.probe.views

    @property
    def metric(self) -> Metric:
        """The check's metric."""
        return METRICS[self.check.metric]

    @property
    def spec(self) -> MetricSpec:
        """The metric's spec under the check's settings."""
        return self.metric.spec_for(self.check.settings)

    def request(self, min_sets: int = 0, keys: Mapping[str, str] | None = None) -> MetricRequest:
        """The check as its metric reads it; groups in fewer than `min_sets` sets are not judged."""
        check = self.check
        return MetricRequest(
            check=check.id,
            metric=check.metric,
            probe=check.probe,
            settings=check.settings,
            crossings=self.groupings,
            subject=self.subject,
            words=self.words,
            where=self.where,
            keys=keys or {},
            min_sets=min_sets,
            asked=self.probe,
            clusters=self.clusters,
        )

    @property
    def bound(self) -> float:
        """The check's bound, or its margin to the baseline or anchor."""
        return self.check.bound if self.against is None else self.check.margin_to(self.against)

    @property
    def answers(self) -> tuple[str, ...]:
        """Names of the scores that the check reads: its probe's, or one per word of an association."""
        return tuple(f"{self.check.probe}[{word}]" for word in self.words) or (self.check.probe,)

    @property
    def over(self) -> str | None:
        """The groupings as a reader sees them: `skin_tone; gender` or `skin_tone × gender`."""
        return "; ".join(self.over_each) or None

    @property
    def over_each(self) -> tuple[str, ...]:
        """Every grouping as a reader sees it: an attribute, or crossed ones."""
        return tuple(CROSS.join(grouping) for grouping in self.groupings)


def plan_checks(loaded: LoadedSuite, dataset: Manifest) -> list[PlannedCheck]:
    """Every check of a suite on every subject, in the suite's order.

    Raises SuiteError for an attribute or subject that the dataset lacks, for a metric that its kind of sets cannot
    carry, and for a suite that a useless model would pass.
    """
    for name, probe in loaded.suite.probes.items():
        at = partial(loaded.where, "probes", name)
        probe.require(name, dataset, at)
        require_views(name, probe, dataset, at)
    require_utility(loaded.suite, loaded.source, dataset=dataset)
    return [
        item
        for index, check in enumerate(loaded.suite.checks)
        for item in plan_check(loaded, check, dataset, ("checks", index))
    ]


def require_known_words(loaded: LoadedSuite, dataset: Manifest) -> None:
    """Every name in a probe's `words` is the dataset's: another one has no effect. Raises SuiteError."""
    for name, probe in loaded.suite.probes.items():
        words, known = probe.reworded(dataset)
        if unknown := [word for word in words if word not in known]:
            raise SuiteError(
                f"`words` of probe '{name}' has '{unknown[0]}', which {dataset.name}/{dataset.version} lacks.",
                where=loaded.where("probes", name, "words", unknown[0]),
                remedy=suggestion(unknown[0], known, f"it is one of: {listed(list(known))}; or leave it out"),
            )


def require_reasons(loaded: LoadedSuite) -> None:
    """No waiver has the placeholder that a report prints for its reason. Raises SuiteError."""
    for place, waiver in enumerate(loaded.suite.waivers):
        if waiver.reason.strip() == "TEXT":
            raise SuiteError(
                f"the waiver of check '{waiver.check}' has no reason: TEXT is the report's placeholder.",
                where=loaded.where("waivers", place, "reason"),
                remedy="write in place of TEXT why the check may fail until then, for every report",
            )


def plan_check(loaded: LoadedSuite, check: Check, dataset: Manifest, loc: Loc = ("checks",)) -> list[PlannedCheck]:
    """One check on every subject it is about, and a second time against the suite's anchor, if it has one.

    `loc` is the check's place in the suite. Refuses as `plan_checks` does.
    """
    where = loaded.where(*loc)
    metric = METRICS[check.metric]
    if metric.spec.counterfactual and not dataset.counterfactual:
        raise SuiteError(
            f"check '{check.id}' measures {check.metric} inside counterfactual sets, and dataset "
            f"'{dataset.name}' has none.",
            where=where,
            remedy="use `metric: group_gap` or `metric: accuracy` with `over`, or a counterfactual dataset",
        )
    groupings = _groupings(loaded, check, dataset, loaded.where(*loc, "over"))
    keys = {key: loaded.where(*loc, key) for key in ("over", *metric.Settings.model_fields)}
    probe = loaded.suite.probes[check.probe]
    metric.require(PlannedCheck(check, None, groupings, where, probe=probe).request(keys=keys), dataset)
    words = probe.ranked_words
    against: Against | None = None if check.no_worse_than is None else "baseline"
    if check.by == "word":
        planned = [PlannedCheck(check, None, groupings, where, (word,), against) for word in words]
    elif check.by == "category":
        planned = [
            PlannedCheck(check, None, groupings, where, of_category, against, name)
            for name, of_category in probe.word_categories.items()
        ]
    else:
        subjects: Sequence[str | None] = dataset.subjects if check.by == "subject" else [None]
        planned = [PlannedCheck(check, subject, groupings, where, words, against) for subject in subjects]
    clusters = not dataset.counterfactual and dataset.n_sets < dataset.n_rows
    planned = [replace(item, probe=probe, clusters=clusters) for item in planned]
    if against is None or loaded.suite.anchor is None:
        return planned
    return [*planned, *(replace(item, against="anchor") for item in planned)]


def _groupings(loaded: LoadedSuite, check: Check, dataset: Manifest, where: str) -> tuple[Crossing, ...]:
    chosen = loaded.suite.groups.attributes
    attributes = list(dataset.attributes) if chosen == "each" else list(chosen)
    for attribute in attributes:
        dataset_has(attribute, f"suite '{loaded.name}' looks at", dataset, loaded.where("groups", "attributes"))
    if check.over is None:
        return ()
    if check.over in ("each", "crossed") and not attributes:
        raise SuiteError(
            f"check '{check.id}' is over groups, and dataset '{dataset.name}/{dataset.version}' records no attribute.",
            where=where,
            remedy="leave `over` out, or use a dataset whose images have labels",
        )
    if check.over == "each":
        return tuple((attribute,) for attribute in attributes)
    if check.over == "crossed":
        return (tuple(attributes),)
    named = [check.over] if isinstance(check.over, str) else check.over
    for attribute in named:
        dataset_has(attribute, f"check '{check.id}' groups by", dataset, where)
    if len(set(named)) < len(named):
        raise SuiteError(f"check '{check.id}' names an attribute twice.", where=where, remedy="name each once")
    return (tuple(named),)


def require_waived_checks(suite: Suite, planned: Sequence[PlannedCheck], source: Source) -> None:
    """Raise SuiteError for a waiver of a check, subject, word or category that is not there."""
    for place, waiver in enumerate(suite.waivers):
        ids = [check.id for check in suite.checks]
        if waiver.check not in ids:
            raise SuiteError(
                f"a waiver names the check '{waiver.check}', which this suite does not have.",
                where=source.where(("waivers", place, "check")),
                remedy=suggestion(waiver.check, ids, f"checks here: {', '.join(ids)}"),
            )
        about = list(dict.fromkeys(item.about for item in planned if item.check.id == waiver.check and item.about))
        if waiver.subject is not None and waiver.subject not in about:
            listed = f"it is about: {', '.join(about)}" if about else "it has one item for all; leave `subject` out"
            raise SuiteError(
                f"a waiver names '{waiver.subject}', which check '{waiver.check}' is not about.",
                where=source.where(("waivers", place, "subject")),
                remedy=suggestion(waiver.subject, about, listed),
            )


NAMED = 3


def require_groups_present(planned: Sequence[PlannedCheck], index: GroupedRows) -> None:
    """Raise SuiteError for a check over a group, or a crossing, that the dataset does not show: it would vanish.

    A ranking needs every group in every gallery: one that a subject lacks has no place in its top k.
    """
    cells = cells_of(index)
    for ranked in (check for check in planned if check.groupings):
        cell = cells.of(ranked.subject, ranked.groupings)
        galleries = [("", cell.group_images())]
        if ranked.metric.spec.rankings and not ranked.words:
            galleries = [(each.name, cell.group_images(each.rows)) for each in galleries_of(ranked.request(), cell)]
        for name, images in galleries:
            absent = [group for group, count in zip(cell.group_names(), images, strict=True) if count == 0]
            if absent:
                shown = listed(absent, NAMED)
                of = f" of '{name}'" if name else ""
                raise SuiteError(
                    f"check '{ranked.item}' is over {ranked.over}, and no image{of} shows {shown}.",
                    where=ranked.where,
                    remedy="cross fewer attributes in `over`, or add images of the group to the dataset",
                )


def _images_of(names: TextRows) -> dict[str, int]:
    column = TextColumn.of(names)
    counts = zip(column.names.to_pylist(), column.counts().tolist(), strict=True)
    return {name: count for name, count in counts if count}


def fair_rankers(planned: Sequence[PlannedCheck], index: GroupedRows, min_sets: int = 0) -> dict[str, NullSkew]:
    """By check item, what a perfectly fair ranker has: for every check that counts a top k over groups.

    `p95` is the value that the fair ranker is no worse than 95% of the time: the 5% quantile where higher is better.
    Raises SuiteError for a k beyond a gallery.
    """
    cells, rankings = cells_of(index), FairRankings()
    fair_chances: dict[str, NullSkew] = {}
    for ranked in (check for check in planned if check.groupings):
        cell = cells.of(ranked.subject, ranked.groupings)
        sizes: dict[str, int] = {}
        if ranked.metric.counts_groups:
            sizes = dict.fromkeys(ranked.words, len(cell.rows)) or _images_of(cell.subject)
        for name, images in sizes.items():
            if (ranked.check.k or 0) > images:
                raise SuiteError(
                    f"check '{ranked.check.id}' ranks the top {ranked.check.k} of '{name}', which has {images} images.",
                    where=ranked.where,
                    remedy=f"choose k below {images}",
                )
        fair = ranked.metric.fair_chance(ranked.request(min_sets), cell, rankings)
        if fair is not None:
            fair_chances[ranked.item] = fair
    return fair_chances


def require_attainable(planned: Sequence[PlannedCheck], null: Mapping[str, NullSkew]) -> None:
    """Raise SuiteError for a bound that a perfectly fair ranker misses half of the time."""
    for ranked in planned:
        check, fair = ranked.check, null.get(ranked.item)
        if fair is None or check.rule == "no_worse_than":
            continue
        if check.bound >= fair.median if check.rule == "at_most" else check.bound <= fair.median:
            continue
        higher = ranked.metric.spec.better == "higher"
        name = check.metric.replace("_at_k", f"@{check.k}").replace("_", " ")
        raise SuiteError(
            f"check '{check.id}' wants {name} of {check.rule.replace('_', ' ')} {check.bound:g}, and a perfectly fair "
            f"ranker would have {fair.median:.3g} half of the time on '{ranked.about or 'all subjects'}' "
            f"({'at least' if higher else 'at most'} {fair.p95:.3g} in 95 of 100 rankings).",
            where=ranked.where,
            remedy=f"{'lower' if higher else 'raise'} the bound beyond the fair ranker's 95% point, {fair.p95:.3g}, or "
            "rank more images (larger k)",
        )
