"""`fairgate release`: what it refuses and what it says then; what stands in manifest and card when it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drawn import HOSTILE, mark_all, rows, square, write_build

from fairgate.builds.review import find_build, release
from fairgate.builds.review.releasing import Doubles, Imbalance, most_unequal
from fairgate.data import open_dataset
from fairgate.ground.errors import DatasetError, SettingsError
from fairgate.ground.hashing import sha256_file

PASSED = {"gender": {"man": {"tried": 6, "failed": 0}, "woman": {"tried": 5, "failed": 2}}}
PARTS = {
    "doctor": {"paint": {"started": 9, "kept": 6, "dropped": {"no_face": 3}, "groups": PASSED}},
    "nurse": {"paint": {"started": 6, "kept": 6, "dropped": {}, "groups": PASSED}},
}
YIELDS = {
    "images": 48,
    "per_image": {"unet": 123.456},
    "subjects": {name: {"sets": 6, "images": 24, "parts": parts} for name, parts in PARTS.items()},
}
DROPS = """subject,part,attribute,group,reason,count
doctor,paint,all,all,started,9
doctor,paint,gender,woman,no_face,3
nurse,paint,gender,woman,no_face,1
"""


@pytest.fixture
def built(tmp_path):
    """A build of 48 images, without review."""
    write_build(tmp_path / "build" / "people", rows(12))
    return find_build("people", tmp_path / "build")


def freeze(tmp_path: Path, build, name=None, **options):
    return release(build, name, tmp_path / "datasets", reviews=tmp_path / "reviews", **options)


def reviewed(tmp_path: Path, build, size: int = 48, rater: str = "ada", **wrong):
    return mark_all(build.dataset, build.records(tmp_path / "reviews"), size, rater, **wrong)


def test_a_reviewed_build_is_frozen_and_its_card_tells_the_review(built, tmp_path):
    reviewed(tmp_path, built, wrong={0: {"gender": None}})
    reviewed(tmp_path, built, 20, "grace")
    done = freeze(tmp_path, built)
    found = open_dataset("people", tmp_path / "datasets")
    assert found.verify() == []
    assert found.fingerprint == built.dataset.fingerprint
    folder = built.records(tmp_path / "reviews")
    assert found.manifest.lineage == {
        f"review by {rater}": sha256_file(folder / f"{rater}.jsonl") for rater in ("ada", "grace")
    }
    assert done.figures is not None
    assert done.figures.rows[0].shares["good"].count == 47
    card = (found.folder / "README.md").read_text()
    for told in (
        "People looked at 48 images and 4 whole sets",
        "| ada | 48 | 4 | 2026-01-02 | 2026-01-02 |",
        "| good | 47 | 97.9% (89.1 to 99.6) |",
        "| gender: woman | 24 |",
        "| tone × gender: dark × woman | 12 |",
        "| gender perceived | 20 | 0.95 |",
        "| perceived\\_gender | man | 0.7",  # every third set's women are called men
        "0 of 48 images were judged by nobody on their own, and 8 of 12 sets by nobody as a whole",
        "First say which group you perceive",
        "the smallest is never below 100.0% of the largest. 90.0% were allowed",
    ):
        assert told in card
    assert card.index("## Review") < card.index("## Provenance")
    assert "differ in social attributes; the review below says how far they do." in card


def test_nobody_reviewed_it(built, tmp_path):
    with pytest.raises(DatasetError, match="nobody reviewed") as caught:
        freeze(tmp_path, built)
    assert f"`fairgate review {built.folder} --reviews {tmp_path / 'reviews'}`; or release it unreviewed" in str(
        caught.value.remedy
    )
    assert not (tmp_path / "datasets").exists()


def test_unreviewed_with_a_reason_that_stands_in_manifest_and_card(built, tmp_path):
    done = freeze(tmp_path, built, unreviewed="drawn | squares\n\n`need` <b>none")
    assert done.dataset.manifest.lineage == {"review": "none: drawn | squares `need` <b>none"}
    card = (done.dataset.folder / "README.md").read_text()
    assert "**Nobody reviewed this dataset**: drawn \\| squares \\`need\\` &lt;b&gt;none" in card
    assert "- review: `none: drawn | squares 'need' &lt;b>none`" in card
    with pytest.raises(SettingsError, match="needs a reason"):
        freeze(tmp_path, built, "again", unreviewed=" ")


def test_what_people_marked_is_not_released_as_unreviewed(built, tmp_path):
    reviewed(tmp_path, built, 10)
    with pytest.raises(DatasetError, match=r"reviewed by ada \(10 images\)") as caught:
        freeze(tmp_path, built, unreviewed="in a hurry")
    assert "leave --unreviewed out, and say --least 10 if" in str(caught.value.remedy)
    assert not (tmp_path / "datasets").exists()


def test_who_marked_nothing_is_no_reviewer(built, tmp_path):
    reviewed(tmp_path, built)
    reviewed(tmp_path, built, rater="bob", wrong={0: {"gender": None}})
    folder = built.records(tmp_path / "reviews")
    opened = (folder / "ada.jsonl").read_text().splitlines()[0] + "\n"
    (folder / "eve.jsonl").write_text(opened.replace('"ada"', '"eve"'))
    (folder / "zoe.jsonl").write_text("")
    done = freeze(tmp_path, built)
    assert list(done.dataset.manifest.lineage) == ["review by ada", "review by bob"]
    assert done.figures.agreement["gender perceived"].units > 0
    assert "| eve |" not in (done.dataset.folder / "README.md").read_text()


def test_a_page_that_was_only_opened_is_no_review_of_an_earlier_content(built, tmp_path):
    reviewed(tmp_path, built, 4)
    record = built.records(tmp_path / "reviews") / "ada.jsonl"
    record.write_text(record.read_text().splitlines()[0] + "\n")
    write_build(tmp_path / "build" / "new", rows(12, caption="changed"))
    with pytest.raises(DatasetError, match="nobody reviewed the build"):
        freeze(tmp_path, find_build("new", tmp_path / "build"))


def test_half_a_review_is_none(built, tmp_path):
    reviewed(tmp_path, built, 30)
    with pytest.raises(DatasetError, match=r"marked 30 images of the build, and a release needs 48") as caught:
        freeze(tmp_path, built)
    command = f"`fairgate review {built.folder} --rater ada --reviews {tmp_path / 'reviews'}`"
    assert command in str(caught.value.remedy)
    assert freeze(tmp_path, built, least=30).figures.images == 30


def test_two_raters_may_share_the_work(built, tmp_path):
    reviewed(tmp_path, built, 30)
    reviewed(tmp_path, built, 48, "grace")
    assert freeze(tmp_path, built).figures.images == 48


def test_a_build_that_changed_since_its_review_is_refused(built, tmp_path):
    reviewed(tmp_path, built)
    write_build(tmp_path / "build" / "new", rows(12, caption="changed"))
    changed = find_build("new", tmp_path / "build")
    with pytest.raises(DatasetError, match="changed since it was reviewed") as caught:
        freeze(tmp_path, changed)
    assert built.dataset.fingerprint[:12] in caught.value.problem
    assert caught.value.remedy == (
        f"review what is there now: `fairgate review {changed.folder} --reviews {tmp_path / 'reviews'}`"
    )


def test_a_review_that_was_moved_to_other_content_is_refused(built, tmp_path):
    reviewed(tmp_path, built)
    write_build(tmp_path / "build" / "new", rows(12, caption="changed"))
    changed = find_build("new", tmp_path / "build")
    built.records(tmp_path / "reviews").rename(changed.records(tmp_path / "reviews"))
    with pytest.raises(DatasetError, match="of other content"):
        freeze(tmp_path, changed)


def test_a_limited_build_is_a_trial(tmp_path):
    write_build(tmp_path / "b", rows(4), recipe={"name": "drawn", "limit": 4})
    with pytest.raises(DatasetError, match=r"--limit 4\): it is a trial(.|\n)*build it without --limit"):
        freeze(tmp_path, find_build(str(tmp_path / "b")), unreviewed="x")


def test_unequal_subjects_are_refused_beyond_the_tolerance(tmp_path):
    few = [row for row in rows(12) if row["subject"] == "doctor" or row["set_id"] < "set-009"]
    write_build(tmp_path / "b", few)
    build = find_build(str(tmp_path / "b"))
    with pytest.raises(DatasetError, match="among subjects, 'nurse' has 16 images and 'doctor' 24") as caught:
        freeze(tmp_path, build, unreviewed="x")
    assert "--tolerance 0.34" in str(caught.value.remedy)
    card = (freeze(tmp_path, build, unreviewed="x", tolerance=0.34).dataset.folder / "README.md").read_text()
    assert "never below 66.7% of the largest. 66.0% were allowed" in card
    with pytest.raises(SettingsError, match="no tolerance"):
        freeze(tmp_path, build, unreviewed="x", tolerance=2)


def test_the_tolerance_that_is_proposed_is_the_smallest_that_passes():
    for many in range(1, 400):
        for few in range(many + 1):
            found = Imbalance("subjects", "nurse", few, "doctor", many)
            told = float(f"{found.tolerance:.2f}")
            assert found.within(told), (few, many)
            assert told == 0 or not found.within(round(told - 0.01, 2)), (few, many)


@pytest.mark.parametrize(
    ("keep", "among"),
    [
        (lambda row: row["tone"] == "light" or row["set_id"] > "set-001", "groups of tone"),
        (lambda row: (row["tone"], row["subject"]) != ("light", "nurse") or row["set_id"] > "set-003", "for subject"),
        (lambda row: (row["tone"] == "light") == (row["gender"] == "man"), "intersections of tone × gender"),
    ],
)
def test_every_comparison_of_counts_can_be_the_most_unequal(tmp_path, keep, among):
    single = [row | {"set_id": f"{row['set_id']}-{row['member']}"} for row in rows(12) if keep(row)]
    manifest = write_build(tmp_path, single, counterfactual=False).manifest
    counterfactual = manifest.model_copy(update={"counterfactual": True})
    found = most_unequal(counterfactual)
    assert among in found.among
    assert found.ratio < 1
    if "intersections" in among:
        assert (found.few, most_unequal(manifest).ratio) == (0, 1)


def test_a_subject_may_be_of_one_group_where_nobody_promised_others(tmp_path):
    named = [row | {"set_id": f"{row['set_id']}-{row['member']}", "subject": row["member"]} for row in rows(12)]
    assert most_unequal(write_build(tmp_path, named, counterfactual=False).manifest).ratio == 1


def test_the_same_picture_twice_is_refused_with_both_places(built, tmp_path):
    found = list(rows(12))
    found[33]["image"] = square(0, 60, 0, encoding="BMP")
    write_build(tmp_path / "b", found)
    with pytest.raises(DatasetError, match="shows the same picture as set 'set-000', member 'light-woman'") as caught:
        freeze(tmp_path, find_build(str(tmp_path / "b")), unreviewed="x")
    assert "set 'set-008', member 'light-woman'" in caught.value.problem
    assert "rows 1 and 33" in str(caught.value.where)
    assert "build again without it" in str(caught.value.remedy)


def test_doubles_are_told_with_the_first_of_them():
    doubles = Doubles()
    assert doubles.pairs() == []
    for row, name in enumerate("abacab"):
        doubles.watch(row, f"{ord(name):016x}" + "0" * 48)
    assert doubles.pairs() == [(0, 2), (0, 4), (1, 5)]


def test_a_damaged_build_is_refused(built, tmp_path):
    shard = built.dataset.folder / built.dataset.manifest.shards[0].file
    shard.write_bytes(shard.read_bytes().replace(b"IHDR", b"IHDX", 1))
    with pytest.raises(DatasetError, match="is not released"):
        freeze(tmp_path, built, unreviewed="x")


def test_the_card_tells_the_yield_per_subject_reason_and_group(built, tmp_path):
    (built.folder / "yield.json").write_text(json.dumps(YIELDS | {"sets": 12}))
    (built.folder / "drops.csv").write_text(DROPS)
    dataset = freeze(tmp_path, built, unreviewed="x").dataset
    card = (dataset.folder / "README.md").read_text()
    assert "| doctor | paint | 9 | 6 | 66.7% | no\\_face 3 |" in card
    assert "| nurse | paint | 6 | 6 | 100.0% | – |" in card
    assert "| paint | gender | woman | no\\_face | 4 |" in card
    assert "| paint | gender | man | 12 | 0 | 100.0% (75.8 to 100.0) |" in card
    assert "| paint | gender | woman | 10 | 4 | 60.0% (31.3 to 83.2) |" in card
    assert "unet: 123.5." in card
    assert len(dataset.manifest.lineage["yield"]) == 64


@pytest.mark.parametrize(
    ("yields", "drops", "told"),
    [
        (YIELDS | {"images": 47}, DROPS, "the yields are of 47 images, and the dataset has 48"),
        ({"images": 48}, DROPS, "it is missing"),
        (YIELDS, "a,b\n1,2\n", "attribute"),
        (YIELDS, DROPS + "x,y,gender,woman,z,many\n", "many"),
    ],
)
def test_yields_of_another_dataset_or_none_are_refused(built, tmp_path, yields, drops, told):
    (built.folder / "yield.json").write_text(json.dumps(yields))
    (built.folder / "drops.csv").write_text(drops)
    with pytest.raises(DatasetError, match=told) as caught:
        freeze(tmp_path, built, unreviewed="x")
    assert caught.value.remedy == "run the build again: it writes its yields anew"


@pytest.mark.parametrize("name", ["yield.json", "drops.csv"])
def test_yields_beyond_reason_are_not_read(built, tmp_path, name):
    (built.folder / "yield.json").write_text(json.dumps(YIELDS))
    with (built.folder / name).open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(DatasetError) as caught:
        freeze(tmp_path, built, unreviewed="x")
    assert caught.value.problem == "the build's yields cannot be read: it has more than 64 MB."
    assert caught.value.where == str(built.folder / name)


def test_hostile_names_are_no_markup_in_the_card(tmp_path):
    name = "<script>alert(1)</script>|*x*"
    found = [row | {"gender": {"man": name, "woman": "w"}[row["gender"]]} for row in rows(12, caption=HOSTILE)]
    dataset = write_build(tmp_path / "b", found, attributes={"tone": ["light", "dark"], "gender": [name, "w"]})
    build = find_build(str(tmp_path / "b"))
    mark_all(dataset, build.records(tmp_path / "reviews"), 48)
    card = (freeze(tmp_path, build).dataset.folder / "README.md").read_text()
    assert "<script>" not in card
    assert "gender: &lt;script&gt;alert\\(1\\)&lt;/script&gt;\\|\\*x\\*" in card


@pytest.mark.parametrize("name", ["people", "build/people", "build/people/dataset"])
def test_a_build_is_found_by_name_or_folder(built, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert find_build(name).dataset.fingerprint == built.dataset.fingerprint


def test_a_build_that_is_not_there_is_told_with_the_nearest(built, tmp_path):
    with pytest.raises(DatasetError, match="no finished build 'peopel'") as caught:
        find_build("peopel", tmp_path / "build")
    assert str(caught.value.remedy).startswith("did you mean 'people'? make it with `fairgate build peopel`")


def test_a_build_that_is_named_by_its_folder_is_made_by_its_name() -> None:
    with pytest.raises(DatasetError) as caught:
        find_build("build/photographs-embedded")
    assert caught.value.remedy.startswith("make it with `fairgate build photographs-embedded`, or")
    assert "build/build" not in str(caught.value.where)


def test_a_folder_elsewhere_is_made_by_no_build() -> None:
    with pytest.raises(DatasetError) as caught:
        find_build("elsewhere/pictures")
    assert caught.value.remedy == "name a folder that holds a manifest.json"
    assert caught.value.where == "elsewhere/pictures"
