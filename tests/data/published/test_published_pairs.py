"""PAIRS: sets of four in folders, one of which is named otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_originals import drawn

from fairgate.data.published import WebFiles, find_published
from fairgate.data.published.pairs import INCOMPLETE, MEMBERS
from fairgate.ground.errors import DatasetError

SCENES = ("occupations/lab_coat", "status/phone", "potential_crime/ski_mask", "status/wine")


def clone(folder: Path) -> Path:
    """The authors' repository with four of its scenes."""
    for number, scene in enumerate(SCENES):
        for at, member in enumerate(MEMBERS):
            name = "white_man1" if (scene, member) == ("status/phone", "white_man") else member
            path = folder / "data" / scene / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(drawn(10 * number + at))
    (folder / "README.md").write_text("PAIRS")
    return folder


def test_scenes_become_counterfactual_sets_of_four_also_the_one_that_is_named_otherwise(take, opened, tmp_path):
    made = take("pairs", clone(tmp_path / "given"))
    dataset = opened("pairs")
    assert dataset.manifest.counterfactual
    assert made.manifest.members == list(MEMBERS)
    assert set(dataset.index.subject) == {"lab coat", "phone", "ski mask", "wine"}
    assert "status/phone/white_man1.png" in dataset.index.path
    assert made.left_out == {}
    assert set(made.manifest.lineage) == {"source", "pictures"}
    [(_, images)] = dataset.image_batches(99)
    index = dataset.index
    at = [index.set_id[row] == "status-phone" and index.member[row] == "white_man" for row in range(16)].index(True)
    assert images[at] == drawn(12)
    assert (index.attributes["race"][at], index.attributes["gender"][at]) == ("White", "man")
    assert "not for training" in str(made.manifest.notice)


def test_a_theme_is_a_part(take, opened, tmp_path):
    take("pairs", clone(tmp_path / "given"), part="potential_crime")
    assert set(opened("pairs_potential_crime").index.set_id) == {"potential_crime-ski_mask"}


def test_a_set_that_lacks_a_picture_is_left_out_and_counted(take, opened, tmp_path):
    folder = clone(tmp_path / "given")
    (folder / "data/status/wine/black_man.png").unlink()
    assert take("pairs", folder).left_out == {INCOMPLETE: 3}
    assert len(set(opened("pairs").index.set_id)) == 3


def test_two_pictures_of_one_member_are_refused(take, tmp_path):
    folder = clone(tmp_path / "given")
    (folder / "data/status/phone/white_man.png").write_bytes(drawn(99))
    with pytest.raises(DatasetError, match="two images are the white_man of 'status/phone'"):
        take("pairs", folder)


def test_a_picture_that_changed_is_seen_the_second_time(take, tmp_path):
    folder = clone(tmp_path / "given")
    take("pairs", folder)
    (folder / "data/status/wine/black_man.png").write_bytes(drawn(98))
    with pytest.raises(DatasetError, match="the first is 'pictures'"):
        take("pairs", folder)


def test_a_folder_without_pictures_is_refused(take, tmp_path):
    (tmp_path / "given").mkdir()
    with pytest.raises(DatasetError, match="nothing of 'pairs' is in the folder"):
        take("pairs", tmp_path / "given")


def test_what_is_fetched_are_the_two_hundred_published_pictures_at_full_commits():
    source = find_published("pairs").parts["all"].source
    assert isinstance(source, WebFiles)
    paths = set(source.urls)
    assert len(paths) == len(set(source.urls.values())) == 200
    assert "data/status/phone/white_man1.png" in paths
    assert "data/status/phone/white_man.png" not in paths
    assert all(url.endswith(name) for name, url in source.urls.items())
