"""How a build grows: a recipe of tiny pictures at several sizes, with the time and the memory of each.

    python benchmarks/scale.py [--sets 1000 10000 100000]
    python benchmarks/scale.py --plan 13000000 [--side 512]

Each size is built in a fresh process by the local engine with one worker: starting sets, a first part that drops and
chooses, a second that makes two members of each, the dataset. Nothing is generated: what is measured is the factory.
The table gives seconds of processor time (they do not depend on what else the machine does), the peak of the process's
memory, and files and bytes on disk.

`--plan` measures a small build of large pictures, and DVC on some files, and says what a release of so many images
would take at these rates. Its pictures are clouds with a little noise: bytes per image are theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from fairgate.builds import Factory
from fairgate.builds.recipes import Before, Part, Recipe, RecipeSettings
from fairgate.builds.shards import encode
from fairgate.builds.steps import Drop, Meter, SetRows, Step, Trace
from fairgate.builds.steps.pictures import picture
from fairgate.data import read_dataset
from fairgate.data.releases import SHARD_BYTES
from fairgate.engines.local import LocalEngine

SIDE = 16
SUBJECT_SETS = 10_000
GROUPS = ("light", "dark")


class ScaleSettings(RecipeSettings):
    """`sets` starting sets over subjects of at most 10,000 each."""

    sets: int = 1000
    shard_sets: int = 250
    side: int = SIDE


@dataclass(frozen=True)
class Draw:
    """A picture: noise where it is tiny, else clouds with a little noise."""

    side: int
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ("image", "score")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """One per set."""
        for rows in sets:
            draw = rows.stream("picture")
            rows.rows[0]["image"] = _drawn(draw, self.side)
            rows.columns["score"] = float(draw.random())
            meter.count("drawn")


def _drawn(draw: np.random.Generator, side: int) -> Image.Image:
    grain = Image.fromarray(draw.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8))
    if side == SIDE:
        return grain
    clouds = np.asarray(grain.resize((side, side), Image.Resampling.BICUBIC)).astype(np.int16)
    noise = draw.integers(-4, 5, (side, side, 3), dtype=np.int16)
    return Image.fromarray(np.clip(clouds + noise, 0, 255).astype(np.uint8))


@dataclass(frozen=True)
class Good:
    """Drops one in ten."""

    reads: ClassVar[tuple[str, ...]] = ("score",)
    writes: ClassVar[tuple[str, ...]] = ()

    def judge(self, rows: SetRows) -> Drop | None:
        """By the score."""
        return Drop("low_score", rows.columns["score"], 0.1) if rows.columns["score"] < 0.1 else None


@dataclass(frozen=True)
class Pair:
    """Two members of a base picture."""

    reads: ClassVar[tuple[str, ...]] = ("base",)
    writes: ClassVar[tuple[str, ...]] = ("image", "skin_tone")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """A darker and a lighter one."""
        for rows in sets:
            base = np.asarray(picture(rows.columns.pop("base"))) // 2
            for place, group in enumerate(GROUPS):
                image = Image.fromarray(base + np.uint8(60 * place))
                caption = f"a {group} {rows.subject}"
                rows.rows.append({"member": group, "caption": caption, "skin_tone": group, "image": image})
                meter.count("drawn")


class Pool(Part):
    """All pictures; the better nine tenths of those kept are chosen."""

    name = "pool"

    def __init__(self, settings: ScaleSettings) -> None:
        self.settings = settings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """By number."""
        place = int(subject.removeprefix("subject "))
        stop = min((place + 1) * SUBJECT_SETS, self.settings.sets)
        size = self.settings.shard_sets
        for first in range(place * SUBJECT_SETS, stop, size):
            yield [
                SetRows(f"set-{number}", subject, ("scale", number), 0, [{"member": "base"}])
                for number in range(first, min(first + size, stop))
            ]

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """Draw, judge."""
        return [Draw(self.settings.side), Good()]

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """By score."""
        kept = sorted((trace for trace in traces if trace.kept), key=lambda trace: -trace.numbers["score"])
        return [trace.set_id for trace in kept[: len(kept) * 9 // 10]]


class Sets(Part):
    """Pairs."""

    name = "sets"

    def __init__(self, settings: ScaleSettings) -> None:
        self.settings = settings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """In the order of the scores, so that they are read from all over the pool's shards."""
        size = self.settings.shard_sets
        for first in range(0, len(before.set_ids), size):
            yield [
                SetRows(base.set_id, subject, base.names, 0, [], {**base.columns, "base": base.rows[0]["image"]})
                for base in before.sets(before.set_ids[first : first + size])
            ]

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """One."""
        return [Pair()]


class Scale(Recipe):
    """The recipe."""

    name = "scale"
    paper = "no paper: noise"
    Settings = ScaleSettings
    settings: ScaleSettings

    def parts(self) -> Sequence[Part]:
        """Two."""
        return [Pool(self.settings), Sets(self.settings)]

    def subjects(self) -> list[str]:
        """`subject 0`, ..."""
        return [f"subject {place}" for place in range(-(-self.settings.sets // SUBJECT_SETS))]

    def attributes(self) -> Mapping[str, Sequence[str]]:
        """Two groups."""
        return {"skin_tone": GROUPS}

    @property
    def counterfactual(self) -> bool:
        """Every set is a pair."""
        return True

    def models(self) -> Mapping[str, str]:
        """None."""
        return {}


def measure(sets: int, folder: Path) -> dict[str, float]:
    """Build `sets` starting sets in this process, and say what it took."""
    factory = Factory("scale", Scale(ScaleSettings(sets=sets)), folder)
    before = time.process_time()
    factory.build(LocalEngine())
    built = time.process_time()
    factory.assemble()
    assembled = time.process_time()
    files = [path for path in folder.rglob("*") if path.is_file()]
    manifest = read_dataset(factory.places.dataset).manifest
    return {
        "starting sets": sets,
        "images": manifest.n_rows,
        "build CPU s": round(built - before, 1),
        "assemble CPU s": round(assembled - built, 1),
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 0),
        "files": len(files),
        "MB on disk": round(sum(path.stat().st_size for path in files) / 1e6, 1),
        "dataset MB": round(sum(shard.bytes for shard in manifest.shards) / 1e6, 1),
    }


def plan(images: int, side: int) -> None:
    """Print what a release of so many images of this size would take, from rates measured here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        factory = Factory("plan", Scale(ScaleSettings(sets=120, shard_sets=20, side=side)), folder)
        factory.build(LocalEngine())
        sets = folder / "plan" / "subject-0" / "sets"
        stored = sum(path.stat().st_size for path in sets.glob("*.parquet"))
        encoding = _seconds_to_encode(side)
        start = time.process_time()
        factory.assemble()
        assembling = time.process_time() - start
        manifest = read_dataset(factory.places.dataset).manifest
        rows = manifest.n_rows
        per_image = sum(shard.bytes for shard in manifest.shards) / rows
        dvc = _dvc_rates(folder / "dvc")
    size = per_image * images
    shards = -(-int(size) // SHARD_BYTES)
    joining = assembling / rows
    print(
        f"{side} px: {per_image / 1e3:,.0f} kB per image in the dataset, {stored / rows / 1e3:,.0f} in a part's shards"
    )
    print(f"release of {images:,} images: {size / 1e12:,.2f} TB in {shards:,} shards of at most 256 MiB")
    print(f"encoding and hashing: {encoding * 1e3:.1f} ms per image, {encoding * images / 3600:,.0f} core hours")
    print(f"putting together: {joining * 1e3:.1f} ms per image, {joining * images / 3600:,.0f} core hours")
    for what, rate in dvc.items():
        print(f"dvc {what}: {rate / 1e6:,.0f} MB/s, {size / rate / 3600:,.1f} h")


def _seconds_to_encode(side: int, times: int = 20) -> float:
    """Processor time to turn one picture into PNG and hash its pixels, as a worker does."""
    image = _drawn(np.random.default_rng(0), side)
    start = time.process_time()
    for number in range(times):
        encode([SetRows("set", "subject", ("plan", number), 0, [{"member": "base", "image": image}])])
    return (time.process_time() - start) / times


def _dvc_rates(folder: Path, files: int = 6) -> dict[str, float]:
    """Bytes per second of wall time of `dvc add` and of `dvc push` to a folder on the same disk."""
    data = folder / "data"
    data.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(files):
        (data / f"shard-{number}.parquet").write_bytes(random.bytes(64 << 20))
    size = files * (64 << 20)
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}

    def dvc(*words: str) -> float:
        start = time.perf_counter()
        subprocess.run(["dvc", *words, "--quiet"], cwd=folder, check=True, env=environment)
        return time.perf_counter() - start

    dvc("init", "--no-scm")
    dvc("remote", "add", "--default", "local", str(folder / "remote"))
    idle = dvc("status")
    rates = {"add": size / max(dvc("add", "data") - idle, 0.01)}
    rates["push"] = size / max(dvc("push") - idle, 0.01)
    return rates


def main() -> None:
    """Measure each size in a process of its own, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--one", type=int)
    parser.add_argument("--plan", type=int)
    parser.add_argument("--side", type=int, default=512)
    options = parser.parse_args()
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.one, Path(folder))))
        return
    if options.plan:
        plan(options.plan, options.side)
        return
    rows = []
    for sets in options.sets:
        command = [sys.executable, __file__, "--one", str(sets)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        rows.append(json.loads(said.stdout))
        if len(rows) == 1:
            print("| " + " | ".join(rows[0]) + " |\n|" + "---:|" * len(rows[0]))
        print("| " + " | ".join(f"{value:,}" for value in rows[-1].values()) + " |", flush=True)


if __name__ == "__main__":
    main()
