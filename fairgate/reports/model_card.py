"""A model card's section: `model-index` metadata as Hugging Face reads it, and the same numbers as a Markdown table."""

from __future__ import annotations

from typing import Any, Final

from fairgate.ground.errors import clean
from fairgate.ground.markdown import escape, table, web_address
from fairgate.ground.number_format import number, with_interval
from fairgate.records import CheckResult, GroupResult, ModelInfo, RunRecord
from fairgate.reports import formatting as words
from fairgate.reports.outputs import Output, register
from fairgate.reports.run_remarks import verdict_notes
from fairgate.reports.sentences import too_small

ATTRIBUTES: Final = (
    "Attributes are as perceived in, or requested of, an image; none is a fact about a person. Groups and attributes "
    "that are not listed were not measured."
)
_LONGEST: Final = 200


def render_card(record: RunRecord, name: str | None = None) -> str:
    """A model card with this run alone: metadata between `---` lines, then a section of Markdown."""
    import yaml  # is not there when strangers' reports are rendered

    metadata = yaml.safe_dump({"model-index": model_index(record, name)}, sort_keys=False, allow_unicode=True)
    return f"---\n{metadata}---\n\n{card_section(record)}"


def model_index(record: RunRecord, name: str | None = None) -> list[dict[str, Any]]:
    """The record's finite numbers in the form of `huggingface_hub.EvalResult`, an entry per check.

    A number that was not measured, or is infinite, has no entry: the form has no word for it. `name` is the model's;
    left out, the last part of its address.
    """
    by_probe: dict[str, list[CheckResult]] = {}
    for check in record.checks:
        if check.value is not None and check.status == "ok":
            by_probe.setdefault(check.probe, []).append(check)
    results = [_result(probe, checks, record) for probe, checks in by_probe.items()]
    return [{"name": clean(name or model_name(record), _LONGEST), "results": results}]


def model_name(record: RunRecord) -> str:
    """The registered name, else the last part of the model's address."""
    if record.model.registered is not None:
        return clean(record.model.registered, _LONGEST)
    address = record.model.uri.partition("?")[0].replace("@", "/").replace(":", "/")
    return clean(address.rstrip("/").rpartition("/")[2], _LONGEST) or "model"


_TASKS = {
    "zero_shot_classification": "zero-shot-image-classification",
    "prediction": "image-classification",
    "detection": "object-detection",
    "question": "visual-question-answering",
    "generation": "text-to-image",
    "image_editing": "image-to-image",
}
"""Kinds of probe by the hub's names of tasks; other kinds have none there."""


def _task(kind: str, model: ModelInfo) -> str:
    """The hub's name of what a model does in such a probe: one without a tokenizer knows only its own labels."""
    if kind == "zero_shot_classification" and model.preprocessing is not None and model.tokenizer is None:
        return _TASKS["prediction"]
    return _TASKS.get(kind, clean(kind, _LONGEST).replace("_", "-"))


def _result(probe: str, checks: list[CheckResult], record: RunRecord) -> dict[str, Any]:
    data = record.dataset
    kind = record.probes.get(probe, "").partition(":")[0] or "evaluation"
    result: dict[str, Any] = {
        "task": {"type": _task(kind, record.model), "name": clean(probe, _LONGEST)},
        "dataset": {
            "type": clean(data.name, _LONGEST),
            "name": clean(f"{data.name} {data.version}", _LONGEST),
            "revision": clean(data.fingerprint, _LONGEST),
            **({"args": {"notice": clean(data.notice, 1000)}} if data.notice else {}),
        },
        "metrics": [_metric(check) for check in checks],
    }
    if (address := web_address(record.environment.ci_url)) is not None:
        result["source"] = {"name": f"fairgate {clean(record.environment.fairgate, 40)}", "url": address}
    return result


def _metric(check: CheckResult) -> dict[str, Any]:
    facts = {
        "verdict": words.shown_verdict(check),
        "rule": check.rule,
        "bound": check.bound,
        "over": None if check.over is None else clean(check.over, _LONGEST),
        "lo": _short(check.lo),
        "hi": _short(check.hi),
        "baseline": _short(check.baseline),
        "n_sets": check.n_sets,
        "worst_group": None if check.worst_group is None else clean(check.worst_group, _LONGEST),
        "groups": {_group_name(group): _short(group.value) for group in check.groups if group.value is not None}
        or None,
    }
    return {
        "type": clean(check.metric_with_k, _LONGEST),
        "name": f"{words.measured_words(check)}, {clean(check.item, _LONGEST)}",
        "value": _short(check.value),
        "args": {key: value for key, value in facts.items() if value is not None},
    }


def _short(value: float | None) -> float | None:
    """A number with four digits, which is all that a reader of a card needs."""
    return None if value is None else float(f"{value:.4g}")


def _group_name(group: GroupResult) -> str:
    return clean(f"{group.attribute}: {group.group}" if group.attribute else group.group, _LONGEST)


def card_section(record: RunRecord) -> str:
    """The section `Fairness` of a model card: verdict, on what, every check with its interval, and what it is not."""
    data, anchor, unit = record.dataset, record.anchor, words.unit_of(record)
    compared = "nothing" if record.baseline is None else escape(words.named_reference(record.baseline), 400)
    lines = [
        f"## {words.SYMBOL[words.headline_verdict(record)]} Fairness: {escape(words.verdict_words(record))}",
        f"> **{escape(data.notice, 1000)}**" if data.notice else "",
        f"fairgate {escape(record.environment.fairgate, 40)} judged this checkpoint "
        f"(fingerprint {escape(record.model.fingerprint[:16])}) by the suite *{escape(record.suite, 80)}* on "
        f"{escape(words.moment(record.created_at), 60)}: {words.totals(record)}. Dataset: {escape(data.name, 80)} "
        f"{escape(data.version, 40)} (fingerprint {escape(data.fingerprint[:16])}), {words.coverage_words(record)}. "
        f"Compared with {compared}{'' if anchor is None else f', and with the anchor {escape(anchor.uri, 200)}'}.",
        table(
            ("", "check", "measured", "now", "required", f"{unit}s", "note"),
            [_row(check, record) for check in words.reading_order(record.checks)],
        )
        if record.checks
        else "",
        f"Intervals in brackets; “–”: not measured. The groups: {_groups(record)}. {ATTRIBUTES} A passed check says "
        "that this number was within its bound on this dataset. It does not say that the model is fair, and numbers of "
        "other data, prompts and groups may differ.",
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def _row(check: CheckResult, record: RunRecord) -> list[str]:
    notes = "; ".join([*verdict_notes(check, record), *filter(None, [too_small(check, record)])])
    worst = f" ({check.worst_group})" if check.worst_group else ""
    now = with_interval(number(check.value, check.status), check.lo, check.hi)
    return [
        f"{words.SYMBOL[check.verdict]} {words.shown_verdict(check)}",
        escape(check.item, _LONGEST),
        escape(f"{words.measured_words(check)}{f' over {check.over}' if check.over else ''}", _LONGEST),
        escape(f"{now}{worst}", _LONGEST),
        escape(words.bound_words(check) + (f" against {check.against}" if check.against else ""), _LONGEST),
        f"{check.units:,}",
        escape(notes, 400),
    ]


def _groups(record: RunRecord) -> str:
    listed = (
        f"{escape(name, 80)} ({escape(', '.join(groups), 400)})" for name, groups in record.dataset.attributes.items()
    )
    return "; ".join(listed) or "none"


register(
    Output("card", "model-card.md", ("card",), lambda record, context: render_card(record, context.model_name).encode())
)
