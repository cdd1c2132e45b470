"""Compare what two checkouts of fairgate measure: equal in every number, or the list of what differs.

    python -m benchmarks.compare_checkouts /path/to/before . [--fairface DIR] [--builds]

In each checkout, on this machine: every shipped suite on base, tuned, biased and whackamole; with `--fairface`, the
audit of docs/evidence/fairface on the published scores in that folder; and the content of every embedded build, as
dvc.lock has it. With `--builds`, a part of each recipe is built again in both (minutes). The exit code is 1 if a value
differs. Keys that only one side has are listed as added or removed, and do not count: records may grow.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pyarrow import parquet as pq

CHECKPOINTS = "open_clip:local-dir:build/portraits/checkpoints"
MODELS = ("base", "tuned", "biased", "whackamole")
STAGES = {
    "portraits/faces": "portraits faces --out build/portraits/faces",
    "faces-embedded": "build faces-embedded",
    "portraits/photos": "portraits photos --photos 200 --out build/portraits/photos",
    "gensynth-embedded/pilot/photos": "build gensynth-embedded --subject pilot --part photos",
    "genswap-embedded/pilot": "build genswap-embedded --subject pilot",
    "social-identities-embedded": (
        "build social-identities-embedded --subject dark-skinned-male-person --part headshots"
    ),
    "social-counterfactuals-embedded/pilot/sets": "build social-counterfactuals-embedded --subject pilot --part sets",
    "occupations-gender-embedded/pilot-male": "build occupations-gender-embedded --subject pilot-male",
    "occupations-embedded/pilot/pool": "build occupations-embedded --subject pilot --part pool",
}
"""Folders under build/, and the commands that make them: a part of each embedded recipe that needs no other part."""

CLOCKS = {"created_at", "seconds", "command", "environment"}
"""What a record says of the run, and not of the model."""


def main() -> int:
    """Print what differs between two checkouts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--fairface", type=Path, help="folder with the labels and scores of docs/evidence/fairface")
    parser.add_argument("--builds", action="store_true", help="build a part of every embedded recipe, too")
    given = parser.parse_args()
    measured = [measure(path.resolve(), given.fairface, builds=given.builds) for path in (given.before, given.after)]
    added, removed, unequal = [], [], []
    for place, before, after in differences(*measured):
        if before is ABSENT:
            added.append(place)
        elif after is ABSENT:
            removed.append(place)
        else:
            unequal.append(f"{place}: {before!r} -> {after!r}")
    for title, lines in (("added", sorted(general(added))), ("removed", sorted(general(removed)))):
        for line in lines:
            print(f"{title}: {line}")
    for line in unequal:
        print(f"differs: {line}")
    print(f"{sum(1 for _ in leaves(measured[0])):,} values compared, {len(unequal):,} differ")
    return int(bool(unequal))


def measure(checkout: Path, fairface: Path | None, *, builds: bool) -> dict[str, Any]:
    """Everything that is compared, of one checkout."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        found: dict[str, Any] = {"builds": locked_builds(checkout)}
        for suite in sorted(path.stem for path in (checkout / "fairness_suites").glob("*.yaml")):
            for model in MODELS:
                name = f"{suite} on {model}"
                print(f"{checkout}: {name}", file=sys.stderr, flush=True)
                found[name] = judge(checkout, checkout, suite, f"{CHECKPOINTS}/{model}", scratch / name)
        if fairface is not None:
            found |= fairface_audit(checkout, fairface, scratch / "fairface")
        if builds:
            found["built"] = built(checkout, scratch / "build")
        return found


def judge(checkout: Path, root: Path, suite: str, model: str, report: Path, baseline: str | None = None) -> Any:
    """The record of one gate run, without clocks."""
    words = ["check", suite, "--root", str(root), "--model", model, "--report", str(report), "--mlflow", "off"]
    words += ["--cache", str(report.parent / "cache"), "--base", "none"]
    done = fairgate(checkout, root, *words, *(["--baseline", baseline] if baseline else []))
    if not (report / "results.json").is_file():
        raise SystemExit(f"{checkout}: {suite} on {model} gave no record:\n{done.stdout}{done.stderr}")
    record = json.loads((report / "results.json").read_text(encoding="utf-8"))
    record["checks"] = {item(check): check for check in record["checks"]}
    return {"exit": done.returncode, **{key: value for key, value in record.items() if key not in CLOCKS}}


def item(check: dict[str, Any]) -> str:
    """A name of a check that no other one has."""
    return " ".join(str(check[key]) for key in ("id", "subject", "word", "against") if check.get(key))


def fairface_audit(checkout: Path, data: Path, root: Path) -> dict[str, Any]:
    """The run of docs/evidence/fairface/README.md on published scores."""
    shutil.copytree(next(checkout.glob("docs/**/fairface")), root)  # it moved once
    labels = data / "fairface_val_labels.csv.gz"
    races = "race=East Asian,White,Latino_Hispanic,Southeast Asian,Black,Indian,Middle Eastern"
    words = ["dataset", "import", "fairface", "--labels", str(labels), "--subject", "person", "--root", "datasets"]
    words += ["--attribute", "gender=Male,Female", "--attribute", "age", "--attribute", races]
    done = fairgate(checkout, root, *words)
    if done.returncode:
        raise SystemExit(f"{checkout}: the labels of FairFace:\n{done.stdout}{done.stderr}")
    (root / "scores").mkdir()
    for run in ("before", "after"):
        rows = gzip.decompress((data / f"vit_l14_openai_{run}.csv.gz").read_bytes()).decode().splitlines()
        rows[0] = "file,a photo of a man,a photo of a woman"
        (root / "scores" / f"{run}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = {}
    for suite in ("fairface", "fairface_gaps"):
        tables = [f"scores:scores/{run}.csv?values=logit" for run in ("before", "after")]
        found[f"{suite} before"] = judge(checkout, root, suite, tables[0], root / f"{suite}-before", "none")
        kept = f"file:{suite}-before"
        found[f"{suite} after"] = judge(checkout, root, suite, tables[1], root / f"{suite}-after", kept)
    return found


def locked_builds(checkout: Path) -> dict[str, str]:
    """The digest of every folder that a DVC stage makes."""
    stages = yaml.safe_load((checkout / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    return {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", ())}


def built(checkout: Path, root: Path) -> dict[str, Any]:
    """By stage, the rows of one small part of every embedded recipe, built now."""
    root.mkdir(parents=True)
    shutil.copy(checkout / "params.yaml", root)
    shutil.copytree(checkout / "build" / "portraits", root / "build" / "portraits")
    found = {}
    for name, command in STAGES.items():
        print(f"{checkout}: builds {name}", file=sys.stderr, flush=True)
        done = fairgate(checkout, root, *command.split())
        if done.returncode:
            raise SystemExit(f"{checkout}: {command}:\n{done.stdout}{done.stderr}")
        shards = sorted((root / "build" / name).rglob("*.parquet"))
        found[name] = {path.relative_to(root).as_posix(): rows_of(path) for path in shards}
    return found


def rows_of(path: Path) -> list[str]:
    """A digest of every row: the file's own metadata holds digests of code."""
    return [hashlib.sha256(repr(sorted(row.items())).encode()).hexdigest() for row in pq.read_table(path).to_pylist()]


def fairgate(checkout: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of a checkout's code."""
    home = "interfaces.cli" if (checkout / "fairgate" / "interfaces").is_dir() else "cli"  # 0.2.0 has it at the top
    return run(checkout, cwd, "-c", f"from fairgate.{home}.main import app; app()", *words)


def run(checkout: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the code of a checkout, and no setting of this machine's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("FAIRGATE_", "GITHUB_"))}
    environment |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


def differences(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every place at which two nested values differ: a float differs unless it is the same bits."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys(key for key in (*before, *after) if key not in CLOCKS):
            yield from differences(before.get(key, ABSENT), after.get(key, ABSENT), f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{place}/{number}")
    elif before != after:
        yield place, before, after


def leaves(value: Any) -> Iterator[Any]:
    """Every value that holds no others."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)
    else:
        yield value


def general(places: list[str]) -> set[str]:
    """Places without the numbers in them: one line for a key that every check gained."""
    return {re.sub(r"/\d+", "/*", re.sub(r"^/[^/]* on [^/]*/(checks/[^/]*/)?", r"/*/\1", place)) for place in places}


if __name__ == "__main__":
    sys.exit(main())
