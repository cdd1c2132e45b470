"""The ground floor: errors that say what to do, digests that name content, draws that depend on names alone."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.ground.errors import FairgateError, did_you_mean
from fairgate.ground.hashing import digest, sha256_bytes, sha256_file
from fairgate.ground.randomness import stream

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_an_error_shows_problem_place_and_remedy_and_leaves_out_what_it_lacks() -> None:
    assert str(FairgateError("broken.", where="a.yaml:3", remedy="mend it")).splitlines() == [
        "broken.",
        "  where:  a.yaml:3",
        "  remedy: mend it",
    ]
    assert str(FairgateError("broken.")) == "broken."


def test_an_error_of_any_kind_crosses_to_another_process_with_its_three_parts() -> None:
    kinds = list(_kinds(FairgateError))
    assert len(kinds) > 10
    for kind in kinds:
        error = kind.__new__(kind)  # some have constructors of their own
        FairgateError.__init__(error, "broken.", where="a.yaml:3", remedy="mend it")
        error.set_id = "s1"
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert str(again) == str(error)
        assert (again.problem, again.where, again.remedy, again.set_id) == ("broken.", "a.yaml:3", "mend it", "s1")
        assert again.args == error.args


def _kinds(kind: type[FairgateError]) -> Iterator[type[FairgateError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _kinds(inner)


def test_the_nearest_name_is_offered_and_nothing_when_none_is_near() -> None:
    assert did_you_mean("gendre", ["race", "gender"]) == "did you mean 'gender'?"
    assert did_you_mean("zzz", ["race", "gender"]) is None


def test_a_file_and_its_bytes_have_the_same_digest(tmp_path: Path) -> None:
    data = b"portrait" * 300_000
    (tmp_path / "file").write_bytes(data)
    assert sha256_file(tmp_path / "file") == sha256_bytes(data) == hashlib.sha256(data).hexdigest()


@settings(deadline=None)
@given(st.dictionaries(st.text(), plain, min_size=2))
def test_the_order_of_keys_does_not_change_a_digest(data: dict[str, object]) -> None:
    assert digest(data) == digest(dict(reversed(list(data.items()))))


def test_a_digest_refuses_what_has_no_plain_form() -> None:
    with pytest.raises(TypeError):
        digest({"path": Path()})
    with pytest.raises(ValueError, match="JSON"):
        digest({"score": float("nan")})


@settings(deadline=None)
@given(st.integers(0, 2**32), st.lists(st.text() | st.integers(), max_size=3))
def test_a_stream_depends_on_seed_and_names_alone(seed: int, names: list[str | int]) -> None:
    draw = stream(seed, *names).random(4)
    assert (draw == stream(seed, *names).random(4)).all()
    assert (draw != stream(seed + 1, *names).random(4)).any()
    assert (draw != stream(seed, *names, "more").random(4)).any()


def test_names_are_told_apart_by_kind_and_by_boundary() -> None:
    assert stream(0, 1).random() != stream(0, "1").random()
    assert stream(0, "ab", "c").random() != stream(0, "a", "bc").random()
