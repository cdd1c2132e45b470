"""An audit as files for other tools: tidy CSV with one number a row, and LaTeX tables as the papers print them."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from fairgate.plain_text import clean
from fairgate.records.comparison import (
    AuditRecord,
    ClassificationAudit,
    EffectRow,
    ImplicitAudit,
    ProbeAudit,
    RelativeDifference,
    RetrievalAudit,
    SkewRow,
    WithinRow,
)

COLUMNS: Final = (
    *("table", "probe", "model", "compared_with", "subject", "over", "group", "quantity"),
    *("value", "lo", "hi", "p", "p_adjusted", "null_median", "null_p95", "n_sets", "detail", "notice"),
)


_FORMULA: Final = tuple("=+-@＝＋－＠")


def render_csv(record: AuditRecord) -> str:
    """Every number of the audit, one a row, in UTF-8 with a header. Empty is what does not apply or was not measured.

    Every row repeats the dataset's notice: rows travel without their file.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    notice = record.dataset.notice or ""
    for probe in record.probes:
        for row in _rows(probe):
            filled = {key: _cell(value) for key, value in row.items() if value is not None}
            writer.writerow({"probe": _cell(probe.name), "notice": _cell(notice)} | filled)
    return buffer.getvalue()


def _rows(probe: ProbeAudit) -> Iterator[dict[str, object]]:
    if isinstance(probe, ClassificationAudit):
        return _classification(probe)
    return _implicit(probe) if isinstance(probe, ImplicitAudit) else _retrieval(probe)


def _cell(value: object) -> object:
    """Numbers as they are; text on one line, and never what a spreadsheet would take for a formula.

    A text that starts like one gets an apostrophe before it, also where its sign is of full width.
    """
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(table: str, model: str, **cells: object) -> dict[str, object]:
    return {"table": table, "model": model, **cells}


def _classification(probe: ClassificationAudit) -> Iterator[dict[str, object]]:
    for row in probe.fairness:
        where = _line("models", row.model, subject=row.subject, n_sets=row.n_sets)
        if row.fairness is not None:
            yield where | {"quantity": "fairness", "value": row.fairness, "lo": row.lo, "hi": row.hi}
        right = {"value": row.accuracy, "lo": row.accuracy_lo, "hi": row.accuracy_hi}
        yield where | {"quantity": "accuracy", **right}
    for pair in probe.pairs:
        where = _line("pairs", pair.second, compared_with=pair.first, subject=pair.subject, n_sets=pair.n_sets)
        if pair.delta is not None:
            fairness = {"quantity": "fairness", "value": pair.delta, "lo": pair.lo, "hi": pair.hi}
            yield where | fairness | {"p": pair.p_mood, "p_adjusted": pair.p_mood_adjusted, "detail": "Mood"}
            spread = {"quantity": "mean spread inside a set", "value": pair.spread_delta}
            spread |= {"lo": pair.spread_lo, "hi": pair.spread_hi, "p_adjusted": pair.p_paired}
            yield where | spread | {"detail": f"paired; {pair.conclusion}; {pair.agreement}"}
        accuracy = {"quantity": "accuracy", "value": pair.accuracy_delta, "p_adjusted": pair.p_accuracy}
        yield where | accuracy | {"lo": pair.accuracy_lo, "hi": pair.accuracy_hi, "detail": "paired"}
    yield from _effects(probe.effects)
    for one in probe.taken:
        where = _line("taken for", one.model, subject=one.subject, over=one.over, group=one.group)
        said = f"{one.count} of {one.total} images"
        yield where | {"quantity": one.predicted, "value": one.count / one.total, "detail": said}


def _effects(effects: Sequence[EffectRow]) -> Iterator[dict[str, object]]:
    for one in effects:
        where = _line("effects", one.model, subject=one.subject, over=one.over, group=one.group, n_sets=one.n_sets)
        where |= {"compared_with": one.reference, "quantity": one.outcome, "value": one.effect}
        yield where | {"lo": one.lo, "hi": one.hi, "p": one.p, "p_adjusted": one.p_adjusted}


def _implicit(probe: ImplicitAudit) -> Iterator[dict[str, object]]:
    for row in probe.groups:
        where = _line("implicit", row.model, over=row.over, group=row.group, detail=probe.positive)
        yield where | {"quantity": "mean P(positive label)", "value": row.mean}
        within = {"quantity": "P(positive label) within sets", "value": row.within_sets, "n_sets": row.n_sets}
        yield where | within
    yield from _effects(probe.effects)


def _retrieval(probe: RetrievalAudit) -> Iterator[dict[str, object]]:
    for recall in probe.recall:
        where = _line("models", recall.model, quantity=f"R@{recall.k}", n_sets=recall.n_sets)
        yield where | {"value": recall.value, "lo": recall.lo, "hi": recall.hi}
    for row in probe.skews:
        where = _line("skew", row.model, subject=row.subject, over=row.over, group=row.favoured)
        where |= {"quantity": f"MaxSkew@{row.k}", "detail": "tied at k" if row.tied else None}
        yield where | _beside_chance(row)
    for one in probe.within:
        quantity = f"MaxSkew@{one.k} within {one.fixed}"
        where = _line("skew within", one.model, over=one.over, group=one.group, quantity=quantity)
        yield where | _beside_chance(one)
    for difference in probe.differences:
        quantity = f"relative difference within {difference.fixed}"
        groups = f"{difference.highest} against {difference.lowest}"
        where = _line("skew within", difference.model, over=difference.over, group=groups, quantity=quantity)
        yield where | _beside_chance(difference)


def _beside_chance(row: SkewRow | WithinRow | RelativeDifference) -> dict[str, object]:
    return {"value": row.value, "null_median": row.null_median, "null_p95": row.null_p95}


def render_latex(record: AuditRecord) -> str:
    """Tables for a paper (booktabs): models, models by subject, pairs, skew. The notice stands in every caption."""
    parts = [f"% Made by fairgate {_tex(record.environment.fairgate)}; needs \\usepackage{{booktabs}}."]
    for probe in record.probes:
        if isinstance(probe, ClassificationAudit):
            parts += [_models_table(record, probe), _subjects_table(record, probe), _pairs_table(record, probe)]
        elif isinstance(probe, ImplicitAudit):
            parts.append(_implicit_table(record, probe))
        else:
            parts.append(_skew_table(record, probe))
    return "\n\n".join(filter(None, parts)) + "\n"


def _models_table(record: AuditRecord, probe: ClassificationAudit) -> str:
    rows = [
        [
            _tex(row.model),
            _limits(row.fairness, row.lo, row.hi),
            _limits(row.accuracy, row.accuracy_lo, row.accuracy_hi),
        ]
        for row in probe.fairness
        if row.subject is None
    ]
    caption = f"Fairness metric and accuracy, probe {_tex(probe.name)}, {record.n_sets:,} sets"
    key = table_id("models", probe.name)
    return _table(record, key, caption, "lrr", ["Model", "Fairness metric", "Classification accuracy"], rows)


def _subjects_table(record: AuditRecord, probe: ClassificationAudit) -> str:
    subjects = list(dict.fromkeys(row.subject for row in probe.fairness if row.subject is not None))
    if not subjects or probe.fairness[0].fairness is None:
        return ""
    of = {(row.model, row.subject): row.fairness for row in probe.fairness}
    rows = [[_tex(one.name), *(_number(of[one.name, subject]) for subject in subjects)] for one in record.models]
    caption = f"Fairness metric by subject, probe {_tex(probe.name)}"
    key = table_id("subjects", probe.name)
    return _table(record, key, caption, "l" + "r" * len(subjects), ["Model", *map(_tex, subjects)], rows)


def _pairs_table(record: AuditRecord, probe: ClassificationAudit) -> str:
    rows = [
        [
            f"{_tex(pair.second)} $-$ {_tex(pair.first)}",
            _limits(pair.delta, pair.lo, pair.hi),
            _p(pair.p_mood_adjusted),
            _limits(pair.spread_delta, pair.spread_lo, pair.spread_hi),
            _p(pair.p_paired),
        ]
        for pair in probe.pairs
        if pair.subject is None and pair.delta is not None
    ]
    if not rows:
        return ""
    tests = "Mood's median test (Bonferroni) beside a paired test on the same sets"
    caption = f"Pairs of models, probe {_tex(probe.name)}: {tests}"
    header = ["Models", "$\\Delta F_M$", "$p$ (Mood)", "$\\Delta$ mean spread", "$p$ (paired)"]
    return _table(record, table_id("pairs", probe.name), caption, "lrrrr", header, rows)


def _implicit_table(record: AuditRecord, probe: ImplicitAudit) -> str:
    over = probe.groups[-1].over if probe.groups else ""
    rows = [
        [_tex(row.model), _tex(row.group), _number(row.mean), _number(row.within_sets)]
        for row in probe.groups
        if row.over == over
    ]
    caption = f"Implicit association, probe {_tex(probe.name)}: P({_tex(probe.positive)}) by {_tex(over)}"
    key = table_id("implicit", probe.name, over)
    return _table(record, key, caption, "llrr", ["Model", "Group", "Mean", "Within sets"], rows)


def _skew_table(record: AuditRecord, probe: RetrievalAudit) -> str:
    rows = [
        [
            *(_tex(row.model), f"{_tex(row.over)}, $k={row.k}$", _number(row.mean), _number(row.median)),
            *(f"{_number(row.null_median)} ({_number(row.null_p95)})", f"{row.beyond}/{row.subjects}"),
        ]
        for row in probe.summaries
    ]
    caption = f"MaxSkew over subjects, probe {_tex(probe.name)}, beside a perfectly fair ranker's median (95\\%)"
    header = ["Model", "Attributes", "Mean", "Median", "Fair ranker", "Beyond 95\\%"]
    return _table(record, table_id("skew", probe.name), caption, "llrrrr", header, rows)


def _table(
    record: AuditRecord, key: str, caption: str, columns: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """One table. Its label is `tab:` and what audit.html calls the table."""
    note = f" {_tex(record.dataset.notice)}" if record.dataset.notice else ""
    lines = [
        *("\\begin{table}", "\\centering", f"\\caption{{{caption}.{note}}}", f"\\label{{tab:{key}}}"),
        *(f"\\begin{{tabular}}{{{columns}}}", "\\toprule", " & ".join(header) + " \\\\", "\\midrule"),
        *(" & ".join(row) + " \\\\" for row in rows),
        *("\\bottomrule", "\\end{tabular}", "\\end{table}"),
    ]
    return "\n".join(lines)


_TEX: Final = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}"},
    **{"[": "{[}", "]": "{]}", "*": "{*}"},  # at the start of a row, `\\\\` before it would take them for its own
    **{"×": "$\\times$", "Δ": "$\\Delta$", "’": "'", "−": "$-$", "→": "$\\to$", "·": "$\\cdot$"},
}


def _tex(text: str) -> str:
    """Foreign text without a command in it."""
    return "".join(_TEX.get(character, character) for character in clean(text))


def _number(value: float | None) -> str:
    if value is not None and math.isinf(value):
        return "$\\infty$" if value > 0 else "$-\\infty$"
    return "--" if value is None else f"{value:.3f}" if value >= 0 else f"$-${abs(value):.3f}"


def _limits(value: float | None, lo: float | None, hi: float | None) -> str:
    return _number(value) if lo is None or hi is None else f"{_number(value)} [{_number(lo)}, {_number(hi)}]"


def _p(value: float | None) -> str:
    return "--" if value is None else "$<$0.001" if value < 0.001 else f"{value:.3f}"


def table_id(*parts: str) -> str:
    """What a table is called in audit.html, its downloads and audit.tex: the same for the same question in every audit.

    Characters that an id cannot hold are replaced, and a digest keeps such names distinct.

    >>> table_id("pairs", "hard_labels"), table_id("effects", "labels", "correct", "skin_tone × gender", "line cook")
    ('pairs.hard_labels', 'effects.labels.correct.skin_tone-x-gender.line-cook-6ad1b5')
    """
    return ".".join(filter(None, map(_id_part, parts)))


def _id_part(text: str) -> str:
    crossed = text.replace(" × ", "-x-")
    kept = re.sub(r"[^A-Za-z0-9_]+", "-", crossed).strip("-")[:60]
    return kept if kept == crossed else f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:6]}".strip("-")
