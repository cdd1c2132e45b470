"""`scores:FILE?values=cosine|logit|probability|frequency[&logit_scale=100]`: scores that someone computed before; and
`labels:FILE`: labels that somebody's model gave before, a column per attribute; `numbers:FILE`: what somebody measured
of every image; and `embeddings:FOLDER[?logit_scale=100]`: embeddings of any two towers. No torch.

A CSV, Parquet or JSON Lines table with a row per image and a column per prompt, whose name is the prompt to the letter.
Rows are matched by `set_id` and `member`, or by `image`, `file` or `path` against the paths that the dataset recorded.
`&NAME=COLUMN` says what the file calls one: `id=COLUMN` holds images by any name that the dataset has for them. Of
labels, an empty cell is an image without one; the column `ATTRIBUTE_confidence`, from 0 to 1, says how sure it was.

A folder of embeddings holds `images` and `texts`, each as .csv or .parquet: a row per image or text, and a column per
dimension, named alike in both. A text is in the column `text`, to the letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np

from fairgate.data import TextColumn, give_back
from fairgate.ground.errors import ScoresError, did_you_mean, listed
from fairgate.ground.hashing import digest, sha256_file
from fairgate.ground.number_format import share_words
from fairgate.models.checkpoints import option_number, read_options, require_file, resolve, split_options
from fairgate.models.contract import Capability, Floats, Predicted, Request, log_softmax
from fairgate.models.distinct import equal_columns
from fairgate.models.score_table import ScoreTable, names_in, read_table
from fairgate.models.table_files import Precomputed, opened_table, quoted, table_digest, table_file
from fairgate.models.two_towers import SAME_TEXT, averages, near_pairs, unit

CONFIDENCE = "_confidence"
Values = Literal["cosine", "logit", "probability", "frequency"]
_SHARES = ("probability", "frequency")
_KINDS = (".parquet", ".csv")
_MOST_TEXTS = 20_000


def _declared_values(options: Mapping[str, str], uri: str) -> Values:
    """The scale of a table's numbers. Raises ScoresError if the URI does not declare it."""
    values = options.get("values")
    if values not in get_args(Values):
        said = f"'{values}' is not a scale of scores" if values else "the scale of the scores is not declared"
        raise ScoresError(
            f"{said}.",
            where=uri,
            remedy="append ?values=cosine, ?values=probability, ?values=frequency (shares of sampled answers) or "
            "?values=logit (100 x cosine is a logit)",
        )
    return cast(Values, values)


def _declared_scale(options: Mapping[str, str], uri: str) -> float | None:
    """What multiplies cosines; None if the URI does not declare it. Raises ModelError for what is no such number."""
    scale = options.get("logit_scale")
    return None if scale is None else option_number(uri, "logit_scale", scale, 1e-6, 1e6, whole=False)


@dataclass(frozen=True)
class _OneTable(Precomputed):
    table: ScoreTable = field(repr=False)

    @property
    def repeats(self) -> Floats:
        """Rows of every image that are its row again, (images,)."""
        return self.table.repeats


@dataclass(frozen=True)
class PrecomputedScores(_OneTable, scheme="scores"):
    """Scores that someone computed before. Its prompts are the table's columns."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "similarity"})
    preparation: ClassVar[str] = "scores/1"

    values: Values
    logit_scale: float | None

    @classmethod
    def read(cls, request: Request) -> Self:
        """Open a table. Raises ScoresError: unreadable, undeclared scale, images missing, doubled or foreign."""
        declared = "values" in dict(read_options(request.address.partition("?")[2]))
        path, options = table_file(request, None if declared else ("values", "logit_scale"))
        values, logit_scale = _declared_values(options, request.uri), _declared_scale(options, request.uri)
        columns = {name: given for name, given in options.items() if name not in ("values", "logit_scale")}
        fingerprint = table_digest(path, columns, values=values, logit_scale=logit_scale)
        release = getattr(request.source, "release", None)  # of some images of a release, a table may have all
        index = request.source.index if release is None else release.index
        table = read_table(path, index, whole=release is None, columns=columns)
        if release is not None:
            rows = cast(Any, request.source).rows
            table = replace(table, keys=table.keys.take(rows), rows=table.rows[rows], repeats=table.repeats[rows])
        return cls(request.uri, fingerprint, table, values, logit_scale)

    @property
    def frequencies(self) -> bool:
        """Whether the numbers are shares of sampled answers, which have no label temperature."""
        return self.values == "frequency"

    def logits(self, prompts: Sequence[str]) -> Floats:
        """(images, prompts) float64. Cosines need `logit_scale` in the URI; of shares, their logarithms.

        A share of 0 is taken as the smallest normal number (log about -708), so that logits stay finite.
        """
        found = self._columns(prompts)
        if self.values == "logit":
            return found
        if self.values in _SHARES:
            return np.asarray(np.log(np.maximum(found, np.finfo(np.float64).tiny)))
        return found * _declared(self.logit_scale, self.uri)

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """Mean of each ensemble's columns: (images, ensembles) float64.

        Ranks images as the re-normalised average of text embeddings does, since that is the mean cosine up to one
        positive factor an ensemble. Logits are divided by `logit_scale` where it is declared; where it is not, and for
        probabilities, the unit is the table's own.
        """
        divisor = self.logit_scale if self.values == "logit" and self.logit_scale else 1.0
        return np.stack([self._columns(prompts).mean(axis=1) / divisor for prompts in ensembles], axis=1)

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax over exactly these prompts; probabilities are renormalised over them. (images, prompts)."""
        if self.values in _SHARES:
            silent = np.flatnonzero(self._columns(prompts).sum(axis=1) == 0)
            if silent.size:
                raise ScoresError(
                    f"{share_words(silent.size, 'image')} {'has' if silent.size == 1 else 'have'} probability 0 for "
                    "every prompt of the suite, such as "
                    f"{self.table.names(silent)}.",
                    where=self.uri,
                    remedy="record logits or cosines instead: probabilities this small were rounded away",
                )
        logits = self.logits(prompts)
        return log_softmax(logits, out=logits)

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Pairs of ensembles whose columns are equal for every image."""
        first = [np.mean([self.table.first(prompt) for prompt in prompts], axis=0) for prompts in ensembles]
        if not equal_columns(np.stack(first, axis=1), ensembles):
            return []
        means = np.stack([self._columns(prompts).mean(axis=1) for prompts in ensembles], axis=1)
        return equal_columns(means, ensembles)

    def _columns(self, prompts: Sequence[str]) -> Floats:
        if not prompts:
            raise ScoresError("there is no prompt to score.", where=self.uri, remedy="give at least one")
        limits = (0.0, 1.0) if self.values in _SHARES else (-1.001, 1.001) if self.values == "cosine" else None
        by_prompt = np.empty((len(prompts), len(self.table.keys)))
        for place, prompt in enumerate(prompts):
            by_prompt[place] = self.table.column(prompt, limits)
            give_back()
        # Column by column a softmax takes a fifth of the time; of 8 prompts on, sums would be in another order.
        return by_prompt.T if len(prompts) < 8 else np.ascontiguousarray(by_prompt.T)


@dataclass(frozen=True)
class PrecomputedLabels(_OneTable, scheme="labels"):
    """Labels that somebody's model gave before. Its attributes are the table's columns."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"predict"})
    preparation: ClassVar[str] = "labels/1"

    @classmethod
    def read(cls, request: Request) -> Self:
        """Open a table. Raises ScoresError: unreadable, images doubled or foreign; missing ones when they are read."""
        path, columns = table_file(request, None)
        table = read_table(path, request.source.index, whole=False, columns=columns)
        return cls(request.uri, table_digest(path, columns), table)

    def labels(self, attribute: str, absent: str) -> TextColumn:
        """The attribute's column, (images,), with `absent` for images without a row. Raises ScoresError."""
        return self.table.labels(attribute, absent)

    def predict(self, attribute: str) -> Predicted:
        """The attribute's column, and its confidence where the table has it. Raises ScoresError."""
        sure = f"{attribute}{CONFIDENCE}"
        confidence = self.table.column(sure, (0.0, 1.0)) if sure in self.table.prompts else None
        return Predicted(self.table.labels(attribute), confidence)


@dataclass(frozen=True)
class PrecomputedNumbers(_OneTable, scheme="numbers"):
    """Numbers that somebody measured."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"measure"})
    preparation: ClassVar[str] = "numbers/1"

    @classmethod
    def read(cls, request: Request) -> Self:
        """Open a table. Raises ScoresError: unreadable, images missing, doubled or foreign."""
        path, columns = table_file(request, None)
        table = read_table(path, request.source.index, columns=columns)
        return cls(request.uri, table_digest(path, columns, kind="numbers"), table)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return self.table.of_numbers

    def measure(self, column: str) -> Floats:
        """A column, (images,). Raises ScoresError: unknown, no numbers, or not finite."""
        return self.table.column(column, None)


def _file(folder: Path, name: str) -> Path:
    """The one table of a name. Raises ScoresError where there is none, or two."""
    paths = [path for kind in _KINDS if (path := folder / f"{name}{kind}").is_file()]
    if len(paths) != 1:
        raise ScoresError(
            f"the folder holds {'no' if not paths else 'two'} tables of {name}.",
            where=str(folder),
            remedy=f"name a folder with {name}.parquet or {name}.csv, one of them",
        )
    require_file(paths[0], ScoresError)
    return paths[0]


@dataclass(frozen=True)
class PrecomputedEmbeddings(Precomputed, scheme="embeddings", named="FOLDER"):
    """Embeddings that someone computed before: unit vectors of the dataset's images, (images, dim), and by text."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "similarity"})
    preparation: ClassVar[str] = "embeddings/1"

    logit_scale: float | None
    images: Floats = field(repr=False)
    vectors: dict[str, Floats] = field(repr=False)
    folder: Path
    repeats: Floats = field(repr=False)

    @classmethod
    def read(cls, request: Request) -> Self:
        """Open both tables. Raises ScoresError: unreadable, images missing or foreign, dimensions that differ."""
        address, options = split_options(request.uri, request.address, ("logit_scale",), ScoresError)
        scale = _declared_scale(options, request.uri)
        folder = resolve(address, request.base)
        files = {name: _file(folder, name) for name in ("images", "texts")}
        fingerprint = digest({name: sha256_file(path) for name, path in files.items()} | {"logit_scale": scale})
        images = read_table(files["images"], request.source.index)
        with opened_table(files["texts"], _MOST_TEXTS) as arrow:
            if "text" not in arrow.column_names:
                raise ScoresError("no column holds the texts.", remedy="add the column `text`")
            texts = names_in(arrow.column("text"), "text")
            if doubled := texts.repeated():
                problem = f"texts are more than once in the table: {quoted(doubled)}."
                raise ScoresError(problem, remedy="keep one row a text")
            columns = tuple(name for name in arrow.column_names if name != "text")
            table = ScoreTable(files["texts"], columns, texts, np.arange(len(texts)), arrow)
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
        return cls(request.uri, fingerprint, scale, unit(vectors[0]), of_texts, folder, images.repeats)

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """Cosine to the re-normalised average of each ensemble's unit text embeddings: (images, ensembles) float64."""
        return np.asarray(self.images @ self._queries(ensembles).T)

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax of scale times cosine over exactly these prompts: (images, prompts) float64."""
        scale = _declared(self.logit_scale, self.uri)
        return log_softmax(scale * self.similarity([[prompt] for prompt in prompts]))

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


def _declared(logit_scale: float | None, uri: str) -> float:
    if logit_scale is None:
        raise ScoresError(
            "cosines become logits only with a scale, and none is declared.",
            where=uri,
            remedy=f"append {'&' if '?' in uri else '?'}logit_scale=100 (usual for CLIP), or the model's own "
            "exp(logit_scale)",
        )
    return logit_scale
