"""Try strangers' inputs for a while: `python tests/fuzz/run.py --seconds 120 [--target NAME]`.

Every input either works or is refused by a FairgateError with a problem, a place and a remedy; nothing else escapes,
nothing takes longer than a few seconds or a few hundred megabytes. The time is split over the targets, of which as many
run at once as there are cores (at most 4); each has a line with how many inputs were tried, accepted and refused. With
--drawn, a process tries its share of the targets one after another: what they import is imported once. The first
failing input of a target is kept under --keep, and the exit code is 1; `--replay FILE --target NAME` tries one again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import BaseContext
from pathlib import Path

from worker import Work, in_process, make_world

HERE = Path(__file__).resolve().parent
SPARE_SECONDS = 120  # what a target needs to start on a busy machine


def main() -> int:
    asked = arguments()
    from targets import TARGETS

    chosen = [target for target in TARGETS if not asked.target or target.name in asked.target]
    if not chosen:
        print(f"no such target; there are: {', '.join(target.name for target in TARGETS)}")
        return 4
    explorer = importlib.util.find_spec("atheris") is not None
    explored = explorer and not asked.drawn
    work = [(target.name, engine) for target in chosen for engine in ("drawn", "explored")
            if engine == "drawn" or (explored and target.explored)]  # fmt: skip
    if not explorer:
        print("atheris is not installed: inputs are drawn by hypothesis alone")
    keep = Path(asked.keep).resolve()
    jobs = min(asked.jobs, len(work))
    seconds = asked.seconds * jobs / len(work)
    many = len(work) > 3
    start = contexts(many)
    with tempfile.TemporaryDirectory(prefix="fairgate-fuzz-") as folder, ThreadPoolExecutor(jobs) as pool:
        made = Path(folder) if many else None
        if made is not None:
            process = start["drawn"].Process(target=make_world, args=(made,))  # type: ignore[attr-defined] # of every context
            process.start()
            process.join()
        shares = [work[first::jobs] for first in range(jobs)] if asked.drawn else [[each] for each in work]
        failed = list(pool.map(lambda share: run(share, start[share[0][1]], seconds, asked.seed, keep, made), shares))
    return int(any(failed))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="for all targets together (default 120)")
    parser.add_argument("--target", action="append", help="only this one (repeatable)")
    parser.add_argument("--seed", type=int, default=None, help="draw the same inputs again (default: by the clock)")
    jobs = min(4, os.cpu_count() or 1)
    parser.add_argument("--jobs", type=int, default=jobs, help="targets at once (default: as many as cores, up to 4)")
    parser.add_argument(
        "--drawn", action="store_true", help="leave out what atheris explores: it imports anew a target"
    )
    parser.add_argument("--keep", default="fuzz-failures", help="folder for failing inputs")
    parser.add_argument("--replay", help="try this file alone, with --target")
    parsed = parser.parse_args()
    if parsed.replay:
        if not parsed.target:
            parser.error("--replay needs --target")
        raise SystemExit(replay(parsed.target[0], Path(parsed.replay)))
    parsed.seed = int(time.time()) if parsed.seed is None else parsed.seed
    return parsed


def contexts(many: bool) -> dict[str, BaseContext]:
    """How a target's process starts. Inputs that are drawn get a fork of one that has imported everything, which takes
    longer than the inputs do; those that are explored import for themselves, and are watched from the first line."""
    os.environ.update(PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["imported_once"] if many else [])
    return {"drawn": forks, "explored": multiprocessing.get_context("spawn")}


def run(
    share: list[tuple[str, str]], context: BaseContext, seconds: float, seed: int, keep: Path, made: Path | None
) -> bool:
    """Targets, each with its engine, in a process of their own; whether one failed."""
    with tempfile.TemporaryDirectory(prefix="fairgate-fuzz-") as folder:
        work = [Work(name, engine, seconds, seed, keep, Path(folder, name), made) for name, engine in share]
        process = context.Process(target=in_process, args=(work,))  # type: ignore[attr-defined] # of every context
        process.start()
        process.join((seconds + SPARE_SECONDS) * len(share))
        hung = process.exitcode is None
        process.kill()
        process.join()
        failed = [tell(each, hung=hung, code=process.exitcode) for each in work]  # each has its line
        return any(failed)


def tell(work: Work, *, hung: bool, code: int | None) -> bool:
    """Print what became of a target; whether it failed. One that explores leaves its process itself."""
    counts = json.loads(work.report.read_text()) if work.report.is_file() else {"tried": 0, "accepted": 0, "refused": 0}
    bad = not counts["tried"] or not (work.done.is_file() or (work.engine == "explored" and code == 0))
    print(
        f"{work.name:<18}{work.engine:<10}{counts['tried']:>8,} tried {counts['accepted']:>8,} accepted "
        f"{counts['refused']:>8,} refused  {'FAILED' if bad else 'ok'}",
        flush=True,
    )
    if bad:
        output = work.said.read_text(errors="replace") if work.said.is_file() else "not begun"
        told_by_atheris = ("INFO:", "WARNING:")
        shown = "\n".join(line for line in output.splitlines() if not line.startswith(told_by_atheris))
        ending = "\nhung" if hung else ""
        print(f"{shown.strip()[-6000:]}{ending}\n  inputs that fail are in {work.keep}", flush=True)
    return bad


def replay(name: str, path: Path) -> int:
    import tempfile

    from targets import TARGETS
    from worker import Trial
    from world import World

    (target,) = (one for one in TARGETS if one.name == name)
    with tempfile.TemporaryDirectory(prefix="fairgate-fuzz-") as folder:
        trial = Trial(target, World(Path(folder)))
        trial(path.read_bytes())
        print("accepted" if trial.accepted else f"refused:\n{trial.said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
