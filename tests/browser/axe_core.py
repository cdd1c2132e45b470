"""axe-core, the accessibility checker: fetched with npm's own client, pinned by version and content."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
_FILE = f"axe-core-{VERSION}.tgz"


class NotFetchedError(RuntimeError):
    """npm did not give the package."""


class WrongContentError(RuntimeError):
    """The package is not the one that is pinned: an error wherever the tests run."""


def axe_source(cache: Path, npm: str) -> str:
    """The checker as one script, from `cache` or else packed by npm into it. Its content is verified at every use."""
    packed = cache / _FILE
    if not packed.is_file():
        _pack(cache, npm)
    content = packed.read_bytes()
    found = base64.b64encode(hashlib.sha512(content).digest()).decode("ascii")
    if found != SHA512:
        packed.unlink()
        raise WrongContentError(f"{_FILE} has sha512 {found}, and {SHA512} is pinned in {Path(__file__).name}")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        script = archive.extractfile("package/axe.min.js")
        if script is None:
            raise WrongContentError(f"{_FILE} holds no script")
        return script.read().decode("utf-8")


def _pack(cache: Path, npm: str) -> None:
    """Put the package into `cache`, whole or not at all."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as draft:
        words = [npm, "pack", f"axe-core@{VERSION}", "--ignore-scripts", "--silent", "--pack-destination", draft]
        done = subprocess.run(words, cwd=draft, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise NotFetchedError(f"npm pack axe-core@{VERSION} ended with {done.returncode}: {done.stderr[-500:]}")
        (Path(draft) / _FILE).replace(cache / _FILE)
