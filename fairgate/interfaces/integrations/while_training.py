"""A suite on a model in training, which is saved to a temporary folder and judged there, by open_clip's loop, say."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fairgate import gate, reports, tracking
from fairgate.ground.errors import FairgateError, SettingsError
from fairgate.interfaces import api
from fairgate.records import RunRecord

Save = Callable[[Path], str]
"""Writes the model into an empty folder, and returns the URI that names it there: `hf:FOLDER`."""
OnFailure = Literal["warn", "stop", "raise"]

LOG = logging.getLogger("fairgate.training")


class FairnessError(FairgateError):
    """The gate is closed for a model in training, and `on_failure` is `raise`."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one look: `metrics` by the names of MLflow's runs, under `fairgate/SUITE/`; `record` is None where
    the model could not be saved or judged, and `message` has the reason."""

    ok: bool
    metrics: dict[str, float]
    message: str
    record: RunRecord | None = None


@dataclass
class TrainingJudge:
    """Judges by one suite, over and over.

    `root` is the repository of the suite; `baseline`, `device` and `on_inconclusive` are options of `fairgate check`.
    A closed gate, or a model that could not be judged, is a warning in the log; with `on_failure` "stop" the training
    is ended as if it were over, with "raise" by a FairnessError. Embeddings, of the baseline too, are remembered in a
    temporary folder, or in `cache`. The training's random numbers are as they would have been.
    """

    suite: str
    root: str | Path = "."
    baseline: str | None = None
    on_inconclusive: str | None = None
    device: str | None = None
    cache: str | Path | None = None
    on_failure: OnFailure = "warn"
    last: Judged | None = field(default=None, init=False)
    _scratch: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False, repr=False)

    def start(self) -> None:
        """Read suite and dataset, before the first step: what is wrong with them ends a training at once. Raises
        FairgateError."""
        if self.on_failure not in ("warn", "stop", "raise"):
            raise SettingsError(
                f"on_failure is '{self.on_failure}'.", where="on_failure", remedy="say warn, stop or raise"
            )
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and self.on_failure != "warn":
            raise SettingsError(
                "one process of several judges, and could not end the others.",
                where=f"on_failure={self.on_failure}",
                remedy='leave on_failure at "warn", and read the metrics',
            )
        gate.prepare(self.suite, Path(self.root).resolve(), ())

    def judge(self, save: Save, step: int) -> Judged:
        """Save, judge, and say what came of it. Raises nothing but FairnessError, and that where it was asked for."""
        with _own_randomness():
            self.last = self._judged(save)
        LOG.log(logging.INFO if self.last.ok else logging.WARNING, "step %d: %s", step, self.last.message)
        if not self.last.ok and self.on_failure == "raise":
            self.close()
            raise FairnessError(
                f"the gate is closed at step {step}: {self.last.message}",
                where=f"suite {self.suite}",
                remedy="look at the checks that failed; `on_failure='warn'` trains on",
            )
        return self.last

    @property
    def stops(self) -> bool:
        """Whether the training is to end now."""
        return self.on_failure == "stop" and self.last is not None and not self.last.ok

    def close(self) -> None:
        """Remove what was remembered."""
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def _judged(self, save: Save) -> Judged:
        try:
            with tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True) as folder:
                record = api.check(
                    self.suite,
                    model=save(Path(folder)),
                    baseline=self.baseline,
                    base="none",  # no pull request is judged here: the suite at hand defines the gate
                    root=self.root,
                    on_inconclusive=self.on_inconclusive,
                    device=self.device,
                    cache=self._cache(),
                ).record
        except Exception as error:  # a training of days must not die of a full disk, or of a defect in what looks at it
            LOG.debug("the model in training could not be judged", exc_info=True)
            return Judged(False, {}, f"{self.suite}: not judged: {type(error).__name__}: {error}")
        metrics = {f"fairgate/{self.suite}/{name}": value for name, value in tracking.metric_values(record).items()}
        closing = "; ".join(f"{check.item}: {reports.sentence(check, record)}" for check in record.closing[:5])
        headline = f"{self.suite}: {reports.verdict_words(record)} ({reports.totals(record)})"
        return Judged(record.ok, metrics, f"{headline}: {closing}" if closing else headline, record)

    def _cache(self) -> Path:
        if self.cache is not None:
            return Path(self.cache)
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True)
        return Path(self._scratch.name)


@contextlib.contextmanager
def _own_randomness() -> Iterator[None]:
    """Libraries draw weights before they load them: the training's generators are put back."""
    import numpy as np
    import torch

    legacy, python = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng(), torch.no_grad():
            yield
    finally:
        np.random.set_state(legacy)
        random.setstate(python)


def due(every: int, count: int) -> bool:
    """Whether something that happens `every` so many times is due after the `count`-th."""
    return every > 0 and count > 0 and count % every == 0


class OpenClipFairness:
    """Judges a model of open_clip whenever it is called.

    `like` is the name of its architecture, or a folder with `open_clip_config.json` and the tokenizer's files, of which
    everything but weights is copied. `writer` is a TensorBoard writer, such as open_clip_train's. `options` are
    TrainingJudge's. Call `close` at the end.
    """

    def __init__(
        self, suite: str, like: str | Path, *, writer: Any = None, on_failure: OnFailure = "warn", **options: Any
    ) -> None:
        self.like, self.writer = like, writer
        self.judge = TrainingJudge(suite, on_failure=on_failure, **options)
        self.judge.start()

    def __call__(self, model: Any, step: int) -> Judged:
        """Judge the model as it is now; `stops` says after it whether to leave the loop."""
        judged = self.judge.judge(lambda folder: self._saved(model, folder), step)
        if self.writer is not None:
            for name, value in judged.metrics.items():
                self.writer.add_scalar(name, value, step)
        return judged

    @property
    def stops(self) -> bool:
        """Whether the training is to end now."""
        return self.judge.stops

    def close(self) -> None:
        """Forget the embeddings."""
        self.judge.close()

    def _saved(self, model: Any, folder: Path) -> str:
        from safetensors.torch import save_file

        for wrapped in ("module", "_orig_mod"):  # of DistributedDataParallel, of torch.compile
            model = getattr(model, wrapped, model)
        tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in model.state_dict().items()}
        like = Path(self.like)
        if not (like / "open_clip_config.json").is_file():
            save_file(tensors, folder / "weights.safetensors")
            return f"open_clip:{self.like}@{folder / 'weights.safetensors'}"
        for path in like.iterdir():
            if path.is_file() and path.suffix in (".json", ".txt", ".model"):
                shutil.copyfile(path, folder / path.name)
        save_file(tensors, folder / "open_clip_model.safetensors")
        return f"open_clip:local-dir:{folder}"
