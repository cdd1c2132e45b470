from __future__ import annotations

import io

import numpy as np
from PIL import Image

from fairgate.data import read_dataset
from fairgate.portraits.dataset import rows, write_occupations
from fairgate.portraits.draw import draw
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import ATTRIBUTES, GROUPS, SUBJECTS


def test_a_written_dataset_is_whole_and_says_what_it_is(tmp_path):
    manifest = write_occupations(tmp_path / "occupations", sets=2)
    assert read_dataset(tmp_path / "occupations").verify() == []
    assert manifest.counterfactual
    assert manifest.n_sets == 2 * len(SUBJECTS)
    assert manifest.n_rows == 2 * len(SUBJECTS) * len(GROUPS)
    assert manifest.attributes == ATTRIBUTES
    assert "no person is depicted" in manifest.notice


def test_rows_hold_the_drawn_pixels():
    row = next(row for row in rows(1) if row["member"] == "dark-female")
    assert row["subject"] == "chef"
    assert row["caption"] == "a photo of a dark-skinned female chef"
    stored = np.asarray(Image.open(io.BytesIO(row["image"])))
    assert np.array_equal(stored, np.asarray(draw(scene_of(0, "chef", 0), "chef", "dark", "female")))
