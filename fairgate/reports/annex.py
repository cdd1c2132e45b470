"""What a run says under the headings of technical documentation: EU AI Act, Annex IV, and NIST AI RMF, MEASURE.

From the record alone. It is evidence for whoever writes that documentation, and claims no conformity. What the record
does not hold is said to be missing, by name. Headings are abbreviated from Regulation (EU) 2024/1689, Annex IV; NIST
subcategories are named by the number of NIST AI 100-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fairgate.ground.errors import clean
from fairgate.ground.hashing import digest
from fairgate.ground.markdown import escape
from fairgate.records import CROSS, RunRecord
from fairgate.reports import formatting as words
from fairgate.reports.data_table import markdown_table
from fairgate.reports.model_card import ATTRIBUTES
from fairgate.reports.outputs import Output, register
from fairgate.reports.run_remarks import approvals_needed, definition_words, excuse_words, notices, remarks
from fairgate.reports.run_tables import checks_table, groups_table
from fairgate.reports.sentences import enough_words, sentence, too_small

_CLIP: Final = 300
_PROVIDER: Final = "Not in a run's record; the provider writes it: "


def render_annex(record: RunRecord) -> str:
    """The annex as Markdown. All text from models, datasets and suites is escaped."""
    sections = {
        "1. General description": _general(record),
        "2. Elements and development: how it was tested (NIST MEASURE 2.1, 2.3)": _testing(record),
        "3. Functioning: accuracy and differences by group (NIST MEASURE 2.11)": _by_group(record),
        "4. Appropriateness of the metrics (NIST MEASURE 1.1)": _metrics(record),
        "5. Risk management: what failed, and what was tolerated": _risks(record),
        "6. Changes": _changes(record),
        "7. Harmonised standards": ["None was applied by this test, and none is claimed."],
        "8. EU declaration of conformity": ["This is none, and no part of one."],
        "9. After placing on the market (NIST MEASURE 3.1)": [
            f"{_PROVIDER}the plan of monitoring. `fairgate history` shows how these numbers move over later runs."
        ],
        "What was not tested (NIST MEASURE 2.5)": [
            f"- {line}" for line in (*_unmeasured(record), *_too_thin(record), *_unlooked(record))
        ],
    }
    opening = [
        f"# Bias test of {escape(record.model.uri, _CLIP)}: evidence for technical documentation",
        f"> **{escape(record.dataset.notice, 1000)}**" if record.dataset.notice else "",
        "Made by fairgate from one run's record, and from nothing else, under the headings of the EU AI Act's Annex IV "
        "(Regulation (EU) 2024/1689, abbreviated) and of NIST AI 100-1, MEASURE. It reports what one test measured. It "
        "states no conformity with any law or standard, and no judgement of the model beyond its checks.",
    ]
    body = [f"## {title}\n\n{_joined(lines)}" for title, lines in sections.items()]
    return "\n\n".join([line for line in opening if line] + body) + "\n"


def _joined(lines: Sequence[str]) -> str:
    bullets = all(line.startswith("- ") for line in lines)
    return ("\n" if bullets else "\n\n").join(lines)


def _general(record: RunRecord) -> list[str]:
    model, place = record.model, record.environment
    facts = {
        "checkpoint": model.uri,
        "registered as": model.registered,
        "fingerprint of its files": model.fingerprint,
        "precision": model.precision,
        "preparation": model.preparation,
        "digest of the tokenizer, or of a classifier's labels": model.tokenizer,
        "digest of the preprocessing": model.preprocessing,
        "commit": place.git_commit and f"{place.git_commit}{', with uncommitted changes' if place.git_dirty else ''}",
    }
    missing = f"{_PROVIDER}intended purpose, provider, versions, hardware, instructions for use."
    return ["\n".join(_facts(facts)), missing]


def _testing(record: RunRecord) -> list[str]:
    data, decided, place = record.dataset, record.decision, record.environment
    when = words.moment(record.created_at)
    corrected = f"corrected by {clean(decided.method, 40)} over the whole suite"
    facts = {
        "suite": f"{record.suite} (digest {record.suite_digest})",
        "dataset": f"{data.name} {data.version} (fingerprint {data.fingerprint})",
        "design": "counterfactual sets" if data.counterfactual else "images without counterfactuals",
        "groups": "; ".join(f"{name}: {', '.join(groups)}" for name, groups in data.attributes.items()),
        **{f"probe {name}": digested for name, digested in record.probes.items()},
        "decision": f"alpha {decided.alpha:g}, {corrected}, {decided.draws:,} draws, seed {decided.seed}",
        "when and where": f"{when}, fairgate {place.fairgate}, {place.platform}, {place.device}",
        "packages": ", ".join(f"{name} {version}" for name, version in place.packages.items()),
        "plugins": ", ".join(f"{name} {version}" for name, version in (place.plugins or {}).items()) or "none",
        "command": record.command,
        "job": place.ci_url,
        "digest of this record": digest(record.model_dump(mode="json")),
    }
    missing = f"{_PROVIDER}training data, its origin and labelling; who is responsible for the test."
    return ["\n".join([*_facts(facts), f"- coverage: {words.coverage_words(record)}"]), missing]


def _facts(facts: dict[str, str | None]) -> list[str]:
    return [f"- {escape(name, 80)}: {escape(text, 600)}" for name, text in facts.items() if text]


def _by_group(record: RunRecord) -> list[str]:
    unit = words.unit_of(record)
    checks = markdown_table(checks_table(record.checks, record), _CLIP) if record.checks else "No check was run."
    verdict = words.verdict_words(record)
    blocks = [f"{escape(verdict[:1].upper() + verdict[1:])}: {words.totals(record)}.", checks]
    for check in record.checks:
        if (groups := groups_table(check, unit)) is not None:
            blocks.append(f"**{escape(check.item, _CLIP)}**\n\n{markdown_table(groups, _CLIP)}")
    return [*blocks, ATTRIBUTES]


def _metrics(record: RunRecord) -> list[str]:
    lines = []
    for checks in words.grouped(record.checks, lambda check: check.metric_with_k).values():
        spec = words.spec_of(checks[0])
        better = "" if spec is None else " or ".join(dict.fromkeys(result.better or spec.better for result in checks))
        meaning = "no installed package describes it" if spec is None else f"{spec.meaning}; {better} is better"
        over = ", ".join(dict.fromkeys(check.over for check in checks if check.over))
        named = words.metric_words(checks[0]) + (f" (over {over})" if over else "")
        lines.append(f"- {escape(named, _CLIP)}: {escape(meaning, 600)}")
    lines.append(f"- {_PROVIDER}why these metrics and bounds fit the intended purpose.")
    return lines


def _risks(record: RunRecord) -> list[str]:
    lines = []
    for check in record.checks:
        if check.verdict != "pass":
            why = f", {excuse_words(check)}" if check.excused else f": {sentence(check, record)}"
            lines.append(f"- {escape(check.item, _CLIP)}: {escape(check.verdict + why, 600)}")
    lines = lines or ["- no check failed, was left undecided, waived or watched"]
    return [*lines, f"- {_PROVIDER}known and foreseeable risks, and the measures against them (Article 9)."]


def _changes(record: RunRecord) -> list[str]:
    lines = []
    for name, info in (("baseline", record.baseline), ("anchor", record.anchor)):
        reference = "none" if info is None else f"{info.uri} (fingerprint {info.fingerprint}), {words.provenance(info)}"
        lines.append(f"- {name}: {escape(reference.rstrip(', '), 600)}")
    needed = approvals_needed(record, len(record.needs_approval))
    lines += [f"- needs approval: {escape(text, 600)}" for text in needed]
    lines += [f"- {escape(text, 600)}" for text in notices(record, len(record.notices))]
    lines += [f"- {escape(text, 600)}" for text in filter(None, [definition_words(record)])]
    lines += [f"- {escape(remark.text, 600)}" for remark in remarks(record)]
    return lines


def _unmeasured(record: RunRecord) -> Iterator[str]:
    coverage = record.coverage
    if not coverage.complete:
        yield f"coverage was {words.coverage_words(record)}"
    yield from (f"{escape(text, 600)}" for text in coverage.missing[:20])
    for check in record.checks:
        if check.verdict == "error":
            yield f"{escape(check.item, _CLIP)} could not be computed: {escape(check.reason, 600)}"
        elif check.rule == "no_worse_than" and words.compared_with(check, record) is None:
            yield f"{escape(check.item, _CLIP)} was not compared: the run has nothing to compare with"


def _too_thin(record: RunRecord) -> Iterator[str]:
    unit = words.unit_of(record)
    for check in record.checks:
        if thin := too_small(check, record):
            yield f"{escape(check.item, _CLIP)}: {escape(thin, 600)}"
        if check.verdict == "inconclusive" and check.sets_needed:
            unsettled = f"{check.n_sets:,} {unit}s did not settle it; {enough_words(check)} would"
            yield f"{escape(check.item, _CLIP)}: {unsettled}"
    bare = words.grouped(
        (result for result in record.checks if words.no_interval_words(result)), words.no_interval_words
    )
    for why, checks in bare.items():
        yield f"no interval of {escape(', '.join(check.item for check in checks), 600)}: {escape(why, _CLIP)}"


def _unlooked(record: RunRecord) -> Iterator[str]:
    looked = {
        part for check in record.checks for crossing in (check.over or "").split("; ") for part in crossing.split(CROSS)
    }
    for attribute in record.dataset.attributes:
        if attribute not in looked:
            yield f"no check compares the groups of {escape(attribute, 80)}, which the dataset records"
    known = escape(", ".join(record.dataset.attributes) or "none", _CLIP)
    yield f"any attribute but {known}; people, scenes, prompts and uses that the dataset and the probes do not show"
    yield (
        "the smallest loss that this run would have failed is not in its record: `fairgate power SUITE` computes "
        "it; here, intervals and the sizes of sets and groups say how much was seen"
    )


register(Output("annex", "annex.md", ("card",), lambda record, _: render_annex(record).encode()))
