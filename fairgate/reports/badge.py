"""A run in few words: a badge, as a static picture and as the JSON of a shields.io endpoint."""

from __future__ import annotations

import html
import json
from typing import Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import share_words
from fairgate.records import RunRecord, Verdict
from fairgate.reports import formatting as words
from fairgate.reports.outputs import Output, register

_COLOURS: Final[dict[Verdict, str]] = {
    "pass": "#2e7d32",
    "fail": "#c62828",
    "inconclusive": "#8d6e00",
    "error": "#616161",
}
_CHARACTER: Final = 6.6  # pixels of an average character of Verdana at 11
_PADDING: Final = 10


def badge_words(record: RunRecord) -> tuple[str, str]:
    """Label and message: `fairgate jobs on faces/v1`, `8 of 25 checks failed, 2 inconclusive`. What did not pass is
    counted by what became of it, and a pass says how much of it rests on waivers."""
    label = f"fairgate {clean(record.suite, 40)} on {clean(f'{record.dataset.name}/{record.dataset.version}', 60)}"
    if record.verdict == "pass":
        message, left = f"{share_words(words.tally(record)['pass'], 'check')} passed", {"pass"}
    elif words.headline_verdict(record) == "error":
        message, left = f"no verdict: {words.uncomputed_words(record)}", {"pass", "error"}
    else:
        worst = next(outcome for outcome, count in words.tally(record).items() if count)
        of = f"{words.tally(record)[worst]:,} of {share_words(len(record.checks), 'check')}"
        message, left = f"{of} {words.COUNTED[worst]}", {"pass", worst}
    if record.passes and record.needs_approval:
        message += ", needs approval"
    others = [
        f"{count:,} {words.COUNTED[outcome]}"
        for outcome, count in words.tally(record).items()
        if count and outcome not in left
    ]
    return label, ", ".join([message, *others])


def badge_json(record: RunRecord) -> str:
    """What `https://img.shields.io/endpoint?url=...` reads."""
    label, message = badge_words(record)
    colour = _COLOURS[words.headline_verdict(record)].removeprefix("#")
    return json.dumps({"schemaVersion": 1, "label": label, "message": message, "color": colour}, indent=2) + "\n"


def badge_svg(record: RunRecord) -> str:
    """The badge as one SVG that fetches nothing; its title has the dataset's notice."""
    label, message = badge_words(record)
    left, right = (round(len(text) * _CHARACTER) + 2 * _PADDING for text in (label, message))
    notice = f" {clean(record.dataset.notice, 600)}" if record.dataset.notice else ""
    title = html.escape(f"{label}: {message}.{notice}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{title}">'
        f"<title>{title}</title>"
        f'<rect width="{left}" height="20" fill="#424242"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{_COLOURS[words.headline_verdict(record)]}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2:g}" y="14">{html.escape(label)}</text>'
        f'<text x="{left + right / 2:g}" y="14">{html.escape(message)}</text></g></svg>\n'
    )


register(Output("badge", "badge.svg", ("card",), lambda record, _: badge_svg(record).encode()))
register(Output("badge_endpoint", "badge.json", ("card",), lambda record, _: badge_json(record).encode()))
