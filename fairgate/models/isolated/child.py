"""The process that opens a stranger's model: started for it alone, asked by messages, ended with it."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from fairgate.ground.ci import in_ci, patience
from fairgate.ground.errors import DeviceError, ModelError, clean
from fairgate.models.isolated.messages import Opened, receive

_SCRIPT = Path(__file__).with_name("sandbox.py")
_PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG"),
)
"""Environment variables that the process gets: none with a secret."""
_SET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_SHOWN = 4_000  # characters of an error
_LAST = 5  # seconds between its last word and its end
_TIMEOUT = "FAIRGATE_MODEL_TIMEOUT"  # seconds to open a model, or to answer about a batch of pictures; 3,600 if not set


class IsolatedModel:
    """A model that `open_model` opens in a process of its own, with the files that it may read.

    Raises ModelError where it cannot be opened, where the process ends or does not answer in time, and, in CI, where
    the machine cannot isolate it; DeviceError for a device without memory. Questions may come from several threads, and
    wait for each other; what is told waits only where several questions are ahead of it.
    """

    def __init__(self, uri: str, open_model: Callable[[], Opened], readable: Iterable[Path]) -> None:
        self.uri, self._late = uri, False
        self._failure: ModelError | None = None
        self._asking, self._writing, self._ending = threading.Lock(), threading.Lock(), threading.Lock()
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
        self.facts: dict[str, Any] = self._answer(header + b"\n" + opening)
        if missing := [clean(str(each), 80) for each in self.facts.get("missing", [])]:
            self._require_local(missing)

    def ask(self, what: str, *given: Any) -> Any:
        """The answer to one question, which may be anything that a message holds; None for none. Raises as the class
        does."""
        return self._answer(pickle.dumps((what, given, True, False), protocol=5)).get("answer")

    def tell(self, what: str, *given: Any, beside: bool = False) -> None:
        """What the process is to do before it answers the next question; `beside`: at once, in another thread. Raises
        as the class does."""
        with self._watched():
            self._write(pickle.dumps((what, given, False, beside), protocol=5))

    def close(self) -> None:
        """End the process."""
        self._end()

    def _answer(self, question: bytes) -> dict[str, Any]:
        with self._asking, self._watched():
            self._write(question)
            content = receive(self._process.stdout)  # type: ignore[arg-type]
        if "error" in content:
            raise self._told(content)
        return content

    def _write(self, message: bytes) -> None:
        with self._writing:
            self._process.stdin.write(message)  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """End the process if this takes too long, which ends every wait for it, or if it fails."""

        def late() -> None:
            self._late = True
            self._process.kill()

        alarm = threading.Timer(self._patience, late)
        alarm.daemon = True
        alarm.start()
        try:
            yield
        except Exception as error:  # of any type: what it answers may be anything
            with self._ending:  # of two threads, the first one sees why
                self._failure = self._failure or self._broken(error)
                self._end()
            raise self._failure from error
        except BaseException:
            self._end()  # an answer that nobody waits for would be taken for the next one's
            raise
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
        lines = list[str]()
        with contextlib.suppress(OSError):  # the process shares this file, and decides how it is read
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
