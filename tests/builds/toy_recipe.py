"""A recipe of two parts that takes milliseconds: numbers and tiny pictures, drawn from the names of sets alone.

`pool` makes one picture per set, drops some for two reasons, and chooses the best. `sets` varies each of them for three
groups, drops a set at the first group that fails, and stops when enough are kept.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from fairgate.builds.recipes import Before, Part, Recipe, RecipeSettings
from fairgate.builds.steps import Drop, Meter, SetRows, Step, Trace
from fairgate.builds.steps.pictures import picture
from fairgate.ground.errors import ModelError

GROUPS = ("light", "tan", "dark")


class ToySettings(RecipeSettings):
    """Settings of the toy."""

    shard_sets: int = 4
    subjects: tuple[str, ...] = ("baker", "car mechanic")
    candidates: int = 40
    pool: int = 24
    sets: int = 9
    seconds: float = 0.0  # that a set takes
    side: int = 8
    loose: bool = False  # whether the part `sets` does not mind how many are wanted
    fault: str = ""  # what is wrong with the steps, for tests: "killed once", "killed always", "refused", "broken"
    marks: str = ""  # folder in which a worker that is about to be killed says so


@dataclass(frozen=True)
class Paint:
    """Noise of one set's own."""

    settings: ToySettings
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ("image", "score")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            _fail(self.settings, rows)
            time.sleep(self.settings.seconds)
            draw = rows.stream("picture")
            pixels = draw.integers(0, 256, (self.settings.side, self.settings.side, 3), dtype=np.uint8)
            rows.rows[0]["image"] = Image.fromarray(pixels)
            rows.rows[0]["mask"] = pixels[..., 0] > 128
            rows.columns["score"] = float(draw.random())
            rows.columns["embedding"] = draw.normal(size=16)
            meter.count("unet", 2)


def _fail(settings: ToySettings, rows: SetRows) -> None:
    if settings.fault == "refused":
        raise ModelError("the toy's model is not there.", where="toy:model", remedy="make one")
    if settings.fault == "broken":
        raise ZeroDivisionError("a defect of the toy")
    if settings.fault == "killed always" or (settings.fault == "killed once" and rows.names[-1] in (5, 17)):
        mark = Path(settings.marks, f"{rows.subject}-{rows.names[-1]}-{len(list(Path(settings.marks).iterdir()))}")
        if settings.fault == "killed always" or not list(mark.parent.glob(f"{rows.subject}-{rows.names[-1]}-*")):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where memory runs out


@dataclass(frozen=True)
class Presentable:
    """Drops a fifth as too dark and a tenth as grey."""

    reads: ClassVar[tuple[str, ...]] = ("score",)
    writes: ClassVar[tuple[str, ...]] = ()

    def judge(self, rows: SetRows) -> Drop | None:
        score = rows.columns["score"]
        if score < 0.2:
            return Drop("too_dark", measured=score, limit=0.2)
        return Drop("grey") if score < 0.3 else None


@dataclass(frozen=True)
class Vary:
    """A member per group; the set falls at the first that is not as intended."""

    seconds: float
    reads: ClassVar[tuple[str, ...]] = ("base",)
    writes: ClassVar[tuple[str, ...]] = ("image", "skin_tone")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            time.sleep(self.seconds)
            for place, group in enumerate(GROUPS):
                draw = rows.stream("vary", group)
                pixels = np.asarray(picture(rows.columns["base"])) // 2 + np.uint8(40 * place)
                rows.rows.append(
                    {
                        "member": group,
                        "caption": f"a {group} {rows.subject}",
                        "skin_tone": group,
                        "image": Image.fromarray(pixels + draw.integers(0, 9, pixels.shape, dtype=np.uint8)),
                        "embedding": draw.normal(size=4),
                        "seed": rows.seed_of("vary", group),
                    }
                )
                meter.count("unet", 3)
                right = float(draw.random())
                if right < 0.12:
                    rows.drop = Drop("wrong_group", measured=right, limit=0.12, member=group)
                    break
            rows.columns.pop("base")


class Pool(Part):
    """Pictures to vary."""

    name = "pool"
    ignores = ("sets", "pool", "seconds", "loose", "fault", "marks")

    def __init__(self, settings: ToySettings) -> None:
        self.settings = settings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        size = self.settings.shard_sets
        for first in range(0, self.settings.candidates, size):
            yield [
                SetRows(
                    f"{subject}-{number}", subject, ("toy", subject, number), self.settings.seed, [{"member": "base"}]
                )
                for number in range(first, min(first + size, self.settings.candidates))
            ]

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        return [Paint(self.settings), Presentable()]

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        kept = [trace for trace in traces if trace.kept]
        return [trace.set_id for trace in sorted(kept, key=lambda trace: -trace.numbers["score"])][: self.settings.pool]


class Sets(Part):
    """Three groups of each."""

    name = "sets"

    def __init__(self, settings: ToySettings) -> None:
        self.settings = settings
        self.ignores = ("seconds", "loose", "fault", "marks", *(["sets"] if settings.loose else []))

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        ids, size = list(before.set_ids), self.settings.shard_sets
        for first in range(0, len(ids), size):
            yield [
                SetRows(base.set_id, subject, base.names, base.seed, [], {"base": base.rows[0]["image"]})
                for base in before.sets(ids[first : first + size])
            ]

    def context(self, subject: str, before: Before) -> Any:
        return len(before.set_ids)

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        assert context <= self.settings.pool
        return [Vary(self.settings.seconds)]

    def target_sets(self, subject: str) -> int:
        return self.settings.sets


class Toy(Recipe):
    """The toy."""

    name = "toy"
    paper = "nobody's paper"
    Settings = ToySettings
    settings: ToySettings

    def parts(self) -> Sequence[Part]:
        return [Pool(self.settings), Sets(self.settings)]

    def subjects(self) -> list[str]:
        return list(self.settings.subjects)

    def attributes(self) -> Mapping[str, Sequence[str]]:
        return {"skin_tone": GROUPS}

    @property
    def counterfactual(self) -> bool:
        return True

    def models(self) -> Mapping[str, str]:
        return {}
