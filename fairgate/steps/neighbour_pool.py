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


@dataclass(frozen=True, slots=True)
class NeighbourShares:
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

    def accepts(self, shares: NeighbourShares) -> bool:
        """Eq. 5."""
        return shares.real > self.tau_real and shares.group > self.tau_group


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
        cls,
        real: Sequence[tuple[ArrayLike, str, str]],
        synthetic: Sequence[tuple[ArrayLike, str, str]],
    ) -> NeighbourPool:
        """From (embedding, group, photograph) of each image; a synthetic image's group is its target."""
        every = [*real, *synthetic]
        return cls(
            vectors=np.array([vector for vector, _, _ in every], dtype=np.float32),
            groups=tuple(group for _, group, _ in every),
            owners=tuple(owner for _, _, owner in every),
            n_real=len(real),
        )

    def shares(self, vector: ArrayLike, group: str, owner: str, rule: NeighbourRule) -> NeighbourShares:
        """P_R and P_G of one candidate (dim,): Euclidean distance, equal distances by position, its own photograph's
        images left out. Raises RecipeError where the pool has fewer images than the rule needs.
        """
        others = np.flatnonzero(np.array(self.owners) != owner)
        most = max(rule.k_real, rule.k_group)
        if most > len(others):
            raise RecipeError(
                f"{most} neighbours are needed, and the pool has {len(others)} images of other photographs.",
                where="neighbours",
                remedy="lower neighbours and group_neighbours; or raise pilot_photos, which makes the pilot again",
            )
        apart = self.vectors[others].astype(np.float64) - np.asarray(vector, dtype=np.float64)
        near = others[np.argsort(np.einsum("id,id->i", apart, apart), kind="stable")[:most]]
        alike = np.array([self.groups[position] == group for position in near])
        return NeighbourShares(
            real=float((near[: rule.k_real] < self.n_real).mean()), group=float(alike[: rule.k_group].mean())
        )
