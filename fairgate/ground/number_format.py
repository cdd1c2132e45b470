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


def three_decimals(value: float | None) -> str:
    """For the reasons of verdicts: records of before have them so, and are compared with records of today.

    >>> three_decimals(-0.31), three_decimals(0.0002), three_decimals(None)
    ('−0.310', '0.000', '–')
    """
    return ABSENT if value is None else f"{value:.3f}".replace("-", "−")
