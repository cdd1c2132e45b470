"""A checkpoint's configs cannot have the runner read what is not in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attack_world import Repository


def set_key(path: Path, key: str, value: Any) -> None:
    """Set `a.b` in a JSON file."""
    config = json.loads(path.read_text(encoding="utf-8"))
    *outer, last = key.split(".")
    inner = config
    for part in outer:
        inner = inner.setdefault(part, {})
    inner[last] = value
    path.write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "key", "value", "problem"),
    [
        ("open_clip_config.json", "model_cfg.text_cfg.hf_model_name", "elsewhere", "no config.json that describes it"),
        ("open_clip_config.json", "model_cfg.vision_cfg.timm_model_name", "hf-hub:me/mine", "timm_model_name"),
        ("tokenizer_config.json", "vocab_file", "elsewhere/vocab.json", "vocab_file"),
    ],
)
def test_a_name_that_leads_out_of_the_checkpoint_gives_no_verdict(
    team_repo: Repository, name: str, key: str, value: str, problem: str
) -> None:
    team_repo.branch()
    folder = team_repo.use("biased")
    set_key(folder / name, key, value)
    (team_repo.root / "elsewhere").mkdir()
    (team_repo.root / "elsewhere" / "vocab.json").write_text("{}")
    team_repo.push("a config that names more")
    judged = team_repo.judge()
    assert (judged.record.exit_code, judged.verdict) == (3, "error"), judged.log
    assert judged.code != 0
    assert problem in judged.record.checks[0].reason


def test_notes_of_where_a_checkpoint_came_from_are_no_reason_to_refuse_it(team_repo: Repository) -> None:
    team_repo.branch()
    folder = team_repo.use("tuned")
    set_key(folder / "tokenizer_config.json", "name_or_path", "/home/somebody/runs/7")
    set_key(folder / "tokenizer_config.json", "special_tokens_map_file", "/root/.cache/huggingface/map.json")
    set_key(folder / "open_clip_config.json", "model_cfg.text_cfg.hf_tokenizer_name", "team/other-tokenizer")
    team_repo.push("fine-tuned")
    judged = team_repo.judge()
    assert judged.code == 0, judged.log
