"""A build, its release and a baseline travel by DVC to a bucket and back; what a bucket's trouble changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_servers import KINDS, S3, s3_server
from travelling import Clone, change_data, keep_in_s3, write_scores

from fairgate.records import RunRecord
from fairgate.reports import read_results

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("s3")]

HALF = 1_000_000
"""Bytes: the team pushes 3.4 million."""
SOME = 200_000
"""Bytes: more than the baseline's scores, less than the release."""
TRACKED = 74


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server("seaweedfs", tmp_path_factory.mktemp("s3")) as s3:
        yield s3


@pytest.fixture
def s3(running: S3) -> S3:
    """An S3 that survives a kill, and runs."""
    running.start()
    return running


@pytest.fixture
def own(team: Clone, tmp_path: Path) -> Clone:
    """A copy of the team's repository."""
    return team.copy(tmp_path / "team")


@pytest.fixture(scope="module")
def pushed(team: Clone, running: S3, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The team's repository once more, whose data are on S3."""
    running.start()
    copy = team.copy(tmp_path_factory.mktemp("pushed") / "team")
    push(copy, running)
    return copy


@pytest.fixture
def other(pushed: Clone, s3: S3, tmp_path: Path) -> Clone:
    """A colleague's clone; nothing is pulled yet."""
    return pushed.clone(tmp_path / "other")


def push(clone: Clone, s3: S3) -> None:
    keep_in_s3(clone, s3.relay.port, "data")
    done = clone.dvc("push")
    assert done.returncode == 0, done.stderr


def judged(clone: Clone, code: int, *words: str) -> RunRecord:
    done = clone.check(*words)
    assert done.exit_code == code, done.output
    return read_results(clone.root / "report" / "results.json")


@pytest.mark.parametrize("kind", KINDS)
def test_a_build_that_was_pushed_to_s3_is_pulled_elsewhere_gone_on_with_and_judged(
    kind: str, own: Clone, tmp_path: Path
) -> None:
    with s3_server(kind, tmp_path) as s3:
        push(own, s3)
        assert len(s3.names("data")) == TRACKED
        other = own.clone(tmp_path / "other")
        pulled = other.fairgate("dataset", "pull")
        assert pulled.exit_code == 0, pulled.output
        assert other.fingerprints == own.fingerprints
        again = other.fairgate("build", "toys")
        assert "build/toys/dataset holds these sets already" in again.output
        assert f"fingerprint {own.fingerprints[0]}" in again.output
        record = judged(other, 0)
        assert (record.verdict, record.dataset.fingerprint) == ("pass", own.fingerprints[1])


def test_a_push_that_the_server_did_not_survive_loses_nothing_and_the_next_completes_it(
    own: Clone, s3: S3, tmp_path: Path
) -> None:
    before = own.fingerprints
    keep_in_s3(own, s3.relay.port, "broken")
    s3.relay.kill_after(HALF, sent=True)
    broken = own.dvc("push")
    assert s3.relay.killed.is_set()
    assert broken.returncode != 0
    assert "ERROR: failed to transfer" in broken.stderr  # DVC's words, not ours
    assert own.fingerprints == before
    s3.start()
    there = len(s3.names("broken"))
    assert 0 < there < TRACKED
    early = own.clone(tmp_path / "early")
    lacking = early.fairgate("dataset", "pull")
    assert lacking.exit_code == 3
    assert "neither DVC's cache here nor the remote has" in lacking.output
    assert "remedy: `dvc push` on the machine that has it" in lacking.output
    again = own.dvc("push")
    assert f"{TRACKED - there} files pushed" in again.stdout
    pulled = early.fairgate("dataset", "pull")
    assert pulled.exit_code == 0, pulled.output
    assert early.fingerprints == before


def test_a_pull_that_the_server_did_not_survive_says_so_keeps_what_it_has_and_goes_on(
    team: Clone, other: Clone, s3: S3
) -> None:
    s3.relay.kill_after(HALF, sent=False)
    for _ in range(2):  # the server is gone in the middle, and from the start
        broken = other.fairgate("dataset", "pull")
        assert s3.relay.killed.is_set()
        assert broken.exit_code == 3
        assert re.search(r"object [0-9a-f]{32} could not be read", broken.output)
        assert "where:  remote 'store'" in broken.output
        assert "What is fetched already stays" in broken.output
    s3.start()
    again = other.fairgate("dataset", "pull")
    assert again.exit_code == 0, again.output
    (counts,) = re.findall(r"build/toys: (\d+) file\(s\), (\d+) fetched", again.output)
    assert 0 < int(counts[1]) < int(counts[0])
    assert other.fingerprints == team.fingerprints


def test_a_check_whose_baseline_is_on_the_killed_server_is_an_error_and_no_pass(other: Clone, s3: S3) -> None:
    assert other.fairgate("dataset", "pull").exit_code == 0
    s3.relay.kill_after(1, sent=False)
    record = judged(other, 3)
    assert s3.relay.killed.is_set()
    assert {check.verdict for check in record.checks} == {"error"}
    assert "could not be read" in record.checks[0].reason
    s3.start()
    assert judged(other, 0).verdict == "pass"


def test_a_check_whose_data_of_the_base_are_on_the_killed_server_is_an_error_and_no_pass(other: Clone, s3: S3) -> None:
    assert other.fairgate("dataset", "pull").exit_code == 0
    change_data(other)
    on_both = "by the base's checks on main's release"
    s3.relay.kill_after(SOME, sent=False)
    record = judged(other, 3)
    assert s3.relay.killed.is_set()
    assert {check.verdict for check in record.checks} == {"error"}
    assert "could not be read" in record.checks[0].reason
    assert not any(on_both in notice for notice in record.notices)
    s3.start()
    assert any(on_both in notice for notice in judged(other, 3).notices)  # the table lacks the base's images


def test_a_check_that_needs_nothing_of_the_server_has_the_verdict_that_it_has_beside_it(other: Clone, s3: S3) -> None:
    assert other.fairgate("dataset", "pull").exit_code == 0
    shutil.copy(other.root / "model.csv", other.root / "before.csv")
    write_scores(other.root, seed=2)
    alone = ("--baseline", "model:scores:before.csv?values=logit", "--base", "none")
    beside = judged(other, 0, *alone)
    s3.server.kill()
    without = judged(other, 0, *alone)
    assert without.model_dump(exclude={"created_at", "seconds"}) == beside.model_dump(exclude={"created_at", "seconds"})
