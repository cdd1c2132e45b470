"""GenSynth's filter against a pool that is fixed first: an edit is judged alone, whatever else is made.

Smith et al. 2023, eqs. 4 and 5. The paper's pool is all real crops and all edits; here it is the crops and all edits of
some photographs, drawn at random, so that real and synthetic images have the paper's proportion in it. Images of a
candidate's own photograph do not count as its neighbours: then one rule applies to every candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import RecipeError
from fairgate.metrics import NeighbourShares, neighbour_shares


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
