"""A branch edits the gate that judges it: every edit is reported, and decides only where it is stricter."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pytest
import yaml
from attack_world import Repository, ToyRepository, suite_with
from github_files import machine
from nightly import some
from scratch_git import ScratchGit
from warm_python import warm_python

from fairgate.records import RunRecord
from fairgate.reports import read_results

Suite = dict[str, object]


def edited(repository: Repository, edit: Callable[[Suite], None]) -> None:
    data = yaml.safe_load(repository.suite.read_text(encoding="utf-8"))
    edit(data)
    repository.suite.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


def merged(repository: Repository, **changes: object) -> None:
    """The suite of main has other top-level keys."""
    repository.branch("main", "main")
    suite_with(repository, **changes)
    repository.push("a change of the gate")


def loosened(text: str) -> str:
    """Every bound and margin of a suite so wide that anything passes."""
    text = re.sub(r"at_most: [\d.]+", "at_most: 0.69", text)
    text = re.sub(r"(metric: fairness.* at_least): [\d.]+", r"\1: 0.5", text)
    return re.sub(r"margin: [\d.]+", "margin: 0.5", text)


def loose(repository: Repository) -> None:
    repository.suite.write_text(loosened(repository.suite.read_text(encoding="utf-8")), encoding="utf-8")


def pytest_in(repository: Repository, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str, Path]:
    """`pytest --fairness-suite` in a clone of what was pushed: exit code, output, clone."""
    clone = repository.runner / f"pytest{len(list(repository.runner.glob('pytest*')))}"
    git = ScratchGit(repository.runner)
    git("clone", "--quiet", str(repository.origin), str(clone))
    ScratchGit(clone)("checkout", "--quiet", "--detach", f"origin/{repository.current}")
    command = [warm_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--fairness-mlflow", "off", *words]
    done = subprocess.run(
        [*command, "--fairness-report", "out"],
        cwd=clone,
        env={**machine(), "CI": "true", **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, clone


def test_a_branch_from_before_main_tightened_its_bounds_is_judged_by_the_tight_ones(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    assert toy_repo.judge("change").code == 0
    toy_repo.branch("main", "main")
    edited(toy_repo, lambda suite: suite["checks"][0].update(at_least=0.99999))  # type: ignore[index]
    toy_repo.push("tighter")
    judged = toy_repo.judge("change")
    assert judged.code == 1, judged.log
    check = judged.record.checks[0]
    assert (check.decided_by, check.bound, check.other_verdict) == ("base tip", 0.99999, "pass")
    assert "origin/main" in judged.notices
    assert "of the base branch" in judged.comment


def test_a_branch_from_before_main_gained_a_check_is_judged_by_that_too(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    toy_repo.branch("main", "main")
    new = {"id": "new", "probe": "labels", "metric": "fairness", "at_least": 0.99999}
    edited(toy_repo, lambda suite: suite["checks"].append(new))  # type: ignore[attr-defined]
    toy_repo.push("one more check")
    judged = toy_repo.judge("change")
    assert (judged.code, judged.failed) == (1, {"new"})


@pytest.mark.parametrize("way", some(["dispatch", "pytest", "another ci"], few=1))
def test_no_baseline_in_the_suite_is_reported_and_the_bases_counts(toy_repo: ToyRepository, way: str) -> None:
    """No option names a baseline: the suite does, and the branch sets it to none, next to a more biased model."""
    merged(toy_repo, baseline="git:origin/main")
    toy_repo.branch()
    toy_repo.use("biased")
    suite_with(toy_repo, baseline="none", on_inconclusive="warn")
    toy_repo.push("compared with nothing")
    if way == "dispatch":
        judged = toy_repo.judge(event="workflow_dispatch")
        code, log, record = judged.code, judged.log, judged.record
    else:
        env = {"GITHUB_BASE_REF": "main"} if way == "pytest" else {}
        code, log, clone = pytest_in(toy_repo, "--fairness-suite", "jobs", env=env)
        record = read_results(clone / "out" / "results.json")
    assert code == 1, log
    assert record.baseline is not None
    assert record.baseline.source == "git:origin/main"
    assert any("`baseline:` to none" in notice for notice in record.notices)
    assert "gaps[doctor]" in {check.item for check in record.checks if check.verdict == "fail"}


@pytest.mark.parametrize("kind", some(["file:mine", "git:mine", "model:scores:model.csv?values=logit"], few=1))
def test_a_baseline_of_the_branchs_own_does_not_count(toy_repo: ToyRepository, kind: str) -> None:
    merged(toy_repo, baseline="git:origin/main")
    toy_repo.branch()
    toy_repo.use("biased")
    toy_repo.update_baseline("mine", "--baseline", "none", "--force")
    made = toy_repo.root / "fairness_suites" / "baselines" / "jobs"
    mine = toy_repo.root / "mine"
    mine.mkdir()
    for file in made.iterdir():
        (mine / file.name).write_bytes(file.read_bytes())
    suite_with(toy_repo, baseline=kind)
    toy_repo.push("my own past")
    toy_repo.push("as a branch", branch="mine")
    judged = toy_repo.judge("change", event="workflow_dispatch")
    assert judged.code == 1, judged.log
    assert f"`baseline:` to {kind}" in judged.notices


def test_a_renamed_and_easier_suite_leaves_the_old_one_in_all(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("biased")
    loose(toy_repo)
    text = toy_repo.suite.read_text(encoding="utf-8").replace("suite: jobs", "suite: jobs2")
    toy_repo.suite.rename(toy_repo.suite.with_name("jobs2.yaml")).write_text(text, encoding="utf-8")
    toy_repo.push("a better name")
    words = ("--fairness-suite", "all", "--fairness-on-inconclusive", "warn")
    code, log, clone = pytest_in(toy_repo, *words, env={"FAIRGATE_BASE": "origin/main"})
    assert code == 1, log
    assert read_results(clone / "out" / "jobs" / "results.json").verdict == "fail"
    renamed = read_results(clone / "out" / "jobs2" / "results.json")
    assert any("deletes jobs" in notice for notice in renamed.notices)


@pytest.mark.parametrize(("model", "code"), some([("biased", 1), ("tuned", 10)], few=1))
def test_a_deleted_suite_is_judged_as_the_merge_base_has_it(toy_repo: ToyRepository, model: str, code: int) -> None:
    toy_repo.branch()
    toy_repo.use(model)
    toy_repo.suite.unlink()
    toy_repo.push("no gate, no failure")
    judged = toy_repo.judge()
    assert judged.code == code, judged.log
    assert "deletes suite 'jobs'" in judged.notices
    assert "deletes suite" in judged.comment


TABLES = [
    ("embeddings:tables", "embeddings"),
    ("detections:a.csv", "detections"),
    ("labels:a.csv", "labels"),
    ("answers:a.csv", "answers"),
    ("numbers:a.csv", "numbers"),
]


@pytest.mark.parametrize(("table", "kind"), some(TABLES, few=1))
def test_a_checkpoint_that_becomes_another_table_is_not_judged(toy_repo: ToyRepository, table: str, kind: str) -> None:
    merged(toy_repo, model="hf:checkpoint")
    toy_repo.branch()
    suite_with(toy_repo, model=table)
    toy_repo.push("judged offline")
    judged = toy_repo.judge()
    assert judged.code == 3, judged.log
    assert f"by a table of {kind}, which anybody can make up" in judged.log


def test_a_checkpoint_that_becomes_a_table_of_scores_is_not_judged(toy_repo: ToyRepository) -> None:
    merged(toy_repo, model="hf:checkpoint")
    toy_repo.branch()
    suite_with(toy_repo, model="scores:model.csv?values=logit")
    toy_repo.push("judged offline")
    judged = toy_repo.judge()
    assert judged.code == 3, judged.log
    assert judged.verdict == "error"
    assert "anybody can make up" in judged.log
    named = toy_repo.judge(model="scores:model.csv?values=logit")  # the workflow says so
    assert named.code == 0, named.log


def _renamed(suite: Suite) -> None:
    for check in suite["checks"]:  # type: ignore[attr-defined]
        check["id"] = f"{check['id']}-2"


def _other_probe(suite: Suite) -> None:
    easy = {"kind": "zero_shot_classification", "template": "a photo of a {label}"}
    labels = {"chef": ["chef", "nurse"], "doctor": ["doctor", "line cook"]}
    suite["probes"]["easy"] = {**easy, "labels": labels}  # type: ignore[index]
    for check in suite["checks"]:  # type: ignore[attr-defined]
        check["probe"] = "easy" if check["probe"] == "labels" else check["probe"]


def _easier_labels(suite: Suite) -> None:
    suite["probes"]["labels"]["labels"] = {"chef": ["chef", "nurse"], "doctor": ["doctor", "line cook"]}  # type: ignore[index]


def _waived(suite: Suite) -> None:
    ids = [check["id"] for check in suite["checks"]]  # type: ignore[attr-defined]
    suite["waivers"] = [{"check": name, "until": date(2999, 1, 1), "reason": "we know"} for name in ids[1:]]


def _no_group_is_large_enough(suite: Suite) -> None:
    suite["groups"] = {"min_sets": 10_000}
    suite["on_inconclusive"] = "warn"


def _one_check(suite: Suite) -> None:
    trivial = {"id": "trivial", "probe": "labels", "metric": "fairness", "at_least": 0.5}
    suite["checks"] = [trivial, next(check for check in suite["checks"] if check["id"] == "finds")]  # type: ignore[attr-defined]


def _by_all(suite: Suite) -> None:
    for check in suite["checks"]:  # type: ignore[attr-defined]
        check.pop("by", None)


def _sure_of_nothing(suite: Suite) -> None:
    suite["decision"] = {"alpha": 0.0001, "draws": 1000}
    suite["on_inconclusive"] = "warn"


EDITS = [
    _renamed,
    _other_probe,
    _easier_labels,
    _waived,
    _no_group_is_large_enough,
    _one_check,
    _by_all,
    _sure_of_nothing,
]


@pytest.mark.parametrize("edit", some(EDITS, few=3), ids=lambda edit: edit.__name__.strip("_"))
def test_an_edit_of_the_gate_next_to_a_more_biased_model_changes_nothing(
    toy_repo: ToyRepository, edit: Callable[[Suite], None]
) -> None:
    toy_repo.branch()
    toy_repo.use("biased")
    loose(toy_repo)
    edited(toy_repo, edit)
    toy_repo.push("some tidying")
    judged = toy_repo.judge()
    assert judged.code == 1, judged.log
    assert {"gaps[doctor]"} <= judged.failed
    assert "ate definition changed" in judged.comment


def test_a_release_that_main_judges_on_and_the_branch_does_not_have_means_rebase(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    merged(toy_repo, dataset="toy@v2")
    judged = toy_repo.judge("change")
    assert (judged.code, judged.verdict) == (3, "error")
    assert "rebase onto origin/main" in judged.log
    assert "No verdict" in judged.log


def test_a_comment_is_no_edit_of_the_gate_and_another_model_needs_an_approval(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    (toy_repo.root / "better.csv").write_bytes((toy_repo.root.parent / "tuned.csv").read_bytes())
    text = toy_repo.suite.read_text(encoding="utf-8").replace("scores:model.csv", "scores:better.csv")
    toy_repo.suite.write_text(f"# a comment\n{text}", encoding="utf-8")
    toy_repo.push("another name")
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    assert [each.kind for each in judged.record.needs_approval] == ["model"]
    assert judged.record.notices == []
    assert judged.record.definition is not None
    assert judged.record.definition.changes == []


def test_a_good_copy_that_is_judged_in_place_of_the_edited_checkpoint_is_named(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("biased")
    (toy_repo.root / "better.csv").write_bytes((toy_repo.root.parent / "tuned.csv").read_bytes())
    text = toy_repo.suite.read_text(encoding="utf-8").replace("scores:model.csv", "scores:better.csv")
    toy_repo.suite.write_text(text, encoding="utf-8")
    toy_repo.push("a better one")
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    (notice,) = judged.record.notices
    assert "edits model.csv" in notice
    assert "scores:better.csv?values=logit judged instead" in notice
    assert "edits model.csv" in judged.comment


def test_other_options_of_the_model_are_a_change_of_the_gate_that_is_named(toy_repo: ToyRepository) -> None:
    """What a language model is asked, or how many samples are drawn, decides what bounds are held to."""
    toy_repo.branch()
    text = toy_repo.suite.read_text(encoding="utf-8")
    before = "model: scores:model.csv?values=logit"
    toy_repo.suite.write_text(text.replace(before, f"{before}&logit_scale=100", 1), encoding="utf-8")
    toy_repo.push("another scale")
    judged = toy_repo.judge()
    assert judged.record.definition is not None
    (change,) = judged.record.definition.changes
    assert (change.what, change.before, change.now) == (
        *("options of the model", "values=logit", "values=logit&logit_scale=100"),
    )
    assert any("with other options (values=logit&logit_scale=100)" in one for one in judged.record.notices)
    assert "options of the model" in judged.comment


def test_a_loosened_bound_by_itself_needs_an_approval_and_names_the_change(toy_repo: ToyRepository) -> None:
    """The way to loosen one: an approval, reviewed; then the bound, in a change of its own; the checkpoint after it."""
    toy_repo.branch()
    loose(toy_repo)
    toy_repo.push("wider margins, see #7")
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    assert "ate definition changed" in judged.comment
    assert isinstance(judged.record, RunRecord)


def as_a_linked_folder(repository: Repository) -> None:
    (repository.root / "fairness_suites").rename(repository.root / "gates")
    (repository.root / "fairness_suites").symlink_to("gates")
    repository.git.commit("suites in a folder of another name")


def as_a_link(repository: Repository) -> None:
    repository.suite.rename(repository.root / "jobs.yaml")
    repository.suite.symlink_to("../jobs.yaml")
    repository.git.commit("the suite is elsewhere")


def in_another_encoding(repository: Repository) -> None:
    """U+2028 ends a line of YAML, and is a question mark in a checkout: the commit has a key that no run sees."""
    text = repository.suite.read_text(encoding="utf-8")
    lax = repository.root / ".git" / "lax.yaml"
    lax.write_text(text.replace("schema: 1\n", "schema: 1\n# words\u2028on_inconclusive: warn\n"), encoding="utf-8")
    line = "fairness_suites/jobs.yaml working-tree-encoding=ASCII//TRANSLIT\n"
    (repository.root / ".gitattributes").write_text(line, encoding="utf-8")
    blob = repository.git("hash-object", "-w", "--no-filters", str(lax))
    repository.git("add", ".gitattributes")
    repository.git("update-index", "--cacheinfo", f"100644,{blob},fairness_suites/jobs.yaml")
    repository.git("commit", "--quiet", "--message", "a comment")


@pytest.mark.parametrize("hide", some([as_a_linked_folder, as_a_link, in_another_encoding], few=1))
def test_a_suite_that_a_merge_would_bring_otherwise_than_it_is_here_gives_no_verdict(
    toy_repo: ToyRepository, hide: Callable[[Repository], None]
) -> None:
    toy_repo.branch()
    hide(toy_repo)
    toy_repo.git("push", "--quiet", "--force", "origin", "HEAD:refs/heads/change")
    judged = toy_repo.judge("change")
    assert (judged.code, judged.verdict) == (3, "error"), judged.log
    assert "is not here as the commit has it" in judged.log
