"""Photographs of one person into pairs: the person edited into each group until the neighbour filter accepts one edit
of each (GenSynth).

The published procedure makes every candidate, filters, and takes one accepted edit of each group at random. Here the
candidates come in random order and the first accepted one is taken: the same distribution, since the first accepted of
a random order is a random accepted one, and whether a candidate is accepted depends on it and on the pool alone.

The filter is eqs. 4 and 5 of Smith et al. 2023. Their pool is all real crops and all edits; here it is the crops and
all edits of some photographs, drawn at random, so that real and synthetic images have the paper's proportion in it.
Images of a candidate's own photograph do not count as its neighbours: then one rule applies to every candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL.Image import Image

from fairgate.builds.steps.contract import Batches, Drop, Maker, Meter, Row, SetRows
from fairgate.builds.steps.person_photographs import BOX, PHOTO, Photographs, box_of, pasted
from fairgate.builds.steps.pictures import made_with, picture, png, spending
from fairgate.formulas.metrics import NeighbourShares, neighbour_shares
from fairgate.ground.errors import RecipeError
from fairgate.models.generation import Editor, Matcher, Sampling


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to edit a person into a group: its place among the group's, the instruction, how the editor is run."""

    group: str
    number: int
    instruction: str
    how: Sampling

    @property
    def name(self) -> str:
        """`female-3`: the member that it is in the pilot, and the name of its noise."""
        return f"{self.group}-{self.number}"


def candidates(instructions: Mapping[str, Sequence[str]], hows: Sequence[Sampling]) -> list[Candidate]:
    """Every instruction of every group with every sampling, in a fixed order."""
    return [
        Candidate(group, number, instruction, how)
        for group, lines in instructions.items()
        for number, (instruction, how) in enumerate((line, how) for line in lines for how in hows)
    ]


@dataclass(frozen=True, slots=True)
class EditWorkshop:
    """The models that make and embed edits of a crop, `batch` at a time."""

    editor: Editor
    matcher: Matcher
    batch: int = 8
    _batches: Batches = field(default_factory=lambda: Batches(what="edits"), init=False, repr=False, compare=False)

    def edit(self, rows: SetRows, crop: Image, some: Sequence[Candidate], meter: Meter) -> list[Row]:
        """A row per candidate: its picture, embedding, and what it was made with."""

        def run(batch: Sequence[Candidate]) -> list[Image]:
            return self.editor.edit(
                crop,
                [one.instruction for one in batch],
                [seed_of(rows, one) for one in batch],
                [one.how for one in batch],
            )

        with spending(self.editor, meter), spending(self.matcher, meter):
            images: list[Image] = self._batches(run, some, self.batch, meter)
            vectors = self.matcher.embed_images(images)
        meter.count("edits", len(some))
        return [
            {
                "member": one.name,
                "image": png(image),
                "gender": one.group,
                "embedding": vector,
                "instruction": one.instruction,
                "guidance": one.how.guidance,
                **made_with(self.editor, seed_of(rows, one), one.how),
            }
            for one, image, vector in zip(some, images, vectors, strict=True)
        ]


def seed_of(rows: SetRows, candidate: Candidate) -> int:
    """The seed of a candidate's noise: the same in the pilot and afterwards."""
    return rows.seed_of("edit", candidate.group, candidate.number)


@dataclass(frozen=True, slots=True)
class EditAll(Maker):
    """Makes every candidate of sets whose column `pilot` is True, as further members: the pool, and edits to reuse."""

    workshop: EditWorkshop
    photographs: Photographs
    candidates: tuple[Candidate, ...]

    reads: ClassVar[tuple[str, ...]] = (PHOTO, *BOX, "pilot")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            if rows.columns["pilot"]:
                crop = self.photographs.crop(rows)
                rows.rows += self.workshop.edit(rows, crop, self.candidates, meter)


@dataclass(frozen=True, slots=True)
class EditShares:
    """The shares of real images and of the target group among an edit's neighbours, 0 to 1."""

    real: float
    group: float


@dataclass(frozen=True, slots=True)
class NeighbourRule:
    """The number of neighbours, and the thresholds of the two shares. Both shares must *exceed* their threshold."""

    k_real: int
    k_group: int
    tau_real: float
    tau_group: float

    def accepts(self, shares: EditShares) -> bool:
        """Eq. 5."""
        edit = NeighbourShares(np.array([shares.real]), np.array([shares.group]))
        return bool(edit.exceed(self.tau_real, self.tau_group)[0])

    def nearness(self, shares: EditShares) -> tuple[bool, float]:
        """Orders misses: the right group first, then the larger share of real neighbours, or of the group."""
        right = shares.group > self.tau_group
        return right, shares.real if right else shares.group


@dataclass(frozen=True, slots=True)
class NeighbourPool:
    """Embeddings that candidates are compared with, real ones first, with the photograph that each comes from."""

    vectors: NDArray[np.float32]
    """(images, dim)"""
    groups: tuple[str, ...]
    owners: tuple[str, ...]
    n_real: int

    @classmethod
    def of(
        cls, real: Sequence[tuple[ArrayLike, str, str]], synthetic: Sequence[tuple[ArrayLike, str, str]]
    ) -> NeighbourPool:
        """From (embedding, group, photograph) of each image; a synthetic image's group is its target."""
        every = [*real, *synthetic]
        return cls(
            vectors=np.array([vector for vector, _, _ in every], dtype=np.float32),
            groups=tuple(group for _, group, _ in every),
            owners=tuple(owner for _, _, owner in every),
            n_real=len(real),
        )

    def shares(self, vector: ArrayLike, group: str, owner: str, rule: NeighbourRule) -> EditShares:
        """P_R and P_G of one candidate (dim,) as `neighbour_shares` has them, its own photograph's images left out.

        Raises RecipeError where the pool has fewer images than the rule needs.
        """
        others = np.flatnonzero(np.array(self.owners) != owner)
        most = max(rule.k_real, rule.k_group)
        if most > len(others):
            raise RecipeError(
                f"{most} neighbours are needed, and the pool has {len(others)} images of other photographs.",
                where="neighbours",
                remedy="lower neighbours and group_neighbours; or raise pilot_photos, which makes the pilot again",
            )
        real, synthetic = np.split(others, [np.searchsorted(others, self.n_real)])
        alike = np.array([name == group for name in self.groups], dtype=np.int64)
        found = neighbour_shares(
            self.vectors[real],
            alike[real],
            np.concatenate([self.vectors[synthetic], np.asarray(vector, dtype=np.float64)[None, :]]),
            np.append(alike[synthetic], 1),
            k=rule.k_real,
            group_k=rule.k_group,
            judged=[len(synthetic)],
        )
        return EditShares(real=float(found.real[0]), group=float(found.group[0]))


@dataclass(frozen=True, slots=True)
class EditUntilAccepted(Maker):
    """One accepted edit of each group, tried in an order drawn from the set's own stream; the other group comes first.

    The group that the photograph does not show is harder to reach, so it is tried first, and the photograph is given up
    when it has none. `wave` candidates are made at a time; what is chosen does not depend on it. Candidates that the
    pilot made are taken from there. Drops name the group: `wrong_group` where no candidate exceeded tau_group (with the
    best share), `unlike_real` where some did and none of them exceeded tau_real.
    """

    workshop: EditWorkshop
    photographs: Photographs
    candidates: tuple[Candidate, ...]
    pool: NeighbourPool
    rule: NeighbourRule
    wave: int = 1

    reads: ClassVar[tuple[str, ...]] = (PHOTO, *BOX, "original_gender")
    writes: ClassVar[tuple[str, ...]] = ("member", "image", "gender", "p_real", "p_group", "tried", "seed", "how")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            self._edit(rows, meter)

    def _edit(self, rows: SetRows, meter: Meter) -> None:
        photo = self.photographs.open(rows)
        made = {str(row["member"]): row for row in rows.rows}
        rows.rows = []
        members: dict[str, Row] = {}
        groups = list(dict.fromkeys(one.group for one in self.candidates))
        for group in sorted(groups, key=lambda group: group == rows.columns["original_gender"]):
            found, shares, tried = self._search(rows, group, photo.crop(box_of(rows)), made, meter)
            if found is None:
                right, measured = self.rule.nearness(shares)
                reason, limit = ("unlike_real", self.rule.tau_real) if right else ("wrong_group", self.rule.tau_group)
                rows.drop = Drop(reason, measured, limit, group)
                rows.rows = [*members.values(), {"member": group, "gender": group}]  # who was tried, for the yields
                return
            members[group] = {
                **{name: value for name, value in found.items() if name != "embedding"},
                "member": group,
                "image": pasted(photo, picture(found["image"]), box_of(rows)),
                "p_real": shares.real,
                "p_group": shares.group,
                "tried": tried,
            }
        rows.rows = [members[group] for group in groups]

    def _search(
        self, rows: SetRows, group: str, crop: Image, made: Mapping[str, Row], meter: Meter
    ) -> tuple[Row | None, EditShares, int]:
        """A group's first accepted candidate in random order, its shares or the best miss's, how many were tried."""
        choices = [one for one in self.candidates if one.group == group]
        order = [choices[place] for place in rows.stream("order", group).permutation(len(choices))]
        best, tried = EditShares(0.0, 0.0), 0
        for start in range(0, len(order), self.wave):
            wave = order[start : start + self.wave]
            new = [one for one in wave if one.name not in made]
            fresh = {str(row["member"]): row for row in self.workshop.edit(rows, crop, new, meter)} if new else {}
            for one in wave:
                row: dict[str, Any] = made.get(one.name) or fresh[one.name]
                tried += 1
                meter.count("judged")
                shares = self.pool.shares(row["embedding"], group, rows.set_id, self.rule)
                if self.rule.accepts(shares):
                    return row, shares, tried
                best = max(best, shares, key=self.rule.nearness)
        return None, best, tried


@dataclass(frozen=True, slots=True)
class KeepEveryEdit(Maker):
    """Every candidate of a photograph, pasted into it, with the shares by which the filter would judge it. No drops."""

    workshop: EditWorkshop
    photographs: Photographs
    candidates: tuple[Candidate, ...]
    pool: NeighbourPool
    rule: NeighbourRule

    reads: ClassVar[tuple[str, ...]] = (PHOTO, *BOX)
    writes: ClassVar[tuple[str, ...]] = ("member", "image", "gender", "p_real", "p_group", "seed", "how")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            photo = self.photographs.open(rows)
            made = {str(row["member"]): row for row in rows.rows}
            new = [one for one in self.candidates if one.name not in made]
            if new:
                fresh = self.workshop.edit(rows, photo.crop(box_of(rows)), new, meter)
                made |= {str(row["member"]): row for row in fresh}
            rows.rows = []
            for one in self.candidates:
                row = made[one.name]
                shares = self.pool.shares(row.pop("embedding"), one.group, rows.set_id, self.rule)
                image = pasted(photo, picture(row["image"]), box_of(rows))
                rows.rows.append({**row, "image": image, "p_real": shares.real, "p_group": shares.group})
