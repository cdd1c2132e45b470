"""`fairgate suite new` writes a suite that makes sense on the dataset that it is for, and never replaces one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scratch_git import scratch_git
from toy_repository import Toy, members, rows, toy_repository
from typer.testing import CliRunner

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli import console
from fairgate.interfaces.cli.main import app
from fairgate.studies.power import decidable, first_suite, harmless
from fairgate.suites import Suite, SuiteDraft, load_suite, resolve


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer simulated runs and losses: what is asserted here is far from chance."""
    monkeypatch.setattr(decidable, "RUNS", 20)
    monkeypatch.setattr(decidable, "LOSS_RUNS", 15)
    monkeypatch.setattr(decidable, "LOSSES", (0.05, 0.1, 0.2, 0.4))


def new(root: Path, *words: str) -> tuple[int, str]:
    model = [] if "--model" in words else ["--model", "mlflow-model:jobs@champion"]  # not looked for here
    measured = [] if "--measured" in words else ["--no-measured"]
    done = CliRunner().invoke(app, ["suite", "new", *words, *model, *measured, "--root", str(root)])
    return done.exit_code, " ".join(done.output.split())


def single_images(root: Path, *, subject: str | None) -> None:
    """The toy's pictures as images that form no sets, of one subject or of two."""

    def alone() -> Iterator[Mapping[str, object]]:
        for number, row in enumerate(rows(40)):
            yield {**row, "set_id": f"image-{number}", "subject": subject or row["subject"]}

    write_dataset(
        root / "datasets" / "people" / "v1",
        alone(),
        name="people",
        version="v1",
        attributes={"skin_tone": ["light", "dark"], "gender": ["male", "female"]},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=False,
    )


def test_a_suite_for_counterfactual_sets_asks_inside_them(toy: Toy) -> None:
    code, output = new(toy.root, "first", "--dataset", "toy")
    assert code == 0, output
    assert "fairgate baseline update first" in output
    items = {one.item for one in gate.prepare("first", toy.root).planned}
    by_subject = {"fairness[chef]", "no-regression[doctor]", "no-group-falls-behind[chef]"}
    assert {"accuracy", "still-useful"} | by_subject <= items
    assert 'baseline: "git:main"' in (toy.root / "fairness_suites" / "first.yaml").read_text(encoding="utf-8")


def test_the_first_baseline_is_pinned_as_the_anchor_once_main_has_it(toy: Toy) -> None:
    code, output = new(toy.root, "first", "--dataset", "toy", "--baseline", "git:main")
    assert code == 0, output
    assert "anchor" not in output
    path = toy.root / "fairness_suites" / "first.yaml"
    path.unlink()
    records = toy.root / "fairness_suites" / "baselines" / "first"
    records.mkdir(parents=True)
    (records / "results.json").write_text("{}", encoding="utf-8")
    commit = scratch_git(toy.root)("rev-parse", "main")
    code, output = new(toy.root, "first", "--dataset", "toy", "--baseline", "git:main")
    assert code == 0, output
    assert path.read_text(encoding="utf-8").endswith(f"anchor: git:main@{commit}\n")


def test_labels_beside_the_subjects_compete_and_are_nobodys_truth(toy: Toy) -> None:
    code, output = new(toy.root, "first", "--dataset", "toy", "--beside", "nurse", "--beside", "Chef's help")
    assert code == 0, output
    probe = gate.prepare("first", toy.root).loaded.suite.probes["labels"]
    assert probe.labels == ["chef", "doctor", "nurse", "Chef's help"]
    assert "at_least: 0.62" in (toy.root / "fairness_suites" / "first.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("label", ["doctor", " "])
def test_a_label_beside_the_subjects_is_another_one(toy: Toy, label: str) -> None:
    code, output = new(toy.root, "first", "--dataset", "toy", "--beside", label)
    assert (code, "--beside nurse" in output) == (4, True), output
    assert not (toy.root / "fairness_suites" / "first.yaml").exists()


def test_a_suite_for_single_images_compares_groups_with_each_other(toy: Toy) -> None:
    single_images(toy.root, subject=None)
    code, output = new(toy.root, "alone", "--dataset", "people")
    assert code == 0, output
    checks = gate.prepare("alone", toy.root).loaded.suite.checks
    assert [check.metric for check in checks] == ["accuracy", "accuracy", "p_true", "group_gap", "c_asc"]
    assert "left out" not in output


def test_where_all_images_show_one_subject_an_attribute_is_told(toy: Toy) -> None:
    single_images(toy.root, subject="person")
    code, output = new(toy.root, "alone", "--dataset", "people")
    assert code == 4
    assert "there is nothing to tell apart" in output
    assert "--truth skin_tone (of skin_tone, gender)" in output
    code, output = new(toy.root, "alone", "--dataset", "people", "--truth", "size")
    assert code == 4
    assert "'size' is no attribute" in output
    assert new(toy.root, "alone", "--dataset", "people", "--truth", "gender")[0] == 0
    probe = gate.prepare("alone", toy.root).loaded.suite.probes["labels"]
    assert (probe.truth, probe.labels) == ("gender", ["male", "female"])


def test_a_suite_that_is_there_is_left_alone(toy: Toy) -> None:
    before = toy.suite.read_bytes()
    code, output = new(toy.root, "jobs", "--dataset", "toy")
    assert code == 4
    assert "the suite 'jobs' is there" in output
    assert toy.suite.read_bytes() == before


@pytest.mark.parametrize("name", ["../out", "A", ""])
def test_a_name_that_is_none_writes_nothing(toy: Toy, name: str) -> None:
    before = sorted(toy.root.rglob("*"))
    assert new(toy.root, name, "--dataset", "toy")[0] == 4
    assert sorted(toy.root.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--model", "checkpoint/"], "is not a model URI"),
        (["--baseline", "main"], "is not a baseline"),
        (["--model", "hf:absent"], "the model folder does not exist"),
        (["--model", "scores:tunned.csv?values=logit"], "did you mean 'tuned.csv'?"),
        (["--model", "detections:jobs.csv", "--beside", "nurse"], "a detector's suite has no labels"),
        (["--model", "labels:people.csv", "--beside", "nurse"], "a suite of predictions has the model's own labels"),
        (["--model", "hf:/elsewhere/model"], "`model` names a file outside of the repository"),
        (["--model", "scores:../x.csv"], "`model` names a file outside of the repository"),
        (["--baseline", "file:../results.json"], "`baseline` names a file outside of the repository"),
    ],
)
def test_a_model_or_baseline_that_is_none_is_refused_before_anything_is_written(
    toy: Toy, words: list[str], problem: str
) -> None:
    head = "set_id,member,label,score,left,top,right,bottom\n"
    images = [f"{set_id},{tone}-{gender},,,,,,\n" for _, set_id, tone, gender in members(40)]
    (toy.root / "jobs.csv").write_text(head + "".join(images))
    given = [f"{set_id},{tone}-{gender},{gender}\n" for _, set_id, tone, gender in members(40)]
    (toy.root / "people.csv").write_text("set_id,member,gender\n" + "".join(given))
    options = ["--dataset", "toy", "--model", "scores:tuned.csv?values=logit", "--root", str(toy.root), *words]
    done = CliRunner().invoke(app, ["suite", "new", "first", *options])
    assert done.exit_code == 4
    assert problem in " ".join(done.output.split())
    assert not (toy.root / "fairness_suites" / "first.yaml").exists()


def test_the_schema_is_written_and_a_place_that_cannot_be_is_told(tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["suite", "schema", "--out", str(tmp_path / "suite.json")])
    assert (run.exit_code, (tmp_path / "suite.json").read_text(encoding="utf-8")[:1]) == (0, "{")
    run = CliRunner().invoke(app, ["suite", "schema", "--out", str(tmp_path / "nowhere" / "suite.json")])
    assert (run.exit_code, "name a place in a folder that can be written" in run.output) == (4, True)


def test_words_that_yaml_would_take_for_something_else_are_quoted(toy: Toy) -> None:
    single_images(toy.root, subject="no")
    code, output = new(toy.root, "alone", "--dataset", "people", "--truth", "gender")
    assert code == 0, output


def test_a_remedy_names_the_options_of_the_command(toy: Toy) -> None:
    code, output = new(toy.root, "first", "--dataset", "toy", "--model", "scores:../x.csv")
    assert code == 4
    assert "or type it: --model 'scores:../x.csv'" in output
    assert "--fairness-" not in output


def people_in_sets(root: Path, counts: Mapping[str, int], *, of_men: int = 0) -> None:
    """Sets of two members, of which so many hold each tone; genders are even, after sets of men."""

    def made() -> Iterator[Mapping[str, object]]:
        tones = [tone for tone, count in counts.items() for _ in range(count)]
        for number, row in enumerate(list(rows(max(1, len(tones))))[: 2 * len(tones)]):
            gender = ["male", "female"][number % 2 if number // 2 >= of_men else 0]
            pair = {"set_id": f"set-{number // 2}", "member": str(number % 2), "gender": gender}
            yield {**row, **pair, "subject": ["chef", "doctor"][number // 2 % 2], "skin_tone": tones[number // 2]}

    groups = {"skin_tone": list(counts), "gender": ["male", "female"]}
    options = {"name": "few", "version": "v1", "recipe": {"name": "toy"}, "licence": "CC0-1.0", "counterfactual": True}
    write_dataset(root / "datasets/few/v1", made(), attributes=groups, **options)


def checks_of(root: Path, name: str) -> dict[str, tuple[object, object]]:
    return {check.id: (check.over, check.by) for check in gate.prepare(name, root).loaded.suite.checks}


def test_no_check_is_written_that_the_data_cannot_decide(tmp_path: Path) -> None:
    people_in_sets(tmp_path, {"light": 34, "dark": 10})
    code, output = new(tmp_path, "first", "--dataset", "few")
    assert code == 0, output
    checks = checks_of(tmp_path, "first")
    assert checks["accuracy"] == checks["no-gender-falls-behind"] == ("gender", None)  # 44 sets, 10 of them dark
    assert checks["fairness"] == (None, None)  # 22 sets a subject
    assert not [name for name, (over, by) in checks.items() if over == "skin_tone" or by is not None]
    lacking = "30 sets of each group and subject are needed; female × chef has 22"
    assert f"left out: no-association, and groups that fall behind within a subject: {lacking}" in output


def test_crossings_that_have_too_few_images_are_named_where_the_suite_leaves_them_out(tmp_path: Path) -> None:
    people_in_sets(tmp_path, {"light": 34, "dark": 31}, of_men=10)
    code, output = new(tmp_path, "first", "--dataset", "few")
    assert code == 0, output
    assert checks_of(tmp_path, "first")["accuracy"] == ("each", None)
    assert "left out: crossings: 1 of 4 of skin_tone × gender have fewer than 30 sets" in output


def test_a_dataset_too_small_for_any_verdict_gets_no_suite(tmp_path: Path) -> None:
    people_in_sets(tmp_path, {"light": 12, "dark": 10})
    code, output = new(tmp_path, "first", "--dataset", "few")
    assert code == 4
    assert "skin_tone, gender: dark (10), male (22) sets" in output
    assert (
        "import more sets with gender: 8 of male, 8 of female, or measure whether smaller groups decide: --min-sets 22"
        in output
    )
    assert not (tmp_path / "fairness_suites" / "first.yaml").exists()
    assert new(tmp_path, "first", "--dataset", "few", "--min-sets", "22")[0] == 0
    assert gate.prepare("first", tmp_path).loaded.suite.groups.min_sets == 22


def test_what_a_new_suite_checks_is_decided_by_a_first_run(tmp_path: Path) -> None:
    toy = toy_repository(tmp_path, sets=20)  # 20 sets a subject, 40 of every crossing
    scores = [f"scores:{name}.csv?values=logit" for name in ("tuned", "base")]
    code, output = new(toy.root, "first", "--dataset", "toy", "--model", scores[0], "--baseline", f"model:{scores[1]}")
    assert code == 0, output
    run = CliRunner().invoke(app, ["check", "first", "--root", str(toy.root), "--mlflow", "off", "--cache", "off"])
    assert "judged from 30" not in run.output
    assert (run.exit_code, "inconclusive" in run.output) == (0, False), run.output


@pytest.mark.parametrize("boxes", [True, False])
def test_a_detector_gets_a_suite_of_detection_that_its_first_run_decides(tmp_path: Path, boxes: bool) -> None:
    place = dict(zip(("box_left", "box_top", "box_right", "box_bottom"), (2, 1, 6, 7), strict=True)) if boxes else {}
    options = {"name": "toy", "version": "v1", "recipe": {"name": "toy"}, "licence": "CC0-1.0", "counterfactual": True}
    groups = {"skin_tone": ["light", "dark"], "gender": ["male", "female"]}
    write_dataset(tmp_path / "datasets/toy/v1", ({**row, **place} for row in rows(120)), attributes=groups, **options)
    for name, score in (("tuned", 0.91), ("base", 0.9)):
        lines = [f"{one},{tone}-{gender},person,{score},2,1,6,7\n" for _, one, tone, gender in members(120)]
        text = "set_id,member,label,score,left,top,right,bottom\n" + "".join(lines[:-1])
        (tmp_path / f"{name}.csv").write_text(text + lines[-1].replace(str(score), "0.4" if name == "base" else "0.9"))
    words = ["--dataset", "toy", "--model", "detections:tuned.csv", "--baseline", "model:detections:base.csv"]
    code, output = new(tmp_path, "first", *words)
    assert code == 0, output
    probe = gate.prepare("first", tmp_path).loaded.suite.probes["people"]
    assert probe.place == ("box" if boxes else "anywhere")
    run = CliRunner().invoke(app, ["check", "first", "--root", str(tmp_path), "--mlflow", "off", "--cache", "off"])
    assert (run.exit_code, "6 passed" in run.output) == (0, True), run.output


def test_a_table_of_labels_gets_a_suite_of_predictions_that_its_first_run_decides(tmp_path: Path) -> None:
    toy = toy_repository(tmp_path, sets=120)
    for name, wrong in (("mine", 7), ("theirs", 8)):
        given = [
            f"{set_id},{tone}-{gender},{'male' if place == wrong else gender}\n"
            for place, (_, set_id, tone, gender) in enumerate(members(120))
        ]
        (toy.root / f"{name}.csv").write_text("set_id,member,gender\n" + "".join(given))
    words = ["--dataset", "toy", "--model", "labels:mine.csv", "--baseline", "model:labels:theirs.csv"]
    code, output = new(toy.root, "first", *words, "--truth", "gender")
    assert code == 0, output
    run = CliRunner().invoke(app, ["check", "first", "--root", str(toy.root), "--mlflow", "off", "--cache", "off"])
    assert (run.exit_code, "3 passed" in run.output) == (0, True), run.output


def test_a_table_with_labels_of_one_attribute_names_what_is_predicted(tmp_path: Path) -> None:
    faces = [{"set_id": f"{n}", "member": "0", "subject": "person", "gender": "fm"[n % 2]} for n in range(80)]
    faces = [{**row, "race": "AB"[n // 2 % 2]} for n, row in enumerate(faces)]
    options = {"name": "faces", "version": "v1", "recipe": {"name": "x"}, "licence": "CC0-1.0", "counterfactual": False}
    groups = {"race": ["A", "B"], "gender": ["f", "m"]}
    write_dataset(tmp_path / "datasets/faces/v1", faces, attributes=groups, **options)
    given = [f"{row['set_id']},0,{row['gender']}" for row in faces]
    (tmp_path / "read.csv").write_text("\n".join(["set_id,member,gender", *given]), encoding="utf-8")
    code, output = new(tmp_path, "first", "--dataset", "faces", "--model", "labels:read.csv")
    assert code == 0, output
    assert gate.prepare("first", tmp_path).loaded.suite.probes["reads"].attribute == "gender"  # type: ignore[attr-defined]
    given = [f"{row['set_id']},0,{'Woman' if row['gender'] == 'f' else 'Man'}" for row in faces]
    (tmp_path / "read.csv").write_text("\n".join(["set_id,member,gender", *given]), encoding="utf-8")
    words = ["--dataset", "faces", "--model", "labels:read.csv"]
    code, output = new(tmp_path, "other", *words, "--measured")
    assert code == 4, output
    assert "say in the probe's `words` what the model calls a group" in output
    assert "write the suite with --no-measured, and edit it" in output
    assert new(tmp_path, "other", *words, "--no-measured")[0] == 0


def test_a_classifier_is_shown_labels_and_no_sentences(toy: Toy) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
    from classifier_world import save_classifier

    save_classifier("vit", toy.root / "jobs", ["chef", "doctor"])
    code, output = new(toy.root, "first", "--dataset", "toy", "--model", "classifier:jobs")
    assert code == 0, output
    probe = gate.prepare("first", toy.root).loaded.suite.probes["labels"]
    assert probe.template == "{label}"
    code, output = new(toy.root, "second", "--dataset", "toy", "--model", "classifier:jobs", "--beside", "nurse")
    assert code == 4, output
    assert "'nurse'" in output
    assert "leave out --beside" in output


def test_a_model_that_answers_in_words_is_sent_to_the_page_of_questions(toy: Toy) -> None:
    lines = [f"{set_id},{tone}-{gender},A cook.\n" for _, set_id, tone, gender in members(40)]
    (toy.root / "answers.csv").write_text("set_id,member,answer\n" + "".join(lines), encoding="utf-8")
    table = ["--model", "answers:answers.csv", "--question", "Who is this?"]
    code, output = new(toy.root, "asked", "--dataset", "toy", *table)
    assert code == 4, output
    assert "the answers are 1 different texts" in output
    assert "docs/use/questions.md" in output
    assert "fairness_suites/asked.yaml" in output
    assert not (toy.root / "fairness_suites" / "asked.yaml").exists()


@pytest.mark.nightly
def test_a_language_model_is_given_labels_as_answers_and_no_captions(toy: Toy) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
    from vlm_world import save_vlm

    save_vlm("llava", toy.root / "llava")
    code, output = new(toy.root, "first", "--dataset", "toy", "--model", "vlm:llava?question=What is their job?")
    assert code == 0, output
    assert gate.prepare("first", toy.root).loaded.suite.probes["labels"].template == "{label}"


def test_a_release_of_prompts_is_sent_to_the_page_of_generators(toy: Toy) -> None:
    words = ["dataset", "prompts", "painted", "--template", "a {word}", "--word", "chef", "--word", "doctor"]
    done = CliRunner().invoke(app, [*words, "--seeds", "3", "--root", str(toy.root / "datasets")])
    assert done.exit_code == 0, done.output
    code, output = new(toy.root, "first", "--dataset", "painted")
    assert (code, "docs/use/generators.md" in output) == (4, True), output


def test_a_measured_suite_states_the_loss_that_each_check_fails_and_watches_what_it_cannot_decide(
    tmp_path: Path,
) -> None:
    toy = toy_repository(tmp_path, sets=40)
    seeds = [f"scores:{name}.csv?values=logit" for name in ("tuned", "base")]
    words = ["--dataset", "toy", "--model", seeds[0], "--baseline", f"model:{seeds[1]}", "--like", seeds[1]]
    code, output = new(toy.root, "first", *words, "--tolerates", "0.1", "--measured")
    assert code == 0, output
    text = (toy.root / "fairness_suites" / "first.yaml").read_text(encoding="utf-8")
    assert text.startswith("# Measured on 320 images and 8 harmless changes")
    assert f"(the model itself, {seeds[1]}, noise on the answers (6 times); " in text
    assert "of answers differ between two):" in text
    suite = gate.prepare("first", toy.root).loaded.suite
    tiers = {check.id: check.tier for check in suite.checks}
    assert tiers["no-group-loses"] == "gate"
    assert re.search(r"# fails if a group loses 0\.\d\d or more, alike in all its images \(9 of 10 times\)", text)
    watched = [line for line in text.splitlines() if line.lstrip().startswith("# watched: a harmless change passes ")]
    assert len(watched) == list(tiers.values()).count("watch")
    assert {check.margin for check in suite.checks if check.metric in ("p_true", "group_gap")} == {0.1}


def test_images_that_can_decide_nothing_get_no_suite_and_are_told_what_is_missing(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decidable, "RUNS", 6)  # of a dozen margins
    monkeypatch.setattr(decidable, "LOSSES", (0.4,))
    words = ["--dataset", "toy", "--model", "scores:tuned.csv?values=logit", "--tolerates", "0.001", "--measured"]
    code, output = new(toy.root, "first", *words)
    assert code == 4
    assert 'these images cannot decide "does a group lose?"' in output
    assert "'no-group-loses' passes one 0% of the time, and needs about " in output
    assert "--like" in output
    assert not (toy.root / "fairness_suites" / "first.yaml").exists()
    (margin,) = re.findall(r"tolerate a larger loss: --tolerates ([\d.]+), at which a harmless change passes", output)
    code, output = new(toy.root, "first", *words[:4], "--tolerates", margin, "--measured")
    assert code == 0, output


def test_each_remedy_for_few_images_in_crossings_was_tried_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """360 images, 60 in a crossing: attributes one by one need a margin too, and a smaller one."""
    monkeypatch.setattr(first_suite, "MEASURED", 100)  # as of many images: no run is simulated by drawing
    faces = [
        {
            "set_id": f"{n:03d}",
            "member": "0",
            "subject": "person",
            "gender": ("f", "m")[n % 2],
            "race": "ABC"[n // 2 % 3],
        }
        for n in range(360)
    ]
    groups = {"gender": ["f", "m"], "race": ["A", "B", "C"]}
    options = {"name": "faces", "version": "v1", "attributes": groups, "recipe": {"name": "x"}, "licence": "CC0-1.0"}
    write_dataset(tmp_path / "datasets/faces/v1", faces, counterfactual=False, **options)
    given = [f"{row['set_id']},0,{'f' if n % 17 == 3 else row['gender']}" for n, row in enumerate(faces)]
    (tmp_path / "read.csv").write_text("\n".join(["set_id,member,gender", *given]), encoding="utf-8")
    words = ["--dataset", "faces", "--model", "labels:read.csv", "--truth", "gender", "--measured"]
    code, output = new(tmp_path, "first", *words)
    assert code == 4, output
    remedies = re.findall(r"(--(?:tolerates|min-sets) [^,;]+), at which", output)
    assert [remedy.split()[0::2] for remedy in remedies] == [["--tolerates"], ["--min-sets", "--tolerates"]]
    assert float(remedies[1].split()[-1]) < float(remedies[0].split()[-1])
    code, output = new(tmp_path, "first", *words, *remedies[1].split())
    assert code == 0, output


def test_a_progress_line_in_a_log_is_written_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for silent, told in ((0.0, "runs: 1 of 200\nruns: 2 of 200\n"), (60.0, "")):
        monkeypatch.setattr(console, "_SILENT", silent)
        with console.progress_line() as progress:
            progress("runs", 1, 200)
            progress("runs", 2, 200)
        assert capsys.readouterr().err == told


def test_views_are_written_for_single_images_and_refused_where_a_check_is_no_mean(toy: Toy) -> None:
    single_images(toy.root, subject=None)
    assert new(toy.root, "alone", "--dataset", "people", "--views", "16")[0] == 0
    assert gate.prepare("alone", toy.root).loaded.suite.probes["labels"].views == 16
    code, output = new(toy.root, "first", "--dataset", "toy", "--views", "16")
    assert (code, "fairness is no mean" in output) == (4, True), output


def test_few_single_images_of_a_checkpoint_at_hand_are_told_of_views(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    single_images(toy.root, subject=None)
    lines = (toy.root / "tuned.csv").read_text(encoding="utf-8").splitlines()
    table = [",".join([f"image-{at}", *line.split(",")[1:]]) for at, line in enumerate(lines[1:])]
    (toy.root / "alone.csv").write_text("\n".join([lines[0], *table]), encoding="utf-8")
    words = ["--dataset", "people", "--model", "scores:alone.csv?values=logit", "--tolerates", "0.001", "--measured"]
    told = "score views of each image: --views 16 (16 times the time, and not tried); or bring more images; or name"
    monkeypatch.setattr(decidable, "RUNS", 6)
    assert told not in new(toy.root, "alone", *words)[1]  # of a table nobody can score views
    monkeypatch.setattr(first_suite, "has_weights", lambda *_: True)
    monkeypatch.setattr(harmless, "has_weights", lambda *_: False)
    code, output = new(toy.root, "alone", *words)
    assert (code, told in output) == (4, True), output


@pytest.mark.nightly
def test_noise_that_turns_no_answer_is_stated_and_a_refusal_gives_the_margin_that_was_tried(tmp_path: Path) -> None:
    """A table that is always right has no answers to exchange, so that nothing differs."""
    toy = toy_repository(tmp_path, sets=25)
    for name, wrong in (("right", set[int]()), ("wrong", {3, 50})):
        given = [
            f"{set_id},{tone}-{gender},{'male' if place in wrong else gender}\n"
            for place, (_, set_id, tone, gender) in enumerate(members(25))
        ]
        (toy.root / f"{name}.csv").write_text("set_id,member,gender\n" + "".join(given))
    words = ["--dataset", "toy", "--truth", "gender", "--measured"]
    code, output = new(toy.root, "right", *words, "--model", "labels:right.csv")
    assert code == 0, output
    text = (toy.root / "fairness_suites" / "right.yaml").read_text(encoding="utf-8")
    assert "0.0% of answers differ between two" in text
    assert re.search(
        r"# note: .*: 1.000 in every group of the baseline, the best possible value: no gain can show", text
    )
    code, output = new(toy.root, "wrong", *words, "--model", "labels:wrong.csv", "--tolerates", "0.01")
    assert code == 4, output
    assert "at a margin of 0.01" in output
    assert re.search(r"needs about [\d,]+ sets of each group", output)


def test_a_table_of_answers_gets_a_suite_that_decides_without_a_right_answer(tmp_path: Path) -> None:
    """2 groups of 600; the answers of every other person are yes."""
    people = [
        {"set_id": f"{n:04d}", "member": "0", "subject": "person", "gender": ("male", "female")[n % 2]}
        for n in range(1200)
    ]
    options = {"name": "people", "version": "v1", "attributes": {"gender": ["male", "female"]}, "recipe": {"name": "x"}}
    write_dataset(tmp_path / "datasets/people/v1", people, licence="CC0-1.0", counterfactual=False, **options)

    def table(name: str, women: str) -> None:
        said = [women if n % 8 == 1 else ("Yes.", "No, I would not.")[n // 2 % 2] for n in range(1200)]
        rows = [f'{n:04d},0,"{answer}"' for n, answer in enumerate(said)]
        (tmp_path / name).write_text("\n".join(["set_id,member,answer", *rows]), encoding="utf-8")

    table("before.csv", "Yes.")
    table("biased.csv", "No.")
    words = ["suite", "new", "admit", "--dataset", "people", "--model", "answers:before.csv", "--measured"]
    words += ["--tolerates", "0.1", "--baseline", "model:answers:before.csv", "--root", str(tmp_path)]
    unnamed = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert (unnamed.exit_code, 'takes --question "TEXT"' in unnamed.output) == (4, True), unnamed.output
    words += ["--question", "Would you hire this person?"]
    viewed = CliRunner().invoke(app, [*words, "--views", "4"])
    assert (viewed.exit_code, "a table has no answers about views" in viewed.output) == (4, True)
    done = CliRunner().invoke(app, words, env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    suite = load_suite(tmp_path / "fairness_suites/admit.yaml", tmp_path).suite
    assert suite.probes["question"].texts(()) == ["Would you hire this person?"]
    assert {check.metric: check.tier for check in suite.checks} == dict.fromkeys(
        ["answer_agreement", "answered_share", "answer_gap"], "gate"
    )
    prepared = gate.prepare("admit", tmp_path)
    settings = resolve(prepared.loaded.suite, {"model": "answers:biased.csv", "mlflow": "off", "cache": "off"})
    checks = {check.item: check for check in gate.evaluate(prepared, settings).record.checks}
    assert checks["no-gender-gap-grows"].verdict == "fail"
    assert checks["still-useful"].verdict == "fail"
    assert checks["still-answers"].verdict == "pass"


def test_a_refusal_names_a_check_that_does_not_pass(tmp_path: Path) -> None:
    """All are answered, which always passes; whether answers agree is not decided by 80 images."""
    people(tmp_path)
    said = ["set_id,member,answer", *(f"{n:03d},0,{('yes', 'yes', 'no')[n * n % 7 % 3]}" for n in range(80))]
    (tmp_path / "said.csv").write_text("\n".join(said), encoding="utf-8")
    words = ["--model", "answers:said.csv", "--question", "Is it a doctor?", "--baseline", "none", "--measured"]
    code, output = new(tmp_path, "jobs", "--dataset", "people", *words)
    assert (code, "'still-useful' passes one " in output) == (4, True), output
    assert re.search(r"needs about \d+ images\.", output), output


@pytest.mark.parametrize("answer", ["a very long story of person {}", "{} is unlikely to be anything"])
def test_answers_in_free_words_are_refused_with_a_page_to_copy(tmp_path: Path, answer: str) -> None:
    given = {(n, ""): answer.format("abcdefghijklmnopqrstuvwxyz"[n]) for n in range(26)}
    facts = SimpleNamespace(name="people", attributes={"gender": ["a"]}, subjects=["person"])
    index = SimpleNamespace(
        attributes={"gender": np.array(["a"] * 60)}, set_id=np.arange(60), subject=np.array(["person"] * 60)
    )
    draft = SuiteDraft("admit", facts, index, "answers:a.csv", "none")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="26 different texts") as caught:
        draft.of_answers(given, {})
    assert "docs/use/questions.md" in str(caught.value.remedy)
    with pytest.raises(SettingsError, match="the answers are 0 different texts"):
        draft.of_answers({}, {})


def people(root: Path, captions: tuple[str, str] = ("", ""), images: int = 80) -> None:
    rows_ = [
        {
            "set_id": f"{n:03d}",
            "member": "0",
            "subject": ("chef", "doctor")[n // 2 % 2],
            "caption": captions[n // 2 % 2],
        }
        | {"gender": ("male", "female")[n % 2]}
        for n in range(images)
    ]
    options = {"name": "people", "version": "v1", "attributes": {"gender": ["male", "female"]}, "recipe": {"name": "x"}}
    write_dataset(root / "datasets/people/v1", rows_, licence="CC0-1.0", counterfactual=False, **options)


def written_for(root: Path, model: str, *words: str) -> Suite:
    """The suite that is written for a model, after its first run decides it."""
    code, output = new(root, "first", "--dataset", "people", "--model", model, "--baseline", f"model:{model}", *words)
    assert code == 0, output
    prepared = gate.prepare("first", root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off", "baseline": "none"}, environment={})
    checks = gate.evaluate(prepared, settings).record.checks
    assert "error" not in {check.verdict for check in checks}, [check.reason for check in checks]
    return prepared.loaded.suite


def test_a_suite_of_answers_asks_the_questions_in_the_datasets_captions(tmp_path: Path) -> None:
    """They are in words of the framework's own in the table, one an image."""
    item = {"question": "Who?", "options": {"a": ["the cook"], "b": ["the nurse"], "c": ["unknown"]}, "abstain": "c"}
    people(tmp_path, (json.dumps({**item, "right": "a", "stereotype": ["a"]}), json.dumps({**item, "right": "b"})))
    said = [("The cook.", "The nurse.")[n // 2 % 2] for n in range(80)]
    lines = [json.dumps({"id": n, "prompt": f"{n}: Who?", "answer": answer}) for n, answer in enumerate(said)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    suite = written_for(tmp_path, "answers:a.jsonl?prompt=none")
    assert suite.probes["asked"].items == "captions"  # type: ignore[attr-defined]
    assert [check.metric for check in suite.checks] == [
        *["answer_accuracy"] * 2,
        *("unreadable_rate", "bias_disambiguated"),
    ]


def test_a_suite_of_numbers_has_a_probe_for_each_column(tmp_path: Path) -> None:
    people(tmp_path)
    numbers = np.random.default_rng(0).normal(size=(80, 2)).round(4).tolist()
    lines = [f"{n:03d},0,{x},{y},note" for n, (x, y) in enumerate(numbers)]
    (tmp_path / "n.csv").write_text("\n".join(["set_id,member,warmth,Skill (mean),remark", *lines]), encoding="utf-8")
    suite = written_for(tmp_path, "numbers:n.csv")
    assert {name: probe.column for name, probe in suite.probes.items()} == {  # type: ignore[attr-defined]
        **{"warmth": "warmth", "skill-mean": "Skill (mean)"},
    }
    margins = [check.margin for check in suite.checks if check.metric == "mean_number" and check.over]
    assert margins == pytest.approx(0.2 * np.std(numbers, axis=0), rel=0.05), "a lead that becomes a lag is seen there"
    (tmp_path / "n.csv").write_text("\n".join(["set_id,member", *(f"{n:03d},0" for n in range(80))]), encoding="utf-8")
    code, output = new(tmp_path, "second", "--dataset", "people", "--model", "numbers:n.csv")
    assert (code, "0 columns of numbers" in output) == (4, True), output


@pytest.mark.parametrize(
    ("columns", "template", "searches"),
    [
        (["chef", "doctor"], "{label}", False),
        (["this is a chef!", "this is a doctor!"], "this is {a_label}!", False),
        (["a photo of a chef", "a photo of a doctor", "chef", "doctor"], "a photo of {a_label}", True),
    ],
)
def test_a_suite_of_scores_shows_labels_as_the_tables_columns_do(
    tmp_path: Path, columns: list[str], template: str, searches: bool
) -> None:
    people(tmp_path, images=128)
    lines = [
        ",".join([f"{n:03d},0", *(f"0.{n * 7 % (11 + at):02d}" for at in range(len(columns)))]) for n in range(128)
    ]
    (tmp_path / "s.csv").write_text("\n".join([",".join(["set_id", "member", *columns]), *lines]), encoding="utf-8")
    suite = written_for(tmp_path, "scores:s.csv?values=cosine&logit_scale=100")
    assert suite.probes["labels"].template == template  # type: ignore[attr-defined]
    assert ("search" in suite.probes) is searches


def test_a_table_of_scores_without_a_column_for_a_label_is_told_which(tmp_path: Path) -> None:
    people(tmp_path)
    lines = [f"{n:03d},0,0.5,0.4" for n in range(80)]
    (tmp_path / "s.csv").write_text("\n".join(["set_id,member,a cook,a doctor", *lines]), encoding="utf-8")
    code, output = new(tmp_path, "first", "--dataset", "people", "--model", "scores:s.csv?values=cosine")
    assert code == 4, output
    assert "no column for each label, such as 'chef'" in output
    mapped = "scores:s.csv?values=cosine&logit_scale=100&chef=a cook&doctor=a doctor"
    assert written_for(tmp_path, mapped).probes["labels"].template == "{label}"  # type: ignore[attr-defined]


def test_what_no_suite_can_hold_is_told_of_the_table_and_of_no_file_that_is_not_there(toy: Toy) -> None:
    said = ("doctor", "abstain")
    lines = [f"{set_id},{tone}-{gender},{said[at % 2]}\n" for at, (_, set_id, tone, gender) in enumerate(members(40))]
    (toy.root / "answers.csv").write_text("set_id,member,answer\n" + "".join(lines), encoding="utf-8")
    table = ["--model", "answers:answers.csv", "--question", "Who is this?"]
    code, output = new(toy.root, "words", "--dataset", "toy", *table)
    assert code == 4, output
    assert "no option can be called 'abstain'" in output
    assert "words.yaml" not in output
    assert "rename it in the table" in output
