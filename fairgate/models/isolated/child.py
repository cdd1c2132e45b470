"""The process that opens a stranger's model: started for it alone, asked by messages, ended with it. Models in such a
process are called as loaded ones are."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.ci import in_ci, patience
from fairgate.ground.errors import DeviceError, ModelError, clean
from fairgate.models.checkpoints import Device, Embeddings, Encoder, HashedFiles, TransformersFolder
from fairgate.models.classifiers.fixed_labels import Loaded
from fairgate.models.contract import MOST_BOXES, Generating
from fairgate.models.isolated.messages import Opened, receive

if TYPE_CHECKING:
    from PIL.Image import Image

    from fairgate.models.vlm.asking import Asking

_SCRIPT = Path(__file__).with_name("sandbox.py")
_PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG"),
)
"""Environment variables that the process gets: none with a secret."""
_SET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_SHOWN = 4_000  # characters of an error
_MOST_SETTINGS = 40  # of a folder, in a note
_LAST = 5  # seconds between its last word and its end
_TIMEOUT = "FAIRGATE_MODEL_TIMEOUT"  # seconds to open a model, or to answer about a batch of pictures; 3,600 if not set


class IsolatedModel:
    """A model that `open_model` opens in a process of its own, with the files that it may read.

    Raises ModelError where it cannot be opened, where the process ends or does not answer in time, and, in CI, where
    the machine cannot isolate it; DeviceError for a device without memory. Questions may come from several threads, and
    wait for each other.
    """

    def __init__(self, uri: str, open_model: Callable[[], Opened], readable: Iterable[Path]) -> None:
        self.uri, self._lock, self._late = uri, threading.Lock(), False
        self._patience = min(patience(os.environ, _TIMEOUT, 3600, ModelError), threading.TIMEOUT_MAX)
        home = Path(tempfile.mkdtemp(prefix="fairgate-isolated-")).resolve()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a file of this package
            [sys.executable, "-I", "-B", "-X", "utf8", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=home,
            env={**environment, **_SET, "HOME": str(home), "TMPDIR": str(home)},
        )
        self._end = weakref.finalize(self, _ended, self._process, home, self._errors)
        package = Path(__file__).parents[2]
        paths = [path.resolve() for path in readable]
        settings = {
            "readable": [str(package), *_installed(), *map(str, paths)],
            "writable": str(home),
            "path": [*_installed(), str(package.parent)],
            "strict": in_ci(os.environ),
            # Linux ends it with the thread that started it, which may be a short one
            "parent": os.getpid() if threading.current_thread() is threading.main_thread() else None,
        }
        opening = pickle.dumps(open_model)
        header = json.dumps({**settings, "length": len(opening)}).encode()
        self.facts: dict[str, Any] = self._answered(lambda stream: stream.write(header + b"\n" + opening))
        if missing := [clean(str(each), 80) for each in self.facts.get("missing", [])]:
            self._require_local(missing)

    def ask(self, what: str, *given: Any) -> Any:
        """The answer to one question, which may be anything that a message holds; None for none. Raises as the class
        does."""
        return self._answered(lambda stream: pickle.dump((what, given), stream)).get("answer")

    def close(self) -> None:
        """End the process."""
        self._end()

    def _answered(self, write: Any) -> dict[str, Any]:
        with self._lock, self._limited():
            try:
                write(self._process.stdin)
                self._process.stdin.flush()  # type: ignore[union-attr]
                content = receive(self._process.stdout)  # type: ignore[arg-type]
            except Exception as error:  # of any type: what it answers may be anything
                broken = self._broken(error)
                self._end()
                raise broken from error
            except BaseException:
                self._end()  # an answer that nobody waits for would be taken for the next one's
                raise
        if "error" in content:
            raise self._told(content)
        return content

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """End the process if this takes too long, which ends every wait for it."""

        def late() -> None:
            self._late = True
            self._process.kill()

        alarm = threading.Timer(self._patience, late)
        alarm.daemon = True
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()

    def _broken(self, error: Exception) -> ModelError:
        if self._late:
            return ModelError(
                f"the process that opened the model has not answered for {self._patience:,g} seconds, and was ended.",
                where=self.uri,
                remedy=f"run again; on a slow machine give it more time: {_TIMEOUT}=SECONDS in the environment; else "
                "judge a table of its answers",
            )
        if not self._end.alive:
            return ModelError("the process that opened the model has ended.", where=self.uri, remedy="run again")
        nonsense = not isinstance(error, OSError | EOFError)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if nonsense else _LAST)
        self._process.kill()  # it may live on
        code = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _SHOWN))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        late = next((line for line in lines if line.startswith("Timeout (")), None)  # of a chat template
        last = f": {clean(late or lines[-1], 200)}" if lines else ""
        how = f"signal {-code}" if code < 0 and not nonsense else type(error).__name__
        return ModelError(
            f"the process that opened the model ended early ({how}{last}).",
            where=self.uri,
            remedy="signal 9 is often too little memory, a timeout a chat template that writes without end; else the "
            "model's files are damaged: save it again",
        )

    def _told(self, content: Mapping[str, Any]) -> Exception:
        kind, words = clean(str(content["error"]), 80), clean(str(content.get("words", "")), _SHOWN)
        if kind == "OutOfMemoryError":
            import torch

            return torch.OutOfMemoryError(words)
        if kind == "DeviceError":
            return DeviceError(words, where=self.uri, remedy="run with --device cpu")
        remedy = content.get("remedy")
        return ModelError(
            words if remedy else f"{clean(str(content.get('doing')), 80)} ({kind}: {words}).",
            where=clean(str(content.get("where") or self.uri), 300),
            remedy=clean(str(remedy or _REMEDY), 400),
        )

    def _require_local(self, missing: list[str]) -> None:
        problem = f"this machine does not keep the model from {' and '.join(missing)}"
        if in_ci(os.environ):
            self._end()
            raise ModelError(
                f"{problem}, and in CI anybody may have written it.",
                where=self.uri,
                remedy="run on Linux 5.13 or newer with Landlock and seccomp, or judge a table of its answers",
            )
        warnings.warn(f"{problem}: judge files only of authors that you trust.", stacklevel=2)


_REMEDY = "check the folder's files; a table always works: answers:, labels:, detections: or scores:FILE"


def _installed() -> list[str]:
    """Folders of the standard library and of installed packages, in the order of `sys.path`."""
    ends = ("site-packages", "dist-packages")
    standard = {str(Path(os.__file__).parent), str(Path(os.__file__).parent / "lib-dynload")}
    found = [path for path in sys.path if path in standard or path.endswith(ends)]
    spec = importlib.util.find_spec("_struct")
    if spec is not None and spec.origin and spec.origin != "built-in":
        found.append(str(Path(spec.origin).parent))
    return list(dict.fromkeys(found))


def _ended(process: subprocess.Popen[bytes], home: Path, errors: IO[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout, errors):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()
    with contextlib.suppress(RecursionError):  # folders in folders without end stay
        shutil.rmtree(home, ignore_errors=True)  # changes no file's mode, as TemporaryDirectory does


@dataclass(frozen=True, slots=True, eq=False)
class UnpreparedPicture:
    """A picture that a process will prepare: its levels, (height, width, 3) uint8, and whose it is."""

    levels: Any
    by: IsolatedModel

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what the process makes of it, if that is one array."""
        (made,) = prepared([self])
        return () if isinstance(made, Mapping) else tuple(made.shape)


def _of(
    model: IsolatedModel,
) -> tuple[Callable[[Any], UnpreparedPicture], Callable[[Sequence[UnpreparedPicture]], Embeddings]]:
    """What prepares a picture, and what makes outputs of pictures that this or another process prepares."""

    def outputs(pictures: Sequence[UnpreparedPicture]) -> Embeddings:
        if all(picture.by is model for picture in pictures):
            return _rows(model.ask("pictures", [picture.levels for picture in pictures]), len(pictures))
        return _rows(model.ask("prepared", prepared(pictures)), len(pictures))

    return lambda image: UnpreparedPicture(np.asarray(image, dtype=np.uint8), model), outputs


def prepared(pictures: Sequence[UnpreparedPicture]) -> list[Any]:
    """What their own process makes of pictures: an array of each, or arrays by name."""
    return list(pictures[0].by.ask("prepare", [picture.levels for picture in pictures]))


def _rows(answer: Any, count: int) -> Embeddings:
    """Outputs of so many pictures or texts, (count, width) float32. Raises ModelError for other ones."""
    outputs = np.asarray(answer, dtype=np.float32)
    if outputs.ndim != 2 or len(outputs) != count:  # a single row would be taken for every picture's
        raise ModelError(f"the model answered {count:,} questions with numbers of shape {outputs.shape}.")
    return outputs


def _opened(kind: str, found: TransformersFolder, device: Device, *more: Any) -> IsolatedModel:
    """A process in which the folder's model is loaded. Raises ModelError or DeviceError."""
    from fairgate.models.isolated.host import opened

    found.files.require_unchanged()
    added = found.adapter.files.paths.values() if found.adapter else ()
    task = partial(opened, kind, found, device, *more)
    return IsolatedModel(str(found.path), task, [*found.files.paths.values(), *added])


def isolated(load: Callable[..., Loaded], found: TransformersFolder, device: Device, *more: Any) -> Loaded:
    """A plain folder's model of pictures, as `load` returns it when it is called with what follows."""
    return Loaded(*_of(_opened("pictures", found, device, load, *more)))


def isolated_towers(load: Callable[..., Encoder], found: TransformersFolder, device: Device) -> Encoder:
    """A plain folder's two towers, as `load` returns them."""
    model = _opened("towers", found, device, load)
    prepare, outputs = _of(model)

    def encode_tokens(tokens: Mapping[str, Any]) -> Embeddings:
        return _rows(model.ask("texts", {name: np.asarray(part) for name, part in tokens.items()}), len(tokens["ids"]))

    def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
        return {name: np.asarray(ids) for name, ids in model.ask("tokens", list(prompts)).items()}

    facts = model.facts
    return Encoder(
        float(facts["scale"]), float(facts["bias"]), int(facts["vocabulary"]), prepare, outputs, tokens, encode_tokens
    )


class IsolatedDetector:
    """A plain folder's detector."""

    def __init__(self, found: TransformersFolder, device: Device) -> None:
        self._model = _opened("detector", found, device)

    def boxes(self, pictures: Sequence[Any], what: str) -> list[NDArray[np.float32]]:
        """As of the detectors that fairgate runs itself: (MOST_BOXES, 5) of each picture."""
        answer = self._model.ask("boxes", [np.asarray(picture) for picture in pictures], what)
        boxes = np.asarray(answer, dtype=np.float32)
        if boxes.shape != (len(pictures), MOST_BOXES, 5) or not np.isfinite(boxes).all():
            raise ModelError(f"the model answered with numbers of shape {boxes.shape}, or NaN: no boxes.")
        return list(boxes)


_Shown = tuple[NDArray[np.uint8], str | None]  # a picture's levels, and a message (None: the prompt)


class IsolatedSeeing:
    """A folder's model of pictures and text. `shares`: labels continue one pass over their prompt, which was tried on
    what the `seed` draws, or is known. `unused` are the settings of decoding that the folder has."""

    def __init__(self, found: TransformersFolder, asking: Asking, device: Device, seed: int) -> None:
        self._model = _opened("vlm", found, device, asking, seed)
        self.shares = bool(self._model.facts.get("shares"))
        self.unused = [clean(str(name), 80) for name in list(self._model.facts.get("unused", ()))[:_MOST_SETTINGS]]

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """The tokens of each label."""
        found = self._model.ask("tokens", list(labels))
        return [[int(token) for token in found[place]] for place in range(len(labels))]

    def inputs(self, shown: Any, message: str | None = None) -> _Shown:
        """A picture's levels, and a message (None: the prompt)."""
        return np.asarray(shown), message

    def log_likelihoods(self, shown: Sequence[_Shown], labels: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Summed log-probabilities of labels, given by their tokens, on pictures: (pictures, labels)."""
        levels, messages = zip(*shown, strict=True)
        sums = self._model.ask("likelihoods", levels, messages, [list(ids) for ids in labels])
        return np.asarray(sums, dtype=np.float64).reshape(len(shown), len(labels))

    def answers(self, shown: Sequence[_Shown], longest: int) -> list[str]:
        """What is answered to each picture and message."""
        levels, messages = zip(*shown, strict=True)
        found = self._model.ask("answers", levels, messages, longest)
        return [clean(str(found[place])) for place in range(len(shown))]


class IsolatedPainter:
    """A plain pipeline, which paints. `settings` are those of `PlainPainter`."""

    def __init__(self, settings: Mapping[str, Any], files: HashedFiles, device: Device) -> None:
        from fairgate.models.isolated.host import opened

        files.require_unchanged()
        task = partial(opened, "painter", dict(settings), device, files)
        self._model = IsolatedModel(str(settings["path"]), task, files.paths.values())
        self.rows = 4 if device.is_cuda else 1

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> list[Image]:
        """A picture of each prompt and seed. Raises as the process does."""
        from PIL import Image

        found = self._model.ask("paint", list(prompts), list(seeds), how.steps, how.guidance)
        return [Image.fromarray(found[place]) for place in range(len(prompts))]
