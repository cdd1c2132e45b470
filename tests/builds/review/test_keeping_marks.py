"""Marks: each on the disk, whole, at once; found again after a kill; never of other content."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from drawn import SUBJECTS, open_keeper, rows, write_build

from fairgate.builds.review import Session, draw_sample, read_records
from fairgate.builds.review.marks import read_record
from fairgate.ground.errors import DatasetError, SettingsError

SEEN = {"tone": "dark", "gender": "woman"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_build(tmp_path_factory.mktemp("marks"), rows(12))


@pytest.fixture(scope="module")
def sample(dataset):
    return draw_sample(dataset, 10)


@pytest.fixture
def keeper(dataset, sample, tmp_path):
    with open_keeper(dataset, tmp_path / "reviews", sample) as keeper:
        yield keeper


def test_what_was_asked_is_told_once_it_was_judged_blind(dataset, sample, keeper):
    session = Session(dataset, sample, keeper)
    assert all(item.get("asked") is None for item in session.overview()["items"])
    assert sample.images[0].caption not in json.dumps(session.overview())
    told = session.mark(0, "perceived", SEEN)
    asked = {
        "subject": sample.images[0].subject,
        "caption": sample.images[0].caption,
        "groups": sample.images[0].recorded,
    }
    assert told["asked"] == asked
    assert asked["subject"] in SUBJECTS
    assert not told["complete"]
    assert session.mark(0, "quality", "not_realistic")["complete"]


def test_a_group_that_was_changed_with_the_prompt_in_sight_is_not_blind(dataset, sample, keeper):
    session = Session(dataset, sample, keeper)
    session.mark(0, "perceived", SEEN)
    session.mark(0, "perceived", SEEN | {"gender": None})
    key = (sample.images[0].set_id, sample.images[0].member)
    assert keeper.record.perceived[key].blind is False
    assert keeper.record.perceived[key].perceived == {"tone": "dark", "gender": None}
    session.undo()
    session.mark(0, "perceived", SEEN)
    assert keeper.record.perceived[key].blind is False


def test_undo_withdraws_the_latest_answers_one_by_one(dataset, sample, keeper):
    session = Session(dataset, sample, keeper)
    session.mark(0, "perceived", SEEN)
    session.mark(0, "quality", "good")
    session.mark(10, "scene", "different")
    assert session.undo()["number"] == 10
    assert session.progress() == (1, 10, 0, 1)
    assert session.undo()["item"]["quality"] is None
    assert session.undo()["item"]["perceived"] is None
    assert session.undo() == {}
    assert session.progress() == (0, 10, 0, 1)
    assert keeper.record.images == []


@pytest.mark.parametrize(
    ("number", "what", "answer"),
    [
        (0, "perceived", {"tone": "dark"}),
        (0, "perceived", SEEN | {"gender": "person"}),
        (0, "perceived", SEEN | {"race": None}),
        (0, "perceived", "dark"),
        (0, "quality", "good"),  # before it was perceived
        (0, "scene", "same"),
        (10, "perceived", SEEN),
        (10, "scene", "so so"),
        (10, "scene", None),
        (0, "colour", "red"),
        (99, "scene", "same"),
        (-1, "scene", "same"),
    ],
)
def test_what_is_no_answer_is_not_kept(dataset, sample, keeper, number, what, answer):
    with pytest.raises(DatasetError, match="load the page again"):
        Session(dataset, sample, keeper).mark(number, what, answer)
    assert not keeper.path.exists()


def test_quality_has_its_own_words(dataset, sample, keeper):
    session = Session(dataset, sample, keeper)
    session.mark(0, "perceived", SEEN)
    with pytest.raises(DatasetError, match="not an answer"):
        session.mark(0, "quality", "fine")


def test_marks_are_found_again_and_can_still_be_undone(dataset, sample, tmp_path):
    with open_keeper(dataset, tmp_path, sample) as keeper:
        session = Session(dataset, sample, keeper)
        session.mark(3, "perceived", SEEN)
        session.mark(3, "quality", "good")
    with open_keeper(dataset, tmp_path, sample) as keeper:
        session = Session(dataset, sample, keeper)
        assert session.progress()[0] == 1
        assert session.overview()["items"][3]["quality"] == "good"
        assert session.undo()["number"] == 3
    assert len(keeper.record.opened) == 2


def test_a_line_that_a_kill_cut_is_cut_off_and_the_rest_stands(dataset, sample, tmp_path):
    with open_keeper(dataset, tmp_path, sample) as keeper:
        Session(dataset, sample, keeper).mark(0, "perceived", SEEN)
    whole = keeper.path.read_bytes()
    for cut in (1, 40, len(whole) - whole[:-1].rfind(b"\n") - 2):
        keeper.path.write_bytes(whole[:-cut])
        assert read_record(keeper.path, dataset.manifest).perceived == {}
        with open_keeper(dataset, tmp_path, sample) as again:
            assert again.record.perceived == {}
            Session(dataset, sample, again).mark(0, "perceived", SEEN)
        found = read_record(keeper.path, dataset.manifest)
        assert (len(found.perceived), len(found.opened)) == (1, 2)
        keeper.path.write_bytes(whole)


def test_a_kill_at_any_moment_loses_at_most_the_mark_in_flight(dataset, sample, tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\nfrom drawn import *\n"
        "dataset = read_dataset(Path(sys.argv[1]))\nsample = draw_sample(dataset, 10)\n"
        "with open_keeper(dataset, Path(sys.argv[2]), sample) as keeper:\n"
        "    session = Session(dataset, sample, keeper)\n"
        "    for number in range(10**6):\n"
        f"        session.mark(number % 10, 'perceived', {SEEN!r})\n"
        "        print(number, flush=True)\n"
    )
    words = [sys.executable, "-c", code, str(dataset.folder), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.05)
        os.kill(child.pid, signal.SIGKILL)
        told = 1 + child.stdout.read().count("\n")
    assert (tmp_path / "ada.jsonl").read_text().count('"kind":"perceived"') in (told, told + 1)
    with open_keeper(dataset, tmp_path, sample) as keeper:
        assert len(keeper.record.perceived) in (min(10, told), min(10, told + 1))


def test_a_full_disk_is_told_and_the_next_mark_stands_alone(dataset, sample, keeper, monkeypatch):
    session = Session(dataset, sample, keeper)
    full = Mock(side_effect=OSError(28, "No space left on device"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DatasetError, match=r"No space left on device(.|\n)*make room"):
            session.mark(0, "perceived", SEEN)
    assert session.overview()["items"][0]["perceived"] is None
    session.mark(0, "perceived", SEEN)
    assert keeper.path.read_text().count('"kind":"perceived"') == 1


def test_one_rater_has_one_page(dataset, sample, keeper):
    Session(dataset, sample, keeper).mark(0, "perceived", SEEN)
    with pytest.raises(DatasetError, match=r"open already(.|\n)*another --rater"):
        open_keeper(dataset, keeper.path.parent, sample)
    with open_keeper(dataset, keeper.path.parent, sample, "grace") as other:
        Session(dataset, sample, other).mark(0, "perceived", SEEN)
    assert [record.rater for record in read_records(keeper.path.parent, dataset.manifest)] == ["ada", "grace"]


def test_who_opened_the_page_and_marked_nothing_leaves_nothing(dataset, sample, tmp_path):
    with open_keeper(dataset, tmp_path, sample):
        pass
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_beside_the_marks(dataset, sample, tmp_path):
    with open_keeper(dataset, tmp_path, sample) as keeper:
        Session(dataset, sample, keeper).mark(0, "perceived", SEEN)
    assert [path.name for path in tmp_path.iterdir()] == ["ada.jsonl"]


@pytest.mark.parametrize("keep", [slice(0, 0), slice(0, 40), slice(0, -1), slice(None)])
def test_a_record_without_a_mark_is_nobodys(dataset, sample, keeper, keep):
    Session(dataset, sample, keeper).mark(0, "perceived", SEEN)
    opened = keeper.path.read_bytes().splitlines(keepends=True)[0]
    keeper.path.write_bytes(opened[keep])
    assert read_records(keeper.path.parent, dataset.manifest) == []


def test_a_record_whose_marks_were_all_withdrawn_is_nobodys(dataset, sample, keeper):
    session = Session(dataset, sample, keeper)
    session.mark(10, "scene", "same")
    session.undo()
    assert read_records(keeper.path.parent, dataset.manifest) == []


@pytest.mark.parametrize("name", ["", "Ada Lovelace", "../ada", "a" * 41, "ada\n", "-x"])
def test_a_rater_has_a_pseudonym_that_is_a_file_name(dataset, sample, tmp_path, name):
    with pytest.raises(SettingsError, match="pseudonym"):
        open_keeper(dataset, tmp_path, sample, name)


def test_a_review_of_other_content_is_refused(dataset, sample, keeper, tmp_path):
    Session(dataset, sample, keeper).mark(0, "perceived", SEEN)
    other = write_build(tmp_path / "other", rows(12, caption="changed"))
    with pytest.raises(DatasetError, match=r"of other content(.|\n)*fairgate review BUILD"):
        read_record(keeper.path, other.manifest)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [lines[1]], "does not say what it is of"),
        (lambda lines: [lines[0].replace('"ada"', '"bob"')], "rater 'bob'"),
        (lambda lines: [lines[0], lines[1].replace('"woman"', '"robot"')], "groups of another dataset"),
        (lambda lines: [lines[0], lines[1].replace('"tone"', '"race"')], "groups of another dataset"),
        (lambda lines: [lines[0], lines[1].replace('"blind":true', '"blind":1')], "not valid"),
        (lambda lines: [lines[0], lines[1].replace('"kind":"perceived"', '"kind":"liked"')], "not valid"),
        (lambda lines: [lines[0], "{"], "not valid"),
        (lambda lines: [lines[0].replace('"schema_version":1', '"schema_version":2')], "not valid"),
        (lambda lines: [lines[0], lines[1].replace("dark", "\\u202edark")], "not valid"),
    ],
)
def test_a_file_that_is_no_record_is_refused_with_its_line(dataset, sample, keeper, change, told):
    Session(dataset, sample, keeper).mark(0, "perceived", SEEN)
    lines = keeper.path.read_text().splitlines()
    keeper.path.write_text("".join(f"{line}\n" for line in change(lines)))
    with pytest.raises(DatasetError, match=told) as caught:
        read_record(keeper.path, dataset.manifest)
    assert str(keeper.path) in str(caught.value.where)
    assert caught.value.remedy == "restore it with git; records are written by `fairgate review` and not by hand"


def test_a_record_that_cannot_be_opened_is_told(dataset, tmp_path):
    (tmp_path / "ada.jsonl").mkdir()
    with pytest.raises(DatasetError, match="cannot be read"):
        read_records(tmp_path, dataset.manifest)
    assert read_records(tmp_path / "nothing", dataset.manifest) == []


def test_a_folder_that_cannot_be_written_is_told(dataset, sample, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match=r"cannot be saved(.|\n)*folder writable"):
        open_keeper(dataset, tmp_path / "file", sample)
