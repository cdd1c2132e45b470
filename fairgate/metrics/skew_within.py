"""Skew of one attribute among the images of one group of another: gender among those of each race (Howard et al. 2023).

A search at parity over all images can be skewed within each group, one way here and the other way there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairgate.data import Manifest
from fairgate.ground.errors import SuiteError, suggestion
from fairgate.ground.randomness import stream
from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import Cut, FairRankings, MetricRequest, MetricSettings, register
from fairgate.metrics.desired_shares import MaxSkew
from fairgate.metrics.galleries import Gallery, Grouping, Query, galleries_of, require_told_apart
from fairgate.metrics.top_k import Ranking, spec_at_k
from fairgate.records import CROSS


class WithinCut(Cut):
    """The top k among the images of each group of one attribute."""

    within: str = Field(
        min_length=1,
        max_length=200,
        description="One of the attributes that `over` crosses: each of its groups is ranked on its own, and the skew "
        "is over the others. `k` is of these smaller rankings.",
    )

    def refusal(self, over: str | Sequence[str] | None) -> tuple[str, str, str] | None:
        """Two attributes are crossed at least."""
        if over == "crossed" or (over is not None and not isinstance(over, str) and len(over) > 1):
            return None
        return (
            f"looks within the groups of '{self.within}', which `over` crosses with nothing.",
            "cross it with the attribute that the skew is over: `over: [race, gender]`, or `over: crossed`",
            "over",
        )


@dataclass(frozen=True, slots=True)
class _Block:
    """A group of the attribute that is held fixed: its `name`, and the ascending `places` (groups,) of its crossings
    among the groups of the cell."""

    name: str
    places: NDArray[np.int64]

    @property
    def grouping(self) -> Grouping:
        """The crossings, each a group."""
        every = np.arange(len(self.places))
        return Grouping(every, len(every), every)

    def inside(self, whole: Query | Gallery) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which images (images,) are of this group, and in which of its crossings each of those is."""
        group = whole.groupings[0].of[whole.joint]
        here = np.isin(group, self.places)
        return here, np.searchsorted(self.places, group[here])


@register
class MarginalMaxSkew(MaxSkew):
    """The largest skew of a group among the images of one group of another attribute.

    Of every such group the largest skew is averaged over queries, as in figure 2 (right) of the paper; the value is
    that of the worst one. The paper's relative difference between groups is in `fairgate audit` and
    `fairgate study intersections` alone: a ratio of numbers near 0, infinite where one group is at parity, is nothing
    to bound.
    """

    spec = spec_at_k(
        name="marginal_max_skew_at_k",
        meaning="MaxSkew over one attribute among the images of each group of another (`within`), of the worst group. "
        "Against a baseline the worst groups are compared: one that is less skewed can move unseen",
        better="lower",
        lowest=0,
        highest=math.inf,
        display="marginal MaxSkew",
        alias="marginal_max_skew",
    )
    Settings: ClassVar[type[MetricSettings]] = WithinCut
    cuts_galleries = False

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """The attribute whose groups are held fixed is one of those that are crossed."""
        within = r.settings_of(WithinCut).within
        (crossing,) = r.crossings
        if within not in crossing or len(crossing) < 2:
            raise SuiteError(
                f"check '{r.check}' looks within the groups of '{within}', and is over {CROSS.join(crossing)}.",
                where=r.at("within"),
                remedy=suggestion(
                    within, crossing, "`within` names one of at least two attributes that `over` crosses"
                ),
            )

    def rankings(self, r: MetricRequest, cell: Cell, queries: Sequence[Query]) -> list[list[Ranking]]:
        """The images of each group of `within` one by one: the value is the worst group's mean over queries of the
        largest skew among its images."""
        names = [gallery.name for gallery in galleries_of(r, cell)]
        blocks = _blocks(r, cell)
        return [
            [_ranked(r, query, block, name) for block in blocks] for query, name in zip(queries, names, strict=True)
        ]

    def places(self, r: MetricRequest, cell: Cell, groupings: Sequence[Grouping]) -> tuple[list[int], tuple[int, ...]]:
        """Of all blocks, the places of their crossings, and how many each has."""
        places = [block.places for block in _blocks(r, cell)]
        return np.concatenate(places).tolist(), tuple(map(len, places))

    def fair_parts(
        self, r: MetricRequest, cell: Cell, galleries: Sequence[Gallery], rankings: FairRankings
    ) -> list[tuple[Floats, ...]]:
        """Of a fair ranker that draws every group's top k at random from that group's images."""
        blocks, rng = _blocks(r, cell), stream(0, "fair ranker within", r.cut.k)
        # groups of one composition: the same draws, in another order
        return [
            tuple(rng.permutation(self.drawn_once(r, _part(r, gallery, block), rankings)[0]) for block in blocks)
            for gallery in galleries
        ]


def _blocks(r: MetricRequest, cell: Cell) -> list[_Block]:
    """The groups of `within`, in the order of the cell's crossings."""
    at = r.crossings[0].index(r.settings_of(WithinCut).within)
    fixed = np.array([name.split(CROSS)[at] for name in cell.groups[0]], dtype=object)
    return [_Block(name, np.flatnonzero(fixed == name)) for name in dict.fromkeys(fixed.tolist())]


def _ranked(r: MetricRequest, query: Query, block: _Block, name: str) -> Ranking:
    """The ranking of the images of one group."""
    here, joint = block.inside(query)
    part = replace(
        query, similarity=query.similarity[here], joint=joint, sets=query.sets[here], groupings=(block.grouping,)
    )
    require_told_apart(r, part.similarity, name, whose=f"every {block.name}")
    return Ranking(part)


def _part(r: MetricRequest, gallery: Gallery, block: _Block) -> Gallery:
    """The images of one group. Raises SuiteError where they are fewer than k."""
    here, joint = block.inside(gallery)
    if r.cut.k > len(joint):
        raise SuiteError(
            f"check '{r.check}' ranks the top {r.cut.k} among the {block.name} images of "
            f"'{gallery.name or 'the dataset'}', which are {len(joint)}.",
            where=r.at("k"),
            remedy=f"choose k below {len(joint)}: it cuts the images of one group of `within`",
        )
    return Gallery(gallery.name, gallery.rows[here], joint, (block.grouping,))
