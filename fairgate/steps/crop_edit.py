"""Editing a photograph's person into each group, until the neighbour filter accepts one edit of each.

The published procedure makes every candidate, filters, and takes one accepted edit of each group at random. Here the
candidates come in random order and the first accepted one is taken: the same distribution, since the first accepted of
a random order is a random accepted one, and whether a candidate is accepted depends on it and on the pool alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from PIL.Image import Image

from fairgate.generation import Editor, Matcher, Sampling
from fairgate.steps.batches import Batches
from fairgate.steps.contract import Drop, Maker, Meter, Row, SetRows
from fairgate.steps.neighbour_pool import EditShares, NeighbourPool, NeighbourRule
from fairgate.steps.person_photographs import BOX, PHOTO, Photographs, box_of, pasted
from fairgate.steps.pictures import picture, png
from fairgate.steps.provenance import made_with, spending


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


@dataclass(slots=True)
class _Search:
    """The search for one group's edit: how many were tried, the accepted edit, and its shares or the best miss's."""

    tried: int = 0
    found: Row | None = None
    shares: EditShares = field(default_factory=lambda: EditShares(0.0, 0.0))


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
            search = self._search(rows, group, photo.crop(box_of(rows)), made, meter)
            if search.found is None:
                rows.drop = self._why(group, search.shares)
                rows.rows = [*members.values(), {"member": group, "gender": group}]  # who was tried, for the yields
                return
            members[group] = {
                **{name: value for name, value in search.found.items() if name != "embedding"},
                "member": group,
                "image": pasted(photo, picture(search.found["image"]), box_of(rows)),
                "p_real": search.shares.real,
                "p_group": search.shares.group,
                "tried": search.tried,
            }
        rows.rows = [members[group] for group in groups]

    def _search(self, rows: SetRows, group: str, crop: Image, made: Mapping[str, Row], meter: Meter) -> _Search:
        """The first accepted candidate of a group, in random order."""
        choices = [one for one in self.candidates if one.group == group]
        order = [choices[place] for place in rows.stream("order", group).permutation(len(choices))]
        search = _Search()
        for start in range(0, len(order), self.wave):
            wave = order[start : start + self.wave]
            new = [one for one in wave if one.name not in made]
            fresh = {str(row["member"]): row for row in self.workshop.edit(rows, crop, new, meter)} if new else {}
            for one in wave:
                row: dict[str, Any] = made.get(one.name) or fresh[one.name]
                search.tried += 1
                meter.count("judged")
                shares = self.pool.shares(row["embedding"], group, rows.set_id, self.rule)
                if self.rule.accepts(shares):
                    search.found, search.shares = row, shares
                    return search
                search.shares = self._better(search.shares, shares)
        return search

    def _better(self, best: EditShares, other: EditShares) -> EditShares:
        """The nearer miss: the right group first, then the larger share of real neighbours."""

        def nearness(one: EditShares) -> tuple[bool, float]:
            right = one.group > self.rule.tau_group
            return right, one.real if right else one.group

        return max(best, other, key=nearness)

    def _why(self, group: str, best: EditShares) -> Drop:
        if best.group > self.rule.tau_group:
            return Drop("unlike_real", measured=best.real, limit=self.rule.tau_real, member=group)
        return Drop("wrong_group", measured=best.group, limit=self.rule.tau_group, member=group)
