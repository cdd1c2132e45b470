"""Pictures that a dataset only names by their addresses: fetched on demand, verified, counted by what came of it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Final

from fairgate.data.published.fetching import Progress, Refused, fetch_image, reason_of
from fairgate.data.published.source_files import SourceFiles
from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import DatasetError
from fairgate.ground.pixels import UnreadableImage, decode

LARGEST: Final = 32 << 20
SECONDS: Final = 60.0
AT_ONCE: Final = 8
REPORT: Final = "fetched.csv"
FETCHED: Final = "fetched"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
ABSENT: Final = "image is not there"
_ENDINGS: Final = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp", "TIFF": ".tif"}


def fetch_pictures(
    wanted: Sequence[tuple[str, str]],
    into: Path,
    progress: Progress | None = None,
    is_allowed: Callable[[str], bool] | None = None,
) -> Counter[str]:
    """Fetch (name, address) pairs as `into/NAME.jpg` and the like, and count what came of each.

    What is there is not fetched again. What does not decode as a picture is not kept. `into/fetched.csv` says what
    came of every address, for a spreadsheet: a cell that would be a formula begins with '.
    """
    into.mkdir(parents=True, exist_ok=True)
    here = {path.stem for path in into.iterdir() if path.suffix in _ENDINGS.values()}

    def one(entry: tuple[str, str]) -> str:
        name, url = entry
        return FETCHED if name in here else _fetch(name, url, into, is_allowed)

    outcomes: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(one, wanted):
            outcomes.append(outcome)
            if progress is not None:
                progress(len(outcomes), len(wanted))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "address", "outcome"))
    writer.writerows(map(_cell, (*pair, said)) for pair, said in zip(wanted, outcomes, strict=True))
    atomic_write(into / REPORT, text.getvalue().encode())
    return Counter(outcomes)


def _cell(text: str) -> str:
    """A stranger's text, with a ' before what a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _fetch(name: str, url: str, into: Path, is_allowed: Callable[[str], bool] | None) -> str:
    """Fetch one picture; what came of it."""
    try:
        data = fetch_image(url, most=LARGEST, seconds=SECONDS, is_allowed=is_allowed)
        kind = decode(data).format or ""
        if kind not in _ENDINGS:
            raise UnreadableImage(f"no ending for {kind}")
        atomic_write(into / f"{name}{_ENDINGS[kind]}", data)
    except UnreadableImage:
        return "not a picture"
    except Refused as error:
        return str(error)
    except (OSError, HTTPException, ValueError) as error:
        return reason_of(error)[:100]
    return FETCHED


def pictures_by_name(files: SourceFiles) -> Mapping[str, Path]:
    """Pictures of a folder by their name without its ending. Raises DatasetError where two share theirs."""
    found: dict[str, Path] = {}
    for tail, path in files.by_tail(1).items():
        name, ending = Path(tail).stem, Path(tail).suffix.lower()
        if ending not in {*_ENDINGS.values(), ".jpeg"}:
            continue
        if name in found:
            raise DatasetError(
                f"two pictures are called '{name}'.", where=f"{found[name]} and {path}", remedy="keep one of the two"
            )
        found[name] = path
    return found
