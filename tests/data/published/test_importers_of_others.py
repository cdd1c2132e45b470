"""An installed package adds an importer: `fairgate dataset get` lists it, describes it and makes a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from example_plugin import install_example
from PIL import Image
from typer.testing import CliRunner

from fairgate.data import Dataset
from fairgate.data.published import DATASETS, Obtained, find_published
from fairgate.data.published.contract import PublishedRow, Reading, register
from fairgate.data.published.utkface import DATASET as UTKFACE
from fairgate.ground.errors import FairgateError
from fairgate.interfaces.cli.main import app

NAME = "jobs_in_tones"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example(tmp_path / "installed", monkeypatch)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Three sets, and a light picture that has no dark one."""
    folder = tmp_path / "pictures" / "doctor"
    folder.mkdir(parents=True)
    for number in range(3):
        Image.new("RGB", (4, 4), (250, number, 0)).save(folder / f"{number}_light.png")
        Image.new("RGB", (4, 4), (20, number, 0)).save(folder / f"{number}_dark.png")
    Image.new("RGB", (4, 4)).save(folder / "9_light.png")
    return folder.parent


@pytest.mark.usefixtures("installed")
def test_it_is_listed_described_and_made_a_release_by_the_command(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert f"\n{NAME} " in CliRunner().invoke(app, ["dataset", "get"]).stdout
    described = CliRunner().invoke(app, ["dataset", "get", NAME]).stdout
    assert "CC0-1.0" in described
    assert "importer    team-fairness 1.0 sha256:" in described
    assert "authors of fairgate" not in described
    words = ["dataset", "get", NAME, "--from", str(pictures), "--accept-licence", "--root", str(tmp_path / "datasets")]
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    assert "left out: 1 (picture without the other tone)" in made.stderr
    assert f"{NAME}@v1: 6 images in 3 counterfactual sets" in made.stdout


@pytest.mark.usefixtures("installed")
def test_the_release_names_the_package_and_its_code(
    pictures: Path, take: Callable[..., Obtained], opened: Callable[[str], Dataset]
) -> None:
    recipe = take(NAME, pictures).manifest.recipe
    assert recipe["packages"]["team-fairness"].startswith("1.0 sha256:")  # type: ignore[index, call-overload, union-attr]
    index = opened(f"{NAME}@v1").index
    assert index.set_id.tolist().count("doctor-0") == 2


@pytest.mark.parametrize("broken", ["read", "rows"])
@pytest.mark.usefixtures("installed")
def test_an_exception_in_it_is_an_error_that_names_the_package(
    pictures: Path, take: Callable[..., Obtained], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def read(files: object, part: str) -> Reading:
        if broken == "read":
            raise ZeroDivisionError("division by zero")
        return Reading(
            rows=[PublishedRow("1", "1.png", {"tone": "light"}, lambda: bytes(1 // 0))], left_out={}, files=[]
        )

    monkeypatch.setitem(DATASETS._found, NAME, replace(find_published(NAME), read=read))
    with pytest.raises(FairgateError, match=f"the dataset '{NAME}' of the package 'team-fairness' broke off: ZeroDiv"):
        take(NAME, pictures)


def test_a_package_cannot_take_a_built_in_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example(tmp_path / "installed", monkeypatch, {"fairgate.datasets": {"utkface": "dataset:DATASET"}})
    with pytest.raises(FairgateError, match="the dataset 'utkface' of the package 'team-fairness' has the name of"):
        list(DATASETS)
    with pytest.raises(FairgateError, match="registers the dataset 'utkface', and there is one of this name"):
        register(replace(UTKFACE, read=find_published("fairface").read))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("tones", "dataset:DATASET", "its name is 'jobs_in_tones'"), ("tones", "dataset:read", "it is no fairgate.data.")],
)
def test_what_is_no_importer_of_that_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    install_example(tmp_path / "installed", monkeypatch, {"fairgate.datasets": {name: value}})
    with pytest.raises(FairgateError, match=f"'{name}' of the package 'team-fairness' cannot be loaded: {why}"):
        find_published(name)
