"""Each family's own engine beside the plain path, by which the library opens any type in an isolated process, and
beside another checkout of fairgate.

    python -m benchmarks.families [--before /path/to/checkout] [--device cuda] [--out families.json]

Small networks with random weights (four layers of width 192; 224 pixels), from encoded pictures to numbers, without a
cache, in a process of its own each time: pictures a second, without opening the model, medians of rounds in turn.
"start" is the time until a new process has answered about four pictures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers as t

from benchmarks import vlm
from benchmarks._family_runs import ASKED, LABELS, SIDE
from benchmarks._machine import facts

sys.path.append(str(Path(__file__).parents[1] / "tests" / "models"))
from hf_world import tiny_tokenizer
from vlm_world import tokenizer

WIDTH = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 768}
VISION = {**WIDTH, "image_size": SIDE, "patch_size": 16}
RUNS = Path(__file__).with_name("_family_runs.py").resolve()


def save_all(root: Path) -> None:
    """A folder of each family, as transformers saves it."""
    torch.manual_seed(0)
    named = {"id2label": dict(enumerate(LABELS)), "label2id": {label: place for place, label in enumerate(LABELS)}}
    words = tiny_tokenizer()
    text = {**WIDTH, "vocab_size": 1000, "max_position_embeddings": 16, "bos_token_id": 0, "eos_token_id": 1}
    clip = t.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=64)
    pixels = {"size": {"height": SIDE, "width": SIDE}}
    crop = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    parts: dict[str, list[Any]] = {
        "classifier": [t.ViTForImageClassification(t.ViTConfig(**VISION, **named)), t.ViTImageProcessor(**pixels)],
        "features": [t.ViTModel(t.ViTConfig(**VISION)), t.ViTImageProcessor(**pixels)],
        "hf": [t.CLIPModel(clip), t.CLIPImageProcessor(**crop), words],
        "detector": [
            t.YolosForObjectDetection(t.YolosConfig(**{**VISION, "image_size": [SIDE, SIDE]}, **named)),
            t.YolosImageProcessor(size={"shortest_edge": SIDE, "longest_edge": SIDE}),
        ],
    }
    config, processor = vlm.llava(tokenizer(), tiny=True)
    parts["vlm"] = [t.LlavaForConditionalGeneration(config), processor]
    for family, each in parts.items():
        for part in each:
            part.save_pretrained(root / family)


def run(family: str, way: str, folder: Path, checkout: Path, device: str) -> dict[str, float]:
    """`timed` in a process that imports a checkout's fairgate."""
    paths = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(RUNS), family, way, str(folder), device]
    done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{family}, {way}, {checkout}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, whose engines are timed too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="cuda: also whether the isolated process can use it")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    rows = []
    with tempfile.TemporaryDirectory() as root:
        save_all(Path(root))
        for family in ASKED:
            own = "plain" if family == "vlm" else "engine"  # in a version before, such a model had both ways
            sides = {own: (own, here), "plain": ("plain", here)}
            if given.before:
                sides["before"] = ("engine", given.before.resolve())
            found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
            for _ in range(given.rounds):
                for side, (way, checkout) in sides.items():
                    found[side].append(run(family, way, Path(root), checkout, given.device))
            row: dict[str, Any] = {"family": family}
            for side, measured in found.items():
                row[side] = {name: statistics.median(each[name] for each in measured) for name in measured[0]}
            rows.append(row)
            rates = ", ".join(f"{side} {row[side]['rate']:.1f}/s, start {row[side]['start']:.1f} s" for side in sides)
            ratio = f"; of before {row[own]['rate'] / row['before']['rate']:.2f}" if given.before else ""
            print(f"{family}: {rates}; engine of plain {row[own]['rate'] / row['plain']['rate']:.2f}{ratio}")
    if given.out:
        machine = facts("torch", "transformers")
        given.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
