"""Faults of a value in words for a reader, whatever the validator calls them."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from fairgate.ground.validation_words import fault_words


class _Circle(BaseModel):
    kind: Literal["circle"]


class _Square(BaseModel):
    kind: Literal["square"]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=8)] = "a"
    other: Annotated[str, StringConstraints(pattern=r"^x+$")] = "x"
    rule: Literal["at_least", "at_most"] = "at_least"
    many: Literal[tuple(f"metric-{at}" for at in range(40))] = "metric-0"  # type: ignore[valid-type]
    share: float = Field(default=0.5, ge=0, lt=1, allow_inf_nan=False)
    seeds: list[int] = Field(default=[1], min_length=1)
    until: date = date(2026, 3, 1)
    odd: int = 1
    even: Annotated[int, Field(multiple_of=2)] = 2
    shape: Annotated[_Circle | _Square, Field(discriminator="kind")] = _Circle(kind="circle")

    @field_validator("odd")
    @classmethod
    def _odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("odd numbers have a middle, and this one has none")
        return value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "My Suite"}, "lower case letters, digits, - and _ are expected, a letter or digit first"),
        ({"name": "a" * 9}, "at most 8 characters are allowed"),
        ({"other": "y"}, "the text has another form than is expected"),
        ({"name": 3}, "text is expected"),
        ({"rule": "above"}, "'at_least' or 'at_most' is expected"),
        ({"many": "metrik"}, "'metrik' is none of the known names"),
        ({"share": -0.5}, "at least 0 is expected"),
        ({"share": 1}, "less than 1 is expected"),
        ({"share": "much"}, "a number is expected"),
        ({"share": float("nan")}, "a finite number is expected"),
        ({"seeds": []}, "its number of entries is 0, and at least 1 is expected"),
        ({"seeds": 3}, "a list is expected"),
        ({"until": "soon"}, "a date is expected, YYYY-MM-DD"),
        ({"surprise": 1}, "there is no such key"),
        ({"odd": 2}, "odd numbers have a middle, and this one has none"),
        ({"odd": "two"}, "a whole number is expected"),
        ({"shape": {}}, "it has no 'kind'"),
        ({"shape": {"kind": "line"}}, "'circle', 'square' is expected"),
        ({"shape": 3}, "a mapping of keys is expected"),
        ({"even": 3}, "another value is expected"),
    ],
)
def test_a_fault_says_what_was_expected_without_a_pattern_or_a_type(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Asked.model_validate(given)
    (fault,) = caught.value.errors(include_url=False)
    assert fault_words(fault) == words
