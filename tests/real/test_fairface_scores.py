"""Real CLIP scores of FairFace, before and after a bug was fixed: published accuracies, and who gained and who lost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from fairface import GENDERS, RACES, SCORES, Example, by_id, example, groups_of, published_accuracy, scores_table
from imported_photographs import import_images
from nightly import some

from fairgate.records import RunRecord

pytestmark = [
    pytest.mark.skipif(not SCORES.is_dir(), reason="the FairFace scores are not beside this checkout"),
    pytest.mark.xdist_group("fairface_scores"),  # its runs are made once, not once a worker
]

MODELS = some(["openai", "laion2b"], few=1)
BY_GROUP = ["by-gender", "by-race", "by-age", "by-race-and-gender"]
Runs = Mapping[str, RunRecord]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Example:
    made = example(tmp_path_factory.mktemp("real") / "fairface")
    import_images(
        SCORES / "fairface_val_labels.csv.gz",
        None,
        "fairface",
        attributes={"gender": GENDERS, "race": RACES, "age": []},
        subject="person",
        root=made.root / "datasets",
    )
    for model, when in product(MODELS, ("before", "after")):
        scores_table(SCORES / f"vit_l14_{model}_{when}.csv.gz", made.root / f"{model}_{when}.csv")
    return made


@pytest.fixture(scope="module")
def runs(repository: Example) -> Runs:
    """Of each model: `before` alone, `after` against it, and the bug come `back`."""
    made: dict[str, RunRecord] = {}
    for model in MODELS:
        for run, when, baseline in (
            ("before", "before", None),
            ("after", "after", "before"),
            ("back", "before", "after"),
        ):
            against = "none" if baseline is None else f"file:{repository.root / 'runs' / f'{model}_{baseline}'}"
            name = f"{model}_{run}"
            made[name] = repository.check("fairface", f"scores:{model}_{when}.csv?values=logit", against, name)
    return made


@pytest.mark.parametrize(("model", "when"), list(product(MODELS, ("before", "after"))))
def test_every_published_accuracy_is_met_to_the_last_digit(runs: Runs, model: str, when: str) -> None:
    published = published_accuracy(SCORES / f"vit_l14_{model}_{when}_published_accuracy.csv")
    checks = by_id(runs[f"{model}_{when}"])
    measured = {"accuracy": checks["still-useful"].value}
    for check in ("by-gender", "by-race", "by-age"):
        measured |= {group.group: group.value for group in checks[check].groups}
    assert measured == published
    assert list(measured) == list(published)


@pytest.mark.parametrize("model", MODELS)
def test_every_group_of_a_comparison_has_a_change_an_interval_and_a_verdict(runs: Runs, model: str) -> None:
    before = by_id(runs[f"{model}_before"])
    for name in BY_GROUP:
        check = by_id(runs[f"{model}_after"])[name]
        assert check.groups
        for group in check.groups:
            assert group.baseline == groups_of(before[name])[group.group].value
            assert None not in (group.value, group.baseline, group.delta, group.delta_lo, group.delta_hi)
            assert group.delta_lo < group.delta < group.delta_hi  # type: ignore[operator]
            assert group.verdict in ("pass", "fail", "inconclusive")


def test_without_a_baseline_nothing_is_claimed_about_a_regression(runs: Runs) -> None:
    record = runs["openai_before"]
    assert record.verdict == "inconclusive"
    assert {check.id for check in record.checks if check.verdict == "pass"} == {"still-useful"}
    assert not any(check.worst_sets for check in record.checks)


def test_the_repaired_openai_model_passes_and_serves_women_of_most_races_better(runs: Runs) -> None:
    record = runs["openai_after"]
    assert record.verdict == "pass"
    gender = groups_of(by_id(record)["by-gender"])
    assert gender["Female"].delta_lo is not None
    assert gender["Female"].delta_lo > 0.03
    crossed = groups_of(by_id(record)["by-race-and-gender"])
    gained = {name for name, group in crossed.items() if group.delta_lo is not None and group.delta_lo > 0}
    assert gained == {f"{race} × Female" for race in RACES if race != "White"}


def test_the_repair_took_from_southeast_asian_men_which_no_margin_total_shows(runs: Runs) -> None:
    checks = by_id(runs["openai_after"])
    crossed = checks["by-race-and-gender"]
    assert crossed.worst_group == "Southeast Asian × Male"
    lost = [group.group for group in crossed.groups if group.delta_hi is not None and group.delta_hi < 0]
    assert lost == ["Southeast Asian × Male"]
    assert groups_of(checks["by-race"])["Southeast Asian"].verdict == "pass"
    assert groups_of(checks["by-gender"])["Male"].verdict == "pass"


@pytest.mark.nightly
def test_the_repaired_laion_model_gains_overall_and_is_not_cleared_for_women(runs: Runs) -> None:
    record = runs["laion2b_after"]
    checks = by_id(record)
    assert checks["no-regression"].verdict == "pass"
    assert checks["no-regression"].delta_lo is not None
    assert checks["no-regression"].delta_lo > 0
    gender = checks["by-gender"]
    assert (record.verdict, gender.verdict, gender.worst_group) == ("inconclusive", "inconclusive", "Female")
    assert gender.delta_hi is not None
    assert gender.delta_hi < 0
    assert "images per group would settle it" in gender.reason
    assert groups_of(gender)["Male"].verdict == "pass"


@pytest.mark.parametrize(("model", "failing"), some([("openai", "Female"), ("laion2b", "Male")], few=1))
def test_a_change_that_brings_the_bug_back_fails_and_names_who_pays(runs: Runs, model: str, failing: str) -> None:
    record = runs[f"{model}_back"]
    assert record.verdict == "fail"
    gender = by_id(record)["by-gender"]
    assert gender.verdict == "fail"
    assert gender.worst_group == failing
    assert gender.p_adjusted is not None
    assert gender.p_adjusted < 0.05


@pytest.mark.parametrize("run", [f"{model}_{when}" for model in MODELS for when in ("after", "back")])
def test_the_numbers_of_a_comparison_belong_to_the_group_it_names(runs: Runs, run: str) -> None:
    for name in BY_GROUP:
        check = by_id(runs[run])[name]
        told = groups_of(check)[check.worst_group or ""]
        assert (check.value, check.baseline, check.delta) == (told.value, told.baseline, told.delta)
        assert told.verdict == check.verdict
        assert check.value - check.baseline == pytest.approx(check.delta)  # type: ignore[operator]


def test_the_worst_images_show_the_group_and_were_lost_by_the_change(runs: Runs) -> None:
    failing = by_id(runs["openai_back"])["by-race"]
    assert failing.worst_group == "Black"
    (members,) = {len(worst.members) for worst in failing.worst_sets}
    assert members == 1
    values = []
    for worst in failing.worst_sets:
        (image,) = worst.members
        assert "Black" in image.group
        assert image.predicted == ("woman" if "Male" in image.group.split(" × ") else "man")
        assert worst.spread is None
        values.append(image.value)
    assert values == sorted(values, key=float)


def test_who_is_taken_for_whom_is_counted_where_the_suite_looks(runs: Runs) -> None:
    confusions = runs["openai_before"].confusions
    assert len(confusions) == len(RACES) * len(GENDERS)
    wrong = sum(one.count for one in confusions)
    assert 1 - wrong / 10_954 == pytest.approx(by_id(runs["openai_before"])["still-useful"].value)
    assert {one.predicted for one in confusions if "Female" in one.group} == {"man"}


def test_the_page_of_labels_without_images_is_whole_and_speaks_of_images(repository: Example, runs: Runs) -> None:
    assert runs["openai_back"].verdict == "fail"
    page = repository.page("openai_back")
    assert "<img" not in page
    assert "Black × Female" in page
    words = " ".join(check.reason + (check.interval or "") for check in runs["openai_back"].checks)
    assert "sets" not in words
    assert "set-mates" not in page


def test_the_repair_closes_the_gap_and_ends_leads_as_the_readme_says(repository: Example) -> None:
    model = "scores:openai_{}.csv?values=logit"
    before = by_id(repository.check("fairface_gaps", model.format("before"), "none", "gaps-before"))
    against = f"file:{repository.root / 'runs' / 'gaps-before'}"
    after = by_id(repository.check("fairface_gaps", model.format("after"), against, "gaps-after"))
    assert [before["gap"].verdict, after["gap"].verdict] == ["fail", "pass"]
    assert [before["gap"].worst_group, after["gap"].worst_group] == ["Black × Female", "Black × Male"]
    told = after["no-intersectional-regression"]
    assert (told.verdict, told.worst_group, told.failing_groups) == ("inconclusive", "White × Female", [])
    leads = groups_of(told)["White × Male"]  # fell by more than the margin, and is not behind
    assert ((leads.delta or 0.0) < -0.02, leads.verdict) == (True, "pass")
    readme = (repository.root / "README.md").read_text(encoding="utf-8")
    rows = [
        f"| {name} | {signed(group.baseline)} | {signed(group.value)} | {signed(group.delta)} "
        f"[{signed(group.delta_lo).lstrip('+')}, {signed(group.delta_hi).lstrip('+')}] | {group.verdict} |"
        for name, group in groups_of(told).items()
    ]
    assert sum(row in readme for row in rows) == 6
    assert "set-mates" not in repository.page("gaps-after")


def signed(value: float | None) -> str:
    """As the README writes differences: three decimals, and a sign unless they are 0.000."""
    text = f"{value:+.3f}".replace("-", "−")
    return text[1:] if text[1:] == "0.000" else text
