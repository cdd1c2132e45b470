"""The occupation that `fairgate dataset get` reads from captions, on the authors' own of 399 sets."""

from __future__ import annotations

import csv
import gzip
from itertools import product

import pytest
from fairface import REAL

from fairgate.data.published.social_counterfactuals import GENDERS, RACES, _subject

CAPTIONS = REAL / "socialcounterfactuals_generation_metadata.csv.gz"

pytestmark = pytest.mark.skipif(not CAPTIONS.is_file(), reason="the captions are not beside this checkout")


def test_every_set_of_the_authors_has_one_occupation_whatever_its_captions_begin_with() -> None:
    with gzip.open(CAPTIONS, "rt", encoding="utf-8") as text:
        sets = list(csv.DictReader(text))
    assert len(sets) == 399
    occupations = set()
    for row in sets:
        captions = [row[f"caption_{number}"] for number in range(12)]
        said = {
            _subject(caption, pair)
            for pair in product(RACES, GENDERS)
            for caption in captions
            if " ".join(pair) in caption
        }
        assert len(said) == 1, row["filename"]
        assert None not in said
        occupations |= said
        assert {row["filename"].rpartition("race_gender_")[2]} == {str(one).replace(" ", "_") for one in said}
    assert len(occupations) == 20
    assert {"chef", "police officer"} < occupations
