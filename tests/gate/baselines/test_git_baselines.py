"""`git:REF`: the record and the gate's definition that stand at the merge base."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scratch_git import ScratchGit, scratch_git
from toy_repository import SUITE, Toy, toy_repository, write_scores_table
from typer.testing import CliRunner

from fairgate import gate
from fairgate.gate.baselines import Repository, check_out
from fairgate.ground.errors import BaselineError
from fairgate.ground.git import run_git
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.suites import resolve

FOLDER = "fairness_suites/baselines/jobs"


@pytest.fixture(scope="module")
def with_baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`main` holds the baseline of base.csv; HEAD is a branch of it."""
    toy = toy_repository(tmp_path_factory.mktemp("with-baseline"))
    git = scratch_git(toy.root, ignore="datasets/\n")
    update(toy, "--model", scores("base"))
    git.commit("a baseline")
    git("checkout", "--quiet", "-b", "change")
    return toy.root


@pytest.fixture
def git(toy: Toy, with_baseline: Path) -> ScratchGit:
    """The toy repository, with that baseline."""
    shutil.copytree(with_baseline, toy.root, dirs_exist_ok=True)
    return ScratchGit(toy.root)


def scores(name: str) -> str:
    return f"scores:{name}.csv?values=logit"


def update(toy: Toy, *words: str) -> str:
    options = ["--reason", "a test", "--mlflow", "off", "--cache", "off", "--root", str(toy.root)]
    done = CliRunner().invoke(app, ["baseline", "update", "jobs", *options, *words], env={"CI": ""})
    assert done.exit_code == 0, done.output
    return done.output


def judge(toy: Toy, **options: str) -> RunRecord:
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off", "baseline": "git:main", **options}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return gate.evaluate(*gate.hold(prepared, settings), command="pytest").record


def changes(record: RunRecord) -> dict[str, tuple[str | None, str | None]]:
    assert record.definition is not None
    return {one.what: (one.before, one.now) for one in record.definition.changes}


def test_the_record_at_the_merge_base_decides_as_the_live_checkpoint_does(toy: Toy, git: ScratchGit) -> None:
    kept, live = judge(toy), judge(toy, baseline=f"model:{scores('base')}")
    assert kept.verdict == "pass"
    assert [(check.item, check.delta, check.verdict) for check in kept.checks] == [
        (check.item, check.delta, check.verdict) for check in live.checks
    ]
    assert kept.baseline is not None
    assert kept.baseline.commit == git("rev-parse", "main")
    assert judge(toy, model=scores("biased")).verdict == "fail"


def test_a_record_that_main_gained_since_the_branch_does_not_decide(toy: Toy, git: ScratchGit) -> None:
    base = git("rev-parse", "main")
    git("checkout", "--quiet", "main")
    update(toy, "--model", scores("tuned"), "--baseline", "none", "--force")
    git.commit("main moves on")
    git("checkout", "--quiet", "change")
    record = judge(toy)
    assert record.verdict == "pass"
    assert record.definition is not None
    assert record.definition.commit == base
    assert record.definition.changes == []


def test_an_edited_baseline_is_told_and_not_compared_with(toy: Toy, git: ScratchGit) -> None:
    update(toy, "--model", scores("biased"), "--baseline", "none", "--force")
    git.commit("a lower bar")
    record = judge(toy, model=scores("biased"))
    assert record.verdict == "fail"
    assert set(changes(record)) == {"the committed baseline"}


def test_a_baseline_folder_that_is_not_committed_yet_is_told_too(toy: Toy, git: ScratchGit) -> None:
    (toy.root / FOLDER / "more.json").write_text("{}", encoding="utf-8")
    assert set(changes(judge(toy))) == {"the committed baseline"}


def test_every_kind_of_edit_of_the_gate_is_told_with_before_and_now(toy: Toy, git: ScratchGit) -> None:
    text = SUITE.replace("decision: {draws: 1000}", "decision: {draws: 1000, alpha: 0.2}\ngroups: {min_sets: 10}")
    text = text.replace("margin: 0.05}", "margin: 0.3}").replace("by: subject, at_least: 0.85", "at_least: 0.85")
    text = text.replace("[chef, line cook]", "[chef, nurse]").replace("  - {id: finds,", "  - {id: finds-it,")
    toy.suite.write_text(text + "waivers: [{check: skew, subject: chef, until: 2030-01-01, reason: later}]\n", "utf-8")
    told = changes(judge(toy))
    assert told["decision.alpha"] == ("0.05", "0.2")
    assert told["groups.min_sets"] == ("30", "10")
    assert told["checks.useful.margin"] == ("0.05", "0.3")
    assert told["checks.fairness-by-job.by"] == ("subject", None)
    assert told["probes.labels.labels.chef"] == ('["chef", "line cook"]', '["chef", "nurse"]')
    assert told["checks.finds"][1] is None
    assert told["checks.finds-it"][0] is None
    assert told["waivers.skew[chef]"] == (None, '{"reason": "later", "until": "2030-01-01"}')


def test_another_model_key_or_a_comment_is_no_edit_of_the_gate(toy: Toy, git: ScratchGit) -> None:
    toy.suite.write_text("# a comment\n" + SUITE.replace("tuned.csv", "biased.csv"), encoding="utf-8")
    record = judge(toy)
    assert changes(record) == {}
    assert record.verdict == "fail"


def test_easier_questions_do_not_help(toy: Toy, git: ScratchGit) -> None:
    """The old probe decides as well as the new one, both against the baseline's checkpoint, scored again."""
    toy.suite.write_text(SUITE.replace("doctor: [doctor, nurse]", "doctor: [doctor, chef]"), encoding="utf-8")
    record = judge(toy, model=scores("biased"))
    assert record.verdict == "fail"
    assert record.baseline is not None
    assert "other probes" in (record.baseline.rescored or "")
    assert next(check for check in record.checks if check.item == "gaps[doctor]").verdict == "fail"


def test_a_tighter_bound_of_the_change_decides(toy: Toy, git: ScratchGit) -> None:
    toy.suite.write_text(SUITE.replace("at_least: 0.9}", "at_least: 0.9999}", 1), encoding="utf-8")
    record = judge(toy)
    check = record.checks[0]
    assert (check.verdict, check.bound, check.decided_by) == ("fail", 0.9999, "this change")
    assert (check.other_bound, check.other_verdict) == (0.9, "pass")


def test_a_change_cannot_allow_itself_thin_evidence(toy: Toy, git: ScratchGit) -> None:
    toy.suite.write_text(SUITE.replace("schema: 1", "schema: 1\non_inconclusive: warn"), encoding="utf-8")
    record = judge(toy)
    assert not record.allow_inconclusive
    assert changes(record) == {"on_inconclusive": (None, "warn")}
    assert judge(toy, **{"on-inconclusive": "warn"}).allow_inconclusive  # who runs the gate may
    git.commit("merged, say")
    git("branch", "--force", "main", "change")
    assert judge(toy).allow_inconclusive


def test_a_suite_that_the_change_adds_is_told(toy: Toy, git: ScratchGit) -> None:
    git("mv", "fairness_suites/jobs.yaml", "fairness_suites/other.yaml")
    git("commit", "--quiet", "--message", "away")
    git("branch", "--force", "main", "change")
    toy.suite.write_text(SUITE, encoding="utf-8")
    assert changes(judge(toy)) == {"the suite": (None, "added by this change")}


def test_a_suite_that_was_broken_before_can_be_mended(toy: Toy, git: ScratchGit) -> None:
    toy.suite.write_text("schema: 2", encoding="utf-8")
    git.commit("broken")
    git("branch", "--force", "main", "change")
    toy.suite.write_text(SUITE, encoding="utf-8")
    record = judge(toy)
    assert record.verdict == "pass"
    assert "not readable" in (changes(record)["the suite"][0] or "")


def test_old_checks_decide_over_new_labels_where_the_dataset_outgrew_the_old_ones(toy: Toy, git: ScratchGit) -> None:
    toy.suite.write_text(SUITE.replace("doctor: [doctor, nurse]", "surgeon: [surgeon, nurse]"), encoding="utf-8")
    git("reset", "--quiet", "--soft", "main")
    git("stash", "--quiet")
    git("checkout", "--quiet", "main")
    git("stash", "pop", "--quiet")
    git.commit("a suite for a release with a surgeon, whom this dataset does not show")
    git("checkout", "--quiet", "-B", "change")
    toy.suite.write_text(SUITE.replace("at_least: 0.9}", "at_least: 0.5}", 1), encoding="utf-8")
    record = judge(toy)
    assert record.checks[0].bound == 0.9
    assert "probes.labels.labels.surgeon" in changes(record)


def test_checks_of_the_merge_base_that_cannot_be_evaluated_end_the_run_without_a_verdict(
    toy: Toy, git: ScratchGit
) -> None:
    old = SUITE.replace("over: each", "over: [age]")
    git("checkout", "--quiet", "main")
    toy.suite.write_text(old, encoding="utf-8")
    git.commit("for another release")
    git("checkout", "--quiet", "-B", "change")
    toy.suite.write_text(SUITE, encoding="utf-8")
    record = judge(toy)
    assert (record.verdict, record.exit_code) == ("error", 3)
    assert "the merge base with main" in record.checks[0].reason
    assert "'age'" in record.checks[0].reason
    assert "merge the change of dataset and checks by itself" in record.checks[0].reason


def test_a_checkpoint_that_is_gone_cannot_be_scored_again(toy: Toy, git: ScratchGit) -> None:
    git("rm", "--quiet", "base.csv")
    git("commit", "--quiet", "--message", "away")
    git("branch", "--force", "main", "change")
    toy.suite.write_text(SUITE.replace("[doctor, nurse]", "[nurse, doctor]"), encoding="utf-8")
    record = judge(toy)
    assert record.verdict == "error"
    reason = record.checks[0].reason
    assert "was scored with other probes" in reason
    assert "not to be had" in reason
    assert "model:URI" in reason


def test_a_checkpoint_that_was_overwritten_is_brought_back_from_the_merge_base(toy: Toy, git: ScratchGit) -> None:
    write_scores_table(toy.root / "base.csv", 40, seed=9)
    toy.suite.write_text(SUITE.replace("[doctor, nurse]", "[nurse, doctor]"), encoding="utf-8")
    record = judge(toy)
    assert record.verdict == "pass"
    assert record.baseline is not None
    assert record.baseline.rescored


def test_a_link_is_not_brought_back_from_the_merge_base(toy: Toy, git: ScratchGit, tmp_path: Path) -> None:
    secret = tmp_path / "outside.csv"
    shutil.copy(toy.root / "base.csv", secret)
    (toy.root / "base.csv").unlink()
    (toy.root / "base.csv").symlink_to(secret)
    git.commit("a link")
    git("branch", "--force", "main", "change")
    main = git("rev-parse", "main")
    with pytest.raises(BaselineError, match="is a link or a module"):
        check_out(Repository(toy.root), main, "base.csv", tmp_path / "into")
    assert not (tmp_path / "into" / "base.csv").exists()


@pytest.mark.parametrize(("ref", "near"), [("mian", "main"), ("v1.3", "v1.2"), ("relaese/2026", "release/2026")])
def test_a_mistyped_ref_is_answered_with_the_nearest_one(toy: Toy, git: ScratchGit, ref: str, near: str) -> None:
    git("tag", "v1.2")
    git("branch", "release/2026")
    with pytest.raises(BaselineError, match=f"git knows no commit '{ref}'") as caught:
        judge(toy, baseline=f"git:{ref}")
    assert f"did you mean '{near}'?" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("ref", "problem", "remedy"),
    [
        ("nowhere", "git knows no commit 'nowhere'", "git fetch origin nowhere"),
        ("origin/main", "git knows no commit 'origin/main'", "without a remote, `baseline: git:main`"),
        ("--upload-pack=x", "git knows no commit", "fetch"),
    ],
)
def test_an_unknown_ref_ends_the_run_with_what_to_fetch(
    toy: Toy, git: ScratchGit, ref: str, problem: str, remedy: str
) -> None:
    git("remote", "add", "origin", "https://example.invalid")
    with pytest.raises(BaselineError, match=problem) as caught:
        judge(toy, baseline=f"git:{ref}")
    assert remedy in str(caught.value.remedy)
    git("remote", "remove", "origin")
    with pytest.raises(BaselineError, match=problem) as caught:
        judge(toy, baseline=f"git:{ref}")
    assert "fetch" not in str(caught.value.remedy)


def test_a_first_baseline_may_be_made_again_until_it_is_committed(toy: Toy) -> None:
    toy.suite.write_text(SUITE.replace("baseline: model:scores:base.csv?values=logit", "baseline: git:main"), "utf-8")
    git = ScratchGit(toy.root)
    git("init", "--quiet", "--initial-branch=main")
    for _ in range(2):  # before the first commit
        assert "first baseline" in update(toy)
    with pytest.raises(BaselineError, match="this repository has none yet") as caught:
        judge(toy)
    assert "git commit" in str(caught.value.remedy)
    (toy.root / ".gitignore").write_text("datasets/\nfairness_suites/baselines/\n", encoding="utf-8")
    git.commit("the suite, without its baseline")
    assert "first baseline" in update(toy)
    (toy.root / ".gitignore").write_text("datasets/\n", encoding="utf-8")
    git.commit("its baseline too")
    assert "first baseline" not in update(toy)


def test_no_repository_at_all_is_said(toy: Toy) -> None:
    with pytest.raises(BaselineError, match="no git repository"):
        judge(toy)


def test_a_history_that_is_cut_short_is_said(toy: Toy, git: ScratchGit, tmp_path: Path) -> None:
    git.commit("one")
    git("checkout", "--quiet", "main")
    git.commit("another")
    git("clone", "--quiet", "--depth", "1", "--no-single-branch", f"file://{toy.root}", str(tmp_path / "shallow"))
    shallow = toy_repository_at(tmp_path / "shallow", toy)
    ScratchGit(shallow.root)("checkout", "--quiet", "change")
    with pytest.raises(BaselineError, match="the history is cut short") as caught:
        judge(shallow, baseline="git:origin/main")
    assert "fetch-depth: 0" in str(caught.value.remedy)


def toy_repository_at(root: Path, toy: Toy) -> Toy:
    shutil.copytree(toy.root / "datasets", root / "datasets")
    return Toy(root)


def test_a_merge_base_without_a_baseline_is_an_error_that_says_how_to_make_one(toy: Toy, git: ScratchGit) -> None:
    git("rm", "--quiet", "-r", FOLDER)
    git("commit", "--quiet", "--message", "away")
    git("branch", "--force", "main", "change")
    record = judge(toy)
    assert record.verdict == "error"
    assert "no baseline is committed there" in record.checks[0].reason
    assert "fairgate baseline update" in record.checks[0].reason


def test_a_baseline_in_git_lfs_is_refused_with_a_remedy(toy: Toy, git: ScratchGit) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (toy.root / FOLDER / "scores.parquet").write_text(pointer, encoding="utf-8")
    git.commit("large")
    git("branch", "--force", "main", "change")
    record = judge(toy)
    assert record.verdict == "error"
    assert "Git LFS" in record.checks[0].reason


def test_large_scores_may_be_kept_by_dvc(toy: Toy, git: ScratchGit) -> None:
    git("rm", "--quiet", "--cached", f"{FOLDER}/scores.parquet")
    for words in (["init"], ["add", f"{FOLDER}/scores.parquet"]):
        subprocess.run([sys.executable, "-m", "dvc", *words, "--quiet"], cwd=toy.root, check=True)
    git.commit("by DVC")
    git("branch", "--force", "main", "change")
    (toy.root / FOLDER / "scores.parquet").unlink()
    record = judge(toy)
    assert record.verdict == "pass", record.checks[0].reason
    by_file = judge(toy, baseline=f"file:{FOLDER}")
    assert by_file.verdict == "error"
    assert "fairgate dataset pull" in by_file.checks[0].reason


def test_scores_of_another_run_in_the_merge_base_are_an_error(toy: Toy, git: ScratchGit) -> None:
    results = toy.root / FOLDER / "results.json"
    data = json.loads(results.read_text(encoding="utf-8"))
    results.write_text(json.dumps(data | {"scores_digest": "0" * 64}), encoding="utf-8")
    git.commit("forged")
    git("branch", "--force", "main", "change")
    record = judge(toy)
    assert record.verdict == "error"
    assert "not those that the baseline's results.json was made from" in record.checks[0].reason


def test_a_repository_in_a_folder_of_a_larger_one_is_read_there(tmp_path: Path) -> None:
    toy = toy_repository(tmp_path / "team" / "vision")
    git = scratch_git(tmp_path / "team", ignore="datasets/\n")
    update(toy, "--model", scores("base"))
    git.commit("a baseline")
    record = judge(toy)
    assert record.verdict == "pass"
    assert changes(record) == {}


def test_a_folder_called_as_the_repositorys_own_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "vision" / "vision" / "suite.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("schema: 1\n", encoding="utf-8")
    scratch_git(tmp_path)
    assert [entry.name for entry in Repository(tmp_path / "vision").tree("HEAD")] == ["vision/suite.yaml"]
    assert not Repository(tmp_path / "vision").differs("HEAD", "vision")


def test_a_run_sees_one_state_of_the_repository_and_the_next_run_another(git: ScratchGit) -> None:
    repository, asked = Repository(git.root), list[tuple[str, ...]]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "fairgate.gate.baselines.git.run_git", lambda root, *words: asked.append(words) or run_git(root, *words)
        )
        tip = repository.tip("main")
        first = repository.tree(tip, FOLDER), repository.read(tip, f"{FOLDER}/results.json")
        moved = git.commit("main moves while a run lasts")
        git("branch", "--force", "main")
        assert first[0]
        assert first == (repository.tree(tip, FOLDER), repository.read(tip, f"{FOLDER}/results.json"))
        assert repository.tip("main") == tip
    assert len(asked) == len(set(asked)), "nothing is asked twice"
    assert Repository(git.root).tip("main") == moved != tip
