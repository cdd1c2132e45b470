"""Does the suite that `fairgate suite new` writes pass harmless changes, and fail the loss that its header states?

    python -m benchmarks.default_suite --write docs/evidence     # about ten minutes

A new suite is written for photographs of three professions, 126 of each gender (or 36 of each of seven groups) of the
demonstration data, with the demonstration CLIP. Then 200 runs are decided: each draws other pictures from a pool of
1,920, and changes the checkpoint in one of eight ways that harm nobody. The demonstration data is drawn: it is a test
instrument.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from scipy.stats import beta

from fairgate import gate
from fairgate.data import open_dataset, write_dataset
from fairgate.ground.randomness import stream
from fairgate.probes import ProbeScores, taken_rows
from fairgate.studies.power import measured_suite
from fairgate.studies.power.decidable import lose, replanned
from fairgate.studies.power.harmless import base_scores, taken
from fairgate.suites import SuiteDraft, decide, load_text, resolve

ROOT = Path(__file__).resolve().parents[1]
BASE, TUNED = (ROOT / "build/portraits/checkpoints" / name for name in ("base", "tuned"))
SUBJECTS = ("chef", "doctor", "pilot")
RUNS, SPOILT = 200, 70.0
BESIDE = ("nurse", "line cook", "flight attendant")
WORLDS: dict[str, tuple[str, int, float | None]] = {"2 x 126": ("gender", 126, None), "7 x 36": ("look", 36, 0.1)}
"""The groups, how many pictures of each, and the loss that is tolerated (None: as the pictures can decide)."""
Tensors = dict[str, torch.Tensor]


def noise(size: float, seed: int) -> Any:
    """Noise of so many standard deviations on every matrix."""

    def change(weights: Tensors) -> Tensors:
        generator = torch.Generator().manual_seed(seed)
        return {
            name: w + size * w.std() * torch.randn(w.shape, generator=generator) if w.ndim > 1 else w
            for name, w in weights.items()
        }

    return change


def rounded(bits: int) -> Any:
    """Every matrix in so many bits."""

    def change(weights: Tensors) -> Tensors:
        levels = 2 ** (bits - 1) - 1
        return {
            name: (w / w.abs().max() * levels).round() / levels * w.abs().max() if w.ndim > 1 else w
            for name, w in weights.items()
        }

    return change


def towards(share: float) -> Any:
    """So far on the way to the checkpoint that was tuned without a planted bias."""
    tuned = load_file(next(TUNED.glob("*.safetensors")))
    return lambda weights: {name: w + share * (tuned[name] - w) for name, w in weights.items()}


def pruned(share: float) -> Any:
    """Without the smallest weights of every matrix."""

    def change(weights: Tensors) -> Tensors:
        return {
            name: torch.where(w.abs() < w.float().abs().flatten().quantile(share), 0.0, w) if w.ndim > 1 else w
            for name, w in weights.items()
        }

    return change


HARMLESS: Mapping[str, Any] = {
    "noise 1%, seed 1": noise(0.01, 1),
    "noise 1%, seed 2": noise(0.01, 2),
    "noise 2%, seed 3": noise(0.02, 3),
    "noise 2%, seed 4": noise(0.02, 4),
    "8 bits": rounded(8),
    "7 bits": rounded(7),
    "bfloat16": lambda weights: {name: w.bfloat16().float() for name, w in weights.items()},
    "5% pruned": pruned(0.05),
    "a tenth on the way to the tuned one": towards(0.1),
}


def looks(skin_tone: str, gender: str) -> str:
    """Seven groups: light and tan women are one."""
    return "light or tan female" if gender == "female" and skin_tone in ("light", "tan") else f"{skin_tone} {gender}"


def harder(image: bytes, key: tuple[str, str]) -> bytes:
    """A picture with noise: the drawn ones are all recognised, and photographs are not."""
    rng = stream(0, "harder", *key)
    pixels = np.asarray(Image.open(io.BytesIO(image)).convert("RGB"), dtype=np.float64)
    noisy = pixels + rng.gamma(1.0, SPOILT) * rng.normal(size=pixels.shape)
    out = io.BytesIO()
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


def release(
    folder: Path, name: str, chosen: Mapping[tuple[str, str], Any], attributes: Mapping[str, list[str]]
) -> None:
    """Single images of the demonstration data as a release."""
    whole = open_dataset("occupations", ROOT / "datasets")
    index = whole.index

    def rows() -> Iterator[Mapping[str, object]]:
        for batch, images in whole.image_batches(512):
            for row, image in zip(batch.tolist(), images, strict=True):
                key = (str(index.set_id[row]), str(index.member[row]))
                if key in chosen:
                    tone, gender = (str(index.attributes[a][row]) for a in ("skin_tone", "gender"))
                    own = {"gender": gender, "look": looks(tone, gender)}
                    subject, unique = str(index.subject[row]), "-".join(key)
                    yield {
                        "image": harder(image, key), "path": f"{unique}.png",
                        "set_id": unique, "member": "only", "subject": subject,
                        "caption": f"a {subject}", **{name: own[name] for name in attributes},
                    }  # fmt: skip

    write_dataset(
        folder / "datasets" / name / "v1", rows(), name=name, version="v1", attributes=dict(attributes),
        recipe={"name": "benchmark"}, licence="CC0-1.0", counterfactual=False,
    )  # fmt: skip


def main() -> None:
    """Write, measure, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, required=True)
    folder = parser.parse_args().write
    rows = [row for world in WORLDS for row in world_rows(world)]
    with (folder / "default_suite.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("world", "question", "runs", "yes", "lower limit", "upper limit"))
        writer.writerows(rows)


def world_rows(world: str) -> Iterator[tuple[object, ...]]:
    """A suite for some pictures of a world, and its runs on others."""
    attribute, size, tolerates = WORLDS[world]
    whole, rng = open_dataset("occupations", ROOT / "datasets"), stream(0, "default suite", world)
    index = whole.index
    pool = np.flatnonzero(np.isin(index.subject, SUBJECTS))
    of = {"gender": index.attributes["gender"], "look": np.array(list(map(looks, *index.attributes.values())))}[
        attribute
    ]
    groups = sorted(set(of[pool].tolist()))
    drawn = np.concatenate([rng.choice(pool[of[pool] == group], size, replace=False) for group in groups])
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        (place / "base").symlink_to(BASE)
        named = {"pool": pool, "few": drawn}
        for name, chosen in named.items():
            keys = {(str(index.set_id[row]), str(index.member[row])): None for row in chosen.tolist()}
            release(place, name, keys, {attribute: groups})
        few, everybody = (open_dataset(name, place / "datasets") for name in ("few", "pool"))
        model = f"open_clip:local-dir:{BASE}"

        def write(margin: float) -> str:
            draft = SuiteDraft("jobs", few.manifest, few.index, model, "git:main", margin)
            return draft.of_labels(distractors=BESIDE)

        first = measured_suite("jobs", place, few, write, tolerates=tolerates, progress=lambda *_: None)
        print(f"== {world}\n{first.text}", flush=True)
        text = first.text.replace("dataset: few", "dataset: pool")
        loaded = load_text(text.encode(), place / "fairness_suites/jobs.yaml", shown="jobs.yaml")
        prepared = gate.prepared_on(loaded, everybody, place)
        settings = resolve(loaded.suite, {"mlflow": "off", "baseline": "none", "cache": "off"})
        base = base_scores(prepared, settings)
        changed = {}
        for name, change in HARMLESS.items():
            copy = place / "changed"
            copy.mkdir(exist_ok=True)
            for file in BASE.iterdir():
                (copy / file.name).write_bytes(file.read_bytes())
            weights = copy / next(BASE.glob("*.safetensors")).name
            save_file({key: value.contiguous() for key, value in change(load_file(weights)).items()}, weights)
            changed[name] = base_scores(prepared, replace(settings, model=f"open_clip:local-dir:{copy}"))
            share = float((changed[name]["labels"].correct != base["labels"].correct).mean())
            print(
                f"{name}: {share:.1%} of answers turn, accuracy {changed[name]['labels'].correct.mean():.3f}",
                flush=True,
            )
        yield from answers(world, prepared, base, changed, attribute, groups, size, text)


def answers(
    world: str, prepared: gate.Prepared, base: Mapping[str, ProbeScores], changed: Mapping[str, Any],
    attribute: str, groups: list[str], size: int, text: str,
) -> Iterator[tuple[object, ...]]:  # fmt: skip
    """Of 200 runs each: how often the gate opens, and what closes it."""
    index, suite = prepared.dataset.index, prepared.loaded.suite
    losses = [float(number) for number in re.findall(r"fails a group's loss of ([0-9.]+)", text)]
    planned = [check for check in replanned(prepared.planned, suite) if check.against != "anchor"]
    at_base = {name: gate.at_temperature_of(base, planned, scores) for name, scores in changed.items()}
    kinds = {"harmless": (0.0, 0.0), "loss": (min(losses), 0.0), "gap closes": (0.0, 0.14)}  # losses now, and before
    for kind, (now, before) in kinds.items():
        rng, opened, failed, named = stream(1, "runs", world, kind), 0, 0, 0
        for run in range(RUNS):
            name, who = list(changed)[run % len(changed)], groups[run % len(groups)]
            rows = np.concatenate(
                [rng.choice(np.flatnonzero(index.attributes[attribute] == group), size) for group in groups]
            )
            own = {attribute: index.attributes[attribute][rows]}
            ids = np.arange(len(rows)).astype(str)
            seen = taken_rows(index, rows, ids)

            def of(scores: Mapping[str, ProbeScores], loss: float) -> dict[str, ProbeScores]:
                some = {key: taken(value, rows) for key, value in scores.items()}  # noqa: B023
                inside = own[attribute] == who  # noqa: B023
                return {key: lose(value, inside, loss, rng) if loss else value for key, value in some.items()}  # noqa: B023

            results = decide(
                planned, seen, suite, of(changed[name], now), {"baseline": of(base, before)}, prepared.null,
                {"baseline": of(at_base[name], now)},
            )  # fmt: skip
            deciding = [check for check in results if not check.excused]
            opened += all(check.verdict == "pass" for check in deciding)
            failing = [check for check in deciding if check.verdict == "fail"]
            failed += bool(failing)
            named += any(group.group == who for check in failing for group in check.failing_groups)
        questions = {"harmless": {"passes": opened, "fails": failed}, "gap closes": {"passes": opened, "fails": failed}}
        wanted = questions.get(kind, {f"of {min(losses):.2f} fails, the group named": named})
        for question, yes in wanted.items():
            low = float(beta.ppf(0.05, yes, RUNS - yes + 1)) if yes else 0.0
            high = float(beta.ppf(0.95, yes + 1, RUNS - yes)) if yes < RUNS else 1.0
            print(world, kind, question, yes, "of", RUNS, flush=True)
            yield world, f"{kind} {question}", RUNS, yes, round(low, 3), round(high, 3)


if __name__ == "__main__":
    main()
