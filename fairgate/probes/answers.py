"""What probes return: numbers per image, in the dataset's order, and the Parquet table that holds them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fairgate.data import TextColumn, TextRows, arrow_file, arrow_texts, is_text, numbers, texts
from fairgate.ground.atomic import atomic
from fairgate.ground.errors import ScoresError
from fairgate.ground.hashing import digest, require_regular, sha256_bytes
from fairgate.models import ImageIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

METRIC_VERSION = 2
"""Raised whenever a probe's numbers change their meaning: records of different versions are not compared. 2: labels of
equal probability are no right answer."""


MAX_PROBES = 5000
"""Most probes and words in a file of scores; a file with more is refused."""
LISTED_AGAIN = "listed_again"
"""Further number of an image: how many rows of the judged table are its row again; it counts once."""
PICTURE = "picture"
"""Further number of a generator's row: the first row of all with the very same picture."""
SHOWN = "shown"
"""Of a generator's row: whether the reader takes its picture for its own subject."""
REFUSAL = "abstained"
"""Of a generator's row, if any has it: whether it refused, which is no picture."""
ABSENT = "absent"
"""Of a generator's row, if any has it: whether a smaller sample has no picture of it."""
REPEAT = "repeat"
"""Of a generator's row: whether it lists a picture of its subject again, which counts once."""
MORE = "more."
"""Before the names of further numbers, in a file of scores."""
_FURTHER = re.compile(r"more\.[a-z0-9_]{1,40}")
_MOST_FURTHER = 64
_TEXT = ["probe", "set_id", "member", "predicted", "truth"]
_LATER = ("rank", "truth")
"""Columns that older files lack; of truths, also files in which no probe has any."""
_ROW_BYTES = 1024
_DIGESTED = 1 << 16
"""Texts that are written at once."""


class Rows(ImageIndex, Protocol):
    """The images of a dataset, in stored order; `fairgate.data.Dataset.index` is one."""

    @property
    def subject(self) -> TextRows: ...
    @property
    def attributes(self) -> Mapping[str, TextRows]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """The competing labels of one subject's images, and what the model answered; held in memory only.

    `rows` (images,) are places in the dataset, of several views of an image equal ones; `log_p` (images, labels) are
    log-probabilities at the model's own temperature and `true` (images,) the column of the label whose probability is
    measured.
    """

    subject: str
    rows: NDArray[np.integer[Any]]
    log_p: NDArray[np.float64]
    true: NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class ProbeScores:
    """One probe's answer for every image.

    `value` (images,) float64 is P(true label) for zero-shot classification, P(positive label) where the probe names
    one, the cosine to the subject's query for retrieval and to the word's prompt for an association.
    `predicted` (images,) is the most probable label of a classification and `correct` whether it is the true one
    (None where no label is). `rank` (images,), of a retrieval over several subjects, is the place of the image's own
    subject's query among all subjects' queries: 1 is nearest, and equal queries count as nearer. Files from before
    there were ranks have none. `truth` (images,) is the right label where a metric counts images by it. `contests` hold
    all labels' probabilities of a classification that was just scored; they are never written, and scores read from a
    file have none. `more` are further numbers of every image by name, (images,) float64 each, NaN where an image has
    none: of an edit, how much lighter its skin is. `painted` are small JPEGs of some pictures of a generator by row,
    and `right` (images,) the right answers to a question, None without one; neither is ever written.
    """

    value: NDArray[np.float64]
    predicted: TextRows | None = None
    correct: NDArray[np.bool_] | None = None
    rank: NDArray[np.int64] | None = None
    truth: TextRows | None = None
    contests: tuple[Contest, ...] = field(default=(), repr=False, compare=False)
    more: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    painted: Mapping[int, bytes] = field(default_factory=dict, repr=False, compare=False)
    right: NDArray[Any] | None = field(default=None, repr=False, compare=False)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Which images `correct` is about, (images,): of questions, those that are asked and have a right answer."""
        right = self.more.get("right")
        return np.ones(len(self.value), dtype=bool) if right is None else ~np.isnan(right)


def scores_digest(scores: Mapping[str, ProbeScores]) -> str:
    """Hex SHA-256 of what the probes answered, image by image: a record names the scores that belong to it."""
    return digest({name: _digests(probe_scores) for name, probe_scores in scores.items()})


def _digests(probe_scores: ProbeScores) -> list[str | None]:
    """A digest per column; of ranks, truths and further numbers only where there are any, so that records from before
    them stay valid."""
    columns = [
        _numbers_digest(probe_scores.value),
        None if probe_scores.predicted is None else _texts_digest(probe_scores.predicted),
        None if probe_scores.correct is None else sha256_bytes(probe_scores.correct.astype(np.uint8).tobytes()),
    ]
    if probe_scores.rank is not None:
        columns.append(sha256_bytes(probe_scores.rank.astype("<i8").tobytes()))
    if probe_scores.truth is not None:
        columns.append(_texts_digest(probe_scores.truth, "truth"))
    more = further_numbers(probe_scores.more)
    return [*columns, *(digest([name, _numbers_digest(more[name])]) for name in sorted(more))]


def further_numbers(more: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Further numbers, as a file holds them: without columns in which no image has a number."""
    return {name: numbers for name, numbers in more.items() if not np.isnan(numbers).all()}


def _numbers_digest(numbers: NDArray[np.float64]) -> str:
    """Every NaN is the same: a missing number comes back from a file as another one."""
    same = np.where(np.isnan(numbers), np.nan, numbers)
    return sha256_bytes(np.ascontiguousarray(same, dtype="<f8").tobytes())


def _texts_digest(texts: TextRows, *first: str) -> str:
    """The `digest` of a list of so many texts, without such a list."""
    names, codes = text_codes(texts)
    written = np.array([json.dumps(str(name), ensure_ascii=False) for name in names.tolist()] or [""], dtype=object)
    content = hashlib.sha256(("[" + ",".join(map(json.dumps, first))).encode())
    for start in range(0, len(codes), _DIGESTED):
        comma = "," if start or first else ""
        content.update((comma + ",".join(written[codes[start : start + _DIGESTED]])).encode())
    content.update(b"]")
    return content.hexdigest()


def write_scores(path: Path, rows: Rows, scores: Mapping[str, ProbeScores]) -> None:
    """Write the scores of a run: one row per probe and image, in Parquet, atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    images = {
        "set_id": _arrow(rows.set_id, pa.string()),
        "member": _arrow(rows.member, pa.string()),
        "subject": _coded(rows.subject),
        **{key: _coded(groups) for key, groups in rows.attributes.items()},
    }
    tables, further = [], sorted({name for probe in scores.values() for name in probe.more})
    truths = any(probe.truth is not None for probe in scores.values())
    for name, probe in scores.items():
        n = len(probe.value)
        kinds = {"value": pa.float64(), "predicted": pa.string(), "correct": pa.bool_(), "rank": pa.int64()}
        kinds |= {"truth": pa.string()} if truths else {}
        columns = {key: getattr(probe, key) for key in kinds}
        answers = {
            key: pa.nulls(n, kind) if columns[key] is None else _arrow(columns[key], kind)
            for key, kind in kinds.items()
        }
        for key in further:
            values = probe.more.get(key)
            answers[MORE + key] = pa.nulls(n, pa.float64()) if values is None else _arrow(values, pa.float64())
        tables.append(pa.table({"probe": _coded(np.full(n, name, dtype=object)), **images, **answers}))
    table = pa.concat_tables(tables).unify_dictionaries()
    with atomic(path) as draft, arrow_file(draft, "wb") as file:
        coded = [key for key in table.column_names if key not in ("set_id", "value")]  # numbers and names all differ
        pq.write_table(table, file, compression="zstd", use_dictionary=coded, write_page_checksum=True)


def _arrow(values: TextRows, kind: Any) -> Any:
    """A column as Arrow lays it out: of text, truth or numbers. `pa.array` would import pandas, which takes 0.3 s."""
    import pyarrow as pa

    if kind == pa.string():
        return _coded(values).dictionary_decode()
    if kind == pa.bool_():
        buffers = [np.packbits(values.astype(bool), bitorder="little")]
    else:
        buffers = [np.ascontiguousarray(values, dtype=np.float64 if kind == pa.float64() else np.int64)]
    return pa.Array.from_buffers(kind, len(values), [None, *map(pa.py_buffer, buffers)])


def _coded(values: TextRows) -> Any:
    """Text as Arrow codes it, every text once."""
    import pyarrow as pa

    if isinstance(values, TextColumn):
        names, codes = values.names, values.codes
    else:
        different, codes = text_codes(values)
        names = arrow_texts(different.tolist())
    indices = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(codes.astype(np.int32))])
    return pa.DictionaryArray.from_arrays(indices, names)


def read_scores(path: Path, rows: Rows) -> dict[str, ProbeScores]:
    """Read scores from a file, in the order of `rows` by set_id and member.

    Raises ScoresError for a file that is unreadable, or does not hold each image exactly once per probe.
    """
    wanted = ["probe", "set_id", "member", "value", "predicted", "correct", *_LATER]
    columns = _columns(path, len(rows.set_id), wanted)
    of_probe: dict[str, list[int]] = {}
    for row, name in enumerate(columns["probe"].tolist()):
        of_probe.setdefault(name, []).append(row)
    return {
        name: _aligned(name, {key: column[places] for key, column in columns.items()}, rows, path)
        for name, places in of_probe.items()
    }


def read_set_ids(path: Path, images: int) -> frozenset[str]:
    """The ids of the sets in a file of scores of so many images. Raises ScoresError for an unreadable file."""
    return frozenset(_columns(path, images, ["set_id"])["set_id"].tolist())


def _columns(path: Path, images: int, wanted: list[str]) -> dict[str, NDArray[Any]]:
    """Columns of a file of scores, checked; without those that it may lack."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_regular(path, ScoresError)
    try:
        # not read_table, which would import pyarrow.dataset: 0.2 s
        # text stays codes of its different texts: a few bytes may repeat a long one a billion times
        columns = pq.read_schema(arrow_file(path)).names
        coded = [name for name in _TEXT if name in columns]
        file = pq.ParquetFile(arrow_file(path), page_checksum_verification=True, read_dictionary=coded)
        _require_bounded(file.metadata, images)
        names = [name for name in wanted if name not in _LATER or name in columns]
        if "value" in wanted:
            names += [name for name in columns if _FURTHER.fullmatch(name)][:_MOST_FURTHER]
        table = file.read(columns=names)
        table.validate(full=True)
        _require_kinds(table)
        return {name: _entries(table.column(name)) for name in names}
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ScoresError(
            f"the per-image scores cannot be read: {error}.",
            where=str(path),
            remedy="run the baseline again with `--fairness-report DIR`, and keep scores.parquet next to results.json",
        ) from error


def _require_bounded(facts: Any, images: int) -> None:
    """Raise ValueError for a file that unpacks to more than scores of these images can be."""
    if facts.num_rows > MAX_PROBES * images:
        raise ValueError(f"it holds {facts.num_rows:,} rows for {images:,} images")
    size = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
    if size > (64 << 20) + _ROW_BYTES * facts.num_rows:
        raise ValueError(f"it unpacks to {size / 2**20:,.0f} MB")


def _entries(column: Any) -> NDArray[Any]:
    """A column as an array: float64, or objects with None for what is missing."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return numbers(column)
    return texts(column, None) if is_text(column.type) else np.array(column.to_pylist(), dtype=object)


def _require_kinds(table: Any) -> None:
    """Raise TypeError for a column that does not hold what `write_scores` writes: text, numbers, truth, places."""
    import pyarrow as pa

    kinds = {"value": pa.types.is_float64, "correct": pa.types.is_boolean, "rank": pa.types.is_int64}
    for column in table.schema:
        value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        wanted = pa.types.is_float64 if column.name.startswith(MORE) else pa.types.is_string
        if not kinds.get(column.name, wanted)(value_type):
            raise TypeError(f"column '{column.name}' is of type {value_type}")


def _aligned(name: str, columns: dict[str, Any], rows: Rows, path: Path) -> ProbeScores:
    back = _order_of(name, columns, rows, path)
    value = columns["value"][back]
    if not np.isfinite(value).all():
        raise ScoresError(f"probe '{name}' has scores that are not finite.", where=str(path), remedy="run it again")
    stored = {key: columns[key][back] for key in ("predicted", "correct", *_LATER) if key in columns}
    stored = {key: column for key, column in stored.items() if column[0] is not None}
    if any(entry is None for column in stored.values() for entry in column.tolist()):
        raise ScoresError(f"probe '{name}' has columns with gaps.", where=str(path), remedy="run the baseline again")
    kinds: dict[str, Any] = {"predicted": object, "correct": bool, "rank": np.int64, "truth": object}
    more = further_numbers({key.removeprefix(MORE): columns[key][back] for key in columns if key.startswith(MORE)})
    if any(np.isinf(numbers).any() for numbers in more.values()):
        raise ScoresError(f"probe '{name}' has infinite numbers.", where=str(path), remedy="run the baseline again")
    return ProbeScores(value, **{key: column.astype(kinds[key]) for key, column in stored.items()}, more=more)


def _order_of(name: str, columns: dict[str, Any], rows: Rows, path: Path) -> NDArray[np.int64]:
    """The table's row for every image, (images,). Raises ScoresError unless the two name the same images, each once."""
    if np.array_equal(columns["set_id"], rows.set_id) and np.array_equal(columns["member"], rows.member):
        return np.arange(len(columns["value"]))
    order = {key: row for row, key in enumerate(zip(rows.set_id.tolist(), rows.member.tolist(), strict=True))}
    keys = list(zip(columns["set_id"].tolist(), columns["member"].tolist(), strict=True))
    unknown = [key for key in keys if key not in order]
    if unknown or len(set(keys)) < len(keys) or len(keys) < len(order):
        example = f"set '{unknown[0][0]}'" if unknown else "an image missing or doubled"
        raise ScoresError(
            f"probe '{name}' has {len(keys):,} scores, the dataset {len(order):,} images; they differ ({example}).",
            where=str(path),
            remedy="the record belongs to other data: run the baseline again on this dataset release",
        )
    return np.argsort(np.fromiter((order[key] for key in keys), dtype=np.int64, count=len(keys)))


def text_codes(values: TextRows) -> tuple[TextRows, NDArray[np.int64]]:
    """The different texts of a column (rows,), sorted, and the place of each row's among them, (rows,).

    What `np.unique(values, return_inverse=True)` gives, at a tenth of its time: texts are hashed, and only the
    different ones compared. What is no text, such as a plugin's None for no answer, has the place of its `str`.
    """
    if isinstance(values, TextColumn):
        return values.sorted()
    texts = values.tolist()
    names = list(dict.fromkeys(texts))  # a set would lose an order that is nearly right
    keys = names if set(map(type, names)) <= {str} else list(map(str, names))
    order = sorted(range(len(names)), key=keys.__getitem__)
    codes = np.empty(len(names), dtype=np.int64)
    codes[order] = np.arange(len(names))
    if len(names) == 1:
        codes = np.zeros(len(texts), dtype=np.int64)
    elif len(names) < len(texts):
        place = dict(zip(names, codes.tolist(), strict=True))
        codes = np.fromiter(map(place.__getitem__, texts), dtype=np.int64, count=len(texts))
    return np.array(names, dtype=object)[order], codes
