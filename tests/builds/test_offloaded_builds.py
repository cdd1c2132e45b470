"""Where diffusion models lie is the machine's business: it reaches the worker, and no plan knows of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairgate.builds import Factory, SilentWatcher
from fairgate.builds.recipes import open_recipe
from fairgate.builds.shard_bench import ShardBench
from fairgate.builds.steps import Step
from fairgate.engines import open_engine
from fairgate.models.generation import current_offload


class Noting:
    """A part that notes how models lie that its steps would open."""

    def __init__(self) -> None:
        self.seen = list[str]()

    def steps(self, *_: object) -> Sequence[Step]:
        self.seen.append(current_offload())
        return []


def test_a_worker_opens_models_as_the_build_was_told() -> None:
    part: Any = Noting()
    ShardBench(part, "baker", None, [], "plan", "sequential")("cpu", None)
    ShardBench(part, "baker", None, [], "plan")("cpu", None)
    assert part.seen == ["sequential", "none"]
    travelled = pickle.loads(pickle.dumps(ShardBench(part, "baker", None, [], "plan", "model")))
    assert travelled.offload == "model"


def _noting(stepped: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    def steps(*given: Any) -> Any:
        seen.append(current_offload())
        return stepped(*given)

    return steps


@pytest.mark.usefixtures("toy_recipe")
def test_a_build_goes_on_with_what_was_made_with_models_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, seen = open_recipe("toy", {"subjects": ["baker"]}), list[str]()
    for kind in {type(part) for part in recipe.parts()}:
        monkeypatch.setattr(kind, "steps", _noting(kind.steps, seen))
    made: dict[tuple[str, str], tuple[str, set[str]]] = {}
    for offload, out in (("model", "one"), ("none", "other"), ("none", "one")):
        seen.clear()
        factory = Factory("toys", recipe, folder / out, offload=offload, watch=SilentWatcher())  # type: ignore[arg-type]
        made[offload, out] = factory.assemble(open_engine("local", device="cpu")).fingerprint, set(seen)
    assert made["model", "one"] == (made["none", "other"][0], {"model"})
    assert made["none", "one"] == (made["none", "other"][0], set())  # nothing was stale
