"""A pipe where a dataset, suite, record or list is expected is an error at once, and not a run that never ends."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from imported_photographs import import_images
from toy_repository import Toy, toy_repository

from fairgate.data import open_dataset
from fairgate.data.coco import read_coco
from fairgate.data.import_rows import open_table
from fairgate.data.labels import read_labels
from fairgate.ground.errors import FairgateError
from fairgate.ground.yaml_source import read_source
from fairgate.probes import read_scores
from fairgate.reports import read_results
from fairgate.reports.artifact import unpack_report

SHARD, MANIFEST = "shard-00000-of-00001.parquet", "manifest.json"


@contextlib.contextmanager
def piped(path: Path) -> Iterator[None]:
    """A pipe at `path`. A reader that opens it is let go after two seconds: the test fails, and does not hang."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    done = threading.Event()

    def let_go() -> None:
        while not done.wait(2):
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))

    watch = threading.Thread(target=let_go)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


READERS: dict[str, tuple[str, Callable[[Toy, Path], object]]] = {
    "manifest": (f"datasets/toy/v1/{MANIFEST}", lambda toy, _: open_dataset("toy", toy.root / "datasets")),
    "shard, read": (f"datasets/toy/v1/{SHARD}", lambda toy, _: open_dataset("toy", toy.root / "datasets").index),
    "shard, hashed": (
        f"datasets/toy/v1/{SHARD}",
        lambda toy, _: open_dataset("toy", toy.root / "datasets").check_shards(),
    ),
    "suite": ("fairness_suites/jobs.yaml", lambda _, path: read_source(path)),
    "record": ("results.json", lambda _, path: read_results(path)),
    "kept scores": (
        "scores.parquet",
        lambda toy, path: read_scores(path, open_dataset("toy", toy.root / "datasets").index),
    ),
    "labels": ("labels.csv", lambda _, path: read_labels(path)),
    "packed labels": ("labels.csv.gz", lambda _, path: read_labels(path)),
    "labels of Parquet": ("labels.parquet", lambda _, path: open_table(path)),
    "labels of JSON Lines": ("labels.jsonl", lambda _, path: open_table(path)),
    "archive": ("train-0.tar", lambda _, path: open_table(path)),
    "metadata of a folder": ("datasets/metadata.csv", lambda _, path: open_table(path.parent)),
    "annotations": ("captions.json", lambda _, path: read_coco(path, path)),
    "report of another job": ("report.zip", lambda toy, path: unpack_report(path, toy.root / "unpacked")),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_an_error_at_once(tmp_path: Path, name: str) -> None:
    toy = toy_repository(tmp_path / "root", sets=4)
    where, read = READERS[name]
    with piped(toy.root / where), pytest.raises(FairgateError, match="is a pipe, a socket or a device") as caught:
        read(toy, toy.root / where)
    assert str(toy.root / where) in str(caught.value.where)


def test_a_pipe_among_pictures_that_are_imported_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("image,hue\na.png,red\n")
    (tmp_path / "images").mkdir()
    with piped(tmp_path / "images" / "a.png"), pytest.raises(FairgateError, match=r"a\.png|is a pipe"):
        import_images(
            tmp_path / "labels.csv",
            tmp_path / "images",
            "x",
            root=tmp_path / "datasets",
            attributes=["hue"],
            subject="person",
        )


def test_a_socket_and_a_device_are_refused_too(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "suite.yaml"))
        with pytest.raises(FairgateError, match="is a pipe, a socket or a device"):
            read_source(tmp_path / "suite.yaml")
    (tmp_path / "labels.csv").symlink_to("/dev/zero")
    with pytest.raises(FairgateError, match="is a pipe, a socket or a device"):
        read_labels(tmp_path / "labels.csv")
