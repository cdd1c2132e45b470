"""Painting counterfactual sets whose members share attention, and giving up half-way attempts that promise little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from fairgate.builds.steps.contract import Batches, Drop, Maker, Meter, SetRows
from fairgate.builds.steps.filters import CaptionMatcher, Match, note
from fairgate.builds.steps.pictures import COLUMNS, HOW, SEED, made_with, sampling, spending
from fairgate.ground.errors import ModelError
from fairgate.models.generation import Sampling

if TYPE_CHECKING:
    from PIL.Image import Image

    from fairgate.models.generation import AttemptState, Mode, SetPainting, StableDiffusion

SHARE, MODE, BASE = "share", "sharing", "base_caption"


@dataclass(frozen=True, slots=True)
class Pruning:
    """Which attempts go on: at step `at` x steps, the best `keep` of them by their expected pictures.

    What the finished ones match is noted in their rows, for `MatchCaptions`.

    An attempt is better when all its members are expected to match their captions (`threshold`), then by directional
    similarity. Where fewer than `wanted` of those that went on turn out to match, the next best go on too, until
    `wanted` do or none is left: the number of accepted sets is that without pruning.
    """

    matcher: CaptionMatcher
    threshold: float
    wanted: int
    at: float = 0.5
    keep: float = 0.28


@dataclass(frozen=True, slots=True)
class PaintSets(Maker):
    """Paints every set from its own noise, guidance and share of shared steps; sets of equal captions run together.

    `painter` is a Stable Diffusion (`generation.open_model("painter", ...)`), `how` its sampling, whose guidance
    gives way to each set's own. `rows` bounds the UNet rows of one pass, fewer of them once memory has run out. A
    pruned set is dropped as `pruned`.
    """

    painter: Any
    how: Sampling
    mode: Mode = "self"
    rows: int = 48
    phrases: tuple[str, ...] = ()
    pruning: Pruning | None = None
    _passes: Batches = field(default_factory=lambda: Batches(what="UNet rows"), init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("caption", "guidance", SHARE)
    writes: ClassVar[tuple[str, ...]] = ("image", *COLUMNS, MODE, BASE)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        alike: dict[tuple[str, ...], list[SetRows]] = {}
        for rows in sets:
            alike.setdefault(tuple(rows.column("caption")), []).append(rows)
        for captions, same in alike.items():
            tried = self._passes.most or self.rows
            with spending(self.painter, meter):
                painting = set_painting(self.painter, captions, self.how, self.mode, tried, self.phrases)
                self._paint(painting, same, meter)
            while tried > painting.rows:  # it halves them itself, inside a step
                self._passes.shrink(tried, tried // 2, meter)
                tried //= 2

    def _paint(self, painting: SetPainting, sets: Sequence[SetRows], meter: Meter) -> None:
        if self.pruning is None:
            at_once = max(1, painting.rows // (2 * len(painting.captions)))
            for first in range(0, len(sets), at_once):
                some = sets[first : first + at_once]
                canvases = self._start(painting, some)
                painting.advance(canvases)
                for rows, canvas in zip(some, canvases, strict=True):
                    _give(rows, painting.pictures(canvas))
            return
        canvases = self._start(painting, sets)
        painting.advance(canvases, until=max(1, round(self.pruning.at * painting.steps)))
        matcher = self.pruning.matcher
        with spending(matcher.matcher, meter):
            expected = [matcher.match(painting.pictures(canvas), painting.captions) for canvas in canvases]
            _go_on(painting, self.pruning, sets, canvases, expected)

    def _start(self, painting: SetPainting, sets: Sequence[SetRows]) -> list[AttemptState]:
        from fairgate.models.generation import Attempt

        attempts = []
        for rows in sets:
            attempt = Attempt(rows.seed_of("noise"), float(rows.columns["guidance"]), float(rows.columns[SHARE]))
            attempts.append(attempt)
            how = replace(self.how, guidance=attempt.guidance)
            rows.columns.update(made_with(self.painter, attempt.seed, how))
            rows.columns.update({MODE: self.mode, BASE: rows.rows[0]["caption"]})
        return painting.start(attempts)


def set_painting(
    painter: Any, captions: Sequence[str], how: Sampling, mode: Mode, rows: int, phrases: Sequence[str]
) -> SetPainting:
    """The painting of one set's captions. Raises ModelError for a painter that is no Stable Diffusion of diffusers."""
    model: StableDiffusion | None = getattr(painter, "model", None)
    if model is None or not hasattr(model, "unet"):
        raise ModelError(
            f"'{painter.uri}' has no UNet whose attention could be shared.",
            remedy="name a Stable Diffusion as the painter: hf:FOLDER_OR_ID",
        )
    from fairgate.models.generation import SetPainting

    return SetPainting(model, captions, how, mode=mode, rows=rows, phrases=phrases)


def _give(rows: SetRows, pictures: Sequence[Image]) -> None:
    for row, image in zip(rows.rows, pictures, strict=True):
        row["image"] = image


def _go_on(
    painting: SetPainting,
    pruning: Pruning,
    sets: Sequence[SetRows],
    canvases: Sequence[AttemptState],
    expected: Sequence[Match],
) -> None:
    """Finish the most promising attempts, wave by wave, until enough match their captions."""
    waiting = sorted(
        range(len(sets)),
        key=lambda number: (expected[number].least < pruning.threshold, -expected[number].directional, number),
    )
    matching, wave = 0, ceil(pruning.keep * len(sets))
    while waiting and wave > 0:
        now, waiting = waiting[:wave], waiting[wave:]
        painting.advance([canvases[number] for number in now])
        for number in now:
            pictures = painting.pictures(canvases[number])
            _give(sets[number], pictures)
            match = pruning.matcher.match(pictures, painting.captions)
            note(sets[number], match)
            matching += match.least >= pruning.threshold
        wave = pruning.wanted - matching
    for number in waiting:
        sets[number].drop = Drop("pruned", measured=expected[number].directional)


def repaint_member(row: Mapping[str, Any], painter: Any, *, phrases: Sequence[str] = ()) -> Image:
    """The picture of one member again, from the columns of its row: painted with its base member alone.

    Equal to the stored one up to about one level of grey: sums are rounded in another order. Raises ModelError.
    """
    from fairgate.models.generation import Attempt

    how = sampling(row[HOW])
    captions = list(dict.fromkeys([row[BASE], row["caption"]]))
    painting = set_painting(painter, captions, how, row[MODE], 2 * len(captions), phrases)
    canvases = painting.start([Attempt(int(row[SEED]), how.guidance, float(row[SHARE]))])
    painting.advance(canvases)
    return painting.pictures(canvases[0])[-1]
