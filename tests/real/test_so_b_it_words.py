"""The words of So-B-IT's table 4 are those that a third party typed."""

from __future__ import annotations

import json

import pytest
from fairface import REAL

from fairgate.probes import taxonomy

WORDS = REAL / "sobit_words.json"


@pytest.mark.skipif(not WORDS.is_file(), reason="the real data is not here")
def test_every_category_has_the_words_of_the_third_partys_list() -> None:
    theirs = json.loads(WORDS.read_text(encoding="utf-8"))
    theirs["behavioral"] = theirs.pop("behavorial")  # as the paper prints it
    ours = {name: set(words) for name, words in taxonomy("so-b-it").categories.items()}
    assert ours == {name: set(words) for name, words in theirs.items()}
