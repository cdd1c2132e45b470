"""Models under a root of the machine: its owner says where that is, and nothing of a repository does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nightly import some
from toy_repository import SUITE, Toy
from trust_world import check, parts_of, refused, shut

from fairgate.ground.errors import FairgateError, ModelError
from fairgate.models import FAMILIES, open_scorer, require_uri
from fairgate.models.checkpoints import resolve
from fairgate.reports import read_results

HELD = SUITE.replace("model: scores:tuned.csv", "model: scores:@tables/new/tuned.csv")
VARIABLE = "FAIRGATE_ROOT_TABLES"
URIS = {
    "open_clip": ["open_clip:ViT-B-32@{path}", "open_clip:local-dir:{path}"],
    "diffusion": ["diffusion:{path}", "diffusion:{path}?samples=10"],
    "vlm": ["vlm:{path}?question=Who is it?"],
    "captions": ["captions:{path}?question=Who is it?&captioner=vlm:model?prompt={{image}}"],
    "onnx": ["onnx:{path}?labels=labels.txt&size=8&scale=1"],
    "torchvision": ["torchvision:resnet18@{path}?labels=labels.txt"],
    "features": ["features:{path}?head=head.safetensors"],
    "peft": ["peft:{path}?base=hf:model"],
    "debiased": ["debiased:{path}?model=hf:model"],
    "scores": ["scores:{path}?values=logit"],
}
"""How a family's URI names a path, where that is not `SCHEME:PATH`."""


@pytest.fixture
def tables(toy: Toy, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root that holds the candidate's table, in a folder of the machine."""
    root = tmp_path_factory.mktemp("machine") / "tables"
    (root / "new").mkdir(parents=True)
    (toy.root / "tuned.csv").rename(root / "new" / "tuned.csv")
    monkeypatch.setenv(VARIABLE, str(root))
    return root


def test_a_suite_names_a_model_under_a_root_and_the_record_does_not_say_where_that_is(toy: Toy, tables: Path) -> None:
    toy.write_suite(HELD)
    result = check(toy)
    assert result.exit_code == 0, result.output
    model = read_results(toy.root / "out" / "results.json").model
    assert model.uri == "scores:@tables/new/tuned.csv?values=logit"
    for file in (toy.root / "out").rglob("*"):
        if file.is_file():
            assert str(tables).encode() not in file.read_bytes(), file
    assert str(tables) not in result.output


def test_the_fingerprint_is_that_of_the_files_wherever_the_root_is(toy: Toy, tables: Path, tmp_path: Path) -> None:
    toy.write_suite(HELD)
    fingerprints = []
    for uri in ("scores:@tables/new/tuned.csv?values=logit", f"scores:{tables}/new/tuned.csv?values=logit"):
        assert check(toy, "--model", uri).exit_code == 0
        fingerprints.append(read_results(toy.root / "out" / "results.json").model.fingerprint)
    assert fingerprints[0] == fingerprints[1]
    with (tables / "new" / "tuned.csv").open("a", encoding="utf-8") as file:
        file.write("\n")
    check(toy)
    assert read_results(toy.root / "out" / "results.json").model.fingerprint != fingerprints[0]


def test_a_root_that_is_not_set_gives_no_verdict_and_says_how_it_is_set(
    toy: Toy, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("FAIRGATE_ROOT_TABLE", str(tables))
    toy.write_suite(HELD)
    (toy.root / "@tables" / "new").mkdir(parents=True)  # what a branch can bring
    (toy.root / "@tables" / "new" / "tuned.csv").write_bytes((tables / "new" / "tuned.csv").read_bytes())
    (toy.root / "pyproject.toml").write_text(f'[tool.fairgate]\nroots = {{tables = "{tables}"}}\n', encoding="utf-8")
    (toy.root / ".env").write_text(f"{VARIABLE}={tables}\n", encoding="utf-8")
    reason = shut(toy, check(toy))
    assert "the root 'tables' is not set on this machine (it has @table)" in reason
    assert f"{VARIABLE}=/path/of/it" in reason


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("@tables/../secret", "leaves the root"),
        ("@tables//etc/passwd", "leaves the root"),
        ("@tables/link/passwd", "leaves the root"),
        ("@Tables/new", "is not set on this machine"),
        ("@tables-2/new", "FAIRGATE_ROOT_TABLES_2=/path/of/it"),
        ("@/new", "is not set on this machine"),
        ("@", "is not set on this machine"),
    ],
)
def test_a_path_that_leaves_its_root_is_refused(toy: Toy, tables: Path, address: str, problem: str) -> None:
    (tables / "link").symlink_to("/etc")
    with pytest.raises(ModelError) as caught:
        resolve(address, toy.root)
    assert problem in parts_of(caught.value)


@pytest.mark.parametrize("place", ["tables", "nowhere", "../tables"])
def test_a_root_that_depends_on_the_working_folder_or_is_no_folder_is_refused(
    toy: Toy, tables: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tables.parent)
    monkeypatch.setenv(VARIABLE, place if place != "nowhere" else str(tables.parent / place))
    with pytest.raises(ModelError, match="absolute path of a folder"):
        resolve("@tables/new", toy.root)


@pytest.mark.parametrize("link", [False, True])
def test_a_root_in_the_repository_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch, link: bool) -> None:
    inside = toy.root / "inside"
    inside.mkdir()
    root = toy.root.parent / "link" if link else inside
    if link:
        root.symlink_to(inside)
    monkeypatch.setenv(VARIABLE, str(root))
    with pytest.raises(ModelError, match="lies in the repository"):
        resolve("@tables/tuned.csv", toy.root)


def test_a_link_of_the_repository_that_is_called_as_a_root_leads_nowhere(toy: Toy, tables: Path) -> None:
    (toy.root / "@tables").symlink_to(tables)
    for key, uri in (("model", "scores:@tables/new/tuned.csv?values=logit"), ("baseline", "file:@tables/new")):
        lines = [line for line in SUITE.splitlines() if not line.startswith(f"{key}:")]
        toy.write_suite("\n".join([*lines, f"{key}: {json.dumps(uri)}"]))
        assert "names a file outside of the repository" in refused(check(toy))


@pytest.mark.parametrize("scheme", some(sorted(FAMILIES)))
def test_every_family_finds_its_files_under_a_root(toy: Toy, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    from fairgate.data import open_dataset

    monkeypatch.setenv("FAIRGATE_ROOT_MODELS", "/nowhere/at/all")
    source = open_dataset("toy", toy.root / "datasets")
    for form in URIS.get(scheme, [f"{scheme}:{{path}}"]):
        with pytest.raises(FairgateError) as caught:
            open_scorer(form.format(path="@models/a/b.safetensors"), source, device="cpu", base=toy.root)
        assert "the root 'models' is '/nowhere/at/all', which is no folder" in parts_of(caught.value), form


def test_a_path_without_a_scheme_is_answered_with_the_uri_of_its_root(toy: Toy, tables: Path) -> None:
    with pytest.raises(ModelError) as caught:
        require_uri("@tables/new/tuned.csv", toy.root)
    assert "a file needs its scheme, such as `open_clip:ARCH@@tables/new/tuned.csv`" in str(caught.value.remedy)
