"""What the checks of a suite can decide, in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number
from fairgate.records import WANTED_PASSES, CheckPower, PowerRecord
from fairgate.reports.data_table import fold_name, text_table

if TYPE_CHECKING:
    from rich.table import Table


def power_table(record: PowerRecord) -> Table:
    """A row per check: how often it passes a harmless change, which loss it fails, and what it takes to pass."""
    columns = ("check", "tier", ">margin", ">passes", ">fails a loss of", f">{record.unit}s needed")
    return text_table(columns, (_row(check) for check in record.checks))


def _row(check: CheckPower) -> tuple[str, ...]:
    needed = "" if check.needed is None else f"{check.needed:,} a group" if check.over else f"{check.needed:,}"
    loss = "" if check.loss is None else f"{check.loss:.2f} or more"
    return fold_name(check.id, 24), check.tier, number(check.margin), f"{check.passes:.0%}", loss, needed


def power_lines(record: PowerRecord) -> list[str]:
    """What all checks together let pass, a warning for each check that does not, what was simulated, and the notice."""
    lines = [f"all regression checks that decide pass a harmless change {record.together:.0%} of the time"]
    unsure = [check for check in record.checks if check.tier == "gate" and check.passes < WANTED_PASSES]
    lines += [_warning(check, record) for check in unsure] + [clean(why, 400) for why in record.left_out]
    lines += [
        f"harmless: {clean(', '.join(dict.fromkeys(record.changes)), 300)}; {record.runs} simulated runs each draw the "
        f"{record.unit}s again{f' ({record.units:,} of the largest group)' if record.units else ''}",
        "a loss: one group's answers lose so much, whichever it is (of many, the 12 smallest; P(true) alike in all "
        "images), and the check fails 9 of 10 times, and names it if it is over groups",
        f"reproduce: {clean(record.command)}",
    ]
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    return lines


def _warning(check: CheckPower, record: PowerRecord) -> str:
    more = f"about {check.needed:,} {record.unit}s{' of each group' if check.over else ''}, " if check.needed else ""
    return (
        f"warning: '{clean(check.id, 60)}' passes a harmless change only {check.passes:.0%} of the time: it takes "
        f"{more}a wider margin, or `tier: watch`"
    )
