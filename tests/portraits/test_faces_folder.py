"""The drawn folder that comes like FairFace: as many of every group, and lines that an importer is to notice."""

from __future__ import annotations

from collections import Counter

import pytest

from fairgate.builds.recipes import open_recipe
from fairgate.builds.steps import Meter, run_steps
from fairgate.data.labels import read_labels
from fairgate.ground.errors import DatasetError
from fairgate.portraits.photos import LABELS_FILE, write_faces
from fairgate.portraits.world import ATTRIBUTES, GROUPS


def test_every_group_comes_as_often_and_each_spoilt_line_is_dropped_for_what_is_wrong_with_it(tmp_path):
    folder = tmp_path / "faces"
    assert write_faces(folder, per_group=2, spoilt=5) == 2 * len(GROUPS)
    lines = [fields for _, fields in read_labels(folder / LABELS_FILE)]
    assert Counter((line["skin_tone"], line["gender"]) for line in lines[:-5]) == dict.fromkeys(GROUPS, 2)
    settings = {"folder": str(folder), "labels": str(folder / LABELS_FILE), "attributes": ATTRIBUTES}
    [part] = open_recipe("faces", settings).parts()
    [shard] = part.shards("person", None)
    traces = run_steps(part.steps("person", "cpu", None), shard, Meter())
    assert [trace.drop.reason for trace in traces if trace.drop] == ["absent", "unreadable", "no_label", "too_small"]
    assert part.choose("person", traces) == [trace.set_id for trace in traces[:-5]]  # the last good one comes twice


def test_a_folder_that_holds_something_is_not_drawn_into(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match="is never written over"):
        write_faces(tmp_path)
