"""`fairgate init` finds what is there, writes the workflows of the docs, and changes no file of the repository's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from scratch_git import ScratchGit
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate import gate
from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli.main import app
from fairgate.suites import find_checkpoint, find_pin, repository_files

DOCS = Path(__file__).parents[3] / "docs"
PIN = "OWNER/fairgate@" + "0123456789" * 4
TABLE = "scores:tuned.csv?values=logit"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has pip say where fairgate was installed from; a folder, until a test says another."""

    class Distribution:
        url = "file:///nowhere"

        def read_text(self, name: str) -> str:
            assert name == "direct_url.json"
            return json.dumps({"url": self.url, "dir_info": {}})

    def say(url: str) -> None:
        Distribution.url = url

    monkeypatch.setattr(repository_files, "metadata", SimpleNamespace(distribution=lambda _: Distribution()))
    return say


@pytest.fixture
def repository(toy: Toy) -> Toy:
    """The toy in git, with a remote on GitHub."""
    git = ScratchGit(toy.root)
    git("init", "--quiet", "--initial-branch", "main")
    git("remote", "add", "origin", "git@github.com:team/models.git")
    (toy.root / "data.dvc").write_text("outs: []\n")
    return toy


def init(toy: Toy, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["init", *words, "--root", str(toy.root)], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def blocks(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_workflows_are_those_of_the_docs(repository: Toy) -> None:
    code, output = init(repository, "faces", "--model", TABLE, "--fairgate", PIN, "--runner", "self-hosted, linux, gpu")
    assert code == 0, output
    documented = [block.replace("@COMMIT", f"@{PIN[15:]}") for block in blocks("use/pull-requests.md")[:2]]
    for name, expected in zip(("gate", "report"), documented, strict=True):
        assert (repository.root / f".github/workflows/fairness-{name}.yml").read_text(encoding="utf-8") == expected


def test_on_a_hosted_runner_without_dvc_the_rest_of_the_workflow_is_the_same(repository: Toy) -> None:
    (repository.root / "data.dvc").unlink()
    assert init(repository, "faces", "--model", TABLE, "--fairgate", PIN)[0] == 0
    made = yaml.safe_load((repository.root / ".github/workflows/fairness-gate.yml").read_text(encoding="utf-8"))
    expected = yaml.safe_load(blocks("use/pull-requests.md")[0].replace("@COMMIT", f"@{PIN[15:]}"))
    job = expected["jobs"]["gate"]
    del job["if"], job["environment"], job["steps"][2], job["steps"][2]["with"]["python"]
    job["runs-on"] = "ubuntu-24.04"
    assert made == expected


def test_on_gitlab_the_job_is_that_of_the_docs_from_an_empty_folder(repository: Toy) -> None:
    ScratchGit(repository.root)("remote", "set-url", "origin", "https://gitlab.example.org/team/models.git")
    (repository.root / "data.dvc").unlink()
    code, output = init(repository, "faces", "--model", TABLE, "--fairgate", PIN)
    assert (code, "include: [{local: .gitlab/fairness-gate.yml}]" in output) == (0, True), output
    text = (repository.root / ".gitlab/fairness-gate.yml").read_text(encoding="utf-8")
    made, (expected,) = (
        yaml.safe_load(text),
        [yaml.safe_load(one) for one in blocks("use/pull-requests.md") if "fairness:" in one],
    )
    assert "pipeline execution policy" in text
    script = made["fairness"].pop("script")
    first, second, _ = expected["fairness"].pop("script")
    assert script[:2] == [first.replace("COMMIT", PIN[15:]), second]
    assert script[2:] == [
        'cd "$(mktemp -d)"',
        'fairgate check faces --root "$CI_PROJECT_DIR" --report "$CI_PROJECT_DIR/fairness-report"',
    ]
    assert made == expected


def test_dataset_checkpoint_and_branch_are_found_and_the_suite_can_be_run(repository: Toy) -> None:
    folder = repository.root / "models" / "clip"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "clip"}))
    (folder / "preprocessor_config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    import numpy as np
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(1)}, folder / "model.safetensors")
    code, output = init(repository, "--fairgate", PIN)
    assert code == 0, output
    suite = gate.prepare("toy", repository.root).loaded.suite
    assert (suite.model, suite.baseline, suite.dataset) == ("hf:models/clip", "git:origin/main", "toy")
    hook = yaml.safe_load((repository.root / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert hook["repos"][0]["hooks"][0]["entry"] == "fairgate check toy --mlflow off"
    ignored = (repository.root / ".gitignore").read_text().splitlines()
    assert ignored == ["/fairness-report/", "/fairness-card/", "fairgate.db*", "/mlartifacts/", ".*.fairgate-draft"]


@pytest.mark.parametrize(
    ("config", "uri"),
    [
        ({"model_type": "siglip2", "architectures": ["Siglip2Model"]}, "hf:models/it"),
        ({"model_type": "vit", "architectures": ["ViTForImageClassification"]}, "classifier:models/it"),
        ({"model_type": "clip", "architectures": ["CLIPForImageClassification"]}, "classifier:models/it"),
        ({"architecture": "resnet18", "pretrained_cfg": {}}, "timm:models/it"),
        ({"model_type": "yolos", "architectures": ["YolosForObjectDetection"]}, "detector:models/it"),
        ({"model_type": "llava"}, None),  # needs its question
        ({"model_type": "bert"}, None),
    ],
)
def test_a_checkpoint_is_found_by_what_its_config_says(
    tmp_path: Path, config: dict[str, object], uri: str | None
) -> None:
    folder = tmp_path / "models" / "it"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"")
    if uri is None:
        with pytest.raises(SettingsError, match="holds no folder of a CLIP"):
            find_checkpoint(tmp_path)
    else:
        assert find_checkpoint(tmp_path) == uri


def test_a_file_that_is_there_is_left_alone_and_its_text_is_printed(repository: Toy) -> None:
    (repository.root / ".pre-commit-config.yaml").write_text("repos: []\n")
    (repository.root / ".gitignore").write_text("/fairness-report/\n*.pt")
    code, output = init(repository, "faces", "--model", TABLE, "--fairgate", PIN, "--dockerfile")
    assert code == 0, output
    assert (repository.root / ".pre-commit-config.yaml").read_text() == "repos: []\n"
    assert ".pre-commit-config.yaml is there, and stays as it is" in output
    assert "fairness-gate-faces" in output
    lines = (repository.root / ".gitignore").read_text().splitlines()
    assert lines == [
        "/fairness-report/",
        "*.pt",
        "/fairness-card/",
        "fairgate.db*",
        "/mlartifacts/",
        ".*.fairgate-draft",
    ]
    assert PIN[15:] in (repository.root / "fairness.Dockerfile").read_text()


def test_the_gate_runs_the_commit_of_the_clone_that_was_installed(
    repository: Toy, tmp_path: Path, installed: Callable[[str], None]
) -> None:
    clone = tmp_path / "a clone"
    (clone / "unpacked").mkdir(parents=True)
    git = ScratchGit(clone)
    git("init", "--quiet")
    git("remote", "add", "origin", "git@github.com:acme/fairgate.git")
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    commit = git("rev-parse", "HEAD").strip()
    installed(clone.as_uri())
    assert find_pin(None) == ("acme/fairgate", commit)
    assert init(repository, "faces", "--model", TABLE)[0] == 0
    workflow = (repository.root / ".github/workflows/fairness-gate.yml").read_text(encoding="utf-8")
    assert f"uses: acme/fairgate@{commit}" in workflow
    installed((clone / "unpacked").as_uri())  # a folder inside of another repository is not a clone
    with pytest.raises(SettingsError, match="not known which fairgate"):
        find_pin(None)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--model", TABLE], "--fairgate OWNER/fairgate@FULL-HASH"),
        (["--model", TABLE, "--fairgate", "OWNER/fairgate@main"], "pins no commit"),
        (["--fairgate", PIN], "holds no folder of a CLIP"),
        (["--model", "hf:absent", "--fairgate", PIN], "the model folder does not exist"),
        (["jobs", "--model", TABLE, "--fairgate", PIN], "the suite 'jobs' is there"),
        (["--model", TABLE, "--fairgate", PIN, "--dataset", "tyo"], "no dataset 'tyo'"),
    ],
)
def test_nothing_is_written_where_something_is_not_known(repository: Toy, words: list[str], wanted: str) -> None:
    before = sorted(repository.root.rglob("*"))
    code, output = init(repository, *words)
    assert (code, wanted in output) == (4, True), output
    assert sorted(repository.root.rglob("*")) == before


def test_a_runner_that_is_only_called_like_githubs_own_gets_the_guard_of_ones_own(repository: Toy) -> None:
    assert (
        init(repository, "faces", "--model", TABLE, "--fairgate", PIN, "--runner", "ubuntu-gpu-own,self-hosted")[0] == 0
    )
    made = yaml.safe_load((repository.root / ".github/workflows/fairness-gate.yml").read_text(encoding="utf-8"))
    job = made["jobs"]["gate"]
    assert job["runs-on"] == ["ubuntu-gpu-own", "self-hosted"]
    assert job["environment"] == "fairness-gate"
    assert "contains(github.event.pull_request.labels" in job["if"]


def test_names_that_would_end_a_line_of_yaml_are_refused(repository: Toy) -> None:
    words = ["faces", "--model", TABLE, "--fairgate", PIN, "--ci", "github"]
    code, output = init(repository, *words, "--runner", "x], y: {z")
    assert (code, "names no runner" in output) == (4, True), output
    git = ScratchGit(repository.root)
    git("remote", "remove", "origin")
    git("symbolic-ref", "HEAD", "refs/heads/main],pull_request_target,x")
    code, output = init(repository, *words)
    assert (code, "a name that no workflow can hold" in output) == (4, True), output


@pytest.mark.parametrize("path", [".github", ".github/workflows/fairness-gate.yml", ".gitignore"])
def test_nothing_is_written_through_a_link_of_the_checkout(repository: Toy, tmp_path: Path, path: str) -> None:
    link = repository.root / path
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere")
    code, output = init(repository, "faces", "--model", TABLE, "--fairgate", PIN)
    assert (code, "behind a link" in output) == (4, True), output
    assert not (tmp_path / "elsewhere").exists()
    assert not (repository.root / "fairness_suites" / "faces.yaml").exists()


def test_where_no_remote_says_it_the_service_has_to_be_named(toy: Toy) -> None:
    ScratchGit(toy.root)("init", "--quiet", "--initial-branch", "trunk")
    code, output = init(toy, "faces", "--model", TABLE, "--fairgate", PIN)
    assert (code, "--ci none" in output) == (4, True), output
    assert init(toy, "faces", "--model", TABLE, "--ci", "none")[0] == 0
    assert 'baseline: "git:trunk"' in (toy.root / "fairness_suites" / "faces.yaml").read_text(encoding="utf-8")
    assert not (toy.root / ".github").exists()


def test_one_try_says_everything_that_is_not_known(tmp_path: Path) -> None:
    ScratchGit(tmp_path)("init", "--quiet", "--initial-branch", "main")
    code, output = init(Toy(tmp_path))
    assert (code, "4 things cannot be seen" in output) == (4, True), output
    for option in ("fairgate dataset import", "--model URI", "--ci none", "--fairgate OWNER/fairgate@"):
        assert option in output
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git"]


def test_a_suite_that_is_there_gets_the_rest_of_its_gate(repository: Toy) -> None:
    before = repository.suite.read_bytes()
    code, output = init(repository, "jobs", "--fairgate", PIN)
    assert code == 0, output
    assert repository.suite.read_bytes() == before
    text = (repository.root / ".github/workflows/fairness-gate.yml").read_text(encoding="utf-8")
    assert "suite: jobs" in text
    assert "fairness_suites" not in output.partition("set the bounds")[0]


def test_a_first_baseline_is_asked_for_only_if_there_is_none(repository: Toy) -> None:
    output = init(repository, "jobs", "--fairgate", PIN)[1]
    assert "baseline update jobs" in output
    steps = [
        "baseline update",
        "git add .github .gitignore .pre-commit-config.yaml fairness_suites",
        "the status check",
    ]
    assert sorted(steps, key=output.index) == steps
    (repository.root / "fairness_suites" / "baselines" / "jobs").mkdir(parents=True)
    assert "baseline update jobs" not in init(repository, "jobs", "--fairgate", PIN)[1]


def test_where_all_images_show_one_subject_the_attribute_is_named_as_for_a_new_suite(repository: Toy) -> None:
    named = f"{TABLE}&male=chef&female=doctor"
    code, output = init(repository, "faces", "--model", named, "--fairgate", PIN, "--truth", "gender")
    assert code == 0, output
    assert "truth: gender" in (repository.root / "fairness_suites" / "faces.yaml").read_text(encoding="utf-8")
