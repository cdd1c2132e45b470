"""What a Ray crew makes of workers that die, without a cluster: the cluster's own tests are in tests/builds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairgate.engines import Task
from fairgate.engines.ray_engine import LIVES, _Hand
from fairgate.ground.errors import RecipeError

TASK = Task(3, None, lambda *_: lambda _: None, "baker, part 'pool'")


class Died(Exception):
    """As Ray's RayActorError."""


def hand(said: str, hired: list[Any], *, at: str = "work") -> _Hand:
    """A worker that dies with these words `at` a call, and so do those that replace it."""

    def get(answer: Any) -> Any:
        if answer == at:
            raise Died(said)

    kinds = ("RayActorError", "WorkerCrashedError", "OutOfMemoryError", "ObjectLostError", "RayTaskError")
    errors = SimpleNamespace(**{**dict.fromkeys(kinds, Died), "RayTaskError": type("Other", (Exception,), {})})
    calls = {name: SimpleNamespace(remote=lambda _, name=name: name) for name in ("set_up", "work")}

    def hire(*_: object) -> Any:
        hired.append(SimpleNamespace(**calls))
        return hired[-1]

    actor = SimpleNamespace(remote=hire)
    ray = SimpleNamespace(exceptions=errors, get=get, kill=lambda _: None, remote=lambda **_: lambda _: actor)
    return _Hand(ray, False)  # type: ignore[arg-type]


def test_a_worker_that_cannot_begin_is_named_at_once_with_its_reason() -> None:
    said = "The actor died because of an error raised in its creation task\nModuleNotFoundError: No module named 'x'\n"
    with pytest.raises(RecipeError, match="a worker could not begin: ModuleNotFoundError: No module named 'x'"):
        hand(said, [], at="set_up")(TASK)


SHARD = r"at the same piece of work \(shard 3 of baker, part 'pool'\)"


@pytest.mark.parametrize(("at", "what"), [("work", SHARD), ("set_up", "while it set up its models")])
def test_after_some_lives_the_last_words_of_a_worker_are_told(at: str, what: str) -> None:
    hired: list[Any] = []
    with pytest.raises(RecipeError, match=f"3 workers were lost {what}") as refused:
        hand("The actor is dead\nits owner ran out of memory", hired, at=at)(TASK)
    assert "its owner ran out of memory" in str(refused.value)
    assert len(hired) == LIVES


def test_a_worker_whose_run_has_ended_is_not_replaced() -> None:
    hired: list[Any] = []
    lost = hand("killed", hired)
    lost.leave()
    assert lost(TASK) is None
    assert len(hired) == 1
