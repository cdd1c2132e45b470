"""General accuracy beside MaxSkew: what audits of several suites measured of the same models, a point for each.

A suite is about general accuracy if its dataset records no groups. A model that is less biased may have lost it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number
from fairgate.records import AuditRecord, ClassificationAudit, RetrievalAudit
from fairgate.reports.charts import finite, percent, scale_for, upright
from fairgate.reports.data_table import Column, Line, Table, TableCell, number_cell, printed, share_scale
from fairgate.reports.formatting import metric_words

if TYPE_CHECKING:
    from rich.table import Table as TextTable

MOST_PLOTS: Final = 6

Limits = tuple[float | None, float | None, float | None]
_NONE: Final[Limits] = (None, None, None)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A number of every model, by its address, with its interval; `chance` is a fair ranker's median."""

    name: str
    suite: str
    probe: str
    of: Mapping[str, Limits]
    chance: float | None = None

    @property
    def source(self) -> str:
        """Suite and probe."""
        return f"{self.suite}: {self.probe}"


def trade_off_table(audits: Sequence[AuditRecord]) -> Table | None:
    """A column per model: general accuracy, then the mean MaxSkew@K over subjects or words. None without both."""
    accurate, skewed = _accuracies(audits), [skew for skews in _skews(audits) for skew in skews]
    if not accurate or not skewed:
        return None
    names = _models(audits)
    once = Counter((measured.name, measured.suite) for measured in (*accurate, *skewed))
    lines = []
    for measured in (*accurate, *skewed):
        probe = "" if once[measured.name, measured.suite] == 1 else f": {measured.probe}"
        cells = [number_cell(*measured.of.get(uri, _NONE)) for uri in names]
        chance = TableCell(number(measured.chance), value=measured.chance) if measured in skewed else TableCell("")
        lines.append(Line(f"{measured.name}, {measured.suite}{probe}", [*cells, chance]))
    columns = [*map(Column, names.values()), Column("fair ranker", under="median")]
    return Table(("trade-off",), "General accuracy beside MaxSkew", "measured", columns, lines, "bars")


def trade_off_plots(audits: Sequence[AuditRecord]) -> list[dict[str, Any]]:
    """What the page draws: the first accuracy of every suite against the mean MaxSkew at the largest k of every search
    and grouping, a numbered point for each model."""
    first = {accuracy.source: accuracy for accuracy in reversed(_accuracies(audits))}
    pairs = [(skews[0], accuracy) for accuracy in reversed(first.values()) for skews in _skews(audits)]
    return [_plot(skew, accuracy, _models(audits)) for skew, accuracy in pairs[:MOST_PLOTS]]


def trade_off_tables(audits: Sequence[AuditRecord], width: int = 120) -> Iterator[TextTable]:
    """The table for a terminal of `width` columns, if there is one."""
    if (table := trade_off_table(audits)) is not None:
        yield from printed("all suites", table, width=width)


def _models(audits: Sequence[AuditRecord]) -> dict[str, str]:
    """Names of all models by address, in the order in which they were given."""
    return {model.uri: model.name for record in audits for model in record.models}


def _accuracies(audits: Sequence[AuditRecord]) -> list[_Measured]:
    """Accuracy, accuracy@k and recall of all images, of suites whose dataset records no groups."""
    measured = []
    for record in audits:
        if record.dataset.attributes:
            continue
        uris = {model.name: model.uri for model in record.models}
        rows: dict[tuple[str, str, str], dict[str, Limits]] = {}
        for probe, name, model, limits in _shares(record):
            rows.setdefault((name, record.suite, probe), {})[uris[model]] = limits
        measured += [_Measured(*key, of) for key, of in rows.items()]
    return measured


def _shares(record: AuditRecord) -> Iterator[tuple[str, str, str, Limits]]:
    """Probe, metric and model of every share of right answers among all images, with its interval."""
    for probe in record.probes:
        if isinstance(probe, ClassificationAudit):
            for row in probe.fairness:
                if row.subject is None:
                    yield probe.name, "accuracy", row.model, (row.accuracy, row.accuracy_lo, row.accuracy_hi)
        elif isinstance(probe, RetrievalAudit):
            for recall in probe.recall:
                yield probe.name, f"R@{recall.k}", recall.model, (recall.value, recall.lo, recall.hi)
    for further in record.metrics:
        for each in further.rows:
            if each.subject is None and each.metric in ("accuracy", "accuracy_at_k"):
                yield further.name, metric_words(each), each.model, (each.value, each.lo, each.hi)


def _skews(audits: Sequence[AuditRecord]) -> list[list[_Measured]]:
    """The mean MaxSkew@K of every search and grouping, a list each, of the largest k first."""
    searches = []
    for record in audits:
        uris = {model.name: model.uri for model in record.models}
        for probe in record.probes:
            if not isinstance(probe, RetrievalAudit):
                continue
            for over in dict.fromkeys(row.over for row in probe.summaries):
                rows = [row for row in probe.summaries if row.over == over]
                searches.append(
                    [
                        _Measured(
                            f"MaxSkew@{k} over {over}",
                            record.suite,
                            probe.name,
                            {uris[row.model]: (row.mean, row.lo, row.hi) for row in rows if row.k == k},
                            next(row.null_median for row in rows if row.k == k),
                        )
                        for k in sorted({row.k for row in rows}, reverse=True)
                    ]
                )
    return searches


def _plot(skew: _Measured, accuracy: _Measured, names: Mapping[str, str]) -> dict[str, Any]:
    """One drawing: MaxSkew across, accuracy up. Points at one place share their numbers."""
    both = {uri: (skew.of[uri][0], accuracy.of[uri]) for uri in names if uri in skew.of and uri in accuracy.of}
    across = scale_for([0.0, skew.chance, *(value for value, _ in both.values())])
    up = share_scale(x for _, limits in both.values() for x in limits)
    dots: dict[tuple[str, str], dict[str, Any]] = {}
    told = []
    for place, (uri, name) in enumerate(names.items(), 1):
        value, (share, lo, hi) = both.get(uri, (None, _NONE))
        if finite(value) is None or share is None:
            continue
        told.append(f"{place}: {clean(name, 60)}, accuracy {number(share)}, MaxSkew {number(value)}")
        x, y, low, high = (
            across.at(value),
            *(None if end is None else percent(100 - up.place(end)) for end in (share, lo, hi)),
        )
        dot = dots.setdefault((x or "", y or ""), {"x": x, "y": y, "lo": low, "hi": high, "numbers": [], "told": []})
        dot["numbers"].append(str(place))
        dot["told"].append(told[-1])
    return {
        "across_name": skew.name,
        "across_source": skew.source,
        "up_name": accuracy.name,
        "up_source": accuracy.source,
        "across": across.ticks,
        "up": upright(up),
        "chance": across.at(skew.chance),
        "dots": [*dots.values()],
        "told": "; ".join(told),
    }
