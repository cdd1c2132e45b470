"""A run in few words: as a badge (a static picture, and the JSON of a shields.io endpoint), and as a message for Slack
(Block Kit) and for Teams (an Adaptive Card), as a webhook of theirs takes it.

https://docs.slack.dev/reference/block-kit, https://adaptivecards.io/explorer (1.4). Foreign text is plain text there:
it mentions nobody and links to nothing.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any, Final

from fairgate.ground.errors import clean
from fairgate.ground.markdown import web_address
from fairgate.ground.number_format import share_words
from fairgate.records import RunRecord, Verdict
from fairgate.reports import formatting as words
from fairgate.reports.next_steps import NextStep, in_artifact, next_steps
from fairgate.reports.outputs import Output, register
from fairgate.reports.run_remarks import approval_command, approvals_needed, cause_lines, notices
from fairgate.reports.sentences import sentence

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


_QUOTED: Final = re.compile(r"'[^'\n]{1,300}'")
_FINDINGS: Final = 5
_STEPS: Final = 3
_LONGEST: Final = 150
"""Characters of a header that Slack takes."""
_BLOCK: Final = 2900
"""Characters of a block: Slack takes 3,000."""


def message_lines(record: RunRecord) -> tuple[str, list[str], list[str]]:
    """The headline, the findings and what to do next, of many the first few; no single picture is named."""
    suite, symbol = clean(record.suite, 60), words.SYMBOL[words.headline_verdict(record)]
    headline = clean(f"{symbol} {suite}: {_nameless(words.verdict_words(record))}", _LONGEST)
    noted = _place(record) + ([clean(f"note: {record.dataset.notice}", 600)] if record.dataset.notice else [])
    failing, _, _ = words.by_outcome(words.reading_order(record.checks))
    findings = [
        f"{words.SYMBOL[check.verdict]} {(_nameless if check.verdict == 'error' else str)(sentence(check, record))}"
        for check in failing
    ]
    if words.common_cause(record) is not None:  # the headline has it
        return headline, [clean(_nameless(line), 600) for line in cause_lines(record)] + noted, []
    findings = words.at_most(findings, _FINDINGS, "and {} more in the report")
    findings += [f"needs approval: {text}" for text in approvals_needed(record, _STEPS)]
    findings += [*noted, *(f"to review: {text}" for text in notices(record, _STEPS))]
    steps = [" ".join([f"{step.what}:", *step.lines]) if step.lines else step.what for step in _short(record)]
    if (command := approval_command(record)) is not None:
        steps.append(f"once it is reviewed, on the default branch: {command}")
    passed = [] if failing else [f"{words.totals(record)}; {words.coverage_words(record)}"]
    return headline, passed + findings, steps


def _place(record: RunRecord) -> list[str]:
    """`commit 1a2b3c4, branch topic`, as far as the record has them."""
    place = record.environment
    commit = place.git_commit and f"commit {clean(place.git_commit[:7])}{', changed' if place.git_dirty else ''}"
    branch = place.git_branch and f"branch {clean(place.git_branch, 80)}"
    return [", ".join(filter(None, (commit, branch)))] if commit or branch else []


def _nameless(reason: str) -> str:
    """An error's reason without what it quotes, such as the file of a picture."""
    return _QUOTED.sub("'…'", reason)


def _short(record: RunRecord) -> list[NextStep]:
    """The steps without the lines of a suite file, which are in the comment."""
    return [step for step in next_steps(record, names=False, pictures=in_artifact(record)) if len(step.lines) < 2][
        :_STEPS
    ]


def render_slack(record: RunRecord, report_url: str | None = None) -> str:
    """The payload of a Slack webhook: a header, the findings, what next, a link to the report."""
    headline, findings, steps = message_lines(record)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(headline)}]
    for lines in filter(None, (findings, [f"Next: {step}" for step in steps])):
        blocks.append({"type": "section", "text": _plain("\n".join(lines))})
    if (address := web_address(report_url)) is not None:
        button = {"type": "button", "text": _plain("Report"), "url": address}
        blocks.append({"type": "actions", "elements": [button]})
    return _json({"text": _escaped(headline), "blocks": blocks})


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text if len(text) <= _BLOCK else f"{text[: _BLOCK - 1]}…", "emoji": False}


def _escaped(text: str) -> str:
    """Text of a notification, in which Slack reads `<!channel>`, `&` and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render_teams(record: RunRecord, report_url: str | None = None) -> str:
    """The payload of a Teams webhook: an Adaptive Card of runs of text, which read no Markdown."""
    headline, findings, steps = message_lines(record)
    body = [_text(headline, weight="Bolder", size="Medium"), *map(_text, findings)]
    body += [_text(f"Next: {step}", isSubtle=True) for step in steps]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if (address := web_address(report_url)) is not None:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Report", "url": address}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return _json({"type": "message", "attachments": [attachment]})


def _text(text: str, **look: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text[:_BLOCK], **look}]}


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


register(Output("slack", "slack.json", ("message",), lambda record, at: render_slack(record, at.report_url).encode()))
register(Output("teams", "teams.json", ("message",), lambda record, at: render_teams(record, at.report_url).encode()))
