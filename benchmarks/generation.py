"""What building counterfactual sets costs, beside plain implementations of the published procedures.

    python -m benchmarks.generation [--build social-counterfactuals-embedded] [--attempts 40] [--only social]

Both ways run in one process, with the same models, and keep the same sets. `social_counterfactuals` is here; the
comparisons of `occupations` and `gensynth` are in modules of their own, and run after it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL.Image import Image

from benchmarks import generation_gensynth, generation_occupations
from benchmarks._published_sharing import published_set, sub_batches
from fairgate.builds.build import read_build
from fairgate.builds.recipes import open_recipe
from fairgate.builds.recipes.social_counterfactuals import SocialCounterfactuals, SocialSettings
from fairgate.builds.steps import Meter, SetRows, run_steps
from fairgate.builds.steps.filters import CaptionMatcher
from fairgate.models.generation import open_model
from fairgate.models.generation.attention_sharing import BaseMember, wide_product
from fairgate.models.generation.set_painting import Attempt

MEMBERS, TOKENS, HEADS, FEATURES = 12, 1024, 8, 40
"""A set of race and gender in the layers of Stable Diffusion 1.5 at 32 x 32 latents."""


@dataclass
class Bill:
    """What one way of doing it took: seconds of wall and of CPU time, UNet evaluations, and the sets that it chose."""

    seconds: float = 0.0
    cpu: float = 0.0
    unet: int = 0
    chosen: dict[str, list[Image]] = field(default_factory=dict)

    @property
    def images(self) -> int:
        """Of the chosen sets."""
        return sum(len(pictures) for pictures in self.chosen.values())

    @property
    def unet_per_image(self) -> float:
        """UNet evaluations for a kept image."""
        return self.unet / max(1, self.images)


@contextmanager
def timed(bill: Bill) -> Iterator[None]:
    """Adds the seconds of the block."""
    start, busy = time.perf_counter(), time.process_time()
    yield
    bill.seconds += time.perf_counter() - start
    bill.cpu += time.process_time() - busy


def compare_attention(threads: int = 1) -> tuple[float, float, float]:
    """CPU seconds of one shared self-attention, published and ours, and the largest difference between them."""
    torch.set_num_threads(threads)
    draw = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, MEMBERS, HEADS, TOKENS, FEATURES, generator=draw) for _ in range(2))
    values, scale = torch.randn(2, MEMBERS, HEADS, TOKENS, FEATURES, generator=draw), FEATURES**-0.5
    seconds = []
    for run in (lambda: _published_attention(query, key, values, scale), lambda: _ours(query, key, values, scale)):
        run()
        start = time.process_time()
        found = [run() for _ in range(3)]
        seconds.append((time.process_time() - start) / len(found))
    plain, ours = _published_attention(query, key, values, scale), _ours(query, key, values, scale)
    return seconds[0], seconds[1], float((plain - ours).abs().max())


def _published_attention(query: torch.Tensor, key: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
    """Scores of every member, replaced by the base member's, softmax and product for each."""
    flat = (2 * MEMBERS * HEADS, TOKENS, FEATURES)
    scores = torch.einsum("bid,bjd->bij", query.reshape(flat), key.reshape(flat)) * scale
    rows = scores.chunk(2 * MEMBERS)
    scores = torch.cat([rows[0]] * MEMBERS + [rows[MEMBERS]] * MEMBERS)
    return torch.einsum("bij,bjd->bid", scores.softmax(dim=-1), values.reshape(flat)).reshape(values.shape)


def _ours(query: torch.Tensor, key: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
    return wide_product(BaseMember(query[:, 0], key[:, 0]), values, scale)


def published(recipe: SocialCounterfactuals, subject: str, painter: Any, matcher: CaptionMatcher) -> Bill:
    """The authors' procedure: every attempt to its end, filtered by caption, ranked by directional similarity."""
    settings, bill = recipe.settings, Bill()
    parts, before = painter.model, painter.spent["unet"]
    with timed(bill):
        for shards in _by_captions(recipe, subject):
            ranked = []
            for rows in shards:
                attempt = Attempt(rows.seed_of("noise"), rows.columns["guidance"], rows.columns["share"])
                pictures = published_set(parts, rows.column("caption"), attempt, settings.steps)
                match = matcher.match(pictures, rows.column("caption"))
                if match.least >= settings.min_caption_cosine:
                    ranked.append((-match.directional, rows.set_id, pictures))
            for _, set_id, pictures in sorted(ranked, key=lambda found: found[:2])[: settings.kept]:
                bill.chosen[set_id] = pictures
    bill.unet = painter.spent["unet"] - before
    return bill


def ours(recipe: SocialCounterfactuals, subject: str) -> Bill:
    """The recipe's own part, without files."""
    bill, meter, traces = Bill(), Meter(), []
    [part] = recipe.parts()
    steps, kept = part.steps(subject, "cpu", None), {}
    with timed(bill):
        for shard in part.shards(subject, None):  # type: ignore[arg-type] # the first part has none before it
            traces += run_steps(steps, shard, meter)
            kept |= {rows.set_id: rows.column("image") for rows in shard if rows.drop is None}
        bill.chosen = {set_id: kept[set_id] for set_id in part.choose(subject, traces)}
    bill.unet = meter.counts["unet"]
    return bill


def _by_captions(recipe: SocialCounterfactuals, subject: str) -> list[list[SetRows]]:
    """All attempts, gathered by their captions."""
    found: dict[tuple[str, ...], list[SetRows]] = {}
    for shard in recipe.parts()[0].shards(subject, None):  # type: ignore[arg-type]
        for rows in shard:
            found.setdefault(tuple(rows.column("caption")), []).append(rows)
    return list(found.values())


def compare_social(build: str, attempts: int, keep: float) -> tuple[Bill, Bill, Bill, float]:
    """Published, recipe, recipe with pruning; and the largest difference between pictures of the first two."""
    settings: SocialSettings = read_build(build).settings
    told = {**settings.model_dump(), "attempts": attempts, "prefixes": settings.prefixes[:1], "prune_keep": None}
    told |= {"kept": max(1, attempts // 10)}
    plain: Any = open_recipe("social_counterfactuals", told)
    pruned: Any = open_recipe("social_counterfactuals", {**told, "prune_keep": keep})
    subject = plain.subjects()[0]
    painter, matcher = (open_model(role, getattr(settings, role)) for role in ("painter", "matcher"))  # type: ignore[arg-type]
    was = published(plain, subject, painter, CaptionMatcher(matcher))
    now, less = ours(plain, subject), ours(pruned, subject)
    return was, now, less, _farthest(was, now)


def _farthest(one: Bill, other: Bill) -> float:
    """The largest difference between pictures of sets that both chose, in levels of grey (0..255)."""
    pairs = [
        (mine, theirs)
        for set_id in one.chosen.keys() & other.chosen.keys()
        for mine, theirs in zip(one.chosen[set_id], other.chosen[set_id], strict=True)
    ]
    return max((float(np.abs(np.asarray(a, int) - np.asarray(b, int)).max()) for a, b in pairs), default=float("nan"))


def report_social(build: str, attempts: int, keep: float) -> None:
    """Print both comparisons of `social_counterfactuals`."""
    before, after, difference = compare_attention()
    print(f"shared self-attention, {MEMBERS} members, {TOKENS} tokens, CPU seconds: published {before:.2f}, ours "
          f"{after:.2f}, {before / after:.1f} times less; largest difference {difference:.0e}")  # fmt: skip
    was, now, less, farthest = compare_social(build, attempts, keep)
    size = was.images // max(1, len(was.chosen))
    rows = sum(len(batch) for batch in sub_batches(size))
    print(f"social_counterfactuals, {build}: {attempts} attempts at one set of {size}, which the authors' sub-batches "
          f"make as {rows}")  # fmt: skip
    print(f"{'':34s} {'published':>10s} {'recipe':>10s} {'pruned':>10s}   ratios")
    for what, values in {
        "sets kept": [len(bill.chosen) for bill in (was, now, less)],
        "UNet evaluations per kept image": [bill.unet_per_image for bill in (was, now, less)],
        "seconds": [bill.seconds for bill in (was, now, less)],
        "seconds of CPU": [bill.cpu for bill in (was, now, less)],
    }.items():
        shown = " ".join(f"{value:10,.1f}" for value in values)
        print(f"{what:34s} {shown}   {values[1] / values[0]:.3f} {values[2] / values[0]:.3f}")
    print(f"sets that published and recipe both keep: {len(was.chosen.keys() & now.chosen.keys())}, "
          f"largest difference of their pictures {farthest:.0f} of 255")  # fmt: skip
    print(f"of the sets kept, pruning finds {len(now.chosen.keys() & less.chosen.keys())} of {len(now.chosen)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="social-counterfactuals-embedded")
    parser.add_argument("--attempts", type=int, default=40)
    parser.add_argument("--prune-keep", type=float, default=0.28)
    parser.add_argument("--only", choices=["social", "occupations", "gensynth"])
    told = parser.parse_args(arguments)
    if told.only in (None, "social"):
        report_social(told.build, told.attempts, told.prune_keep)
    if told.only in (None, "occupations"):
        generation_occupations.main()
    if told.only in (None, "gensynth"):
        generation_gensynth.main()


if __name__ == "__main__":
    main()
