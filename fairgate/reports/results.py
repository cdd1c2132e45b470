"""results.json: written whole or not at all, read strictly, because the next run is held against it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from fairgate.atomic import atomic_write
from fairgate.errors import BaselineError
from fairgate.hashing import require_regular
from fairgate.records import SCHEMA_VERSION, RunRecord
from fairgate.reports.consistency import contradictions
from fairgate.reports.formatting import tally

FILE_NAME: Final = "results.json"
MAX_BYTES: Final = 50 * 1024 * 1024
_FAULTS: Final = 3
_NOT_BELIEVED: Final = "do not trust it: it was edited, forged or damaged; run the suite again, or fetch an honest copy"
_RECORD_AGAIN: Final = "record it again with this version of fairgate, or fetch an undamaged copy"


def write_results(record: RunRecord, folder: Path) -> Path:
    """Write `folder/results.json` and return its path. A reader sees the old file or the new one, never half of one.

    Non-finite numbers become null beside their `status`. OSError where the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    atomic_write(path, record.model_dump_json(indent=2) + "\n")
    return path


def read_results(path: Path) -> RunRecord:
    """The record that a results.json holds.

    BaselineError where it is missing, broken, too new, not one, or where it contradicts itself, as a forged one does.
    """
    where = str(path)
    data = _parse(_read(path), where)
    if not isinstance(data, dict):
        raise BaselineError("a results file must hold a JSON object.", where=where, remedy=_RECORD_AGAIN)
    version = data.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise BaselineError(
            f"the results file has schema version {version!r:.40}; this fairgate reads version {SCHEMA_VERSION}.",
            where=where,
            remedy="use the fairgate that wrote it, or record it again with this one",
        )
    try:
        record = RunRecord.model_validate(data, strict=True)
    except ValidationError as error:
        raise BaselineError(_first_faults(error), where=where, remedy=_RECORD_AGAIN) from None
    faults = list(itertools.islice(contradictions(record), _FAULTS))
    if faults:
        said = f"the results file contradicts itself: {'; '.join(faults)}."
        raise BaselineError(said, where=where, remedy=_NOT_BELIEVED)
    return record


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise BaselineError(
            "a results file was expected.", where=str(path), remedy=f"name the file: {path / FILE_NAME}"
        )
    require_regular(path, BaselineError)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise BaselineError(
                f"the results file has {size / 2**20:.0f} MB; the limit is {MAX_BYTES // 2**20} MB.",
                where=str(path),
                remedy="check that this is a results.json of fairgate",
            )
        return path.read_bytes()
    except OSError as error:
        raise BaselineError(
            f"the results file cannot be read ({error.strerror}).",
            where=str(path),
            remedy="check the path; `fairgate check SUITE` writes one",
        ) from error


def _parse(content: bytes, where: str) -> Any:
    try:
        return json.loads(
            content.decode("utf-8"),
            parse_constant=_not_finite,
            parse_float=_finite_float,
            object_pairs_hook=_unique_keys,
        )
    except UnicodeDecodeError as error:
        raise BaselineError("the results file is not UTF-8 text.", where=where, remedy=_RECORD_AGAIN) from error
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}"
        raise BaselineError(
            f"the results file is not JSON ({error.msg}).", where=place, remedy=_RECORD_AGAIN
        ) from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BaselineError(f"the results file is not valid: {reason}.", where=where, remedy=_RECORD_AGAIN) from error


def _not_finite(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number; a number that is not finite is null beside its status")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _not_finite(text)
    return value


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        doubled = next(key for i, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:i]))
        raise ValueError(f"the key '{doubled:.60}' stands twice in one object")
    return found


def _first_faults(error: ValidationError, shown: int = 3) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{_place(fault['loc'])}: {fault['msg']}" for fault in faults[:shown]]
    more = f" (and {len(faults) - shown} more)" if len(faults) > shown else ""
    return f"the results file is not a run record: {'; '.join(lines)}{more}."


def _place(loc: Sequence[int | str]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return path.lstrip(".")[:120]


METRICS_FILE: Final = "metrics.json"


def flat_metrics(record: RunRecord) -> dict[str, float]:
    """Each check's value by its item, in the unit of its metric, and `gate.pass`, `gate.fail` ... as counts of checks.

    A waived check counts in `gate.waived` alone. What was not measured, or is infinite, has no entry: never 0.
    """
    found: dict[str, float] = {f"gate.{place}": count for place, count in tally(record).items()}
    for check in record.checks:
        if check.value is not None and math.isfinite(check.value):
            found[check.item] = check.value
    return found


def write_metrics(record: RunRecord, folder: Path) -> Path:
    """Write `folder/metrics.json`, whole or not at all, and return its path. OSError where that cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / METRICS_FILE
    atomic_write(path, json.dumps(flat_metrics(record), indent=2, ensure_ascii=False) + "\n")
    return path
