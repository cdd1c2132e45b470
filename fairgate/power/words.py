"""Power in words and in a terminal: a row per check, with the group whose regressions are the hardest to see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from fairgate.power.record import CheckPower, GroupPower, PowerRecord
from fairgate.reports.words import clean, metric_words, number

if TYPE_CHECKING:
    from rich.table import Table

_STEPS: Final = (4, 16)
"""How many times as many sets the terminal tells of."""
_BARS: Final = "▁▂▃▄▅▆▇█"


def assumptions(record: PowerRecord) -> list[str]:
    """What the numbers hold under; they belong beside every table."""
    several = record.comparisons > 1
    corrected = (
        f"Every comparison is given alpha {record.alpha:g} / {record.comparisons} = {record.alpha_each:.2g}: what "
        f"{record.correction} over the suite’s {record.comparisons} comparisons leaves in the worst case."
        if several
        else f"The suite has one comparison, at alpha {record.alpha:g}."
    )
    return [
        f"Visible: fails the gate in {record.odds:.0%} of runs, if that is how much truly was lost.",
        corrected,
        "Noise between future runs is taken to be as between these two; where the differences of two runs are real, it "
        "is overstated.",
    ]


def detectable_words(group: GroupPower | None) -> str:
    """The smallest visible regression; `none` where no regression could fail."""
    if group is None:
        return number(None)
    infinite = group.detectable is None or math.isinf(group.detectable)
    return "none: too few" if infinite else number(group.detectable)


def needed_words(check: CheckPower, group: GroupPower) -> str:
    """Sets for the wished regression."""
    if group.sets_needed is not None:
        return f"{group.sets_needed:,}"
    return "within the margin" if check.wanted <= check.margin else "more than 10⁹"


def terminal_table(record: PowerRecord) -> Table:
    """Every comparison of the suite: what it sees now, what the wished regression takes, and with more sets."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("check", no_wrap=True)
    table.add_column("hardest group", no_wrap=True)
    unit = record.checks[0].unit
    for name in ("margin", unit, "visible now", *(f"×{step} {unit}" for step in _STEPS), "wished", f"{unit} for it"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("curve", no_wrap=True)
    for check in record.checks:
        table.add_row(*map(Text, _row(check)))
    return table


def terminal_lines(record: PowerRecord) -> list[str]:
    """What could not be computed, what the table assumes, and the notice."""
    reasons: dict[str, list[str]] = {}
    for check in record.checks:
        if check.unavailable is not None:
            reasons.setdefault(check.unavailable, []).append(check.item)
    lines = [f"no power for {clean(', '.join(items), 200)}: {clean(why, 400)}" for why, items in reasons.items()]
    lines += assumptions(record)
    lines.append(f"reproduce: {clean(record.command)}")
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    return lines


def _row(check: CheckPower) -> list[str]:
    group = check.hardest
    where = [clean(check.item, 48), "" if group is None or group.group is None else clean(group.group, 40)]
    if group is None:
        return [*where, number(check.margin), f"{check.n_sets:,}", number(None), *(number(None) for _ in _STEPS)]
    return [
        *(*where, number(check.margin), f"{group.n_sets:,}", detectable_words(group)),
        *(number(at_size(check, group, step * check.n_sets)) for step in _STEPS),
        *(number(check.wanted), needed_words(check, group), sparkline(group.curve, check.margin)),
    ]


def at_size(check: CheckPower, group: GroupPower, n_sets: int) -> float | None:
    """The detectable regression at the size of the curve that is nearest to a number of sets."""
    nearest = min(range(len(check.sizes)), key=lambda at: abs(math.log(check.sizes[at] / n_sets)))
    return group.curve[nearest]


def sparkline(curve: list[float | None], margin: float = 0.0, width: int = 10) -> str:
    """How far beyond the margin a regression must lie, as bars from few sets to many; a dot where none is visible.

    >>> sparkline([None, 0.5, 0.3, 0.2], margin=0.1, width=4)
    '·█▄▂'
    """
    step = max(1, len(curve) // width)
    taken = [None if x is None or math.isinf(x) else x - margin for x in curve[::step][:width]]
    top = max((x for x in taken if x is not None), default=1.0)
    return "".join("·" if x is None else _BARS[max(0, math.ceil(len(_BARS) * x / top - 1e-9) - 1)] for x in taken)


def named(check: CheckPower) -> str:
    """What a check measures, in words."""
    return metric_words(check.metric) + (f" over {clean(check.over, 60)}" if check.over else "")
