"""What a killed run may leave behind: every file whole, or absent."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from warm_process import CACHE_KEY

from fairgate.data import open_dataset
from fairgate.models import EmbeddingCache
from fairgate.probes import read_scores, scores_digest
from fairgate.records import RunRecord
from fairgate.reports import read_results
from fairgate.tracking.content import RUN_KEY, run_key
from fairgate.tracking.store_session import session

ARTIFACTS = {"results.json", "scores.parquet", "report.html", "comment.md", "jobs.yaml"}


def require_whole(folder: Path) -> None:
    """Assert that report, cache, store and queue of a repository hold nothing by halves."""
    _require_whole_report(folder / "report", folder)
    _require_whole_cache(folder / "cache")
    finished_runs(folder)
    for entry in queued(folder):
        RunRecord.model_validate_json((entry / "record.json").read_bytes())
        assert (entry / "files" / "results.json").is_file()


def finished_runs(folder: Path) -> list[str]:
    """Keys of the runs that the store says are finished; each has its numbers and artifacts, and stands there once."""
    database = folder / "fairgate.db"
    if not database.exists():
        return []
    keys = []
    with session(f"sqlite:///{database}") as client:
        experiments = [each.experiment_id for each in client.search_experiments()]
        for run in client.search_runs(experiments, "attributes.status != 'RUNNING'"):
            kept = {item.path for item in client.list_artifacts(run.info.run_id)}
            assert kept >= ARTIFACTS, kept
            record = read_results(Path(run.info.artifact_uri.removeprefix("file://")) / "results.json")
            assert run.data.tags[RUN_KEY] == run_key(record)
            assert run.data.metrics["gate/expected_sets"] == record.coverage.expected_sets
            keys.append(run.data.tags[RUN_KEY])
    assert len(set(keys)) == len(keys)
    return keys


def queued(folder: Path) -> list[Path]:
    queue = folder / ".fairgate" / "queue"
    return [path for path in queue.iterdir() if not path.name.startswith(".")] if queue.is_dir() else []


def _require_whole_report(report: Path, folder: Path) -> None:
    results, scores, page = (report / name for name in ("results.json", "scores.parquet", "report.html"))
    if page.exists():
        assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
    if not results.exists():
        return
    record = read_results(results)
    if scores.exists():
        kept = read_scores(scores, open_dataset("toy", folder / "datasets").index)
        assert scores_digest(kept) == record.scores_digest
    for told in (page, report / "comment.md"):
        assert not told.exists() or record.model.uri in told.read_text(encoding="utf-8"), f"{told} is of another run"
    metrics = report / "metrics.json"
    assert not metrics.exists() or json.loads(metrics.read_bytes())


def _require_whole_cache(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRGATE_CACHE_KEY", CACHE_KEY)
        cache = EmbeddingCache(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a damaged entry is told as a CacheWarning
        for path in folder.rglob("*.safetensors"):
            assert cache.read(str(path.relative_to(folder).with_suffix(""))) is not None
