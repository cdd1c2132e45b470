"""Whose definition of the gate counts: the merge base's, the base tip's, the default branch's; and what is reported."""

from __future__ import annotations

import csv
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nightly import some
from scratch_git import ScratchGit, scratch_git
from toy_repository import GENDERS, LABELS, SUITE, TONES, Toy, rows, toy_repository
from typer.testing import CliRunner
from warm_python import warm_python

from fairgate import gate, models
from fairgate.data import write_dataset
from fairgate.ground.errors import BaselineError, NoVerdict
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.suites import named_bases, resolve

LOOSE = SUITE.replace("at_least: 0.9}", "at_least: 0.5}", 1)
TIGHT = SUITE.replace("at_least: 0.9}", "at_least: 0.9999}", 1)
RECORD = "fairness_suites/baselines/jobs"


def scores(name: str) -> str:
    return f"scores:{name}.csv?values=logit"


@pytest.fixture(scope="module")
def with_baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`main` of a remote holds the suite with a committed baseline; HEAD is a branch of it."""
    toy = toy_repository(tmp_path_factory.mktemp("with-baseline"))
    git = scratch_git(toy.root, ignore="datasets/\nout*/\n")
    words = ["baseline", "update", "jobs", "--reason", "the first", "--root", str(toy.root), "--mlflow", "off"]
    done = CliRunner().invoke(app, [*words, "--cache", "off", "--model", scores("base")], env={"CI": ""})
    assert done.exit_code == 0, done.output
    toy.write_suite(SUITE.replace("baseline: model:scores:base.csv?values=logit", "baseline: git:origin/main"))
    git.commit("a baseline")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("checkout", "--quiet", "-b", "change")
    return toy.root


@pytest.fixture
def git(toy: Toy, with_baseline: Path) -> ScratchGit:
    """The toy repository, with a baseline on `origin/main`."""
    shutil.copytree(with_baseline, toy.root, dirs_exist_ok=True)
    return ScratchGit(toy.root)


def suite(text: str, baseline: str = "git:origin/main") -> str:
    return text.replace("baseline: model:scores:base.csv?values=logit", f"baseline: {baseline}")


def move(git: ScratchGit, toy: Toy, ref: str, text: str | None, start: str = "refs/remotes/origin/main") -> None:
    """A commit on another branch with another text of the suite (None: deleted); back to HEAD's branch."""
    back = git("rev-parse", "--abbrev-ref", "HEAD")
    git("checkout", "--quiet", "--detach", start)
    if text is None:
        toy.suite.unlink()
    else:
        toy.write_suite(text)
    git.commit("elsewhere")
    git("update-ref", ref, "HEAD")
    git("checkout", "--quiet", "--force", back)


def judge(toy: Toy, environment: dict[str, str] | None = None, **options: str) -> RunRecord:
    env = environment or {}
    prepared = gate.prepare("jobs", toy.root, named_bases(options.get("base"), env))
    typed = {"mlflow": "off", "cache": "off", **options}
    settings = resolve(prepared.loaded.suite, typed, environment=env)
    return gate.evaluate(*gate.hold(prepared, settings), command="pytest").record


def changes(record: RunRecord) -> dict[str, tuple[str | None, str | None]]:
    assert record.definition is not None
    return {one.what: (one.before, one.now) for one in record.definition.changes}


def test_a_branch_from_before_main_tightened_its_bounds_is_judged_by_the_tight_ones(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(TIGHT))
    record = judge(toy)
    check = record.checks[0]
    assert (check.verdict, check.bound, check.decided_by) == ("fail", 0.9999, "base tip")
    assert (check.other_by, check.other_bound, check.other_verdict) == ("this change", 0.9, "pass")
    assert changes(record) == {}
    assert record.definition is not None
    (other,) = record.definition.others
    assert [(one.what, one.before, one.now) for one in other.changes] == [("checks.fairness.at_least", "0.9", "0.9999")]
    assert any("origin/main" in notice and "checks.fairness.at_least" in notice for notice in record.notices)


def test_a_branch_from_before_main_loosened_its_bounds_is_judged_by_its_own(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(LOOSE))
    record = judge(toy, model=scores("biased"))
    assert record.verdict == "fail"
    assert judge(toy).verdict == "pass"


def test_a_base_that_is_not_the_default_branch_is_judged_by_that_ones_definition_too(toy: Toy, git: ScratchGit) -> None:
    """`lax` was loosened, and the pull request goes there."""
    move(git, toy, "refs/remotes/origin/lax", suite(LOOSE))
    move(git, toy, "refs/remotes/origin/main", suite(TIGHT))
    git("checkout", "--quiet", "-B", "change", "refs/remotes/origin/lax")
    git.commit("on lax")
    record = judge(toy, base="origin/lax origin/main", baseline="git:origin/lax")
    check = record.checks[0]
    assert (check.verdict, check.bound, check.decided_by) == ("fail", 0.9999, "default branch")
    assert any("not the default branch origin/main" in notice for notice in record.notices)
    alone = judge(toy, base="origin/lax", baseline="git:origin/lax")
    assert alone.checks[0].verdict == "pass"
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    assert judge(toy, base="origin/lax", baseline="git:origin/lax").checks[0].decided_by == "default branch"


def test_the_hardest_of_three_definitions_counts(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(TIGHT))
    toy.write_suite(suite(LOOSE))
    record = judge(toy)
    assert changes(record)["checks.fairness.at_least"] == ("0.9", "0.5")
    check = record.checks[0]
    assert (check.bound, check.decided_by, check.other_by, check.other_bound) == (
        0.9999,
        "base tip",
        "this change",
        0.5,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (suite(SUITE).replace("over: each", "over: [age]"), "'age'"),
        (suite(SUITE).replace("kind: retrieval", "kind: telepathy"), "telepathy"),
        (suite(SUITE).replace("dataset: toy", "dataset: toy@v7"), "toy@v7"),
    ],
)
def test_a_base_suite_that_the_branch_cannot_evaluate_means_rebase_and_not_failure(
    toy: Toy, git: ScratchGit, text: str, said: str
) -> None:
    move(git, toy, "refs/remotes/origin/main", text)
    record = judge(toy)
    assert (record.verdict, record.exit_code) == ("error", 3)
    reason = record.checks[0].reason
    assert said in reason
    assert "rebase onto origin/main" in reason


def test_a_suite_that_main_deleted_since_asks_for_nothing_more(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", None)
    record = judge(toy)
    assert record.verdict == "pass"
    assert record.definition is not None
    assert record.definition.others == []


def test_definitions_that_are_equal_are_evaluated_once(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", f"# a comment\n{suite(SUITE)}")
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off"}, environment={})
    held, _ = gate.hold(prepared, settings)
    assert [place.decider for place in held.places] == ["merge base", "base tip"]
    assert len(held.definitions) == 1
    assert held.notices == ()


@pytest.mark.parametrize("base", ["option", "environment", "github", "clone"])
def test_no_baseline_written_into_the_suite_is_reported_and_the_old_one_counts(
    toy: Toy, git: ScratchGit, base: str
) -> None:
    toy.write_suite(suite(SUITE, "none").replace("model: scores:tuned.csv", "model: scores:biased.csv"))
    git.commit("compared with nothing")
    if base == "clone":
        git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    option = {"base": "origin/main"} if base == "option" else {}
    env = {"environment": {"FAIRGATE_BASE": "origin/main"}, "github": {"GITHUB_BASE_REF": "main"}}.get(base, {})
    record = judge(toy, env, **option)
    assert changes(record)["baseline"] == ("git:origin/main", "none")
    assert record.baseline is not None
    assert record.baseline.source == "git:origin/main"
    assert record.verdict == "fail"
    assert any("sets `baseline:` to none" in notice for notice in record.notices)


def test_a_baseline_that_the_suite_gains_counts_at_once(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(SUITE, "none"))
    git("checkout", "--quiet", "-B", "change", "refs/remotes/origin/main")
    toy.write_suite(suite(SUITE).replace("model: scores:tuned.csv", "model: scores:biased.csv"))
    record = judge(toy)
    assert record.baseline is not None
    assert record.verdict == "fail"


def test_a_baseline_that_was_typed_is_left_as_it_is(toy: Toy, git: ScratchGit) -> None:
    toy.write_suite(suite(LOOSE, "none"))
    git.commit("compared with nothing")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    alone = judge(toy, baseline="none")
    assert (alone.baseline, alone.definition) == (None, None)
    in_ci = judge(toy, {"GITHUB_BASE_REF": "main"}, baseline="none")
    assert in_ci.baseline is None
    assert in_ci.checks[0].bound == 0.9
    assert judge(toy, base="none").definition is None


def test_a_record_on_disk_that_the_change_edits_is_reported(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(SUITE, f"file:{RECORD}"))
    git("checkout", "--quiet", "-B", "change", "refs/remotes/origin/main")
    settings = {"GITHUB_BASE_REF": "main"}
    assert not [notice for notice in judge(toy, settings).notices if "edits" in notice]
    (toy.root / RECORD / "results.json").write_bytes((toy.root / RECORD / "results.json").read_bytes() + b"\n")
    record = judge(toy, settings)
    assert changes(record)[f"file:{RECORD}"] == ("as the merge base has it", "edited by this change")
    assert any(f"edits {RECORD}, the record that it is compared with" in notice for notice in record.notices)


def test_a_record_on_disk_that_only_the_change_has_is_no_baseline(toy: Toy, git: ScratchGit) -> None:
    shutil.copytree(toy.root / RECORD, toy.root / "mine")
    git.commit("a record of my own")
    record = judge(toy, {"GITHUB_BASE_REF": "main"}, baseline="file:mine")
    assert record.exit_code == 3
    assert "no baseline is committed there" in record.checks[-1].reason


def test_a_checkpoint_that_is_compared_with_and_that_the_change_edits_is_the_merge_bases(
    toy: Toy, git: ScratchGit
) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(SUITE, f"model:{scores('base')}"))
    git("checkout", "--quiet", "-B", "change", "refs/remotes/origin/main")
    settings = {"GITHUB_BASE_REF": "main"}
    assert not [notice for notice in judge(toy, settings).notices if "edits" in notice]
    (toy.root / "base.csv").write_bytes((toy.root / "tuned.csv").read_bytes() + b"\n")
    record = judge(toy, settings)
    assert changes(record)[f"model:{scores('base')}"] == ("as the merge base has it", "edited by this change")
    assert any("edits base.csv, the checkpoint that it is compared with" in notice for notice in record.notices)
    before = judge(toy, settings, model=scores("biased")).checks
    (toy.root / "base.csv").write_bytes((toy.root / "biased.csv").read_bytes() + b"\n")
    after = judge(toy, settings, model=scores("biased")).checks
    assert [(check.verdict, check.delta) for check in after] == [(check.verdict, check.delta) for check in before]


def test_another_kind_of_checkpoint_inside_a_mitigation_is_reported(toy: Toy, git: ScratchGit) -> None:
    old, new = "debiased:m.json?model=hf:a", "debiased:m.json?model=open_clip:local-dir:b"
    move(git, toy, "refs/remotes/origin/main", suite(SUITE).replace(scores("tuned"), old))
    git("checkout", "--quiet", "-B", "change", "refs/remotes/origin/main")
    toy.write_suite(suite(SUITE).replace(scores("tuned"), new))
    record = judge(toy)
    assert changes(record)["model"] == (old, new)
    assert any("judges debiased: of open_clip:, where debiased: of hf: was judged" in one for one in record.notices)


def test_the_origin_of_a_mitigation_is_not_the_candidates_own_where_it_is_compared_with(
    toy: Toy, git: ScratchGit
) -> None:
    uri = "debiased:m.json?model=hf:runs/ckpt"

    def point_to(content: str) -> None:
        (toy.root / "runs").mkdir(exist_ok=True)
        (toy.root / "runs/ckpt.dvc").write_text(f"outs:\n- md5: {content * 32}.dir\n  path: ckpt\n")

    git("checkout", "--quiet", "--detach", "refs/remotes/origin/main")
    (toy.root / ".dvc").mkdir()
    (toy.root / ".dvc/config").write_text("")
    point_to("a")
    git.commit("a checkpoint of DVC")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("checkout", "--quiet", "-B", "change", "refs/remotes/origin/main")
    point_to("b")
    settings = {"GITHUB_BASE_REF": "main"}
    alone = judge(toy, settings, model=uri, baseline="none")
    assert not [one for one in alone.notices if "runs/ckpt" in one], "a mitigation of a new checkpoint"
    compared = judge(toy, settings, model=uri, baseline="model:hf:runs/ckpt")
    assert [one for one in compared.notices if "runs/ckpt" in one], "and it is the baseline, too"


def test_a_checkpoint_that_becomes_a_table_needs_the_workflows_word(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(SUITE).replace("scores:tuned.csv?values=logit", "hf:checkpoint"))
    git("checkout", "--quiet", "-B", "change", "refs/remotes/origin/main")
    toy.write_suite(suite(SUITE))
    record = judge(toy)
    assert record.exit_code == 3
    assert "anybody can make up" in record.checks[0].reason
    assert changes(record)["model"] == ("hf:checkpoint", scores("tuned"))
    assert judge(toy, model=scores("tuned")).verdict == "pass"


def test_another_kind_of_checkpoint_is_reported(toy: Toy, git: ScratchGit) -> None:
    toy.write_suite(suite(SUITE).replace("scores:tuned.csv?values=logit", "hf:checkpoint"))
    record = judge(toy)
    assert changes(record)["model"] == (scores("tuned"), "hf:checkpoint")
    assert any("hf:" in notice for notice in record.notices)


def test_a_suite_that_is_renamed_is_judged_by_its_old_name_too(toy: Toy, git: ScratchGit) -> None:
    git("mv", "fairness_suites/jobs.yaml", "fairness_suites/jobs2.yaml")
    toy.write_suite(suite(LOOSE, "none").replace("suite: jobs", "suite: jobs2"), "jobs2")
    git.commit("renamed, and easier")
    gone = judge(toy, base="origin/main", model=scores("biased"))
    assert gone.verdict == "fail"
    assert changes(gone) == {"the suite": ("there", None)}
    assert any("deletes suite 'jobs'" in notice for notice in gone.notices)
    prepared = gate.prepare("jobs2", toy.root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "base": "origin/main"}, environment={})
    assert any("deletes jobs" in notice for notice in gate.hold(prepared, settings)[0].notices)


def test_a_suite_that_only_a_newer_main_has_means_rebase(toy: Toy, git: ScratchGit) -> None:
    git("rm", "--quiet", "fairness_suites/jobs.yaml")
    git.commit("before there was one")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    move(git, toy, "refs/remotes/origin/main", suite(SUITE))
    with pytest.raises(NoVerdict, match="is not on this branch") as caught:
        judge(toy, base="origin/main")
    assert "rebase onto origin/main" in str(caught.value.remedy)


@pytest.mark.parametrize("way", some(["check", "pytest", "all", "xdist"], few=2))
def test_a_deleted_suite_is_never_silently_gone(toy: Toy, git: ScratchGit, way: str) -> None:
    git("mv", "fairness_suites/jobs.yaml", "fairness_suites/jobs2.yaml")
    toy.write_suite(suite(LOOSE, "none").replace("suite: jobs", "suite: jobs2"), "jobs2")
    git.commit("renamed, and easier")
    words = [
        "--mlflow",
        "off",
        "--cache",
        "off",
        "--base",
        "origin/main",
        "--report",
        "out",
        "--model",
        scores("biased"),
    ]
    if way == "check":
        command = [warm_python(), "-P", "-m", "fairgate.interfaces.cli", "check", "jobs", *words]
    else:
        several = "jobs" if way == "pytest" else "all"
        spoken = [word.replace("--", "--fairness-") for word in words]
        command = [warm_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--fairness-suite", several, *spoken]
        command += ["-n", "2"] if way == "xdist" else []
    done = subprocess.run(command, cwd=toy.root, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "gaps[doctor]" in done.stdout
    record = toy.root / "out" / ("results.json" if way in ("check", "pytest") else "jobs/results.json")
    assert RunRecord.model_validate_json(record.read_bytes()).verdict == "fail"


def test_a_candidate_that_its_base_holds_already_is_reported_on_pull_requests(toy: Toy, git: ScratchGit) -> None:
    record = judge(toy, {"GITHUB_BASE_REF": "main"})
    assert any("the merge base is the candidate itself" in notice for notice in record.notices)
    assert judge(toy).notices == []


def test_no_repository_is_no_obstacle_where_nobody_names_a_base(toy: Toy) -> None:
    record = judge(toy)
    assert record.verdict == "pass"
    assert record.definition is None
    with pytest.raises(BaselineError, match="no git repository"):
        judge(toy, {"GITHUB_BASE_REF": "main"})


def test_unrelated_histories_are_an_error_with_a_remedy(toy: Toy, git: ScratchGit) -> None:
    git("checkout", "--quiet", "--orphan", "elsewhere")
    git.commit("a beginning of its own")
    with pytest.raises(BaselineError, match="no common commit") as caught:
        judge(toy)
    assert caught.value.remedy


def test_a_detached_head_is_judged_as_a_branch_is(toy: Toy, git: ScratchGit) -> None:
    move(git, toy, "refs/remotes/origin/main", suite(TIGHT))
    git("checkout", "--quiet", "--detach", "change")
    assert judge(toy).checks[0].decided_by == "base tip"


def test_a_shallow_clone_without_a_named_base_works_as_before(toy: Toy, git: ScratchGit, tmp_path: Path) -> None:
    git.commit("one")
    git("checkout", "--quiet", "main")
    git.commit("another")
    git("clone", "--quiet", "--depth", "1", "--no-single-branch", f"file://{toy.root}", str(tmp_path / "shallow"))
    shutil.copytree(toy.root / "datasets", tmp_path / "shallow" / "datasets")
    shallow = Toy(tmp_path / "shallow")
    ScratchGit(shallow.root)("checkout", "--quiet", "change")
    shallow.write_suite(suite(SUITE, "none"))
    assert judge(shallow).definition is None
    with pytest.raises(BaselineError, match="cut short"):
        judge(shallow, {"GITHUB_BASE_REF": "main"})


def test_a_new_subject_does_not_bring_the_old_ones_easier_labels(toy: Toy, git: ScratchGit) -> None:
    """The branch adds a subject, as an honest release does, and lets an easier label compete for doctors."""
    head, _, checks = suite(SUITE, "none").partition("checks:\n")
    kept = [line for line in checks.splitlines() if "fairness-by-job" in line or "recall_at_k" in line]
    plain = "\n".join([f"{head}checks:", *kept, ""])
    move(git, toy, "refs/remotes/origin/main", plain)
    git("reset", "--quiet", "--hard", "refs/remotes/origin/main")
    _release_with_pilots(toy)
    labels = "{chef: [chef, line cook], doctor: [doctor, bread], pilot: [pilot, clerk]}"
    toy.write_suite(plain.replace("{chef: [chef, line cook], doctor: [doctor, nurse]}", labels))
    git.commit("pilots")

    record = judge(toy, base="origin/main", model=scores("more"))
    found = {check.item: (check.verdict, check.decided_by) for check in record.checks}
    assert found["fairness-by-job[doctor]"] == ("fail", "merge base")
    assert found["fairness-by-job[pilot]"][0] == "pass"
    assert any("subjects that they lack are judged by the labels of this change" in one for one in record.notices)


def _release_with_pilots(toy: Toy) -> None:
    """v2 of the dataset shows pilots too; `more.csv` takes dark women for nurses, and nobody for bread."""
    old = list(rows(40))
    pilots = [
        {**row, "subject": "pilot", "set_id": str(row["set_id"]).replace("chef", "pilot")}
        for row in old
        if row["subject"] == "chef"
    ]
    write_dataset(
        toy.root / "datasets" / "toy" / "v2",
        iter([*old, *pilots]),
        name="toy",
        version="v2",
        attributes={"skin_tone": TONES, "gender": GENDERS},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
    )
    jobs = [*LABELS, "pilot"]
    labels = [f"a photo of a {one}" for one in (*jobs, "line cook", "nurse", "clerk", "bread")]
    header = ["set_id", "member", *labels, *jobs, *(f"a picture of a {job}" for job in jobs)]
    with (toy.root / "more.csv").open("w", newline="", encoding="utf-8") as handle:
        table = csv.writer(handle)
        table.writerow(header)
        for row in [*old, *pilots]:
            subject = str(row["subject"])
            named = {subject: 1.0, f"a picture of a {subject}": 1.0, f"a photo of a {subject}": 2.0}
            if (subject, row["skin_tone"], row["gender"]) == ("doctor", "dark", "female"):
                named["a photo of a nurse"] = 4.0
            table.writerow([row["set_id"], row["member"], *(named.get(prompt, 0.0) for prompt in header[2:])])


def test_a_merge_request_of_gitlab_has_its_target_and_the_default_branch_as_bases() -> None:
    gitlab = {"GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main"}
    target = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "release"}
    assert named_bases(None, {**gitlab, **target}) == ("origin/release", "origin/main")
    assert named_bases(None, gitlab) is None
    assert named_bases(None, target) is None  # anybody's variable, where GitLab does not run this


def test_the_merge_base_draws_what_a_faster_way_of_a_model_is_tried_on(
    toy: Toy, git: ScratchGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git("rev-parse", "refs/remotes/origin/main")
    move(git, toy, "refs/remotes/origin/main", suite(TIGHT))  # its tip is another commit
    opened, seeds = models.open_scorer, list[int]()

    def noted(*given: Any, seed: int, **named: Any) -> models.Model:
        seeds.append(seed)
        return opened(*given, seed=seed, **named)

    monkeypatch.setattr(models, "open_scorer", noted)
    judge(toy, model=scores("base"))
    assert {f"{seed:08x}" for seed in seeds} == {base[:8]}
