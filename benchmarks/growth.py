"""How a decision grows with the images: `fairgate check` on tables of scores, start-up and reading included.

    python -m benchmarks.growth [--images 10954 24000 240000 2400000] [--checks 6 30] [--json FILE] [--plot FILE]

Labels and scores of as many images are drawn (gender 2, race 7 and age 9 groups in FairFace's proportions; three probes
of two prompts each), imported, and compared with a baseline that a harmless change separates them from. Every check is
a process of its own, with a cache that a first check has filled: seconds of wall and of the processor, and the peak of
its memory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._machine import facts

GROUPS = {
    "gender": (["Male", "Female"], [0.53, 0.47]),
    "race": (
        ["East Asian", "White", "Latino_Hispanic", "Southeast Asian", "Black", "Indian", "Middle Eastern"],
        [0.14, 0.19, 0.15, 0.13, 0.14, 0.14, 0.11],
    ),
    "age": (
        ["0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70-130"],
        [0.02, 0.12, 0.11, 0.30, 0.21, 0.12, 0.07, 0.03, 0.02],
    ),
}
TEMPLATES = {"photo": "a photo of a {label}", "face": "the face of a {label}", "portrait": "a portrait of a {label}"}
OVERS = ["gender", "race", "age", "[race, gender]", "[race, gender, age]"]


def _checks(many: int) -> list[str]:
    """Checks as a suite writes them: 6, or 30 (12 of accuracy, 10 of P(true), 6 of gaps, 2 of rankings)."""
    rule = "no_worse_than: baseline, margin: 0.02"
    if many == 6:
        return [
            "{id: useful, probe: photo, metric: accuracy, at_least: 0.5}",
            f"{{id: accuracy, probe: photo, metric: accuracy, over: gender, {rule}}}",
            f"{{id: p-true, probe: photo, metric: p_true, over: gender, {rule}}}",
            f"{{id: p-true-race, probe: photo, metric: p_true, over: race, {rule}}}",
            f"{{id: gap, probe: photo, metric: accuracy_gap, over: gender, {rule}}}",
            f"{{id: gap-race, probe: photo, metric: accuracy_gap, over: race, {rule}}}",
        ]
    lines = ["{id: useful, probe: photo, metric: accuracy, over: gender, at_least: 0.5}"]
    places = [(probe, over) for over in OVERS for probe in TEMPLATES]
    for kind, count in (("accuracy", 11), ("p_true", 10), ("accuracy_gap", 6)):
        for at, (probe, over) in enumerate(places[-count:] if kind != "accuracy_gap" else places[:count]):
            lines.append(f"{{id: {kind.replace('_', '-')}-{at}, probe: {probe}, metric: {kind}, over: {over}, {rule}}}")
    for over in ("gender", "race"):
        metric = f"max_skew_at_k, k: 1000, by: word, over: {over}, no_worse_than: baseline, margin: 0.5"
        lines.append(f"{{id: skew-{over}, probe: search, metric: {metric}}}")
    return lines


def _suite(many: int) -> str:
    words = "labels: [man, woman], truth: gender, words: {Male: man, Female: woman}"
    probes = "".join(
        f"  {name}: {{kind: zero_shot_classification, template: {json.dumps(template)}, {words}}}\n"
        for name, template in TEMPLATES.items()
    )
    if many > 6:
        probes += "  search: {kind: association, template: 'a photo of a {word}', words: {people: [man]}}\n"
    checks = "".join(f"  - {line}\n" for line in _checks(many))
    return (
        f"schema: 1\nsuite: growth-{many}\ndataset: faces@v1\nmodel: 'scores:after.parquet?values=logit'\n"
        f"baseline: 'model:scores:before.parquet?values=logit'\nprobes:\n{probes}checks:\n{checks}"
    )


def prepare(images: int, root: Path, fairgate: str) -> float:
    """The repository of a size, and the seconds that its import took."""
    draw = np.random.default_rng([27, images])
    codes = {name: draw.choice(len(names), images, p=np.array(p) / sum(p)) for name, (names, p) in GROUPS.items()}
    if images < 10_000:  # so few show not every crossing of groups, which the checks name
        for at, crossing in enumerate(product(*(range(len(names)) for names, _ in GROUPS.values()))):
            for code, group in zip(codes.values(), crossing, strict=True):
                code[at] = group
    files = pa.array([f"val/{at}.jpg" for at in range(images)])
    labels = {name: pa.array(np.array(GROUPS[name][0])[code]) for name, code in codes.items()}
    root.mkdir(parents=True)
    pq.write_table(pa.table({"file": files, **labels}), root / "labels.parquet")
    truth = np.where(codes["gender"] == 0, 1.0, -1.0)
    ease = np.array([1.6, 0.9, 1.2, 1.8, 2.0, 2.0, 1.9, 1.7, 1.4])[codes["age"]]
    scores: dict[str, dict[str, Any]] = {"before": {"file": files}, "after": {"file": files}}
    for template in TEMPLATES.values():
        prompts = [template.format(label=label) for label in ("man", "woman")]
        base = truth * ease + draw.normal(0, 0.8, images)
        for run, noise in (("before", 0.0), ("after", 0.15)):
            lead = base + noise * draw.normal(0, 1, images)
            scores[run][prompts[0]], scores[run][prompts[1]] = 20 + lead / 2, 20 - lead / 2
    for run, table in scores.items():
        pq.write_table(pa.table(table), root / f"{run}.parquet")
    (root / "fairness_suites").mkdir()
    for many in (6, 30):
        (root / "fairness_suites" / f"growth-{many}.yaml").write_text(_suite(many), encoding="utf-8")
    started = time.perf_counter()
    attributes = [part for name in GROUPS for part in ("--attribute", name)]
    command = [fairgate, "dataset", "import", "faces", "--labels", "labels.parquet", "--subject", "person", *attributes]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def measure(root: Path, many: int, fairgate: str) -> dict[str, float | str]:
    """One check in a process of its own."""
    options = ["--mlflow", "off", "--cache", "cache", "--base", "none", "--report", f"runs/{many}", "--device", "cpu"]
    started = time.perf_counter()
    process = subprocess.Popen([fairgate, "check", f"growth-{many}", *options], cwd=root, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"exit code {process.returncode}:\n{output}")
    record = json.loads((root / "runs" / str(many) / "results.json").read_text(encoding="utf-8"))
    return {
        "wall_s": round(time.perf_counter() - started, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": round(used.ru_maxrss / 1024),
        "verdict": record["verdict"],
    }


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Processor seconds and peak memory over images, a line for each number of checks."""
    import matplotlib as mpl  # noqa: PLC0415 - the check's processes are what is measured

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (seconds, memory) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axes, name, unit in ((seconds, "cpu_s", "processor time, s"), (memory, "peak_mb", "peak memory, MB")):
        for many in sorted({row["checks"] for row in rows}):
            points = sorted((row["images"], row[name]) for row in rows if row["checks"] == many)
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{many} checks")
        axes.set(xscale="log", yscale="log", xlabel="images", ylabel=unit)
        axes.set_ylim(axes.get_ylim()[0] / 3, axes.get_ylim()[1] * 3)
        axes.grid(alpha=0.3)
    seconds.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--images", type=int, nargs="+", default=[10_954, 24_000, 240_000, 2_400_000]
    )  # 13 million are imported in half an hour
    parser.add_argument("--checks", type=int, nargs="+", choices=(6, 30), default=[6, 30])
    parser.add_argument("--json", type=Path, help="write the rows and the machine here")
    parser.add_argument("--plot", type=Path, help="draw processor seconds and memory over images here")
    parser.add_argument("--keep", type=Path, help="folder for the repositories; kept, and used again")
    given = parser.parse_args()
    fairgate = shutil.which("fairgate", path=str(Path(sys.executable).parent)) or "fairgate"
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        print("| images | checks | wall s | CPU s | peak MB | verdict |\n|---:|---:|---:|---:|---:|---|")
        for images in given.images:
            root = (given.keep or Path(scratch)) / str(images)
            if not root.exists():  # elsewhere: a peak of this process would be that of each that it starts
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                    pool.submit(prepare, images, root, fairgate).result()
                measure(root, given.checks[0], fairgate)
            for many in given.checks:
                row = {"images": images, "checks": many, **measure(root, many, fairgate)}
                rows.append(row)
                print(
                    f"| {images:,} | {many} | {row['wall_s']} | {row['cpu_s']} | {row['peak_mb']} | {row['verdict']} |",
                    flush=True,
                )
    if given.json:
        given.json.write_text(json.dumps({"machine": facts("numpy"), "rows": rows}, indent=1), encoding="utf-8")
    if given.plot:
        plot(rows, given.plot)


if __name__ == "__main__":
    main()
