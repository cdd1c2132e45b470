"""A model card's section, the annex and the badge say what the record says, and nothing more."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from example_records import (
    NOTICE,
    example_record,
    failed_computation,
    fairness_check,
    gap_check,
    skew_check,
    team_record,
    vicious_record,
    waived,
)
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import badge_json, badge_svg, model_index, render_annex, render_card, write_results


def test_hugging_face_reads_every_finite_number_of_the_record_back(record: RunRecord) -> None:
    read = ModelCard(render_card(record, "tiny")).data
    assert read.model_name == "tiny"
    assert read.eval_results is not None
    found = {(one.task_name, one.metric_name.partition(", ")[2]): one for one in read.eval_results}
    measured = [check for check in record.checks if check.value is not None and check.status == "ok"]
    assert len(found) == len(measured) < len(record.checks)
    assert any(check.worst_group for check in measured)
    for check in measured:
        result = found[check.probe, check.item]
        assert result.metric_value == float(f"{check.value:.4g}")
        assert result.metric_type == check.metric
        assert result.metric_args["verdict"] == check.verdict
        assert result.metric_args["n_sets"] == check.n_sets
        assert result.metric_args.get("worst_group") == check.worst_group
        assert result.dataset_revision == record.dataset.fingerprint
        assert result.dataset_args == {"notice": NOTICE}
        assert result.source_url == "https://ci.example.org/runs/7"


@pytest.mark.parametrize(
    ("tokenizer", "task"), [(None, "image-classification"), ("d" * 64, "zero-shot-image-classification")]
)
def test_a_model_without_a_tokenizer_classifies_by_its_own_labels(
    record: RunRecord, tokenizer: str | None, task: str
) -> None:
    model = record.model.model_copy(update={"preprocessing": "c" * 64, "tokenizer": tokenizer})
    probes = dict.fromkeys(record.probes, "zero_shot_classification: a photo of a {label}")
    (index,) = model_index(record.model_copy(update={"model": model, "probes": probes}))
    assert {result["task"]["type"] for result in index["results"]} == {task}


def test_groups_of_two_attributes_that_share_a_name_are_both_there() -> None:
    check = gap_check("doctor", "fail")
    groups = [
        one.model_copy(update={"group": "other", "attribute": name})
        for name, one in zip("ab", check.groups[:2], strict=True)
    ]
    record = example_record([check.model_copy(update={"groups": groups})])
    (metric,) = model_index(record)[0]["results"][0]["metrics"]
    assert metric["args"]["groups"] == {"a: other": 0.02189, "b: other": 0.02961}


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("open_clip:ViT-B-32@runs/7/ckpt.safetensors", "ckpt.safetensors"),
        ("hf:checkpoints/tuned/", "tuned"),
        ("vlm:models/small?question=Who is it?", "small"),
        ("scores:", "scores"),
    ],
)
def test_a_model_is_named_by_the_last_part_of_its_address(uri: str, name: str) -> None:
    record = example_record()
    moved = record.model_copy(update={"model": record.model.model_copy(update={"uri": uri})})
    assert model_index(moved)[0]["name"] == name


def test_a_test_instrument_is_called_one_everywhere(record: RunRecord) -> None:
    for text in (render_card(record), render_annex(record), badge_svg(record)):
        assert NOTICE in text


def test_nothing_claims_conformity_or_that_a_model_is_fair() -> None:
    passing = example_record([fairness_check(None, 0.95)])
    annex, card = render_annex(passing), render_card(passing)
    assert "states no conformity" in annex
    assert "This is none, and no part of one." in annex
    assert "It does not say that the model is fair" in card
    for text in (annex, card, badge_json(passing)):
        assert not re.search(r"unbiased|bias-free|compliant|certif", text, re.IGNORECASE)


def test_the_annex_has_the_nine_headings_and_says_what_was_not_tested() -> None:
    thin = gap_check("pilot", "inconclusive", sets=40).model_copy(update={"min_sets": 50, "sets_needed": 900})
    failed = skew_check("nurse", 0.97).model_copy(update={"verdict": "error", "value": None, "reason": "no embedding"})
    record = example_record([fairness_check("doctor", 0.5, verdict="fail"), thin, failed])
    annex = render_annex(record)
    assert [int(n) for n in re.findall(r"^## (\d)\.", annex, re.MULTILINE)] == [*range(1, 10)]
    missing = annex.rpartition("## What was not tested")[2]
    assert "did not settle it; about 900 per group would" in missing
    assert "could not be computed: no embedding" in missing
    assert "of 50" in missing
    assert "`fairgate power SUITE` computes it" in missing
    assert "fail: " in annex.partition("## 5.")[2].partition("## 6.")[0]


def test_the_annex_names_an_attribute_that_no_check_compares_though_its_name_is_part_of_anothers() -> None:
    record = example_record([fairness_check(None, 0.95, over="image_age")])
    data = record.dataset.model_copy(update={"attributes": {"age": ["0-9"], "image_age": ["old"]}})
    annex = render_annex(record.model_copy(update={"dataset": data}))
    assert "no check compares the groups of age," in annex
    assert "the groups of image" not in annex


def test_a_waived_check_is_a_risk_that_was_tolerated_and_in_the_badge() -> None:
    record = team_record([fairness_check("nurse", 0.95), waived(skew_check("nurse", 0.98), reason="until #412")])
    assert "waived until 2027-03-01" in render_annex(record).partition("## 5.")[2].partition("## 6.")[0]
    assert json.loads(badge_json(record))["message"] == "1 check passed, 1 waived"


def test_the_badge_says_how_many_checks_failed_and_never_only_a_colour() -> None:
    record = example_record([fairness_check("nurse", 0.95), fairness_check("doctor", 0.5, verdict="fail")])
    endpoint = json.loads(badge_json(record))
    assert endpoint == {
        "schemaVersion": 1,
        "label": "fairgate occupations on occupations/v1",
        "message": "1 of 2 checks failed",
        "color": "c62828",
    }
    picture = ET.fromstring(badge_svg(record))
    assert [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")] == [
        "fairgate occupations on occupations/v1",
        "1 of 2 checks failed",
    ]
    nothing = example_record([failed_computation()])
    assert json.loads(badge_json(nothing))["message"] == "no verdict: nothing could be computed"


def test_the_badge_counts_what_was_not_settled_and_what_was_not_computed_too() -> None:
    thin = fairness_check("pilot", 0.8, verdict="inconclusive")
    failed, passed = fairness_check("doctor", 0.5, verdict="fail"), fairness_check("nurse", 0.95)
    for checks, said in (
        ([passed, failed, thin], "1 of 3 checks failed, 1 inconclusive"),
        ([passed, failed, thin, failed_computation()], "1 of 4 checks failed, 1 could not be computed, 1 inconclusive"),
        ([passed, thin], "1 of 2 checks inconclusive"),
        (
            [passed, thin, failed_computation()],
            "no verdict: 1 of 3 checks could not be computed, 1 inconclusive",
        ),
        ([passed, thin, waived(skew_check("nurse", 0.98))], "1 of 3 checks inconclusive, 1 waived"),
    ):
        assert json.loads(badge_json(example_record(checks)))["message"] == said


def test_hostile_texts_become_no_markup_no_metadata_and_no_picture() -> None:
    record = vicious_record()
    card = render_card(record, "x\n---\nlicense: mit")
    read = ModelCard(card)
    assert set(read.data.to_dict()) == {"model-index"}
    assert read.data.model_name == "x --- license: mit"
    for text in (read.text, render_annex(record)):
        assert "<script" not in text
        assert "javascript:1)" not in text or "\\[a\\]" in text
        assert "\x1b" not in text
        assert not re.search(r"^(::|##\[|<!--|</details)", text, re.MULTILINE)
    assert {one.tag.rpartition("}")[2] for one in ET.fromstring(badge_svg(record)).iter()} == {
        *("svg", "title", "rect", "g", "text")
    }


def test_the_command_writes_four_files_and_prints_the_card_without_a_folder(record: RunRecord, tmp_path: Path) -> None:
    write_results(record, tmp_path)
    shown = CliRunner().invoke(app, ["card", str(tmp_path / "results.json")])
    assert shown.exit_code == 0
    made = CliRunner().invoke(app, ["card", str(tmp_path), "--out", str(tmp_path / "out")])
    assert made.exit_code == 0
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [
        "annex.md",
        "badge.json",
        "badge.svg",
        "model-card.md",
    ]
    assert (tmp_path / "out" / "model-card.md").read_text() == shown.stdout
    assert "note: the card calls the model '" in shown.stderr
    assert "--name NAME" in shown.stderr
    named = CliRunner().invoke(app, ["card", str(tmp_path), "--name", "ours"])
    assert "note:" not in named.stderr
    assert "name: ours" in named.stdout


def test_the_command_refuses_a_record_that_contradicts_itself(tmp_path: Path) -> None:
    record = example_record([fairness_check("doctor", 0.5, verdict="fail")])
    write_results(record.model_copy(update={"verdict": "pass"}), tmp_path)
    refused = CliRunner().invoke(app, ["card", str(tmp_path)])
    assert refused.exit_code == 4
    assert "contradicts itself" in refused.output
