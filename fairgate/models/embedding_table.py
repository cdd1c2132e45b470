"""`embeddings:FOLDER[?logit_scale=100]`: embeddings that someone computed before, of any two towers. No torch.

The folder holds `images` and `texts`, each as .csv or .parquet: a row per image or text, and a column per dimension,
named alike in both. Images are matched as those of a table of scores; a text is in the column `text`, to the letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from fairgate.ground.errors import ScoresError, did_you_mean, listed
from fairgate.ground.hashing import digest, sha256_file
from fairgate.models.checkpoints import require_file, resolve, split_options
from fairgate.models.contract import Capability, Floats, Request, log_softmax, register
from fairgate.models.family import Precomputed, TableFamily
from fairgate.models.score_table import declared_logit_scale, read_table, read_texts
from fairgate.models.two_towers import SAME_TEXT, averages, near_pairs, unit

KINDS = (".parquet", ".csv")


@register
class EmbeddingTables(TableFamily):
    """Tables of embeddings that someone computed before."""

    scheme: ClassVar[str] = "embeddings"
    forms: ClassVar[tuple[str, ...]] = ("embeddings:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "similarity"})

    def open(self, request: Request) -> PrecomputedEmbeddings:
        """Open both tables. Raises ScoresError: unreadable, images missing or foreign, dimensions that differ."""
        address, options = split_options(request.uri, request.address, ("logit_scale",), ScoresError)
        scale = declared_logit_scale(options, request.uri)
        folder = resolve(address, request.base)
        files = {name: _file(folder, name) for name in ("images", "texts")}
        fingerprint = digest({name: sha256_file(path) for name, path in files.items()} | {"logit_scale": scale})
        images = read_table(files["images"], request.source.index)
        texts, table = read_texts(files["texts"])
        if set(table.prompts) != set(images.prompts) or not images.prompts:
            odd = [f"'{name}'" for name in sorted(set(table.prompts) ^ set(images.prompts))]
            raise ScoresError(
                f"images and texts have other dimensions: {listed(odd) or 'there are none'}.",
                where=str(folder),
                remedy="name the columns of the dimensions alike in both tables, such as 0, 1, 2, ...",
            )
        vectors = [np.stack([side.column(name, None) for name in images.prompts], axis=1) for side in (images, table)]
        for side, named in zip(vectors, (images, table), strict=True):
            empty = np.flatnonzero(~(np.linalg.norm(side, axis=1) > 0))
            if empty.size:
                raise ScoresError(
                    f"{empty.size} embeddings are all zeros: {named.names(empty)}.",
                    where=str(named.path),
                    remedy="compute these embeddings again",
                )
        of_texts = dict(zip(texts, unit(vectors[1]), strict=True))
        return PrecomputedEmbeddings(request.uri, fingerprint, scale, unit(vectors[0]), of_texts, folder)


def _file(folder: Path, name: str) -> Path:
    """The one table of a name. Raises ScoresError where there is none, or two."""
    paths = [path for kind in KINDS if (path := folder / f"{name}{kind}").is_file()]
    if len(paths) != 1:
        raise ScoresError(
            f"the folder holds {'no' if not paths else 'two'} tables of {name}.",
            where=str(folder),
            remedy=f"write {name}.parquet or {name}.csv there, one of them",
        )
    require_file(paths[0], ScoresError)
    return paths[0]


@dataclass(frozen=True)
class PrecomputedEmbeddings(Precomputed):
    """A model that only looks up: unit vectors of the dataset's images, (images, dim), and by text."""

    capabilities: ClassVar[frozenset[Capability]] = EmbeddingTables.capabilities

    logit_scale: float | None
    images: Floats = field(repr=False)
    vectors: dict[str, Floats] = field(repr=False)
    folder: Path
    preparation: ClassVar[str] = "embeddings/1"

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """Cosine to the re-normalised average of each ensemble's unit text embeddings: (images, ensembles) float64."""
        return np.asarray(self.images @ self._queries(ensembles).T)

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax of scale times cosine over exactly these prompts: (images, prompts) float64."""
        if self.logit_scale is None:
            raise ScoresError(
                "cosines become logits only with a scale, and none is declared.",
                where=self.uri,
                remedy="append ?logit_scale=100 (usual for CLIP), or the model's own exp(logit_scale)",
            )
        return log_softmax(self.logit_scale * self.similarity([[prompt] for prompt in prompts]))

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Pairs of ensembles whose averaged text embeddings are equal, up to the rounding of float32."""
        return near_pairs(self._queries(ensembles), ensembles, SAME_TEXT["fp32"])

    def _queries(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """Unit averages of the ensembles' text embeddings, (ensembles, dim)."""
        for prompt in (prompt for prompts in ensembles for prompt in prompts):
            if prompt not in self.vectors:
                raise ScoresError(
                    f"the table of texts has no row for the prompt '{prompt}'.",
                    where=str(self.folder),
                    remedy=did_you_mean(prompt, self.vectors) or "embed every prompt of the suite",
                )
        return averages(ensembles, self.vectors, self.uri)
