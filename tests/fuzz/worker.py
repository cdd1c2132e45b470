"""One target for a while, in this process: inputs drawn by hypothesis, or explored by atheris along what they reach."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

SECONDS_PER_INPUT = 20  # on a machine that does other things too
GROWTH_KB = 700 << 10
ADDRESSES = 24 << 30  # virtual: torch and arrow reserve a lot and use little


class TooSlow(BaseException):
    """An input took too long."""


class Trial:
    """Tries inputs on a target and counts what became of them."""

    def __init__(self, target: Any, world: Any, report: Path | None = None) -> None:
        self.target, self.world, self.report = target, world, report
        self.told = 0.0
        self.tried = self.accepted = self.refused = 0
        self.said = ""
        self.failing = b""
        signal.signal(signal.SIGALRM, _too_slow)

    def tell(self) -> None:
        """Write down what was done so far: libFuzzer ends the process without a word."""
        if self.report is not None:
            counts = {"tried": self.tried, "accepted": self.accepted, "refused": self.refused}
            self.report.write_text(json.dumps(counts))

    def __call__(self, data: bytes) -> None:
        self.tried += 1
        before, self.failing = self.failing, data
        self._try(data)
        self.failing = before  # it did not fail; of those that did, the last is the smallest

    def _try(self, data: bytes) -> None:
        from uses import require_parts

        from fairgate.ground.errors import FairgateError

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.alarm(SECONDS_PER_INPUT if self.tried > 3 else 6 * SECONDS_PER_INPUT)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                self.target.use(self.world, data)
            self.accepted += 1
        except FairgateError as error:
            require_parts(error, place=self.target.name != "addresses")
            self.said = str(error)
            self.refused += 1
        finally:
            signal.alarm(0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if time.monotonic() - self.told > 1:
            self.told = time.monotonic()
            self.tell()
        assert self.tried < 20 or grown < GROWTH_KB, f"memory grew by {grown >> 10} MB"


def _too_slow(_number: int, _frame: FrameType | None) -> NoReturn:
    raise TooSlow(f"an input took more than {SECONDS_PER_INPUT} s")


def drawn(trial: Trial, seconds: float, seed: int) -> None:
    """Let hypothesis draw inputs until the time is over; a failing one is made smaller before it is told."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    inputs = trial.target.inputs(trial.world)
    end = float("inf")
    for round_ in range(1_000_000):

        @seeded(seed + round_)
        @settings(
            max_examples=50,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(inputs)
        def one_round(data: bytes) -> None:
            nonlocal end
            if time.monotonic() < end:
                trial(data)
            if trial.tried == 1:  # the first one imports what the target needs
                end = time.monotonic() + seconds

        one_round()
        if time.monotonic() >= end:
            return


def explored(trial: Trial, seconds: float, seed: int) -> None:
    """Let atheris follow the branches that inputs reach, from real files on."""
    import atheris

    corpus = trial.world.root / "corpus"
    corpus.mkdir()
    for number, data in enumerate(trial.target.seeds(trial.world)):
        (corpus / str(number)).write_bytes(data)
    limits = [
        f"-max_total_time={max(1, int(seconds))}",
        f"-seed={seed % 2**31 + 1}",
        "-rss_limit_mb=8000",
        "-verbosity=0",
    ]
    atheris.Setup(
        [sys.argv[0], *limits, "-max_len=65536", "-timeout=60", f"-artifact_prefix={corpus}/", str(corpus)], trial
    )
    atheris.Fuzz()


@dataclass(frozen=True)
class Work:
    """A target, how its inputs are made, for how long, where a failing input goes, a folder of its own, and one with
    the world that all targets begin from."""

    name: str
    engine: str
    seconds: float
    seed: int
    keep: Path
    folder: Path
    made: Path | None = None

    @property
    def report(self) -> Path:
        """The counts."""
        return self.folder.with_name(f"{self.name}.json")

    @property
    def said(self) -> Path:
        """What it prints."""
        return self.folder.with_name(f"{self.name}.said")

    @property
    def done(self) -> Path:
        """It is there if no input failed."""
        return self.folder.with_name(f"{self.name}.done")


def make_world(folder: Path) -> None:
    """Make what many targets begin from, which takes longer than their inputs do."""
    from world import World

    world = World(folder)
    assert world.report.is_dir()
    assert world.failed


def in_process(share: list[Work]) -> None:
    """Try targets one after another in this process, which does nothing else, each in its folder."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    sys.setrecursionlimit(1000)
    for work in share:
        work.folder.mkdir()
        if work.made is not None:
            shutil.copytree(work.made, work.folder, dirs_exist_ok=True)
        out = os.open(work.said, os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(out)
        os.chdir(work.folder)
        try:
            _try(work)
        except BaseException:
            if len(share) == 1:
                raise
            traceback.print_exc()
        else:
            work.done.touch()


def _try(work: Work) -> None:
    if work.engine == "explored":
        import atheris

        prefixes = _prefixes(work.name)
        with atheris.instrument_imports(include=list(prefixes)):
            import fairgate.data
            import fairgate.models
            import fairgate.models.checkpoints
            import fairgate.reports
            import fairgate.suites.load  # noqa: F401
    from targets import TARGETS
    from world import World

    (target,) = (one for one in TARGETS if one.name == work.name)
    trial = Trial(target, World(work.folder), work.report)
    try:
        (drawn if work.engine == "drawn" else explored)(trial, work.seconds, work.seed)
    except BaseException as error:
        trial.tell()
        if isinstance(error, SystemExit) and not error.code:
            raise
        work.keep.mkdir(parents=True, exist_ok=True)
        kept = work.keep / f"{work.name}-{hashlib.sha256(trial.failing).hexdigest()[:12]}"
        kept.write_bytes(trial.failing)
        print(f"kept as {kept}", file=sys.stderr)
        raise
    trial.tell()


def _prefixes(name: str) -> tuple[str, ...]:
    """Modules to follow. Read from the text: importing the targets would import what is to be instrumented."""
    import ast

    tree = ast.parse((Path(__file__).parent / "targets.py").read_text(encoding="utf-8"))
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Target" and call.args[0].value == name:  # type: ignore[attr-defined]
            return tuple(ast.literal_eval(call.args[4]))
    raise SystemExit(f"no target '{name}'")
