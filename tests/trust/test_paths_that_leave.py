"""Names are names and paths stay in the repository: what a pull request can name cannot be read into a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_repository import SUITE, Toy, toy_repository
from trust_world import check, parts_of, refused
from typer.testing import CliRunner

from fairgate.data import open_dataset
from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli.main import app

SECRET = "root:x:0:0:THE-SECRET"


@pytest.fixture
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the runner that no report may show."""
    path = tmp_path_factory.mktemp("elsewhere") / "secret.csv"
    path.write_text(f"{SECRET},b\n1,2\n")
    return path


@pytest.mark.parametrize("name", ["../jobs", "/etc/passwd", "jobs/../jobs", "jobs.yaml", "*", "", "jobs\0", "x" * 5000])
def test_a_suite_is_named_and_never_a_path(toy: Toy, name: str) -> None:
    assert "there is no fairness suite" in refused(check(toy, suite=name))


@pytest.mark.parametrize("name", ["../jobs", "/etc/passwd"])
def test_pytest_refuses_a_path_for_a_suite_too(toy: Toy, pytester: pytest.Pytester, name: str) -> None:
    result = pytester.runpytest_subprocess(f"--rootdir={toy.root}", "--fairness-suite", name)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*there is no fairness suite*"])


@pytest.mark.parametrize(
    "name", ["../../etc", "/etc", "toy@../v1", "toy@v1/../v1", "toy@v1\n", "..", "", "toy\0", "TOY"]
)
def test_a_dataset_is_named_and_never_a_path(toy: Toy, name: str) -> None:
    with pytest.raises(DatasetError) as caught:
        open_dataset(name, toy.root / "datasets")
    assert "is not a dataset" in caught.value.problem
    assert caught.value.remedy
    toy.write_suite(SUITE.replace("dataset: toy", f"dataset: {json.dumps(name)}"))
    refused(check(toy))


def test_a_shard_is_a_name_and_never_a_path(toy: Toy) -> None:
    path = toy.root / "datasets/toy/v1/manifest.json"
    for file in (
        "../../x.parquet",
        "/etc/x.parquet",
        "shard-00000-of-00001.parquet/../x",
        "shard-00000-of-00001.parquet\n",
    ):
        manifest = json.loads(path.read_text())
        manifest["shards"][0]["file"] = file
        path.write_text(json.dumps(manifest))
        output = refused(check(toy))
        assert "manifest is not valid" in output


@pytest.mark.parametrize("level", ["datasets", "datasets/toy", "datasets/toy/v1"])
def test_a_dataset_that_is_a_link_out_of_the_repository_is_refused(
    toy: Toy, tmp_path_factory: pytest.TempPathFactory, level: str
) -> None:
    other = toy_repository(tmp_path_factory.mktemp("private"), sets=2)
    here = toy.root / level
    here.rename(toy.root / "away")
    here.symlink_to(other.root / level)
    assert "folder outside of the repository" in refused(check(toy))


def test_a_shard_may_be_a_link_to_the_very_bytes_that_were_released(
    toy: Toy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cached = tmp_path_factory.mktemp("cache") / "1f2e"
    (shard,) = (toy.root / "datasets/toy/v1").glob("*.parquet")
    shard.rename(cached)
    shard.symlink_to(cached)
    assert check(toy).exit_code == 0


@pytest.mark.parametrize(
    ("key", "uri"),
    [
        ("model", "scores:{path}?values=logit"),
        ("model", "scores:../{parent}/secret.csv?values=logit"),
        ("model", "scores:~/secret.csv?values=logit"),
        ("model", "classifier:model?labels={path}"),
        ("model", "torchvision:resnet18@../{parent}/secret.csv?labels=labels.txt"),
        ("model", "features:model?head=heads/a.safetensors&labels={path}"),
        ("model", "scores:link.csv?values=logit"),
        ("model", "hf:{folder}"),
        ("model", "peft:{folder}?base=hf:model"),
        ("model", "peft:adapter?base=hf:../{parent}"),
        ("model", "peft:adapter?base=classifier:model?labels={path}"),
        ("model", "open_clip:ViT-B-32@{path}"),
        ("model", "open_clip:local-dir:../{parent}"),
        ("baseline", "model:scores:{path}?values=logit"),
        ("baseline", "file:{folder}"),
        ("baseline", "file:../{parent}"),
        ("baseline", "file:folder"),
        ("baseline", "file:kept"),
        ("baseline", "file:kept/results.json"),
        ("anchor", "file:{folder}"),
        ("anchor", "model:scores:link.csv?values=logit"),
    ],
)
def test_a_suite_that_names_a_file_outside_of_its_repository_is_refused(
    toy: Toy, secret: Path, key: str, uri: str
) -> None:
    (toy.root / "link.csv").symlink_to(secret)
    (toy.root / "folder").symlink_to(secret.parent)
    (toy.root / "kept").mkdir()
    (toy.root / "kept" / "results.json").symlink_to(secret)
    named = uri.format(path=secret, folder=secret.parent, parent=f"{'../' * 8}{secret.parent}")
    lines = [line for line in SUITE.splitlines() if not line.startswith(f"{key}:")]
    toy.write_suite("\n".join([*lines, f"{key}: {json.dumps(named)}"]))
    output = refused(check(toy))
    assert f"`{key}` names a file outside of the repository" in output
    assert "THE-SECRET" not in output
    assert not (toy.root / "out").exists()


def test_who_types_a_uri_may_name_any_file_of_theirs(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("mine") / "tuned.csv"
    (toy.root / "tuned.csv").rename(elsewhere)
    assert check(toy, "--model", f"scores:{elsewhere}?values=logit").exit_code == 0


def test_a_suite_that_is_a_link_out_of_the_repository_is_not_read(toy: Toy, secret: Path) -> None:
    toy.suite.unlink()
    toy.suite.symlink_to(secret)
    output = refused(check(toy))
    assert "the suite is a link to a file outside" in output
    assert "THE-SECRET" not in output


def test_a_checkpoint_in_dvcs_shared_cache_may_be_linked(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> None:
    cached = tmp_path_factory.mktemp("cache") / "files" / "md5" / "ab" / ("c" * 30)
    cached.parent.mkdir(parents=True)
    (toy.root / "tuned.csv").rename(cached)
    (toy.root / "tuned.csv").symlink_to(cached)
    assert check(toy).exit_code == 0


def test_images_are_imported_from_their_folder_only(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "images").mkdir()
    for value in ("../secret.csv", str(secret), "a/../../secret.csv", "C:\\x", "a\\..\\b"):
        (tmp_path / "labels.csv").write_text(f"image,gender\n{value},man\n")
        words = ["dataset", "import", "people", "--labels", str(tmp_path / "labels.csv"), "--attribute", "gender"]
        words += ["--images", str(tmp_path / "images"), "--subject", "person", "--root", str(tmp_path / "datasets")]
        output = refused(CliRunner().invoke(app, words))
        assert "leads out of the images folder" in output


def test_a_line_of_labels_that_names_the_folder_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("image,gender\na.png,man\n.,man\n")
    words = ["dataset", "import", "people", "--labels", str(tmp_path / "labels.csv"), "--attribute", "gender"]
    output = refused(CliRunner().invoke(app, [*words, "--subject", "person", "--root", str(tmp_path / "datasets")]))
    assert "the line names no image" in output


def test_a_dataset_error_of_a_link_has_three_parts(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> None:
    (toy.root / "datasets" / "other").symlink_to(tmp_path_factory.mktemp("private"))
    (toy.root / "datasets" / "other" / "v1").mkdir()
    with pytest.raises(DatasetError) as caught:
        open_dataset("other", toy.root / "datasets")
    assert "folder outside of the repository" in parts_of(caught.value)
