"""An update of the committed baseline that is killed leaves the old one or the new one, and no mix that is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
from forking_python import Ended
from gated_world import copy_of
from moments import touches, watch
from nightly import some
from warm_process import WarmProcess

from fairgate.data import open_dataset
from fairgate.probes import read_scores, scores_digest
from fairgate.reports import read_results

pytestmark = pytest.mark.xdist_group("warm_process")

KEPT = Path("fairness_suites") / "baselines" / "jobs"
USUAL = ("--mlflow", "off", "--cache", "cache", "--device", "cpu")
NOT_IN_CI = {"CI": ""}


def update(warm: WarmProcess, folder: Path, model: str, prelude: str = "") -> Ended:
    words = ("fairgate", "baseline", "update", "jobs", "--force", "--reason", "tried in a test", "--baseline", "none")
    model = f"open_clip:local-dir:{model}"
    return warm.run([*words, "--model", model, *USUAL], folder, prelude=prelude, environment=NOT_IN_CI)


@pytest.fixture(scope="module")
def kept(warm: WarmProcess, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that keeps the baseline of checkpoint `base`."""
    folder = copy_of(world, tmp_path_factory.mktemp("kept") / "repository")
    ended = update(warm, folder, "base")
    assert ended.code == 0, ended.output
    return folder


@pytest.mark.faults
def test_a_killed_update_leaves_the_old_baseline_or_the_new_one(kept: Path, warm: WarmProcess, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert update(warm, copy_of(kept, tmp_path / "undisturbed"), "tuned", watch(log)).code == 0
    touched = touches(log)
    first = next(number for number, touch in enumerate(touched) if str(KEPT) in touch.name)
    found = []
    for deadly in some(range(first, len(touched)), few=3):
        folder = copy_of(kept, tmp_path / f"{deadly}")
        assert update(warm, folder, "tuned", watch(log, deadly)).killed
        found.append(standing(folder))
        if found[-1] == "mixed":
            check = ["fairgate", "check", "jobs", "--baseline", f"file:{KEPT}", *USUAL]
            refused = warm.run(check, folder)
            assert refused.code == 3
            assert "not those that the baseline's results.json was made from" in refused.output
        ended = update(warm, folder, "tuned")
        assert ended.code == 0, ended.output
        assert standing(folder) == "tuned"
        assert sorted(path.name for path in (folder / KEPT).iterdir()) == ["results.json", "scores.parquet"]
    assert found[0] == "base"
    assert found[-1] == "tuned"
    assert found.count("mixed") <= 1


def standing(folder: Path) -> str:
    """Whose baseline stands there; `mixed` where its digest says that the scores are not the record's."""
    record = read_results(folder / KEPT / "results.json")
    scores = read_scores(folder / KEPT / "scores.parquet", open_dataset("toy", folder / "datasets").index)
    own = scores_digest(scores) == record.scores_digest
    return record.model.uri.rpartition(":")[2] if own else "mixed"
