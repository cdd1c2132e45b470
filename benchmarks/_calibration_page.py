"""The page and the plot of the calibration, from its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks._calibration_rows import Row
from benchmarks._small_page import few_images, upper

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

INTRO = """# Calibration: how often a verdict is wrong, and what it sees
"""

HOW = """The verdicts of `no_worse_than: baseline` are held to runs whose true change is known: the public functions
(`fairgate.formulas.statistics.paired_test`, `paired_statistic_test`) decide simulated runs.

- **False fail**: any group fails although no group is worse than the margin allows. Promised: at most 5% of runs,
  whatever the shape of the noise, the number of sets and of groups.
- **False pass**: any group passes although its true change lies exactly on the margin. At most 5%, too.

Which loss a suite fails on its own images, `fairgate power` simulates; [gate](gate.md#a-new-suite) holds it to account.

![False alarms by rule](calibration.png)
"""

METHOD = """## What is simulated

The true change lies where a wrong verdict is likeliest. `among set-mates` (deviations from the set's mean, the metric
`group_gap`): no change at a margin of 0. `each group` (`accuracy` and the like): every group exactly at the margin of
0.02. Numbers in brackets are the upper ends of 95% Clopper-Pearson intervals; the promise is kept if they lie under
6.5%.

Noise: *normal*; *heavy tails* (Student's t with 3 degrees of freedom); *skewed up*, *skewed down* (lognormal, skewness
6); *unequal variances* (standard deviations 1 to 30 over the groups); *near 0 and 1* (both runs' scores are saturated
probabilities); *answers* (right or wrong, 1% turn either way by chance). Sets: 50, 300, 6,000. Groups: 4, 8, 14.

## How it is decided

For one group only one verdict can be wrong, so each is tested on one side at alpha. Failures are adjusted over all
groups of all comparisons of a suite by one step-down max-T over shared resamples of the sets (Romano and Wolf 2005),
passes over the groups of their comparison. t is divided by 1 + 2 skewness^2 / sets if the large values lie on the
other side, and a tenth of alpha is kept in reserve. Answers that are right or wrong, of which fewer than 24 turned,
have an exact test of lost against won (the score statistic of Tango 1998; its probability is the largest over the
share of answers that turn, as in Berger and Boos 1994), without a reserve, and Holm's correction. At a margin of 0,
another group that shares no image adds the chance of a p as small given how many of its answers turned, which is 0 if
too few did (Tarone 1990). The runs here have 2,000 resamples, those of 6,000 sets 500;
the gate has 4,000.

## On real checkpoints

ViT-L/14 on FairFace's 10,954 validation photographs ([fairface](fairface/README.md)), from the repaired text
embeddings back to the faulty ones, with a margin of 0.01 in all five `no_worse_than` checks. p is adjusted for all 33
groups at once.

| group | photographs | change | p |
| --- | ---: | ---: | ---: |
| East Asian | 1,550 | -0.030 | 0.0028 |
| Latino_Hispanic | 1,623 | -0.024 | 0.0392 |
| Indian | 1,516 | -0.022 | 0.0736 |
| age 30-39 | 2,330 | -0.023 | 0.0052 |
| Southeast Asian x Female | 680 | -0.041 | 0.0014 |
"""

FOOT = """## All cells, and how to reproduce them

[calibration.csv](calibration.csv) has a line per cell, rule and outcome: also answers that are right or wrong, true
changes beyond the promise, and statistics that are not means (`test` is "statistic").

    python -m benchmarks.calibration --write docs/evidence

runs every cell that the CSV lacks and writes this page and its plot. From nothing it takes more than an hour on one
core, with the same numbers for the same seed. `--only-draw` draws page and plot from the CSV alone.
`python -m benchmarks.resampling` measures how fast the resampling is.
"""


def write(folder: Path, rows: Sequence[Row]) -> None:
    """calibration.md and calibration.png."""
    parts = [INTRO, _summary(rows), HOW, _by_shape(rows), _rules(rows), few_images(rows), METHOD, FOOT]
    (folder / "calibration.md").write_text("\n".join(parts))
    draw(folder / "calibration.png", rows)


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
    for what in ("false fail", "false pass"):
        found = [row for row in promised if row.what == what]
        if found:
            worst = max(found, key=upper)
            place = f"{worst.test}, {worst.shape}, {worst.sets:,} sets x {worst.groups} groups"
            runs = sorted({row.runs for row in found})
            told = " to ".join(f"{number:,}" for number in dict.fromkeys((runs[0], runs[-1])))
            lines.append((what, str(len(found)), told, _with_limit(worst), place))
    expected = len(TESTS) * len(SHAPES) * len(SETS) * len(GROUPS)
    table = _table(("", f"cells of {expected}", "runs each", "worst, %", "where"), lines)
    over = [row for row in promised if upper(row) > ALPHA + 0.015]
    named = "; ".join(f"{row.what}, {row.test}, {row.shape}, {row.sets:,} x {row.groups}" for row in over)
    told = f"{len(over)} of the {len(promised)} limits {'is' if len(over) == 1 else 'are'} above 6.5%"
    return f"{table}\n{told}{f': {named}' if named else ''}.\n"


def _by_shape(rows: Sequence[Row]) -> str:
    """Per shape of noise, every promised cell pooled, and the worst cell."""
    lines = []
    for what in ("false fail", "false pass"):
        for shape in SHAPES:
            cells = [row for row in rows if (row.shape, row.what, row.rule) == (shape, what, "fairgate")]
            cells = [row for row in cells if (row.test, row.truth) in TESTS.items()]
            if cells:
                lines.append(
                    [f"{what}, {shape}", str(len(cells)), _pooled(cells), f"{100 * max(map(upper, cells)):.1f}"]
                )
    table = _table(["", "cells", "% of runs (worst cell)", "highest limit"], lines)
    return f"## By the shape of the noise\n\n{table}"


def _pooled(rows: Sequence[Row]) -> str:
    share = sum(row.count for row in rows) / sum(row.runs for row in rows)
    return f"{100 * share:.1f} ({100 * max(row.count / row.runs for row in rows):.1f})"


def alarms(rows: Sequence[Row], rule: str, shape: str) -> list[float]:
    """False alarms in % of a rule in the cells of the promise. That a mean fell is asked only where nothing changed."""
    return [
        100 * row.count / row.runs
        for row in rows
        if (row.rule, row.shape, row.what) == (rule, shape, "false fail")
        and (row.test, row.truth) in TESTS.items()
        and (rule != FELL or row.truth == "no change")
    ]


def _rules(rows: Sequence[Row]) -> str:
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
        "changed; it is not a test, and depends on the noise (here about 0.1 per score) and on luck.\n\n"
        f"{_table(head, lines)}"
    )


def draw(path: Path, rows: Sequence[Row]) -> None:
    """False alarms of every rule, a mark per cell."""
    marks = dict(zip(SHAPES, "os^vDP", strict=True))
    figure, axes = plt.subplots(figsize=(9, 4.6), layout="constrained")
    _alarms(axes, rows, marks)
    handles, labels = axes.get_legend_handles_labels()
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
