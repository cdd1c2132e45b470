"""A suite that names another commit of the hub has another checkpoint judged, and says so; none is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack_world import ToyRepository, suite_with
from hf_world import save_folder
from hub_cache import COMMIT, put_into_cache
from story_team import write_portraits
from test_adapters import SUITE
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results

OTHER = "89abcdef" * 5


def test_another_commit_is_named_and_one_that_is_not_in_the_cache_gives_no_verdict(toy_repo: ToyRepository) -> None:
    toy_repo.branch("main", "main")
    suite_with(toy_repo, model=f"hf:team/clip@{COMMIT}")
    toy_repo.push("a model of the hub")
    toy_repo.branch()
    suite_with(toy_repo, model=f"hf:team/clip@{OTHER}")
    toy_repo.push("another commit")
    judged = toy_repo.judge()
    assert judged.code == 3, judged.log
    assert f"hf download team/clip --revision {OTHER}" in judged.log
    assert f"hf:team/clip@{OTHER} judged" in judged.log
    assert f"judges hf:team/clip@{COMMIT}" in judged.log


@pytest.mark.nightly
def test_two_commits_of_the_cache_are_compared_like_two_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    for commit, kind in ((COMMIT, "clip"), (OTHER, "siglip")):
        put_into_cache(tmp_path / "hub", "team/clip", save_folder(kind, tmp_path / kind), commit)
    root = tmp_path / "root"
    write_portraits(root / "datasets/faces/v1", "v1", range(4))
    (root / "fairness_suites").mkdir()
    text = SUITE.replace("peft:adapter?base=hf:base", f"hf:team/clip@{OTHER}")
    (root / "fairness_suites/jobs.yaml").write_text(text)
    words = [
        "check",
        "jobs",
        "--root",
        str(root),
        "--mlflow",
        "off",
        "--cache",
        "off",
        "--report",
        str(tmp_path / "out"),
    ]
    compared = ["--baseline", f"model:hf:team/clip@{COMMIT}", "--report", str(tmp_path / "out")]
    judged = CliRunner().invoke(app, [*words, *compared], env={"CI": "", "COLUMNS": "200"})
    assert judged.exit_code in (0, 1), judged.output
    record = read_results(tmp_path / "out" / "results.json")
    assert record.model.uri == f"hf:team/clip@{OTHER}"
    assert record.baseline is not None
    assert record.baseline.uri == f"hf:team/clip@{COMMIT}"
    assert record.baseline.fingerprint != record.model.fingerprint
