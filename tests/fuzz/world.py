"""A small repository to try inputs in, and real files to begin from."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import yaml
from PIL import Image

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from toy_repository import PROMPTS, SUITE, Toy, toy_repository  # noqa: E402

SETS = 4
SMALL_SUITE = (
    SUITE.replace("k: 60", "k: 4")
    .replace("draws: 1000", "draws: 500")
    .replace("decision:", "groups: {min_sets: 2}\ndecision:")
)


@dataclass
class World:
    """Folders and seeds, made once for a target."""

    root: Path

    @cached_property
    def toy(self) -> Toy:
        toy = (
            toy_repository(self.root / "toy", sets=SETS) if not (self.root / "toy").exists() else Toy(self.root / "toy")
        )
        toy.write_suite(SMALL_SUITE)
        return toy

    @cached_property
    def report(self) -> Path:
        """The report folder of a run, as a baseline."""
        if (self.root / "base").exists():
            return self.root / "base"
        from fairgate import gate
        from fairgate.suites import resolve

        prepared = gate.prepare("jobs", self.toy.root)
        typed = {"mlflow": "off", "cache": "off", "report": str(self.root / "base"), "baseline": "none"}
        settings = resolve(prepared.loaded.suite, {**typed, "model": "scores:base.csv?values=logit"}, environment={})
        gate.publish(gate.evaluate(prepared, settings, command="check"), prepared, settings)
        return self.root / "base"

    @cached_property
    def failed(self) -> dict[str, Any]:
        """The record of a run that failed, as JSON: groups, worst sets, confusions."""
        if (self.root / "failed.json").exists():
            return dict(json.loads((self.root / "failed.json").read_bytes()))
        from fairgate import gate
        from fairgate.suites import resolve

        prepared = gate.prepare("jobs", self.toy.root)
        typed = {"mlflow": "off", "cache": "off", "model": "scores:biased.csv?values=logit"}
        settings = resolve(prepared.loaded.suite, typed, environment={})
        record = gate.evaluate(prepared, settings, command="check").record
        (self.root / "failed.json").write_text(record.model_dump_json(), encoding="utf-8")
        return json.loads(record.model_dump_json())

    @property
    def results(self) -> list[Any]:
        """Records as JSON."""
        return [json.loads((self.report / "results.json").read_text(encoding="utf-8")), self.failed]

    @property
    def suites(self) -> list[bytes]:
        """The suites that ship, and the small repository's own."""
        shipped = sorted((TESTS.parent / "fairness_suites").glob("*.yaml"))
        return [SMALL_SUITE.encode(), *(path.read_bytes() for path in shipped)]

    @property
    def suite_trees(self) -> list[Any]:
        """The same as plain data, under the small repository's names."""
        trees = [yaml.safe_load(text) for text in self.suites]
        return [{**tree, "suite": "jobs", "dataset": "toy"} for tree in trees]

    @cached_property
    def index(self) -> Any:
        """Images of the small dataset."""
        from fairgate.data import open_dataset

        return open_dataset("toy", self.toy.root / "datasets").index

    @cached_property
    def source(self) -> Any:
        """The small dataset as a model sees it."""
        from fairgate.data import open_dataset

        return open_dataset("toy", self.toy.root / "datasets")

    @property
    def tables(self) -> list[bytes]:
        """Tables of scores as CSV: by set and member, and by file."""
        lines = list(csv.reader(io.StringIO((self.toy.root / "base.csv").read_text(encoding="utf-8"))))
        by_file = io.StringIO()
        csv.writer(by_file).writerows(
            [["file", *lines[0][2:]], *([f"{a}-{b}.png", *rest] for a, b, *rest in lines[1:])]
        )
        return [(self.toy.root / "base.csv").read_bytes(), by_file.getvalue().encode()]

    @property
    def parquet_tables(self) -> list[bytes]:
        """The same as Parquet, with and without dictionaries and compression."""
        from pyarrow import BufferReader
        from pyarrow import csv as arrow_csv
        from pyarrow import parquet as pq

        made = []
        for table in map(arrow_csv.read_csv, map(BufferReader, self.tables)):
            for options in ({}, {"use_dictionary": False, "compression": "none"}, {"compression": "zstd"}):
                held = io.BytesIO()
                pq.write_table(table, held, **options)
                made.append(held.getvalue())
        return made

    @property
    def pictures(self) -> list[bytes]:
        """One small picture in every format that is read."""
        pixels = np.random.default_rng(0).integers(0, 255, (9, 7, 3), dtype=np.uint8)
        made = []
        for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"):
            for mode in ("RGB", "L", "P"):
                if (kind, mode) in {("JPEG", "P"), ("PPM", "P")}:
                    continue
                held = io.BytesIO()
                Image.fromarray(pixels).convert(mode).save(held, kind)
                made.append(held.getvalue())
        exif = Image.Exif()
        exif[0x0112] = 6
        held = io.BytesIO()
        Image.fromarray(pixels).save(held, "JPEG", exif=exif)
        return [*made, held.getvalue()]


def one_picture(data: bytes) -> Any:
    """A source of images that holds this one."""
    index = SimpleNamespace(set_id=np.array(["0"]), member=np.array(["a"]), path=np.array(["a.png"]))
    return SimpleNamespace(index=index, folder=Path("pictures"), data=data)


__all__ = ["PROMPTS", "SETS", "SMALL_SUITE", "TESTS", "World", "one_picture"]
