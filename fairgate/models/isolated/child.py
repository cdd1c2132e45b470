"""The process that opens a stranger's model: started for it alone, asked by messages, ended with it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from fairgate.ground.ci import in_ci
from fairgate.ground.errors import DeviceError, ModelError, clean
from fairgate.models.isolated.messages import receive, send

_SCRIPT = Path(__file__).with_name("sandbox.py")
_PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG"),
)
"""Environment variables that the process gets: none with a secret."""
_SET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_HOST = "fairgate.models.isolated"
_SHOWN = 4_000  # characters of an error
_LAST = 5  # seconds between its last word and its end


class IsolatedModel:
    """A model that is opened in a process of its own, with the files that it may read. `task` is what the
    module `host` of the package `host` opens.

    Raises ModelError where it cannot be opened, where the process ends, and, in CI, where the machine cannot isolate
    it; DeviceError for a device without memory. Questions may come from several threads, and wait for each other.
    """

    def __init__(self, uri: str, task: Mapping[str, Any], readable: Iterable[Path], host: str = _HOST) -> None:
        self.uri, self._lock = uri, threading.Lock()
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
            "host": f"{host}.host",
            "task": dict(task),
            "readable": [str(package), *_installed(), *map(str, paths)],
            "writable": str(home),
            "path": [*_installed(), str(package.parent)],
            "strict": in_ci(os.environ),
            # Linux ends it with the thread that started it, which may be a short one
            "parent": os.getpid() if threading.current_thread() is threading.main_thread() else None,
        }
        self.facts: dict[str, Any] = self._answered(lambda stream: _begin(stream, settings))
        if missing := [clean(str(each), 80) for each in self.facts.get("missing", [])]:
            self._require_local(missing)

    def ask(self, what: str, *given: Any) -> Any:
        """The answer to one question, which may be anything that a message holds; None for none. Raises as the class
        does."""
        return self._answered(lambda stream: send(stream, {"what": what, "given": given})).get("answer")

    def close(self) -> None:
        """End the process."""
        self._end()

    def _answered(self, write: Any) -> dict[str, Any]:
        with self._lock:
            try:
                write(self._process.stdin)
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

    def _broken(self, error: Exception) -> ModelError:
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


def _begin(stream: Any, settings: Mapping[str, Any]) -> None:
    header = json.dumps(settings).encode()
    stream.write(struct.pack("<I", len(header)) + header)
    stream.flush()


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
