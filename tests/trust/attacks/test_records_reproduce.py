"""A committed record is what its checkpoint answers, or it decides nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attack_world import Repository, ToyRepository, suite_with
from nightly import some
from test_approvals import approve, kinds
from typer.testing import CliRunner

from fairgate.data import open_dataset
from fairgate.interfaces.cli.main import app
from fairgate.probes import read_scores, scores_digest

RECORD = "fairness_suites/baselines/jobs"


def lowered(repository: Repository, by: float = 0.3, **facts: object) -> None:
    """Forge the record in the working copy: dark women's scores are lower, and everything in it agrees with that."""
    folder = repository.root / RECORD
    table = pq.read_table(folder / "scores.parquet")
    frame = table.to_pydict()
    dark = [
        tone == "dark" and gender == "female" for tone, gender in zip(frame["skin_tone"], frame["gender"], strict=True)
    ]
    frame["value"] = [value - by if there else value for value, there in zip(frame["value"], dark, strict=True)]
    pq.write_table(type(table).from_pydict(frame, schema=table.schema), folder / "scores.parquet")
    sealed(repository, **facts)


def sealed(repository: Repository, **facts: object) -> None:
    """Write the digest of the scores, and other facts, into the record."""
    folder = repository.root / RECORD
    record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    name, version = record["dataset"]["name"], record["dataset"]["version"]
    index = open_dataset(f"{name}@{version}", repository.root / "datasets").index
    record["scores_digest"] = scores_digest(read_scores(folder / "scores.parquet", index))
    for key, value in facts.items():
        part, _, field = key.partition("__")
        if field:
            record[part][field] = value
        else:
            record[part] = value
    (folder / "results.json").write_text(json.dumps(record), encoding="utf-8")


def test_a_forged_record_of_the_checkpoint_in_use_gives_no_verdict_and_names_the_differences(
    team_repo: Repository,
) -> None:
    team_repo.branch()
    lowered(team_repo)
    team_repo.push("tidy up")
    forged = team_repo.judge()
    assert (forged.code, forged.verdict) == (3, "error"), forged.log
    assert "the record is not what its checkpoint answers: labels: value of" in forged.log


@pytest.mark.parametrize(
    ("facts", "said"),
    some(
        [
            ({"model__fingerprint": "0" * 64}, "could not be recomputed"),
            ({"model__uri": "open_clip:local-dir:gone"}, "the record is not what its checkpoint answers"),
            ({"model__tokenizer": "0" * 64}, "since an older fairgate made it: model.tokenizer"),
            ({"environment__device": "cuda"}, "differs from what its checkpoint answers here by more than rounding"),
            (
                {"environment__processor": "another"},
                "differs from what its checkpoint answers here by more than rounding",
            ),
        ],
        few=2,
    ),
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_a_forged_record_claims_besides_its_scores_opens_no_gate(
    team_repo: Repository, facts: dict[str, object], said: str
) -> None:
    team_repo.branch()
    lowered(team_repo, **facts)
    team_repo.push("tidy up")
    judged = team_repo.judge()
    assert judged.code in (3, 10), judged.log
    assert said in judged.log
    assert judged.code == 3 or kinds(judged) == ["record"]


def test_a_record_that_names_code_which_did_not_take_part_needs_an_approval(team_repo: Repository) -> None:
    team_repo.branch()
    sealed(team_repo, environment__plugins={"team-metrics": f"2.0 sha256:{'a' * 64}"})
    team_repo.push("in advance of another version")
    judged = team_repo.judge()
    assert (judged.code, kinds(judged)) == (10, ["record"]), judged.log
    assert "other code took part than here: team-metrics" in judged.comment


def test_a_forged_record_that_was_merged_counts_for_nothing_once_its_checkpoint_is_scored(
    team_repo: Repository,
) -> None:
    """The record is on main; a change of documentation scores the very checkpoint that it names."""
    team_repo.branch("main", "main")
    lowered(team_repo)
    team_repo.push("forged, and merged without a gate")
    team_repo.branch()
    (team_repo.root / "README.md").write_text("words", encoding="utf-8")
    team_repo.push("words")
    judged = team_repo.judge()
    assert judged.code == 3, judged.log
    assert "the record is not what its checkpoint answers" in judged.log
    team_repo.branch("main", "main")
    sealed(team_repo, environment__device="cuda")
    team_repo.push("from a GPU, it says")
    judged = team_repo.judge("change")
    assert judged.code == 3 or "was made in another environment" in judged.notices, judged.log


def test_a_change_that_makes_a_wrong_record_of_main_again_is_open_once_it_is_approved(team_repo: Repository) -> None:
    team_repo.branch("main", "main")
    lowered(team_repo)
    team_repo.push("wrong, and merged without a gate")
    team_repo.branch()
    team_repo.update_baseline("the record was wrong", "--baseline", "none")
    team_repo.push("made again")
    judged = team_repo.judge()
    assert (judged.code, kinds(judged)) == (10, ["record"]), judged.log
    assert "takes the place of one that is not what its checkpoint answers" in judged.comment
    approve(team_repo, judged)
    assert team_repo.judge("change").code == 0


def test_a_retrained_checkpoint_with_its_updated_record_is_open_and_the_record_was_recomputed(
    team_repo: Repository,
) -> None:
    team_repo.branch()
    team_repo.use("tuned")
    team_repo.update_baseline("retrained")
    team_repo.push("fine-tuned, and its baseline")
    judged = team_repo.judge()
    assert judged.code == 0, judged.log
    assert "was compared with this run's own scores: it reproduces" in judged.log


def test_a_record_of_another_checkpoint_of_the_branch_is_scored_and_the_time_is_printed(team_repo: Repository) -> None:
    team_repo.branch()
    team_repo.use("tuned")
    team_repo.update_baseline("tuned")
    (team_repo.root / "checkpoint").rename(team_repo.root / "kept")
    results = team_repo.root / RECORD / "results.json"
    text = results.read_text(encoding="utf-8").replace("open_clip:local-dir:checkpoint", "open_clip:local-dir:kept")
    results.write_text(text, encoding="utf-8")
    team_repo.use("base")
    team_repo.push("a record of a checkpoint that is not judged")
    judged = team_repo.judge()
    assert judged.code == 0, judged.log
    assert "its checkpoint, scored again in" in judged.log
    lowered(team_repo)
    team_repo.push("forged")
    assert team_repo.judge().code == 3


def test_a_record_on_main_counts_for_nothing_where_its_checkpoint_is_scored_for_an_edited_record(
    team_repo: Repository,
) -> None:
    honest = team_repo.root.parent / "honest"
    shutil.copytree(team_repo.root / RECORD, honest)
    team_repo.use("base", "kept")
    lowered(team_repo)
    team_repo.push("forged, and merged without a gate", branch="main")
    team_repo.branch("change", "main")
    team_repo.use("tuned")
    shutil.copytree(honest, team_repo.root / RECORD, dirs_exist_ok=True)
    results = team_repo.root / RECORD / "results.json"
    text = results.read_text(encoding="utf-8").replace("open_clip:local-dir:checkpoint", "open_clip:local-dir:kept")
    results.write_text(text, encoding="utf-8")
    team_repo.push("retrained; the old checkpoint and its record are kept")
    judged = team_repo.judge()
    assert (judged.code, kinds(judged)) == (10, ["record"]), judged.log
    assert "was compared with its checkpoint, scored again" in judged.log


def test_a_checkpoint_that_the_suite_compares_with_is_the_merge_bases_and_not_the_branchs(
    team_repo: Repository,
) -> None:
    team_repo.use("base", "kept")
    suite_with(team_repo, baseline="model:open_clip:local-dir:kept")
    team_repo.push("compared with a checkpoint", branch="main")
    team_repo.branch("change", "main")
    team_repo.use("biased")
    team_repo.use("whackamole", "kept")
    team_repo.push("both are new")
    judged = team_repo.judge(baseline="model:open_clip:local-dir:kept")
    assert judged.code == 1, judged.log
    assert "this change edits kept, the checkpoint that it is compared with: read as the merge base" in judged.notices
    base = (team_repo.root / RECORD / "results.json").read_text(encoding="utf-8")
    assert judged.record.baseline is not None
    assert judged.record.baseline.fingerprint == json.loads(base)["model"]["fingerprint"]


def test_a_record_that_is_removed_needs_an_approval(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.git("rm", "--quiet", "-r", RECORD)
    toy_repo.push("no baseline")
    judged = toy_repo.judge()
    assert (judged.code, kinds(judged)) == (10, ["record"]), judged.log
    assert judged.record.needs_approval[0].now == "none"


def test_a_branch_behind_is_told_to_rebase_where_only_the_new_record_of_main_would_fail_it(
    toy_repo: ToyRepository,
) -> None:
    toy_repo.branch("main", "main")
    toy_repo.use("biased")
    toy_repo.update_baseline("biased, in use", "--baseline", "none", "--force")
    toy_repo.push("main is biased")
    toy_repo.branch("change")
    (toy_repo.root / "README.md").write_text("words", encoding="utf-8")
    toy_repo.push("words")
    toy_repo.branch("main", "main")
    toy_repo.use("base")
    toy_repo.update_baseline("better")
    toy_repo.push("main is better")
    judged = toy_repo.judge("change")
    behind = [check.item for check in judged.record.checks if "rebase onto origin/main" in check.reason]
    assert behind, judged.log
    assert all(check.verdict == "error" for check in judged.record.checks if check.item in behind)


def test_scores_within_rounding_reproduce_and_a_shift_of_a_group_does_not(
    toy_repo: ToyRepository, tmp_path: Path
) -> None:
    from fairgate.gate.reproduction import BOUND, differences

    index = open_dataset("toy", toy_repo.root / "datasets").index
    then = read_scores(toy_repo.root / RECORD / "scores.parquet", index)
    now = {
        name: type(one)(
            one.value + np.where(np.arange(len(one.value)) % 2, 1, -1) * BOUND / 2, one.predicted, one.correct, one.rank
        )
        for name, one in then.items()
    }
    assert (differences(then, now, index).beyond, differences(then, now, index).moved) == ((), ())
    shifted = {name: type(one)(one.value + 0.01, one.predicted, one.correct, one.rank) for name, one in then.items()}
    apart = differences(then, shifted, index)
    assert apart.beyond
    assert any("moves by 0.0100" in text for text in apart.moved)


def test_an_anchor_that_is_pinned_stays_where_it_was_while_its_tag_moves(toy_repo: ToyRepository) -> None:
    toy_repo.branch("main", "main")
    pinned = toy_repo.git("rev-parse", "main")
    toy_repo.git("tag", "v1.0")
    toy_repo.git("push", "--quiet", "origin", "v1.0")
    run = CliRunner().invoke(app, ["baseline", "anchor", "jobs", "v1.0", "--root", str(toy_repo.root)])
    assert f"anchor: git:v1.0@{pinned}" in run.output, run.output
    toy_repo.push("an anchor")
    toy_repo.branch("change")
    toy_repo.use("tuned")
    moved = toy_repo.push("fine-tuned")
    toy_repo.git("tag", "--force", "v1.0")
    toy_repo.git("push", "--quiet", "--force", "origin", "v1.0")
    judged = toy_repo.judge()
    assert judged.record.anchor is not None, judged.log
    assert judged.record.anchor.commit == pinned
    (anchor,) = [each for each in judged.record.needs_approval if each.kind == "anchor"]
    assert (anchor.before, anchor.now) == (pinned, moved)


def test_an_anchor_without_a_commit_warns_with_the_line_to_paste_and_pinning_it_needs_no_approval(
    toy_repo: ToyRepository,
) -> None:
    toy_repo.branch("main", "main")
    toy_repo.git("tag", "v1.0")
    toy_repo.git("push", "--quiet", "origin", "v1.0")
    suite_with(toy_repo, anchor="git:v1.0")
    toy_repo.push("an anchor")
    toy_repo.branch("change")
    (toy_repo.root / "README.md").write_text("words", encoding="utf-8")
    toy_repo.push("words")
    judged = toy_repo.judge()
    line = f"git:v1.0@{toy_repo.git('rev-parse', 'v1.0')}"
    assert f"write `anchor: {line}`" in judged.log
    suite_with(toy_repo, anchor=line)
    toy_repo.push("pinned")
    judged = toy_repo.judge()
    assert judged.code == 0, judged.log
    suite_with(toy_repo, anchor=f"git:main@{toy_repo.git('rev-parse', 'main')}")
    toy_repo.push("another one")
    assert kinds(toy_repo.judge()) == ["anchor"]
    toy_repo.git("tag", "--force", "v1.0")
    toy_repo.git("push", "--quiet", "--force", "origin", "v1.0")
    suite_with(toy_repo, anchor=f"git:v1.0@{toy_repo.git('rev-parse', 'v1.0')}")
    toy_repo.push("pinned to a commit of this branch, to which the tag was moved")
    assert kinds(toy_repo.judge()) == ["anchor"]


def test_a_committed_record_is_verified_against_its_checkpoint(team_repo: Repository) -> None:
    words = ["baseline", "verify", "--root", str(team_repo.root), "--cache", "off"]
    good = CliRunner().invoke(app, words)
    assert (good.exit_code, "it reproduces: largest difference" in good.output) == (0, True), good.output
    commit = team_repo.git("rev-parse", "HEAD")
    team_repo.git("tag", "v1")
    suite_with(team_repo, anchor=f"git:v1@{commit}")
    anchored = CliRunner().invoke(app, words)
    assert anchored.exit_code == 0, f"the record is from before the suite had an anchor: {anchored.output}"
    results = team_repo.root / RECORD / "results.json"
    record = json.loads(results.read_text(encoding="utf-8"))
    fewer = [check for check in record["checks"] if check["subject"] != "doctor"]
    results.write_text(json.dumps({**record, "checks": fewer}), encoding="utf-8")
    silent = CliRunner().invoke(app, words)
    assert (silent.exit_code, "claims what is not so" in silent.output) == (1, True), silent.output
    results.write_text(json.dumps(record), encoding="utf-8")
    lowered(team_repo)
    forged = CliRunner().invoke(app, words)
    assert (forged.exit_code, "is not what its checkpoint answers" in forged.output) == (1, True), forged.output
    team_repo.use("tuned")
    assert CliRunner().invoke(app, words).exit_code == 3


def more_spread(frame: dict[str, list[object]]) -> None:
    """Give each group its own numbers in another order, so that within a set they are far apart."""
    names = ("probe", "subject", "skin_tone", "gender")
    for key in set(zip(*(frame[name] for name in names), strict=True)):
        rows = [row for row, each in enumerate(zip(*(frame[name] for name in names), strict=True)) if each == key]
        ordered = sorted((frame["value"][row] for row in rows), reverse=key[2] == "dark")  # type: ignore[type-var]
        for row, value in zip(rows, ordered, strict=True):
            frame["value"][row] = value


def another_column(frame: dict[str, list[object]]) -> None:
    """A column that no run writes, and other numbers beside it."""
    frame["more.extra"] = [0.5] * len(frame["value"])
    frame["value"] = [value / 2 for value in frame["value"]]  # type: ignore[operator]


def one_probe(frame: dict[str, list[object]]) -> None:
    """The answers to one of two probes."""
    kept = [row for row, probe in enumerate(frame["probe"]) if probe == "search"]
    frame.update({name: [column[row] for row in kept] for name, column in frame.items()})


@pytest.mark.parametrize(("edit", "code"), some([(more_spread, 10), (another_column, 10), (one_probe, 3)], few=2))
def test_a_record_of_another_environment_may_differ_by_its_rounding_alone(
    toy_repo: ToyRepository, edit: Callable[[dict[str, list[object]]], None], code: int
) -> None:
    """Means by group that stay hide neither more spread within sets, nor a probe or column that is not compared."""
    toy_repo.branch()
    path = toy_repo.root / RECORD / "scores.parquet"
    table = pq.read_table(path)
    frame = table.to_pydict()
    edit(frame)
    further = [pa.field(name, pa.float64()) for name in frame if name not in table.schema.names]
    pq.write_table(pa.Table.from_pydict(frame, schema=pa.schema([*table.schema, *further])), path)
    sealed(toy_repo, environment__device="cuda")
    toy_repo.push("from a GPU, it says")
    judged = toy_repo.judge()
    assert judged.code == code, judged.log
    assert kinds(judged) == (["record"] if code == 10 else [])


def test_the_entropies_of_a_record_of_another_environment_are_recomputed(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    record = json.loads((toy_repo.root / RECORD / "results.json").read_text(encoding="utf-8"))
    halved = {name: {key: value / 2 for key, value in each.items()} for name, each in record["answer_entropy"].items()}
    sealed(toy_repo, answer_entropy=halved, environment__device="cuda")
    toy_repo.push("from a GPU, it says")
    judged = toy_repo.judge()
    assert (judged.code, kinds(judged)) == (10, ["record"]), judged.log
