"""The laws that a table of metrics picks from. A law draws a change of the input and knows how the answer follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from hypothesis import note
from hypothesis import strategies as st
from property_inputs import Array, Draw, Rows, moved

Change = Callable[[Draw, Rows], tuple[Rows, Callable[[Array], Array]]]
"""From an input to a changed one, and to what becomes of the answer."""


@dataclass(frozen=True)
class Law:
    name: str
    check: Callable[[Draw, Metric, Rows], None]


class Answered(NamedTuple):
    name: str
    given: Rows
    answer: Array

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(f"{self.name}({self.given}) = {self.answer.tolist()}")


@dataclass(frozen=True)
class Metric:
    """A line of the table: what is called, on what, with an answer of which axes, and the laws that hold for it."""

    name: str
    inputs: st.SearchStrategy[Rows]
    axes: str
    call: Callable[[Rows], Any]
    laws: tuple[Law, ...]
    names: str = ""
    """The axis whose entries the answer's codes name, where it holds codes."""

    def __call__(self, given: Rows) -> Array:
        answer = np.asarray(self.call(given))
        assert answer.ndim == len(self.axes.split()), f"the answer has shape {answer.shape}"
        note(Answered(self.name, given, answer))  # written only for the example that is shown
        return answer


def same(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def follows(name: str, change: Change) -> Law:
    def check(draw: Draw, metric: Metric, given: Rows) -> None:
        answer = metric(given)
        changed, expected = change(draw, given)
        same(metric(changed), expected(answer))

    return Law(name, check)


def unchanged(name: str, change: Callable[[Draw, Rows], Rows]) -> Law:
    return follows(name, lambda draw, given: (change(draw, given), lambda answer: answer))


def order_of(axis: str) -> Law:
    """Entries in another order (groups: under other codes) give the same answer, in that order."""

    def check(draw: Draw, metric: Metric, given: Rows) -> None:
        order = np.array(draw(st.permutations(range(given.size(axis)))))
        expected = metric(given)
        if metric.names == axis:
            expected = np.argsort(order)[expected]
        for dimension, its_axis in enumerate(metric.axes.split()):
            expected = moved(expected, order, dimension) if its_axis == axis else expected
        same(metric(given.reordered(axis, order)), expected)

    return Law(f"order of {axis}", check)


def copied(axis: str, *, grows: bool = False) -> Law:
    """The whole data several times over, at a k scaled alike, give the same answer (counts: as many times more)."""

    def change(draw: Draw, given: Rows) -> tuple[Rows, Callable[[Array], Array]]:
        copies = draw(st.integers(2, 3))
        more = given.copied(axis, copies)
        more = more.but(k=given.k * copies) if "k" in given.sizes and axis == "images" else more
        return more, lambda answer: answer * copies if grows else answer

    return follows(f"copies of {axis}", change)


MAPS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "cube": lambda x: x**3,
    "float32": lambda x: (7 * x - 3).astype(np.float32),
    "whole": lambda x: (5 * x).astype(np.int64),
    "squeezed": lambda x: np.tanh(x / 8),
}


def only_the_order(*fields: str) -> Law:
    """Scores under a strictly rising map give the same answer."""

    def change(draw: Draw, given: Rows) -> Rows:
        rising = MAPS[draw(st.sampled_from(sorted(MAPS)))]
        return given.but(**{field: rising(given.fields[field]) for field in fields})

    return unchanged("rising maps", change)


def affine(*fields: str, to: Callable[[Array, float, float], Array], negative: bool = True) -> Law:
    """Values times a, plus b: the answer is `to(answer, a, b)`."""

    def change(draw: Draw, given: Rows) -> tuple[Rows, Callable[[Array], Array]]:
        a = draw(st.sampled_from([0.5, 2.0, 3.0, *([-1.0, -2.0] if negative else [])]))
        b = float(draw(st.integers(-3, 100)))
        changed = given.but(**{field: a * given.fields[field] + b for field in fields})
        return changed, lambda answer: to(answer, a, b)

    return follows("affine maps", change)


def times(field: str) -> Law:
    """Values, or counts, as many times larger give the same answer."""

    def change(draw: Draw, given: Rows) -> Rows:
        return given.but(**{field: given.fields[field] * draw(st.integers(2, 5))})

    return unchanged(f"{field} times a number", change)


def _extra(draw: Draw, given: Rows, *, code: int) -> Rows:
    """One image more, of any score, anywhere in the gallery."""
    place = draw(st.integers(0, given.size("images")))
    fields = {}
    for name, value in given.fields.items():
        axis = given.axes[name].index("images")
        most = given.size(given.coded[name]) - 1 if name in given.coded else 1
        new = code if name == "labels" else value.dtype.type(draw(st.integers(0, most)))
        fields[name] = np.insert(value, place, new, axis=axis)
    return given.but(**fields)


UNDEFINED = unchanged("images of undefined group", lambda draw, given: _extra(draw, given, code=-1))


def between(low: Any, high: Any) -> Law:
    """Answers lie between the bounds: numbers, or functions of the input."""

    def check(draw: Draw, metric: Metric, given: Rows) -> None:
        least, most = (bound(given) if callable(bound) else bound for bound in (low, high))
        answer = metric(given)
        known = ~np.isnan(answer.astype(np.float64))
        assert (answer >= np.asarray(least) - 1e-9)[known].all()
        assert (answer <= np.asarray(most) + 1e-9)[known].all()

    return Law("bounds", check)


def at_parity(change: Callable[[Rows], Rows], value: Any) -> Law:
    """Where everyone is treated alike the answer is the one that says so."""

    def check(draw: Draw, metric: Metric, given: Rows) -> None:
        alike = change(given)
        same(metric(alike), value(alike) if callable(value) else value)

    return Law("parity", check)


def agrees(name: str, expected: Callable[[Rows], Any]) -> Law:
    """The answer is what another way to it gives."""
    return Law(name, lambda _, metric, given: same(metric(given), expected(given)))


def holds(name: str, claim: Callable[[Rows, Array], Any]) -> Law:
    """Something is true of every input and its answer."""

    def check(draw: Draw, metric: Metric, given: Rows) -> None:
        assert np.all(claim(given, metric(given)))

    return Law(name, check)
