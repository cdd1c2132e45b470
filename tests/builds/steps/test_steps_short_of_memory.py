"""Steps on a device that holds few pictures: they go on in smaller batches, and the next shard begins with those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fairgate.builds.steps import Meter, SetRows
from fairgate.builds.steps.contract import Maker, SmallerBatches
from fairgate.builds.steps.paint import Paint, Variant, Vary
from fairgate.builds.steps.perceive import Ask, MaskPerson, Perceive, Trait, VisualQuestion
from fairgate.models.generation import Box, Face, Mask, Sampling

HOW = Sampling(2, 1.0)
GROUPS = ("A", "B", "C")


class Small:
    """Plays every role, for at most `room` pictures at a time; `sizes` are the batches that it was given."""

    uri, fingerprint = "fake:small", "0" * 64

    def __init__(self, room: int) -> None:
        self.room, self.spent = room, Counter[str]()
        self.sizes: list[int] = []

    def _take(self, items: Sequence[object]) -> None:
        import torch

        self.sizes.append(len(items))
        if len(items) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], *_: object) -> list[Image.Image]:
        self._take(prompts)
        return [Image.new("RGB", (4, 4), (seed % 256, 0, 0)) for seed in seeds]

    def inpaint(self, images: Any, _masks: Any, prompts: Sequence[str], *_: object) -> list[Image.Image]:
        self._take(prompts)
        return [Image.new("RGB", images[0].size, (0, ord(prompt), 0)) for prompt in prompts]

    def ask(self, images: Sequence[Image.Image], questions: Sequence[str], answers: Sequence[str]) -> Any:
        self._take(images)
        return np.ones((len(images), len(questions), len(answers)))

    def detect(self, images: Sequence[Image.Image], *_: object, **_thresholds: float) -> list[list[Box]]:
        self._take(images)
        return [[Box(0, 0, 4, 4)] for _ in images]

    def segment(self, images: Sequence[Image.Image], *_: object) -> list[Mask]:
        self._take(images)
        return [np.ones((4, 4), dtype=np.bool_) for _ in images]

    def read(self, images: Sequence[Image.Image]) -> list[list[Face]]:
        self._take(images)
        return [[Face({"race": {"A": 1.0}})] for _ in images]


def shard(size: int, first: int = 0) -> list[SetRows]:
    picture, where = Image.new("RGB", (4, 4)), np.ones((4, 4), dtype=np.bool_)
    return [
        SetRows(
            f"s{number}",
            "doctor",
            ("s", number),
            rows=[{"member": "A", "race": "A", "caption": "A", "image": picture}],
            columns={"base": picture, "mask": where},
        )
        for number in range(first, first + size)
    ]


STEPS: dict[str, Any] = {
    "paint": lambda model: Paint(model, HOW),
    "ask": lambda model: Ask(model, (VisualQuestion("c", "?", "yes"),)),
    "mask": lambda model: MaskPerson(model, model, "person", 0.1, 0.1),
    "vary, one group": lambda model: Vary(model, HOW, (Variant("A", "A"),)),
    "perceive": lambda model: Perceive(model, (Trait("race", {}),)),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_second_shard_starts_at_the_size_that_fitted(name: str) -> None:
    model, meter = Small(room=4), Meter()
    step: Maker = STEPS[name](model)
    with pytest.warns(SmallerBatches, match="batch of 8 items: going on with 4"):
        step.make(shard(8), meter)
    halved = meter.counts["halved_batches"]
    assert model.sizes == [8, 4, 4] * halved
    model.sizes.clear()
    step.make(shard(8, 8), meter)
    assert model.sizes == [4, 4] * halved
    assert meter.counts["halved_batches"] == halved


def test_a_wave_of_three_groups_on_a_device_that_holds_two_is_painted_in_two_passes() -> None:
    small, large = Small(room=2), Small(room=9)
    variants = tuple(Variant(group, group) for group in GROUPS)
    vary, meter = Vary(small, HOW, variants), Meter()
    sets, plain = ([replace(rows, rows=[]) for rows in shard(2)] for _ in "ab")
    with pytest.warns(SmallerBatches, match="batch of 3 items: going on with 2"):
        vary.make(sets, meter)
    Vary(large, HOW, variants).make(plain, Meter())
    assert small.sizes == [3, 2, 1, 2, 1]
    assert large.sizes == [3, 3]
    for rows, whole in zip(sets, plain, strict=True):
        assert [each.tobytes() for each in rows.column("image")] == [each.tobytes() for each in whole.column("image")]
        assert rows.column("seed") == whole.column("seed")
    assert meter.counts["halved_batches"] == 1


def test_a_wave_of_several_groups_is_painted_so_many_pictures_at_a_time_as_the_batch_says() -> None:
    model = Small(room=9)
    Vary(model, HOW, tuple(Variant(group, group) for group in GROUPS), batch=2).make(shard(1), Meter())
    assert model.sizes == [2, 1]
