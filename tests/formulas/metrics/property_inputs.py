"""Small inputs for every kind of metric: whole-number scores, few images, so that a failing example can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

Array: TypeAlias = Any
Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]


def moved(array: Array, order: Array, axis: int) -> Array:
    """The array with its entries along one axis in another order."""
    return np.take(np.asarray(array), order, axis=axis)


@dataclass(frozen=True)
class Rows:
    """Arrays that share axes: `axes` names, per field, the axis of each dimension."""

    fields: dict[str, Array]
    axes: dict[str, tuple[str, ...]]
    sizes: dict[str, int]
    """Lengths of axes, and numbers that no array shows: groups, k."""
    coded: dict[str, str]
    """Fields that hold codes, and the axis whose entries they name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.fields[name] if name in self.fields else self.sizes[name]

    def __repr__(self) -> str:
        return ", ".join(f"{k}={np.asarray(v).tolist()}" for k, v in {**self.fields, **self.sizes}.items())

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(repr(self))

    def size(self, axis: str) -> int:
        if axis in self.sizes:
            return self.sizes[axis]
        name = next(name for name, axes in self.axes.items() if axis in axes)
        return int(np.shape(self.fields[name])[self.axes[name].index(axis)])

    def but(self, **changed: Array) -> Rows:
        """With other values of some fields or sizes."""
        fields = {name: changed.get(name, value) for name, value in self.fields.items()}
        return replace(self, fields=fields, sizes={name: changed.get(name, size) for name, size in self.sizes.items()})

    def reordered(self, axis: str, order: Array) -> Rows:
        """Every field with its entries along the axis in another order; codes follow the entries that they name."""
        rank = np.argsort(order)
        fields = {}
        for name, value in self.fields.items():
            now = value
            for dimension, its_axis in enumerate(self.axes[name]):
                now = moved(now, order, dimension) if its_axis == axis else now
            if self.coded.get(name) == axis:
                now = np.where(np.asarray(now) < 0, -1, rank[np.maximum(now, 0)])
            fields[name] = now
        return replace(self, fields=fields)

    def copied(self, axis: str, copies: int) -> Rows:
        """Every field with all its entries along the axis several times over, one whole copy after the other."""
        order = np.tile(np.arange(self.size(axis)), copies)
        fields = {}
        for name, value in self.fields.items():
            now = value
            for dimension, its_axis in enumerate(self.axes[name]):
                now = moved(now, order, dimension) if its_axis == axis else now
            fields[name] = now
        return replace(self, fields=fields)


def _labels(draw: Draw, groups: int, more: int, *, undefined: bool) -> Array:
    """Codes in which every group appears, perhaps with undefined ones among them, in any order."""
    rest = draw(st.lists(st.integers(-1 if undefined else 0, groups - 1), max_size=more))
    return np.array(draw(st.permutations([*range(groups), *rest])))


@st.composite
def galleries(draw: Draw, *, distinct: bool = True, undefined: bool = True) -> Rows:
    """Whole-number scores (queries, images), in every row distinct or from 0 to 3, and labels of every group."""
    groups = draw(st.integers(2, 4))
    labels = _labels(draw, groups, 6, undefined=undefined)
    row = (
        st.permutations(range(labels.size))
        if distinct
        else st.lists(st.integers(0, 3), min_size=labels.size, max_size=labels.size)
    )
    scores = np.array(draw(st.lists(row, min_size=1, max_size=3)), dtype=np.float64)
    k = draw(st.integers(1, int((labels >= 0).sum())))
    return Rows(
        {"scores": scores, "labels": labels},
        {"scores": ("queries", "images"), "labels": ("images",)},
        {"groups": groups, "k": k},
        {"labels": "groups"},
    )


@st.composite
def spread_galleries(draw: Draw) -> Rows:
    """Galleries with ties, in which no query has the same score for every defined image."""
    given = draw(galleries(distinct=False))
    scores, labels = given.scores.copy(), given.labels
    first, second = np.flatnonzero(labels >= 0)[:2]
    scores[:, first] = scores[:, second] + 1
    return given.but(scores=scores)


@st.composite
def searches(draw: Draw, *, distinct: bool = True) -> Rows:
    """Scores and, for every query, which images are right: one at least."""
    queries, images = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    row = st.permutations(range(images)) if distinct else st.lists(st.integers(0, 3), min_size=images, max_size=images)
    scores = np.array([draw(row) for _ in range(queries)], dtype=np.float64)
    positives = np.zeros((queries, images), dtype=bool)
    for query in range(queries):
        positives[query, draw(st.lists(st.integers(0, images - 1), min_size=1, max_size=3))] = True
    both = ("queries", "images")
    return Rows(
        {"scores": scores, "positives": positives},
        {"scores": both, "positives": both},
        {"k": draw(st.integers(1, images))},
        {},
    )


@st.composite
def resamples(draw: Draw) -> Rows:
    """Labels in ranking order, and how often each image stands in every resampled gallery: k images at least."""
    groups = draw(st.integers(2, 3))
    labels = _labels(draw, groups, 5, undefined=False)
    row = st.lists(st.integers(0, 3), min_size=labels.size, max_size=labels.size).filter(any)
    weights = np.array(draw(st.lists(row, min_size=1, max_size=4)))
    return Rows(
        {"labels": labels, "weights": weights},
        {"labels": ("images",), "weights": ("draws", "images")},
        {"groups": groups, "k": draw(st.integers(1, int(weights.sum(axis=1).min())))},
        {"labels": "groups"},
    )


@st.composite
def eighths(draw: Draw, *axes: str, least: int = 1, low: int = 0) -> Rows:
    """Values (axes) in eighths up to 1, as `values`."""
    shape = tuple(draw(st.integers(least, 5)) for _ in axes)
    flat = draw(st.lists(st.integers(low, 8), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return Rows({"values": np.array(flat).reshape(shape) / 8.0}, {"values": axes}, {}, {})


@st.composite
def labelled(draw: Draw, *, binary: bool = False) -> Rows:
    """A value per image in eighths (or 0 and 1), its group and its set: every group appears, and every set."""
    groups, sets = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    labels = _labels(draw, groups, 5, undefined=True)
    member_of = np.array([number % sets for number in range(labels.size)])
    sets = int(member_of.max()) + 1
    value = st.integers(0, 1) if binary else st.integers(0, 8).map(lambda n: n / 8.0)
    values = np.array(draw(st.lists(value, min_size=labels.size, max_size=labels.size)), dtype=np.float64)
    return Rows(
        {"values": values, "labels": labels, "member_of": member_of},
        {"values": ("images",), "labels": ("images",), "member_of": ("images",)},
        {"groups": groups, "sets": sets},
        {"labels": "groups", "member_of": "sets"},
    )


@st.composite
def complete_sets(draw: Draw) -> Rows:
    """Probabilities of sets that show every group, in any order, and of one image whose group is unknown."""
    groups, sets = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    cells = np.array(draw(st.permutations([(s, g) for s in range(sets) for g in range(groups)] + [(0, -1)])))
    values = np.array(draw(st.lists(st.integers(0, 8), min_size=len(cells), max_size=len(cells)))) / 8.0
    return Rows(
        {"values": values, "labels": cells[:, 1], "member_of": cells[:, 0]},
        {"values": ("images",), "labels": ("images",), "member_of": ("images",)},
        {"groups": groups, "sets": sets},
        {"labels": "groups", "member_of": "sets"},
    )


@st.composite
def classified(draw: Draw) -> Rows:
    """What every image shows, what it was taken for, and its group."""
    groups, classes, images = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 8))
    codes = {"labels": (-1, groups), "true": (0, classes), "predicted": (0, classes)}
    fields = {
        name: np.array(draw(st.lists(st.integers(low, top - 1), min_size=images, max_size=images)))
        for name, (low, top) in codes.items()
    }
    return Rows(
        fields,
        dict.fromkeys(codes, ("images",)),
        {"groups": groups, "classes": classes},
        {"labels": "groups", "true": "classes", "predicted": "classes"},
    )


@st.composite
def counts(draw: Draw, *, least: int = 0) -> Rows:
    """Images per group in the top k of each row, and in the gallery."""
    groups = draw(st.integers(2, 4))
    row = st.lists(st.integers(least, 9), min_size=groups, max_size=groups).filter(any)
    return Rows(
        {
            "shown": np.array(draw(st.lists(row, min_size=1, max_size=3))),
            "present": np.array(draw(st.lists(st.integers(1, 9), min_size=groups, max_size=groups))),
        },
        {"shown": ("rows", "groups"), "present": ("groups",)},
        {"groups": groups},
        {},
    )


@st.composite
def losses(draw: Draw) -> Rows:
    """Losses of the same images under prompts of two concepts, whole numbers with ties."""
    images, a, b = (draw(st.integers(1, 3)) for _ in range(3))
    table = np.array(draw(st.lists(st.integers(0, 4), min_size=images * (a + b), max_size=images * (a + b))))
    table = table.reshape(images, a + b).astype(np.float64)
    return Rows(
        {"a": table[:, :a], "b": table[:, a:]},
        {"a": ("images", "of a"), "b": ("images", "of b")},
        {},
        {},
    )


@st.composite
def pictures(draw: Draw, number: int = 1) -> Rows:
    """Faces of one size, 8-bit RGB from light to dark skin and beside it, and a mask."""
    pixels, faces = draw(st.integers(1, 4)), draw(st.integers(1, 3)) if number > 1 else 1
    colours = [(214, 164, 132), (160, 126, 86), (95, 58, 40), (60, 38, 28), (90, 90, 90), (40, 60, 200), (255, 0, 0)]
    each = st.lists(st.sampled_from(colours), min_size=pixels, max_size=pixels)
    image = np.array([draw(each) for _ in range(faces)], dtype=np.uint8)[:, None]
    mask = np.array(draw(st.lists(st.booleans(), min_size=pixels, max_size=pixels)))[None]
    return Rows(
        {"images": image, "mask": mask},
        {"images": ("faces", "height", "pixels", "channels"), "mask": ("height", "pixels")},
        {},
        {},
    )


@st.composite
def neighbourhoods(draw: Draw) -> Rows:
    """Points on a line, powers of two, so that no two distances are equal; real ones, and synthetic ones."""
    real, synthetic, groups = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    place = 2.0 ** np.array(draw(st.permutations(range(real + synthetic))))
    return Rows(
        {
            "real": place[:real, None],
            "synthetic": place[real:, None],
            "real_group": np.array(draw(st.lists(st.integers(-1, groups - 1), min_size=real, max_size=real))),
            "target_group": np.array(
                draw(st.lists(st.integers(0, groups - 1), min_size=synthetic, max_size=synthetic))
            ),
        },
        {
            "real": ("real", "dim"),
            "synthetic": ("synthetic", "dim"),
            "real_group": ("real",),
            "target_group": ("synthetic",),
        },
        {"groups": groups, "k": draw(st.integers(1, real + synthetic - 1))},
        {"real_group": "groups", "target_group": "groups"},
    )


@st.composite
def urns(draw: Draw) -> Rows:
    """A gallery that is drawn from blindly: its images per group, and how many are drawn."""
    groups = draw(st.integers(2, 4))
    present = np.array(draw(st.lists(st.integers(1, 6), min_size=groups, max_size=groups)))
    k = draw(st.integers(1, int(present.sum())))
    return Rows({"present": present}, {"present": ("groups",)}, {"groups": groups, "k": k}, {})


@st.composite
def targets(draw: Draw) -> Rows:
    """Scores of two sets of targets, in eighths, not all the same."""
    scores = st.lists(st.integers(-8, 8), min_size=1, max_size=4)
    x, y = draw(st.tuples(scores, scores).filter(lambda both: len({*both[0], *both[1]}) > 1))
    axes = {"x": ("of x",), "y": ("of y",)}
    return Rows({"x": np.array(x) / 8.0, "y": np.array(y) / 8.0}, axes, {}, {})


@st.composite
def pairs_of_boxes(draw: Draw) -> Rows:
    """Boxes in pairs on a grid of 6 x 6: left, top, right, bottom, each of a pixel at least."""
    corner, side = st.integers(0, 5), st.integers(1, 4)
    box = st.tuples(corner, corner, side, side).map(lambda b: [b[0], b[1], b[0] + b[2], b[1] + b[3]])
    pairs = draw(st.lists(st.tuples(box, box), min_size=1, max_size=5))
    boxes, others = (np.array(half, dtype=np.float64) for half in zip(*pairs, strict=True))
    return Rows({"boxes": boxes, "others": others}, dict.fromkeys(("boxes", "others"), ("pairs", "corners")), {}, {})
