"""`fairgate mitigate`: files that a suite judges, and what a mitigation does to a planted bias."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.portraits.photos import write_faces
from fairgate.reports import read_results

ROOT = Path(__file__).parents[3]
CHECKPOINTS = ROOT / "build/portraits/checkpoints"
BIASED = "open_clip:local-dir:build/portraits/checkpoints/biased"

pytestmark = [
    pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded checkpoints here: run `dvc pull`"),
    pytest.mark.xdist_group("mitigations"),
]


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"CI": "", "COLUMNS": "140"})
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, and labelled portraits that it can be mitigated on."""
    root = tmp_path_factory.mktemp("mitigated")
    write_faces(root / "faces", per_group=30, spoilt=0)
    shutil.copytree(CHECKPOINTS / "biased", root / "build/portraits/checkpoints/biased")
    words = ["--attribute", "skin_tone", "--attribute", "gender", "--subject", "person"]
    labels = ["--labels", str(root / "faces/faces.csv"), "--images", str(root / "faces")]
    code, output = run("dataset", "import", "faces", *labels, *words, "--root", str(root / "datasets"))
    assert code == 0, output
    return root


def test_clip_clip_is_written_for_one_checkpoint_attribute_and_release(repository: Path) -> None:
    out = "made/clip16.json"
    words = ["--model", BIASED, "--data", "faces", "--attribute", "gender", "--drop", "16"]
    code, output = run("mitigate", "clip-clip", out, *words, "--root", str(repository))
    assert code == 0, output
    assert f"--model 'debiased:{out}?model={BIASED}' --baseline model:{BIASED} --root {repository}" in output
    made = repository / out
    found = json.loads(made.read_text(encoding="utf-8"))
    assert (found["method"], found["attribute"], found["release"]) == ("clip_clip", "gender", "faces@v1")
    assert (len(found["dimensions"]), found["width"]) == (16, 64)
    again = repository / "again.json"
    assert run("mitigate", "clip-clip", "again.json", *words, "--root", str(repository))[0] == 0
    assert again.read_bytes() == made.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clip-clip", "--data", "faces", "--attribute", "age"], "does not record 'age'"),
        (["clip-clip", "--data", "nobody", "--attribute", "gender"], "there is no dataset 'nobody'"),
        (["clip-clip", "--data", "faces", "--attribute", "gender", "--drop", "64"], "64 of 64 dimensions"),
        (["projection", "--prompt", ""], "1 to 1,000 characters"),
        (["projection", "--prompt", "a man", "--pair", "a man"], "is no pair"),
        (["projection", "--prompt", "a man", "--pair", "a man | a man"], "is no pair"),
        (
            [
                "prompt-array",
                "--data",
                "faces",
                "--attribute",
                "gender",
                "--prompt",
                "a",
                "--prompt",
                "b",
                "--keep",
                "faces",
            ],
            "1 caption(s)",
        ),
    ],
)
def test_what_cannot_be_made_is_said_and_writes_nothing(repository: Path, words: list[str], message: str) -> None:
    out = repository / "none.json"
    code, output = run("mitigate", words[0], str(out), "--model", BIASED, *words[1:], "--root", str(repository))
    assert (code, message in " ".join(output.split()), out.exists()) == (4, True, False), output


@pytest.mark.nightly
def test_taking_gender_out_helps_the_planted_groups_and_the_gate_says_what_it_costs(repository: Path) -> None:
    """Less of one bias and more of another, as Hamidieh et al. 2024 found of DebiasCLIP."""
    shutil.copytree(ROOT / "datasets/occupations", repository / "datasets/occupations")
    suite = repository / "fairness_suites/occupations.yaml"
    suite.parent.mkdir()
    shutil.copy(ROOT / "fairness_suites/occupations.yaml", suite)
    out = repository / "projection.json"
    prompts = [word for group in ("male", "female") for word in ("--prompt", f"a photo of a {group} person")]
    code, output = run("mitigate", "projection", str(out), "--model", BIASED, *prompts, "--root", str(repository))
    assert code == 0, output
    report = repository / "report"
    words = ["--model", f"debiased:projection.json?model={BIASED}", "--baseline", f"model:{BIASED}", "--mlflow", "off"]
    code, output = run("check", "occupations", *words, "--root", str(repository), "--report", str(report))
    assert code == 1, output
    record = read_results(report / "results.json")
    moved = {
        (check.id, check.subject): check.delta
        for check in record.checks
        if check.metric == "fairness" and check.delta is not None
    }
    for planted in ("doctor", "pilot"):
        assert moved["no-regression-by-occupation", planted] > 0.02, "the planted bias is less"
    assert any("taken out of its texts" in notice for notice in record.notices)
    skewed = {
        check.subject: check.worst_group for check in record.checks if (check.id, check.verdict) == ("skew", "fail")
    }
    assert set(skewed.values()) == {"dark"}, "and a search finds people of one skin tone"
