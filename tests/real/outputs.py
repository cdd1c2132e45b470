"""Where the published outputs of other people's models are, and a release with the labels of one of them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.records import RunRecord
from fairgate.suites import resolve

OUTPUTS = Path(__file__).parents[2] / "../shared/real/outputs"


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table, compressed or not."""
    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt", encoding="utf-8") as handle:
        yield from csv.DictReader(handle)


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(header)
        writer.writerows(rows)


def repository(
    root: Path, name: str, rows: list[dict[str, str]], attributes: Mapping[str, list[str]], suite: str
) -> Path:
    """A repository with labels without pictures, and a suite on them."""
    options = {"name": name, "version": "v1", "attributes": attributes, "recipe": {"name": "published"}}
    write_dataset(root / f"datasets/{name}/v1", rows, licence="see origin", counterfactual=False, **options)
    (root / "fairness_suites").mkdir()
    (root / f"fairness_suites/{name}.yaml").write_text(suite, encoding="utf-8")
    return root


def judged(root: Path, suite: str, **typed: str) -> RunRecord:
    """The record of a run."""
    prepared = gate.prepare(suite, root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off", **typed}, environment={})
    return gate.evaluate(prepared, settings, command="x").record
