"""One cell of docs/reference/families.md: a suite with one probe is evaluated on a model, as by `fairgate check`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from family_probes import COLUMNS, suite
from family_release import members, write_release
from family_rows import Row

from fairgate import gate
from fairgate.data import Dataset
from fairgate.models import open_scorer
from fairgate.suites import resolve

PICTURES = len(members())


@dataclass(frozen=True)
class Refusal:
    """The three parts of an error, as a check's reason shows them, with general names in the place of the run's."""

    problem: str
    where: str
    remedy: str
    pictures_read: int
    """Before it was raised."""

    @property
    def text(self) -> str:
        """What a footnote quotes."""
        return f"{self.problem} *{self.remedy}*"


@dataclass(frozen=True)
class Works:
    """Scores of a cell, by answer: a finite number for every picture."""

    scores: Mapping[str, Any]


Cell = Works | Refusal


class Bench:
    """A repository, and its suites by column."""

    def __init__(self, root: Path) -> None:
        self.root = root
        write_release(root)
        self._prepared: dict[str, gate.Prepared] = {}
        self._uris: dict[tuple[str, str], str] = {}

    @cached_property
    def reader(self) -> str:
        """Fingerprint of the CLIP that reads edits and pictures."""
        from hf_world import save_folder

        save_folder("clip", self.root / "reader")
        return open_scorer("hf:reader", None, device="cpu", base=self.root).fingerprint  # type: ignore[arg-type] # only hashed

    def uri(self, row: Row, kind: str) -> str:
        """Of a tiny model, which is saved the first time."""
        key = (row.title, kind)
        if key not in self._uris:
            self._uris[key] = row.save(kind, self.root)
        return self._uris[key]

    def prepared(self, column: str) -> gate.Prepared:
        """The suite of a column."""
        probe = dict(COLUMNS[column].probe)
        if "reader" in probe:
            probe["reader"] = {**probe["reader"], "fingerprint": self.reader}
        if column not in self._prepared:
            path = self.root / "fairness_suites" / f"{column}.yaml"
            path.write_text(suite(column, column, probe), encoding="utf-8")
            self._prepared[column] = gate.prepare(column, self.root)
        return self._prepared[column]

    def run(self, row: Row, column: str, kind: str | None = None) -> Cell:
        """Evaluate, and tell the two outcomes apart. Anything but scores or an error of fairgate's is raised."""
        uri = self.uri(row, row.kinds[0] if kind is None else kind)
        return self.evaluate(uri, column, cache=str(self.root / "cache"))

    def evaluate(self, uri: str, column: str, cache: str = "off") -> Cell:
        """As `run`, of a URI."""
        prepared = self.prepared(column)
        options = {"model": uri, "mlflow": "off", "device": "cpu", "cache": cache}
        settings = resolve(prepared.loaded.suite, options, environment={})
        with _counted(prepared.dataset) as read:
            found = gate.evaluate(prepared, settings, command="fairgate check")
        (check,) = found.record.checks[:1]
        if found.scores:
            for name, one in found.scores.items():
                assert one.value.shape == (PICTURES,), name
                assert np.isfinite(one.value).all(), name
            assert {one.verdict for one in found.record.checks} <= {"pass", "fail", "inconclusive"}, check.reason
            return Works(found.scores)
        assert check.verdict == "error"
        return self._refusal(check.reason, uri, read[0])

    def _refusal(self, reason: str, uri: str, read: int) -> Refusal:
        parts = re.fullmatch(r"(.+)\n  where:  (.+)\n  remedy: (.+)", reason)
        assert parts is not None, f"no place or no remedy: {reason}"
        problem, where, remedy = (self._general(part, uri) for part in parts.groups())
        return Refusal(problem, where, remedy, read)

    def _general(self, text: str, uri: str) -> str:
        """Without what is this run's alone: URIs, names of tensors, digests, and the folder of its files."""
        for one in filter(None, (uri, uri.partition("base=")[2], uri.partition("model=")[2])):
            text = text.replace(one, "MODEL")
        text = re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", text)
        text = re.sub(r"does not fit .+: \d+ (tensors are \w+): .+", r"does not fit ARCHITECTURE: N \1: ...", text)
        text = re.sub(r"'[\w.]*base_model[\w.]*'", "'NAME'", text)
        return text.replace(f"{self.root}/", "")


class _counted:
    """How often pictures of a release are handed out inside of the block."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.read = dataset, [0]

    def __enter__(self) -> list[int]:
        self.before = Dataset.image_batches
        counter, before = self.read, self.before

        def image_batches(self: Dataset, batch_size: int) -> Any:
            for rows, blobs in before(self, batch_size):
                counter[0] += len(rows)
                yield rows, blobs

        Dataset.image_batches = image_batches  # type: ignore[method-assign]
        return self.read

    def __exit__(self, *_: object) -> None:
        Dataset.image_batches = self.before  # type: ignore[method-assign]
