"""Release every embedded build in a repository of its own, and gate the embedded checkpoints on it.

    dvc repro && python benchmarks/embedded_releases.py

For each build of `params.yaml` that ends in `-embedded`: `fairgate release`, `fairgate suite new`, `fairgate check` of
*tuned* (harmless) and *biased* (a planted association) against *base*. One row each: what was built, and both
verdicts. The demonstration data is a test instrument; no figure here is a fact about real models.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fairgate.builds.build import build_names
from fairgate.data import read_manifest
from fairgate.portraits.world import HARD_LABELS
from fairgate.records import RunRecord

ROOT = Path(__file__).resolve().parent.parent
CHECKPOINTS = ROOT / "build" / "portraits" / "checkpoints"


def main() -> None:
    """Gate all builds, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="builds; all embedded ones when left out")
    names = parser.parse_args().names or [
        name for name in build_names(ROOT / "params.yaml") if name.endswith("-embedded")
    ]
    print("| build | sets | images | groups | tuned | biased | failing checks of biased |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(gate(name, Path(folder) / name), flush=True)


def gate(name: str, repository: Path) -> str:
    """One row of the table."""
    shutil.copytree(CHECKPOINTS, repository / "checkpoints")
    build = ROOT / "build" / name / "dataset"
    manifest = read_manifest(build)
    why = "a build of the demonstration data, made to be gated"
    run("release", str(build), manifest.name, "--root", str(repository / "datasets"), "--unreviewed", why)
    if len(manifest.subjects) == 1:
        labels = ["--truth", "gender"]
    else:  # what was planted in *biased* is told as one of these
        labels = [word for label in _neighbours(manifest.subjects) for word in ("--beside", label)]
    model = "open_clip:local-dir:checkpoints/"
    run(
        *("suite", "new", "gate", "--dataset", manifest.name, "--model", f"{model}tuned", "--baseline"),
        *(f"model:{model}base", *labels, "--root", str(repository)),
    )
    verdicts: dict[str, str] = {}
    failing: list[str] = []
    for checkpoint in ("tuned", "biased"):
        report = repository / checkpoint
        words = ["check", "gate", "--root", str(repository), "--model", f"{model}{checkpoint}"]
        run(*words, "--report", str(report), "--mlflow", "off", "--device", "cpu", allowed=(0, 1))
        record = RunRecord.model_validate_json((report / "results.json").read_bytes())
        verdicts[checkpoint] = record.verdict
        failing = [check.item for check in record.checks if check.verdict == "fail"]
    groups = " × ".join(f"{attribute} ({len(named)})" for attribute, named in manifest.attributes.items())
    listed = ", ".join(failing[:4]) + (f" and {len(failing) - 4} more" if len(failing) > 4 else "")
    cells = [name, f"{manifest.n_sets:,}", f"{manifest.n_rows:,}", groups, *verdicts.values(), listed]
    return f"| {' | '.join(cells)} |"


def _neighbours(subjects: Iterable[str]) -> list[str]:
    """The labels that the embedded checkpoints may take for a subject's own."""
    return [label for subject in subjects for label in HARD_LABELS[subject] if label != subject]


def run(*words: str, allowed: tuple[int, ...] = (0,)) -> None:
    """`fairgate` with these words. Stops the script where its exit code is another."""
    ended = subprocess.run(
        [sys.executable, "-m", "fairgate.interfaces.cli", *words], capture_output=True, text=True, check=False
    )
    if ended.returncode not in allowed:
        sys.exit(f"fairgate {' '.join(words)}\n{ended.stdout}{ended.stderr}")


if __name__ == "__main__":
    main()
