"""How much memory does `fairgate study gensynth --unfiltered` take at the paper's size? (Smith et al. 2023, table 2)

    python -m benchmarks.gensynth_size [--photographs 11541] [--folder build/gensynth-size] [--short | --whole]

11,541 photographs, 16 edits of each (184,656 pictures) and two edits of 3,973, with five captions of simulated words
and pictures of four pixels. Prints the peak of a process that reads the originals and every edit, clusters captions,
and guesses gender from words and from 512 dimensions of 184,656 pictures: what takes the most memory in the
study. With `--whole` it runs the study, on a simulated model (hours of one core at the paper's size). With `--short` it
does so, but what repeats in the same memory is cut short: fits after two iterations, searches after two blocks of
captions (every text is embedded), resamples after 50. Its numbers mean nothing, its peak is that of the whole.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch  # noqa: F401 - a study of a checkpoint has it loaded
from PIL import Image
from scipy import optimize

from fairgate.builds.steps import BOX
from fairgate.data import read_dataset, write_dataset
from fairgate.ground.randomness import stream
from fairgate.models import Request, register
from fairgate.models.checkpoints import Checkpoint, Device, Encoder
from fairgate.models.two_towers import TwoTowers
from fairgate.studies.papers import StudyPlace, caption_context, caption_search, gensynth_arms, group_prediction
from fairgate.studies.papers.caption_context import cluster_tables
from fairgate.studies.papers.captioned import Captioned
from fairgate.studies.papers.gensynth import GenSynthStudy, words_auc
from fairgate.studies.papers.group_prediction import predictable_auc

PHOTOGRAPHS, WORDS, DIMENSIONS, LIMIT = 11_541, 12_000, 512, 2e9
ACCEPTED = 3_973 / PHOTOGRAPHS
RECIPES = {"photographs": 1, "genswap": 2, "gensynth": 2, "gensynth_unfiltered": 16}
"""Pictures of a photograph by recipe."""


def rows_of(recipe: str, photographs: int) -> Iterator[dict[str, Any]]:
    """Rows of a simulated release; captions are of the photograph, and words fall as 1 / rank."""
    chance = 1 / np.arange(1, WORDS + 1)
    words = np.array([f"{'abcdefghij'[n % 10]}{''.join(chr(97 + int(d)) for d in str(n))}" for n in range(WORDS)])
    many = RECIPES[recipe]
    for number in range(photographs if many in (1, 16) else round(ACCEPTED * photographs)):
        rng = stream(0, "gensynth-size", number)
        own = "male" if rng.random() < 0.72 else "female"
        drawn = rng.choice(words, (5, 9), p=chance / chance.sum())
        text = [" ".join(line) for line in drawn]
        for place in range(many):
            gender = own if many == 1 else ("male", "female")[place % 2]
            said = "man" if gender == "male" else "woman"
            buffer = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (2, 2, 3), dtype=np.uint8)).save(buffer, "PNG")
            yield {
                "image": buffer.getvalue(),
                "set_id": f"{number:06d}",
                "member": f"{gender}-{place // 2}",
                "subject": "person",
                "gender": gender,
                "captions": json.dumps([f"a {said} {line}" for line in text]),
                "neutral_captions": json.dumps([f"a person {line}" for line in text]),
                **({"p_real": int(rng.integers(5)) / 50} if many == 16 else {}),
                **dict(zip(BOX, (0, 0, 1, 1), strict=True)),
            }


def write(folder: Path, photographs: int) -> None:
    for recipe in RECIPES:
        about: dict[str, Any] = {
            "recipe": {"name": recipe},
            "licence": "unknown",
            "counterfactual": recipe != "photographs",
            "attributes": {"gender": ["male", "female"]},
        }
        place = folder / "datasets" / recipe / "v1"
        if not place.exists():
            write_dataset(place, rows_of(recipe, photographs), name=recipe, version="v1", **about)


def simulated(_: Device) -> Encoder:
    projected = stream(0, "gensynth-size", "pictures").standard_normal((12, DIMENSIONS)).astype(np.float32)

    def texts(tokens: Mapping[str, Any]) -> np.ndarray:
        return np.stack([stream(0, text).standard_normal(DIMENSIONS, dtype=np.float32) for text in tokens["ids"]])

    return Encoder(
        scale=10.0,
        bias=0.0,
        vocabulary=3,
        prepare=lambda image: np.asarray(image.convert("RGB"), dtype=np.float32).ravel() / 255 - 0.5,
        encode_images=lambda batch: np.stack(list(batch)) @ projected,
        tokens=lambda prompts: {"ids": list(prompts)},
        encode_tokens=texts,
    )


@register
class Simulated:
    """`simulated:NAME`: a picture's pixels and a text's letters, projected at random."""

    scheme: ClassVar[str] = "simulated"
    forms: ClassVar[tuple[str, ...]] = ("simulated:NAME",)
    capabilities = TwoTowers.capabilities

    def local_path(self, _: str) -> Path | None:
        return None

    def open(self, request: Request) -> TwoTowers:
        return TwoTowers(Checkpoint("0" * 64, {"adapter": "simulated", "code": 1}, simulated), request)


def whole(folder: Path) -> None:
    releases = dict(zip(("original", "genswap", "gensynth", "unfiltered"), RECIPES, strict=True))
    GenSynthStudy(**releases, model={"simulated": "simulated:any"}).run(StudyPlace(folder, device="cpu"))  # type: ignore[arg-type]


def short(folder: Path) -> None:
    minimize, blocks, embeddings = optimize.minimize, caption_search._blocks, TwoTowers.similarity

    def two_iterations(*given: Any, options: dict[str, Any], **named: Any) -> Any:
        return minimize(*given, options=options | {"maxiter": 2}, **named)

    def two_blocks(texts: Sequence[str], images: int, most: int) -> Iterator[tuple[int, Sequence[str]]]:
        waiting.update(dict.fromkeys(texts))
        return islice(blocks(texts, images, most), 2)

    def with_all_texts(model: TwoTowers, ensembles: Sequence[Sequence[str]]) -> Any:
        known = model._known_texts(model._device)
        rest = [text for text in waiting if text not in known]
        for start in range(0, len(rest), 4096):
            model.text_embeddings(rest[start : start + 4096])
        return embeddings(model, ensembles)

    def first_captions(*given: Any) -> caption_search.CaptionGallery:
        whole_gallery = gallery(*given)
        waiting.update(dict.fromkeys(whole_gallery.queries))
        some = slice(2 * (caption_search.SCORES // len(whole_gallery.rows)))
        return replace(whole_gallery, queries=whole_gallery.queries[some], asked_by=whole_gallery.asked_by[some])

    gallery = caption_search.CaptionGallery.of
    gensynth_arms.CaptionGallery = SimpleNamespace(of=first_captions)  # type: ignore[misc, assignment, attr-defined]
    waiting: dict[str, None] = {}
    optimize.minimize, caption_search._blocks = two_iterations, two_blocks
    TwoTowers.similarity = with_all_texts  # type: ignore[method-assign]
    caption_context.ROUNDS, group_prediction.AUC_DRAWS = 3, 50
    whole(folder)


def largest(folder: Path) -> None:
    original, unfiltered = (
        Captioned(name, read_dataset(folder / "datasets" / name / "v1"))
        for name in ("photographs", "gensynth_unfiltered")
    )
    for release in (original, unfiltered):
        release.require(release.name)
    cluster_tables(original, 20, 0, {})
    print(f"words: AUC {words_auc(unfiltered, 0).value:.3f}, peak {peak() / 1e9:.2f} GB")
    embedded = stream(0, "pictures").standard_normal((len(unfiltered.dataset), DIMENSIONS), dtype=np.float32)
    auc = predictable_auc(embedded, unfiltered.codes == 0, stream(0, "folds"), unfiltered.owner)
    print(f"pictures: AUC {auc.value:.3f}")


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=int, default=PHOTOGRAPHS)
    parser.add_argument("--folder", type=Path, default=Path("build/gensynth-size"))
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    writing = multiprocessing.get_context("spawn").Process(target=write, args=(options.folder, options.photographs))
    writing.start()
    writing.join()
    started = time.monotonic()
    (whole if options.whole else short if options.short else largest)(options.folder)
    print(f"peak {peak() / 1e9:.2f} GB, {time.monotonic() - started:,.0f} s, {time.process_time():,.0f} s of a core")
    assert peak() < LIMIT, f"more than {LIMIT / 1e9:g} GB"


if __name__ == "__main__":
    main()
