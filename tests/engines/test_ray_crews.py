"""What a Ray crew makes of workers that die, without a cluster: the cluster's own tests are in tests/builds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairgate.engines import Task
from fairgate.engines.ray_engine import LIVES, _Crew
from fairgate.ground.errors import RecipeError


class Died(Exception):
    """As Ray's RayActorError."""


def crew(said: str) -> _Crew:
    """A crew whose workers all die with these words."""

    def get(answer: Any) -> Any:
        raise Died(said)

    kinds = ("RayActorError", "WorkerCrashedError", "OutOfMemoryError", "ObjectLostError", "RayTaskError")
    errors = SimpleNamespace(**{**dict.fromkeys(kinds, Died), "RayTaskError": type("Other", (Exception,), {})})
    ray = SimpleNamespace(exceptions=errors, get=get, kill=lambda _: None)
    return _Crew(ray, lambda _: None, False, 1, [])  # type: ignore[arg-type]


def test_a_worker_that_cannot_begin_is_named_at_once_with_its_reason() -> None:
    said = "The actor died because of an error raised in its creation task\nModuleNotFoundError: No module named 'x'\n"
    with pytest.raises(RecipeError, match="a worker could not begin: ModuleNotFoundError: No module named 'x'"):
        crew(said)._take(object(), object(), None, lambda *_: True)


def test_after_some_lives_the_last_words_of_a_worker_are_told() -> None:
    lost = crew("The actor is dead\nits owner ran out of memory")
    for _ in range(LIVES - 1):
        assert lost._take(object(), object(), Task(3, None), lambda *_: True)
    with pytest.raises(RecipeError, match=r"3 workers were lost .* \(shard 3\)") as refused:
        lost._take(object(), object(), Task(3, None), lambda *_: True)
    assert "its owner ran out of memory" in str(refused.value)
