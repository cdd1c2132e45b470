"""The page and the plot of the calibration, from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from scipy.stats import beta

if TYPE_CHECKING:
    from benchmarks.calibration import Row

mpl.use("Agg")

ALPHA = 0.05
SETS, GROUPS = (50, 300, 6000), (4, 8, 14)
SHAPES = ("normal", "heavy tails", "skewed up", "skewed down", "unequal variances", "near 0 and 1")
TESTS = {"among set-mates": "no change", "each group": "at the margin"}
FELL = "mean fell by more than 0.02"
RULES = (
    "fairgate",
    "t-test, Bonferroni",
    "max-T sign flips",
    "t-test per group",
    FELL,
    "MaxSkew rose by more than 0.05",
)
SEEN = "seen at twice detectable"

INTRO = """# Calibration: how often a verdict is wrong, and what it sees

A gate that cries wolf is switched off, and one that sees nothing is worse. These pages hold what the verdicts of
`no_worse_than: baseline` promise against simulation: runs are made whose true change is known, and the public tests
(`fairgate.statistics.group_regression`, `paired_test`, `paired_statistic_test`) are asked.

- **False alarm**: any group *fails* although no group is worse than the margin allows. Promised: at most 5% of runs,
  whatever the shape of the noise, the number of sets and of groups. Each tail of the two-sided limits has 2.5%.
- **False pass**: any group *passes* although its truth lies exactly on the margin.
- **Seen**: a group that fell by twice what `power` calls detectable (from another draw of the same noise) fails.

The truth sits where a wrong verdict is likeliest. `among set-mates` (`group_regression`, the check `group_gap`): no
change at a margin of 0. `each group` (`paired_test`, the check `accuracy` and the like): every group exactly at the
margin of 0.02. For plain differences both are one question, for the test moves along with a shift. Limits in brackets
are the upper ends of 95% Clopper-Pearson intervals; the promise is kept where they lie under 6.5%.

Noise: *normal*; *heavy tails* (Student's t with 3 degrees of freedom); *skewed up*, *skewed down* (lognormal, skewness
6); *unequal variances* (standard deviations 1 to 30 over the groups); *near 0 and 1* (both runs' scores are saturated
probabilities, near 1 in every other group and near 0 between); *answers* (right or wrong, 1% turn either way by
chance).
"""

FOOT = """## Reproduce

    python -m benchmarks.calibration --write docs

runs every cell that `docs/calibration.csv` lacks and writes this page and its plot; about an hour on one core from
nothing, and the same numbers for the same seed. `--only-draw` draws them from the CSV alone. How fast the resampling
is: `python -m benchmarks.resampling`.
"""


def write(folder: Path, rows: Sequence[Row]) -> None:
    """calibration.md and calibration.png."""
    parts = [INTRO, _summary(rows), "![False alarms by rule, and what is seen](calibration.png)\n"]
    for test, truth in TESTS.items():
        ours = [row for row in rows if (row.test, row.truth, row.rule) == (test, truth, "fairgate")]
        parts.append(_grid(f"False alarms, {test} ({truth}): % (limit)", ours, "false fail", _with_limit))
        parts.append(_grid(f"False passes, {test}: % (limit)", ours, "false pass", _with_limit))
        parts.append(_grid(f"Seen at twice the detectable regression, {test}: %", ours, SEEN, _share))
    parts += [_naive(rows), _beyond(rows), _statistics(rows), FOOT]
    (folder / "calibration.md").write_text("\n".join(parts))
    draw(folder / "calibration.png", rows)


def upper(row: Row) -> float:
    """Upper end of the 95% Clopper-Pearson interval."""
    return 1.0 if row.count == row.runs else float(beta.ppf(0.975, row.count + 1, row.runs - row.count))


def _share(row: Row) -> str:
    return f"{100 * row.count / row.runs:.1f}"


def _with_limit(row: Row) -> str:
    return f"{_share(row)} ({100 * upper(row):.1f})"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    text = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return "\n".join([*text, *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def _summary(rows: Sequence[Row]) -> str:
    promised = [row for row in rows if row.rule == "fairgate" and (row.test, row.truth) in TESTS.items()]
    promised = [row for row in promised if row.shape in SHAPES]
    lines = []
    for what, best in (("false fail", upper), ("false pass", upper), (SEEN, lambda row: -row.count / row.runs)):
        found = [row for row in promised if row.what == what]
        if found:
            worst = max(found, key=best)
            place = f"{worst.test}, {worst.shape}, {worst.sets:,} sets x {worst.groups} groups"
            said = _with_limit(worst) if what != SEEN else _share(worst)
            lines.append((what, str(len(found)), f"{worst.runs:,}", said, place))
    expected = len(TESTS) * len(SHAPES) * len(SETS) * len(GROUPS)
    table = _table(("", f"cells of {expected}", "runs each", "worst, %", "where"), lines)
    return f"## In short\n\n{table}"


def _grid(title: str, rows: Sequence[Row], what: str, said: Callable[[Row], str]) -> str:
    at = {(row.shape, row.sets, row.groups): row for row in rows if row.what == what}
    head = ["noise", *(f"{sets:,} x {groups}" for sets in SETS for groups in GROUPS)]
    lines = []
    for shape in SHAPES:
        cells = [at.get((shape, sets, groups)) for sets in SETS for groups in GROUPS]
        lines.append([shape, *(said(row) if row else "–" for row in cells)])
    return f"### {title}\n\nColumns: sets x groups.\n\n{_table(head, lines)}"


def alarms(rows: Sequence[Row], rule: str, shape: str) -> list[float]:
    """False alarms in % of a rule in the cells of the promise. That a mean fell is asked only where nothing changed."""
    return [
        100 * row.count / row.runs
        for row in rows
        if (row.rule, row.shape, row.what) == (rule, shape, "false fail")
        and (row.test, row.truth) in TESTS.items()
        and (rule != FELL or row.truth == "no change")
    ]


def _naive(rows: Sequence[Row]) -> str:
    """Per rule and shape, from the best cell to the worst."""
    head = ["rule", *SHAPES]
    lines = []
    for rule in RULES[:-1]:
        found = [alarms(rows, rule, shape) for shape in SHAPES]
        lines.append([rule, *(f"{min(shares):.0f} to {max(shares):.0f}" if shares else "–" for shares in found)])
    return (
        "## Rules that teams use instead\n\n"
        "False alarms in % of runs, from the best to the worst cell (fairgate in all; the others at 50 and 300 sets "
        "with 4, 8 and 14 groups). The t-tests and the sign flips are one-sided at 5%; sign flips adjust for all "
        "groups and are exact where noise is symmetric. That a mean fell by more than 0.02 is asked where nothing "
        "changed; it is no test, and depends on the noise (here about 0.1 per score) and on luck.\n\n"
        f"{_table(head, lines)}"
    )


def _beyond(rows: Sequence[Row]) -> str:
    places = {(row.test, row.shape, row.truth) for row in rows if row.test != "statistic"}
    places -= {(test, shape, truth) for test, truth in TESTS.items() for shape in SHAPES}
    columns = [(sets, groups) for sets in SETS[:2] for groups in GROUPS]
    at = {
        (row.test, row.shape, row.truth, row.what, row.sets, row.groups): row for row in rows if row.rule == "fairgate"
    }
    lines = []
    for place in sorted(places):
        for what in ("false fail", "false pass"):
            cells = [at.get((*place, what, *column)) for column in columns]
            lines.append([", ".join(place), what, *(_share(row) if row else "–" for row in cells)])
    table = _table(["", "", *(f"{sets} x {groups}" for sets, groups in columns)], lines)
    return f"## Beyond the promise\n\nAnswers that are right or wrong, and other truths; % of runs.\n\n{table}"


def _statistics(rows: Sequence[Row]) -> str:
    columns = [(sets, groups) for sets in SETS[:2] for groups in GROUPS]
    at = {(row.shape, row.rule, row.what, row.sets, row.groups): row for row in rows if row.test == "statistic"}
    lines = []
    for key in dict.fromkeys(key[:3] for key in at):
        cells = [at.get((*key, *column)) for column in columns]
        lines.append([*key, *(_share(row) if row else "–" for row in cells)])
    table = _table(["", "", "", *(f"{sets} x {groups}" for sets, groups in columns)], lines)
    return (
        "## Statistics that are no means\n\n"
        "Fairness (the median spread of sets) and MaxSkew@100 of one query, compared by "
        f"`paired_statistic_test` at a margin of 0 without any change; % of runs.\n\n{table}"
    )


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Left: false alarms of every rule, a mark per cell. Right: what fairgate sees at twice the detectable effect."""
    marks = dict(zip(SHAPES, "os^vDP", strict=True))
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), width_ratios=(2.2, 1), layout="constrained")
    shown = [row for row in rows if (row.test, row.truth) in TESTS.items() and row.shape in SHAPES]
    _alarms(left, rows, marks)
    _power(right, [row for row in shown if row.what == SEEN], marks)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _alarms(axes: Any, rows: Sequence[Row], marks: dict[str, str]) -> None:
    for place, rule in enumerate(reversed(RULES)):
        for index, (shape, mark) in enumerate(marks.items()):
            shares = alarms(rows, rule, shape)
            height = [place + 0.3 - 0.12 * index] * len(shares)
            colour = "#1b6f3a" if rule == "fairgate" else "#8a3324"
            axes.plot(shares, height, mark, color=colour, alpha=0.55, markersize=5, markeredgewidth=0)
        other = [
            100 * row.count / row.runs for row in rows if row.test == "statistic" and row.rule == rule != "fairgate"
        ]
        axes.plot(other, [place] * len(other), "x", color="#8a3324", markersize=6)
    for shape, mark in marks.items():
        axes.plot([], [], mark, color="#555555", markersize=6, label=shape)
    axes.axvline(100 * ALPHA, color="black", linewidth=1)
    axes.text(100 * ALPHA + 0.6, len(RULES) - 0.55, "5% allowed", fontsize=9)
    axes.set_yticks(range(len(RULES)), reversed(RULES))
    axes.set_ylim(-0.6, len(RULES) - 0.3)
    axes.set_xlim(-1, 101)
    axes.set_xlabel("false alarms, % of runs (a mark per cell of sets x groups)")
    axes.set_title("Nobody got worse: how often is a regression called?", fontsize=11, loc="left")
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _power(axes: Any, shown: Sequence[Row], marks: dict[str, str]) -> None:
    for index, (shape, mark) in enumerate(marks.items()):
        for row in (row for row in shown if row.shape == shape):
            at = SETS.index(row.sets) + 0.11 * (index - 2.5)
            axes.plot(
                [at], [100 * row.count / row.runs], mark, color="#1b6f3a", alpha=0.55, markersize=5, markeredgewidth=0
            )
    axes.axhline(90, color="black", linewidth=1)
    axes.text(-0.45, 90.3, "90% promised", fontsize=9)
    axes.set_xticks(range(len(SETS)), [f"{sets:,} sets" for sets in SETS])
    axes.set_ylim(85, 100.6)
    axes.set_xlim(-0.5, len(SETS) - 0.5)
    axes.set_ylabel("seen, % of runs")
    axes.set_title("A fall of twice the detectable", fontsize=11, loc="left")
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
