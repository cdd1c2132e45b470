"""Columns of text as numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairgate.probes import text_codes


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30))
def test_texts_are_coded_as_numpy_codes_them(texts: list[str]) -> None:
    column = np.array(texts, dtype=object)
    names, codes = text_codes(column)
    wanted = np.unique(column, return_inverse=True)
    assert names.tolist() == wanted[0].tolist()
    assert codes.tolist() == wanted[1].tolist()


def test_an_answer_that_is_no_text_is_coded_too() -> None:
    names, codes = text_codes(np.array(["nurse", None, "Chef", None], dtype=object))
    assert names.tolist() == ["Chef", None, "nurse"]
    assert codes.tolist() == [2, 1, 0, 1]
