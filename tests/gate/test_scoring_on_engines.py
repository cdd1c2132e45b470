"""Scoring by the workers of an engine knows what the user's cache has, and keeps what is new."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_parts import SUITE, Toy, lasting, run, small_batches, toy  # noqa: F401 - fixtures

from fairgate import gate, models
from fairgate.gate.parts import score_shard
from fairgate.ground.spans import recorded
from fairgate.models.checkpoints import Checkpoint


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The checkpoints that were opened so far."""
    found, loading = list[Any](), Checkpoint.open

    def counted(checkpoint: Any, *words: Any) -> Any:
        found.append(checkpoint)
        return loading(checkpoint, *words)

    monkeypatch.setattr(Checkpoint, "open", counted)
    return found


def test_a_changed_suite_scores_nothing_that_is_cached_and_a_run_fills_the_cache(
    toy: Toy,  # noqa: F811
    tmp_path: Path,
    opened: list[Any],
) -> None:
    cache = str(tmp_path / "cache")
    with recorded() as recording:
        first = gate.evaluate_on("local", 2, *run(toy, cache=cache))
    assert recording.phases["workers"].seconds > 0
    assert opened
    opened.clear()
    alone = gate.evaluate(*run(toy, cache=cache))
    assert not opened, "what workers scored is in the user's cache"
    assert lasting(alone.record) == lasting(first.record)
    again = gate.evaluate_on("local", 2, *run(toy, cache=cache))
    changed = Toy(Path(shutil.copytree(toy.root, tmp_path / "changed")))
    changed.write_suite(f"{SUITE}  - {{id: more, probe: labels, metric: accuracy, at_least: 0.0}}\n")
    more = gate.evaluate_on("local", 2, *run(changed, cache=cache))
    assert not opened
    assert lasting(again.record) == lasting(first.record)
    assert [check.id for check in more.record.checks][-1] == "more"


def test_a_worker_whose_machine_lacks_what_is_known_scores_it(
    toy: Toy,  # noqa: F811
    tmp_path: Path,
) -> None:
    prepared, settings = run(toy, cache=str(tmp_path / "cache"))
    gate.evaluate(prepared, settings)
    known, parts = models.known_names(settings.cache), list[Any]()
    assert {name.partition("/")[0] for name in known} >= {"images", "texts"}
    for place, user in (("here", settings.cache), ("elsewhere", tmp_path / "none")):
        parts.append(score_shard(prepared, replace(settings, cache=user), (1, 2), tmp_path / place, known=known))
    here, elsewhere = ({name.partition("/")[0] for name in part.entries} for part in parts)
    assert not here
    assert elsewhere == {"parts", "scales", "texts"}
