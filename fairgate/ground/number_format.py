"""How a number is written: one way for reasons, reports, tables and pytest's output."""

from __future__ import annotations

import math
from typing import Final

ABSENT: Final = "–"


def number(value: float | None, status: str = "ok") -> str:
    """Three decimals, a fourth only where a small number would read as zero; `–` where nothing was measured.

    `status` "infinite" is a record's word for what JSON has no number for.

    >>> number(-0.31), number(0.0002), number(0.00001), number(None), number(None, "infinite"), number(-math.inf)
    ('−0.310', '0.0002', '≈0', '–', 'infinite', '−∞')
    """
    if value is None or math.isnan(value):
        return "infinite" if status == "infinite" else ABSENT
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and abs(value) < 0.0005:
        text = f"{value:.4f}" if abs(value) >= 0.00005 else "≈0"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
    return text.replace("-", "−")


def signed(value: float | None) -> str:
    """A change, with its sign: `+0.012`, `−0.310`; `≈0` for next to none, and `0.000` for none."""
    text = number(value)
    return f"+{text}" if value is not None and value > 0 and text != "≈0" else text


def gap_words(gap: float, others: str = "") -> str:
    """Where a group stands, and next to whom if they are named.

    >>> gap_words(0.048, "its set-mates"), gap_words(-0.262), gap_words(0.0, "its set-mates")
    ('0.048 ahead of its set-mates', '0.262 behind', 'level with its set-mates')
    """
    place, joined = ("level", " with") if gap == 0 else ("ahead", " of") if gap > 0 else ("behind", "")
    size = "" if gap == 0 else f"{number(abs(gap))} "
    return f"{size}{place}{joined} {others}" if others else f"{size}{place}"


def three_decimals(value: float | None) -> str:
    """For the reasons of verdicts: records of before have them so, and are compared with records of today.

    >>> three_decimals(-0.31), three_decimals(0.0002), three_decimals(None)
    ('−0.310', '0.000', '–')
    """
    return ABSENT if value is None else f"{value:.3f}".replace("-", "−")


def interval(lo: float | None, hi: float | None) -> str:
    """`[0.790, 0.830]`, `(too few for an interval)` where it is of all numbers, or nothing where there is none."""
    if lo is None or hi is None:
        return ""
    return "(too few for an interval)" if boundless(lo, hi) else f"[{number(lo)}, {number(hi)}]"


def boundless(lo: float | None, hi: float | None) -> bool:
    """Whether an interval holds every number: there were too few images or sets for a narrower one."""
    return lo == -math.inf and hi == math.inf


def with_interval(text: str, lo: float | None, hi: float | None) -> str:
    """A number followed by its interval, where it has one."""
    return f"{text} {interval(lo, hi)}".rstrip()


def share_words(count: int, noun: str) -> str:
    """`1 set`, `1,200 sets`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def p_value(value: float | None) -> str:
    """A p-value: three decimals, `<0.001` below them."""
    return "<0.001" if value is not None and value < 0.001 else number(value)


def percent_of(share: float) -> str:
    """`97.5%`, `100%` where there is nothing behind the point, and `<0.1%` for what is not nothing."""
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}".removesuffix(".0") + "%"
