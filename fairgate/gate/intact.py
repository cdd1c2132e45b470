"""The dataset that a run scores is what it says it is, before anything is scored."""

from __future__ import annotations

from collections.abc import Callable

from fairgate.data import Dataset
from fairgate.suites import Settings


def require_intact(dataset: Dataset, settings: Settings, progress: Callable[[str, int, int], None] | None) -> None:
    """Compute the identity of a run's dataset from what is read; what was found intact before is remembered by content
    in the embedding cache. Raises DatasetError for a release that is not what its manifest says."""

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(f"reading {dataset.manifest.ref}", done, total)

    dataset.require_intact(None if settings.cache is None else settings.cache / "datasets", report)
