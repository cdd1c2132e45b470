"""One rater's file, open for marks: each is on the disk, whole, before the page hears of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from fairgate.atomic import remove
from fairgate.data.manifest import Manifest
from fairgate.errors import DatasetError
from fairgate.review.records import Mark, Opened, Record, Withdrawn, read_record


class Keeper:
    """Appends to `folder/RATER.jsonl`. `record` holds what the file says. A context manager: one process at a time.

    That the page was opened is written with the first mark: who marks nothing leaves no file.
    """

    def __init__(self, folder: Path, opened: Opened, manifest: Manifest) -> None:
        """Raises DatasetError where the file is another process's, is of other content, or cannot be written."""
        self.path = folder / f"{opened.rater}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / f".{opened.rater}.lock")
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise DatasetError(
                f"rater '{opened.rater}' has this review open already.",
                where=str(self.path),
                remedy="go on in that page, or stop that `fairgate review` first; another person takes another --rater",
            ) from error
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._end = self._whole_part()
            self.record = read_record(self.path, manifest) if self._end else Record(opened.rater)
            self._unsaid = [opened]
        except BaseException:
            self.close()
            raise

    def add(self, line: Mark | Withdrawn) -> None:
        """Put a line on the disk, whole or not at all. Raises DatasetError where it cannot be written."""
        lines = [*self._unsaid, line]
        text = b"".join(one.model_dump_json().encode() + b"\n" for one in lines)
        try:
            with self.path.open("r+b" if self.path.exists() else "xb") as handle:
                handle.seek(self._end)
                handle.truncate()
                handle.write(text)
                handle.flush()
                os.fsync(handle.fileno())
        except OSError as error:
            raise self._unwritable(error) from error
        self._end += len(text)
        self._unsaid = []
        for one in lines:
            self.record.add(one)

    def close(self) -> None:
        """Let another process write."""
        remove(Path(self._lock.lock_file))
        self._lock.release()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _whole_part(self) -> int:
        """Bytes of the file up to the end of its last whole line: what follows was being written at a kill."""
        try:
            return self.path.read_bytes().rfind(b"\n") + 1 if self.path.exists() else 0
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> DatasetError:
        return DatasetError(
            f"the mark cannot be kept ({error.strerror or error}).",
            where=str(self.path),
            remedy="make room and the folder writable, then mark again: what was marked before is kept",
        )
