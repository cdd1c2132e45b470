"""Real photographs through a real architecture, ViT-S-32 with random weights: from files to the report page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fairface import GENDERS, PHOTOGRAPHS, RACES, Example, by_id, example
from imported_photographs import import_images

from fairgate.records import RunRecord

pytestmark = [
    pytest.mark.nightly,  # half a minute of one network; small networks and real scores are tried always
    pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the photographs are not beside this checkout"),
    pytest.mark.xdist_group("fairface_photographs"),  # its runs are made once, not once a worker
]

SUITE = "fairface_photos"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    made = example(tmp_path_factory.mktemp("real") / "photos")
    import_images(
        PHOTOGRAPHS / "labels.csv",
        PHOTOGRAPHS,
        SUITE,
        attributes={"gender": GENDERS, "race": RACES, "age": []},
        subject="person",
        root=made.root / "datasets",
    )
    write_checkpoints(made)
    yield made
    for path in made.root.glob("*.safetensors"):  # 250 MB each, and pytest keeps the folders of three runs
        path.unlink()


def write_checkpoints(made: Example) -> None:
    """`one.safetensors`, and `two.safetensors` with other random weights where images are projected."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = open_clip.model.CLIP(**open_clip.get_model_config("ViT-S-32")).state_dict()
        save_file(state, made.root / "one.safetensors")
        state["visual.proj"] = torch.randn_like(state["visual.proj"]) * state["visual.proj"].std()
        save_file(state, made.root / "two.safetensors")


@pytest.fixture(scope="module")
def runs(repository: Example) -> dict[str, RunRecord]:
    """A baseline, a candidate against it, and the candidate again."""
    one, two = (f"open_clip:ViT-S-32@{name}.safetensors" for name in ("one", "two"))
    against = f"file:{repository.root / 'runs' / 'base'}"
    return {
        "base": repository.check(SUITE, one, "none", "base"),
        "now": repository.check(SUITE, two, against, "now"),
        "again": repository.check(SUITE, two, against, "again"),
    }


def test_every_photograph_is_scored_and_compared(runs: dict[str, RunRecord]) -> None:
    for record in runs.values():
        assert record.coverage.complete
        assert (record.coverage.scored_images, record.coverage.scored_sets) == (252, 252)
        assert record.verdict == "fail"  # random weights cannot tell anything
        assert not [check.reason for check in record.checks if check.verdict == "error"]
    race = by_id(runs["now"])["by-race"]
    assert [(group.group, group.n_images) for group in race.groups] == [(race, 36) for race in RACES]
    assert all(group.delta is not None and group.verdict is not None for group in race.groups)


def test_the_report_shows_the_photographs_that_it_speaks_of(repository: Example, runs: dict[str, RunRecord]) -> None:
    failing = [check for check in runs["now"].checks if check.verdict != "pass"]
    shown = {worst.set_id for check in failing for worst in check.worst_sets}
    assert shown
    page = repository.page("now")
    assert page.count('<img src="data:image/jpeg;base64,') == len(shown)
    assert "images" in by_id(runs["now"])["still-useful"].interval  # type: ignore[operator]


def test_the_cached_run_gives_the_same_record(runs: dict[str, RunRecord]) -> None:
    clocks = {"created_at", "seconds"}
    assert runs["again"].model_dump(exclude=clocks) == runs["now"].model_dump(exclude=clocks)
    assert runs["again"].seconds < runs["now"].seconds
