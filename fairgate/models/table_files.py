"""Tables that models look up: how these are opened by URI, and files as Arrow's columns: CSV, Parquet and JSON, each of
a bounded size."""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from fairgate.data import arrow_file, columns_on_disk, is_text, open_parquet, read_columns
from fairgate.ground.errors import DatasetError, ScoresError, clean, did_you_mean, listed
from fairgate.ground.hashing import digest, sha256_file
from fairgate.ground.text import find_separator
from fairgate.models.checkpoints import require_file, resolve, split_options
from fairgate.models.contract import PRECOMPUTED, REGISTERED, Capability, Request
from fairgate.models.family import FileFamily
from fairgate.models.json_table import ENDINGS, ID, MAX_COLUMNS, read_json_table

KEYS = ("set_id", "member")
PATH_COLUMNS = ("image", "file", "path")
LONGEST_NAME = 4096
MAX_CSV_BYTES = 2 << 30
ROWS_PER_IMAGE = 10
"""So many are still read, to name the images that are doubled or foreign."""
AS_NAMED: Mapping[str, str] = {}
_SHOWN = 3
_SPREADSHEET = ("a ZIP archive or a spreadsheet", "save it as CSV in UTF-8, or unpack it")
_UTF16 = ("text in UTF-16", "save it in UTF-8")
_PACKED = {
    b"\x1f\x8b": ("compressed by gzip", "unpack it: gunzip FILE"),
    b"PK\x03\x04": _SPREADSHEET,
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
}
_NO_UTF8 = re.compile(r"'utf-8' codec can't decode byte (0x\w+) in position (\d+): [\w ]+")
_UTF8 = r"byte \1 at \2 is no UTF-8"
_RAGGED = re.compile(r"CSV parse error: Expected (\d+) columns, got (\d+)(?:: (.*))?", re.DOTALL)
"""Arrow's words for a row of another number of cells."""
_NO_TABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)


class TableFamily(FileFamily):
    """A family whose addresses name a table of answers that somebody computed before, which a model looks up."""

    def __init__(self, scheme: str, model: type[Precomputed], named: str) -> None:
        self.scheme, self.forms, self.capabilities = scheme, (f"{scheme}:{named}",), model.capabilities
        self.open = model.read


def table_file(request: Request, known: Sequence[str] | None = ()) -> tuple[Path, dict[str, str]]:
    """The file that an address names, and the options, any if none are `known`. Raises ScoresError for an unknown
    option, and for no file."""
    address, options = split_options(request.uri, request.address, known, ScoresError)
    path = resolve(address, request.base)
    require_file(path, ScoresError)
    return path, options


def table_digest(path: Path, columns: Mapping[str, str], **settings: Any) -> str:
    """The fingerprint of a table's answers: its content, what the URI says of it, and how its columns are called if
    that is not how they are read."""
    return digest({"file": sha256_file(path), **settings} | ({"columns": columns} if columns else {}))


@dataclass(frozen=True)
class Precomputed(ABC):
    """A base of models that only look up: of the model that gave the answers nothing else is known. A plugin may know
    more. A subclass with a `scheme` is opened by URIs of it, after which they name a FILE, or what is `named`."""

    capabilities: ClassVar[frozenset[Capability]]
    preparation: ClassVar[str]

    uri: str
    fingerprint: str
    _: KW_ONLY
    precision: str = PRECOMPUTED
    tokenizer: str | None = None
    preprocessing: str | None = None
    device: str = "none"

    def __init_subclass__(cls, scheme: str = "", named: str = "FILE") -> None:
        if scheme:
            REGISTERED.register(scheme, TableFamily(scheme, cls, named), module=cls.__module__)

    @classmethod
    @abstractmethod
    def read(cls, request: Request) -> Self:
        """Open the table that an address names. Raises ScoresError: unreadable, images missing or foreign."""


@contextmanager
def opened_table(
    path: Path,
    images: int,
    each: int = ROWS_PER_IMAGE,
    text: Sequence[str] = (),
    columns: Mapping[str, str] = AS_NAMED,
) -> Iterator[Any]:
    """A CSV, Parquet or JSON table with `each` row an image at most, whose columns called `text` are text; `columns`
    says what the file calls some of them. A ScoresError of the block is about the table. Raises ScoresError."""
    import pyarrow as pa

    named, ending = dict(columns), path.suffix.lower()
    try:
        _refuse_other_forms(path)
        if ending == ".parquet":
            arrow = _read_parquet(path, images, each)
        elif ending in ENDINGS:
            arrow, usual, odd = read_json_table(path, each * images + ROWS_PER_IMAGE, named.values())
            named = usual | named
            for name in dict.fromkeys((*columns, *usual, *(name for name in text if name == "answer"))):
                if (own := named.get(name, name)) in odd:
                    raise odd_column(own, odd[own])
            arrow = arrow.replace_schema_metadata(odd)  # for what is read later
        else:
            arrow = _read_csv(path, [*text, *(named[name] for name in (ID, *text) if name in named)])
        yield _renamed(arrow, named)
    except ScoresError as error:  # of what is below, which knows no path
        raise ScoresError(error.problem, where=str(path), remedy=error.remedy) from error
    except DatasetError as error:
        problem = _NO_UTF8.sub(_UTF8, error.problem)
        raise ScoresError(problem, where=error.where or str(path), remedy=error.remedy) from error
    except (pa.ArrowException, csv.Error, OSError, *_NO_TABLE) as error:
        fault, remedy = _in_plain_words(error, ending)
        raise ScoresError(f"the table cannot be read ({fault}).", where=str(path), remedy=remedy) from error


def _in_plain_words(error: Exception, ending: str) -> tuple[str, str]:
    """What is wrong with a file that no table can be read from, and the remedy: Arrow's and Python's words are not a
    user's."""
    remedy = f"write it as {'JSON, an object a row' if ending in ENDINGS else 'UTF-8 CSV, JSON Lines or as Parquet'}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply", remedy
    if isinstance(error, json.JSONDecodeError):
        return f"no JSON, from line {error.lineno} on", "write a list of objects, or an object a line (.jsonl)"
    fault = _NO_UTF8.sub(_UTF8, str(error))
    if fault != str(error):
        return fault, "save it in UTF-8" if ending in ENDINGS else "save it as UTF-8 CSV"
    if (ragged := _RAGGED.search(fault)) is not None:
        row = f": {clean(ragged[3], 60)}" if ragged[3] else ""
        return (
            f"a row has {ragged[2]} cells and the first line {ragged[1]}{row}",
            "give every row as many cells as the first line, and put texts with a separator in double quotes",
        )
    if "magic bytes" in fault:
        return "it is no Parquet file, or a part of one", "write it again, or give CSV the ending .csv"
    return "a whole number has thousands of digits" if "digits" in fault and "limit" in fault else fault, remedy


def _refuse_other_forms(path: Path) -> None:
    """Raises ScoresError for files that hold a table in another form than their names say, by how they begin."""
    with path.open("rb") as file:
        begins = file.read(4)
    for start, (what, remedy) in _PACKED.items():
        if begins.startswith(start):
            raise ScoresError(f"the file is {what}.", remedy=remedy)
    if begins[:1] in (b"{", b"[") and path.suffix.lower() not in (*ENDINGS, ".parquet"):
        problem = f"the file holds JSON, and its name ends in '{path.suffix}': it would be read as CSV."
        raise ScoresError(problem, remedy="let its name end in .jsonl (an object a line) or .json (a list)")


def odd_column(column: str, what: str, where: str | None = None) -> ScoresError:
    """The error of a column, which is to be read, that was left out."""
    problem = f"column '{clean(column, 80)}' holds {clean(what, 300)}."
    remedy = "write one text or number there, or a list of one"
    if what.startswith("an object"):
        remedy = f"name a key of the object, as {clean(column, 80)}.KEY, or {remedy}"
    return ScoresError(problem, where=where, remedy=remedy)


def _renamed(arrow: Any, columns: Mapping[str, str]) -> Any:
    """The table with columns called as they are read here, by what the file calls them. Raises ScoresError."""
    names: list[str] = arrow.column_names
    for name, given in columns.items():
        if given not in names:
            raise ScoresError(
                f"the table has no column '{given}', which `{name}` is to be read from.",
                remedy=did_you_mean(given, names) or f"its columns: {quoted(names)}",
            )
    taken = {*columns, *columns.values(), *((*KEYS, *PATH_COLUMNS) if ID in columns else ())}
    kept = [name for name in names if name not in taken]
    return arrow.select([*kept, *columns.values()]).rename_columns([*kept, *columns]) if columns else arrow


def _read_parquet(path: Path, images: int, each: int) -> Any:
    """The table's columns, text as codes of its different texts: a file of a few bytes may repeat one a billion times.

    Columns of other kinds than text and numbers are not read.
    """
    import pyarrow as pa

    parquet = open_parquet(path)
    _require_plain_names(parquet.schema_arrow.names)
    _require_bounded(parquet.metadata, images, each)
    texts = [field.name for field in parquet.schema_arrow if is_text(field.type)]
    numbers = [field.name for field in parquet.schema_arrow if is_number(field.type)]
    parts = read_columns(parquet, texts), columns_on_disk(parquet, numbers)  # texts are matched and let go
    columns = {name: part[name] for part in parts for name in part.column_names}
    return pa.table({name: columns[name] for name in parquet.schema_arrow.names if name in columns})


def _require_bounded(facts: Any, images: int, each: int) -> None:
    """Raises ScoresError for a table that unpacks to far more than scores of these images can need."""
    if facts.num_rows > each * images + ROWS_PER_IMAGE:
        problem = f"the table has {facts.num_rows:,} rows, and the dataset {images:,} images."
        raise ScoresError(problem, remedy="write one row an image")
    sizes = dict[str, int]()
    for group in range(facts.num_row_groups):
        for column in map(facts.row_group(group).column, range(facts.num_columns)):
            sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0) + column.total_uncompressed_size
    name, size = max(sizes.items(), key=lambda item: item[1], default=("", 0))
    if size > (64 << 20) + LONGEST_NAME * facts.num_rows:
        problem = f"column '{name}' unpacks to {size / 2**20:,.0f} MB, which is no column of scores."
        raise ScoresError(problem, remedy="write one number a row and image")


def _read_csv(path: Path, text_columns: Sequence[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if path.stat().st_size > MAX_CSV_BYTES:
        problem = f"the table has more than {MAX_CSV_BYTES // 2**20:,} MB."
        raise ScoresError(problem, remedy="write it as Parquet")
    with path.open(encoding="utf-8-sig", newline="") as handle:
        separator = find_separator(handle, str(path), ScoresError)
        handle.seek(0)
        _require_plain_names(next(csv.reader(handle, delimiter=separator), []))
    # names of images stay text: "0012" is not 12
    text = dict.fromkeys(("set_id", "member", "text", "label", *PATH_COLUMNS, *text_columns), pa.string())
    arrow = arrow_csv.read_csv(
        arrow_file(path),
        convert_options=arrow_csv.ConvertOptions(column_types=text),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, delimiter=separator),
    )
    _require_plain_names(arrow.column_names)
    return arrow


def _require_plain_names(names: Sequence[str]) -> None:
    if len(names) > MAX_COLUMNS:
        problem = f"the table has {len(names):,} columns; at most {MAX_COLUMNS:,} are read."
        raise ScoresError(problem, remedy="keep the columns of the suite's prompts")
    if len(set(names)) < len(names):  # a fifth of the time of counting
        doubled = next(name for name, count in Counter(names).items() if count > 1)
        raise ScoresError(f"column '{doubled}' is twice in the table.", remedy="keep one of the two")


def is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def quoted(names: Iterable[Any]) -> str:
    """A few names, for a message."""
    return listed([f"'{name}'" for name in names], _SHOWN)
