"""A full disk or a read-only folder, wherever it is met, costs a message and turns no verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from forking_python import Ended
from full_disks import FILE_LIMIT, full, may_mount, read_only
from gated_world import but_for_times, copy_of
from nightly import some
from remains import finished_runs, queued, require_whole
from warm_process import WarmProcess

pytestmark = pytest.mark.xdist_group("warm_process")

CHECK = ("fairgate", "check", "jobs", "--device", "cpu")
USUAL = ("--report", "report", "--cache", "cache")
DEAD = "http://127.0.0.1:9"
mounts = pytest.mark.skipif(not may_mount(), reason="this user may not mount; files of limited size are tried instead")

Trouble = Callable[[Path], str]
FULL, READ_ONLY = "No space left on device", "Read-only file system"


@pytest.fixture(scope="module")
def peaceful(warm: WarmProcess, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which nothing stood in the way: with report, cache and store."""
    folder = copy_of(world, tmp_path_factory.mktemp("peaceful") / "repository")
    ended = warm.run([*CHECK, *USUAL], folder)
    assert ended.code == 1, ended.output
    return folder


@pytest.fixture
def folder(world: Path, tmp_path: Path) -> Path:
    return copy_of(world, tmp_path / "repository")


def judged(warm: WarmProcess, words: tuple[str, ...], folder: Path, prelude: str) -> Ended:
    ended = warm.run([*CHECK, *words], folder, prelude=prelude)
    assert ended.code == 1, ended.output
    assert "Traceback" not in ended.output, ended.output
    assert "jobs: fail (1 failed" in ended.output
    return ended


TROUBLES = some([pytest.param(full, FULL, id="full"), pytest.param(read_only, READ_ONLY, id="read-only")], few=1)


@mounts
@pytest.mark.parametrize(("trouble", "said"), TROUBLES)
def test_a_report_that_cannot_be_written_is_said_and_mlflow_still_gets_it(
    trouble: Trouble, said: str, warm: WarmProcess, folder: Path
) -> None:
    ended = judged(warm, USUAL, folder, trouble(folder / "report"))
    assert (
        f"the report was not written, the verdict stands: {said}.\n  where:  report\n  remedy: make room"
        in ended.output
    )
    assert len(finished_runs(folder)) == 1


@mounts
def test_a_report_that_is_of_an_earlier_run_is_said_to_be(warm: WarmProcess, peaceful: Path, tmp_path: Path) -> None:
    folder = copy_of(peaceful, tmp_path / "repository")
    before = (folder / "report" / "results.json").read_bytes()
    ended = judged(warm, USUAL, folder, read_only(folder / "report"))
    assert "What it still holds is of an earlier run" in ended.output
    assert (folder / "report" / "results.json").read_bytes() == before


@mounts
@pytest.mark.parametrize(("trouble", "said"), TROUBLES)
def test_a_cache_that_cannot_be_written_is_said_once(
    trouble: Trouble, said: str, warm: WarmProcess, folder: Path, peaceful: Path
) -> None:
    ended = judged(warm, (*USUAL, "--mlflow", "off"), folder, trouble(folder / "cache"))
    assert ended.output.count("cannot be written: embeddings are not kept") == 1 or trouble is full
    assert said in ended.output
    assert "--cache" in ended.output
    results = Path("report/results.json")
    assert but_for_times(folder / results) == but_for_times(peaceful / results)


@mounts
@pytest.mark.parametrize("existing", some([True, False], few=1), ids=lambda existing: "existing" if existing else "new")
@pytest.mark.parametrize(("trouble", "said"), TROUBLES)
def test_a_store_that_cannot_be_written_queues_the_run(
    trouble: Trouble, said: str, existing: bool, warm: WarmProcess, folder: Path, peaceful: Path
) -> None:
    store = folder / "store"
    store.mkdir()
    if existing:
        shutil.copy(peaceful / "fairgate.db", store)
    ended = judged(warm, (*USUAL, "--mlflow", "sqlite:///store/fairgate.db"), folder, trouble(store))
    assert "MLflow did not take the run: " in ended.output
    assert f"see that {store} can be written and has room" in ended.output
    assert "The verdict stands; the run waits in" in ended.output
    (entry,) = queued(folder)
    require_whole(folder)
    assert (entry / "files" / "report.html").is_file()
    assert warm.run(["fairgate", "push", "--mlflow", "sqlite:///fairgate.db"], folder).code == 0
    assert len(finished_runs(folder)) == 1


@mounts
@pytest.mark.parametrize(("trouble", "said"), TROUBLES)
def test_a_queue_that_cannot_be_written_is_said(trouble: Trouble, said: str, warm: WarmProcess, folder: Path) -> None:
    ended = judged(warm, (*USUAL, "--mlflow", DEAD), folder, trouble(folder / ".fairgate"))
    assert f"The verdict stands, but the run could not be kept for later either: {said}." in ended.output
    assert f"where:  {folder / '.fairgate' / 'queue'}" in ended.output
    assert "`fairgate push --from DIR` sends it" in ended.output
    assert "waits in" not in ended.output
    require_whole(folder)


@mounts
@pytest.mark.parametrize("report", [True, False], ids=["with a report", "without"])
def test_a_full_folder_for_temporary_files_is_said_where_it_matters(
    report: bool, warm: WarmProcess, folder: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    words = USUAL if report else ("--cache", "cache")
    environment = f"import os; os.environ['TMPDIR'] = {str(scratch)!r}\n"
    ended = judged(warm, words, folder, environment + full(scratch, free=4096))
    if report:
        assert "MLflow: run " in ended.output
    else:
        assert "MLflow was not told of this run, the verdict stands: No space left on device." in ended.output
        assert "TMPDIR" in ended.output


@mounts
@pytest.mark.parametrize(("trouble", "said"), TROUBLES)
def test_a_queue_that_cannot_be_emptied_stops_a_push_with_a_remedy(
    trouble: Trouble, said: str, warm: WarmProcess, peaceful: Path, tmp_path: Path
) -> None:
    folder = copy_of(peaceful, tmp_path / "repository")
    judged(warm, (*USUAL, "--mlflow", DEAD), folder, "")
    ended = warm.run(
        ["fairgate", "push", "--mlflow", "sqlite:///fairgate.db"], folder, prelude=trouble(folder / ".fairgate")
    )
    assert "Traceback" not in ended.output
    if trouble is read_only:
        assert ended.code == 4
        assert f"the queue cannot be written: {said}" in ended.output
        assert len(queued(folder)) == 1
    else:  # to send and to remove takes no room
        assert ended.code == 0


@pytest.mark.parametrize("size", some([1024, 16384], few=1))
def test_files_of_limited_size_turn_no_verdict(size: int, warm: WarmProcess, bare: Path, tmp_path: Path) -> None:
    """Whatever stops the writing, and however far it got: nothing stays by halves."""
    folder = copy_of(bare, tmp_path / "repository")
    ended = judged(warm, USUAL, folder, FILE_LIMIT.format(size=size))
    assert "the report was not written, the verdict stands: File too large" in ended.output
    assert "where:  report" in ended.output
    require_whole(folder)
    later = warm.run([*CHECK, *USUAL], folder)
    assert "MLflow: run " in later.output
    require_whole(folder)


def test_a_file_where_a_folder_should_be_turns_no_verdict(warm: WarmProcess, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    (folder / ".fairgate").write_text("no folder")
    below = str(tmp_path / "file" / "below")
    words = ("--report", below, "--cache", below, "--mlflow", f"sqlite:///{below}/fairgate.db")
    ended = judged(warm, words, folder, "")
    for said in (
        "the report was not written, the verdict stands: Not a directory.",
        "embeddings are not kept",
        "MLflow did not take the run: ",
        "could not be kept for later either",
    ):
        assert said in ended.output, ended.output
