"""`fairgate dataset`: what it prints, and the exit codes that scripts rely on."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from fairgate.data import open_dataset, write_dataset
from fairgate.interfaces.cli.main import app


@pytest.fixture
def run(monkeypatch):
    """Runs a `fairgate dataset` command line, wide enough not to wrap."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        return CliRunner().invoke(app, ["dataset", *map(str, arguments)])

    return run


def _rows():
    for number in range(3):
        for member in ("man", "woman"):
            buffer = io.BytesIO()
            Image.new("RGB", (8, 8), (number, len(member), 0)).save(buffer, "PNG")
            yield {
                "image": buffer.getvalue(),
                "set_id": f"set-{number}",
                "member": member,
                "subject": "doctor",
                "gender": member,
            }


def _write(folder: Path) -> None:
    write_dataset(
        folder,
        _rows(),
        name="people",
        version="v1",
        attributes={"gender": ["man", "woman"]},
        recipe={"name": "drawn"},
        licence="Apache-2.0",
        counterfactual=True,
        notice="Drawn portraits of fairgate's embedded world, a test instrument: no person is depicted",
    )


@pytest.fixture
def root(tmp_path):
    """A root of releases with people@v1."""
    _write(tmp_path / "datasets" / "people" / "v1")
    return tmp_path / "datasets"


def test_show_tells_what_a_release_holds(run, root):
    result = run("show", "people", "--root", root)
    assert result.exit_code == 0
    for told in ("people@v1", "6 rows in 3 counterfactual sets of 2 members", "doctor (6)", "Apache-2.0", "woman"):
        assert told in result.stdout
    told = " ".join(result.stdout.split())
    assert "Drawn portraits of fairgate's demonstration data, a test instrument: no person is depicted" in told


def test_show_of_an_unknown_dataset_exits_4_with_the_remedy_on_stderr(run, root):
    result = run("show", "peopel", "--root", root)
    assert result.exit_code == 4
    assert result.stdout == ""
    assert "did you mean 'people'? run `fairgate dataset import` or `fairgate dataset get`" in result.stderr


def test_verify_of_a_good_release_exits_0(run, root):
    result = run("verify", "people@v1", "--root", root)
    assert result.exit_code == 0
    assert "people@v1: 6 rows in 3 sets" in result.stdout


def test_verify_exits_1_and_names_the_problems(run, root):
    shard = next((root / "people" / "v1").glob("*.parquet"))
    data = bytearray(shard.read_bytes())
    data[data.index(b"IDAT") + 6] ^= 0xFF
    shard.write_bytes(bytes(data))
    result = run("verify", "people", "--root", root)
    assert result.exit_code == 1
    assert f"shard '{shard.name}' is not the file that was released" in result.stderr
    assert "row 0, set 'set-0', member 'man'" in result.stderr
    assert "2 problem(s) found" in result.stderr


def test_verify_of_an_absent_release_exits_4(run, root):
    assert run("verify", "nobody", "--root", root).exit_code == 4


@pytest.mark.parametrize("name", ["people", "build/people", "build/people/dataset"])
def test_a_sheet_is_drawn_of_a_build_by_its_name_or_folder(run, tmp_path, monkeypatch, name):
    _write(tmp_path / "build" / "people" / "dataset")
    monkeypatch.chdir(tmp_path)
    assert run("sheet", name).exit_code == 0
    assert (tmp_path / "sheet.png").is_file()


def test_a_build_that_is_not_there_is_told_with_the_nearest(run, tmp_path, monkeypatch):
    _write(tmp_path / "build" / "people" / "dataset")
    monkeypatch.chdir(tmp_path)
    refused = run("sheet", "peopel")
    assert (refused.exit_code, "did you mean 'people'?" in refused.stderr) == (4, True)


def test_import_takes_photographs_and_tells_how_they_were_found(run, root, tmp_path):
    (tmp_path / "photos").mkdir()
    for number, row in enumerate(_rows()):
        (tmp_path / "photos" / f"{number}.png").write_bytes(row["image"])
    labels = tmp_path / "labels.csv"
    labels.write_text("file,gender\n" + "".join(f"val/{number}.png,{'mw'[number % 2]}\n" for number in range(6)))
    command = ["import", "faces", "--labels", labels, "--images", tmp_path / "photos", "--attribute", "gender=w,m"]
    result = run(*command, "--subject", "person", "--licence", "mine", "--root", root)
    assert result.exit_code == 0, result.output
    assert "6 single images" in result.stdout
    assert result.stdout.endswith("next: fairgate suite new faces --dataset faces --model URI\n")
    assert "found by file name alone" in " ".join(result.stderr.split())
    manifest = open_dataset("faces", root).manifest
    assert (manifest.licence, manifest.attributes) == ("mine", {"gender": ["w", "m"]})


def test_import_takes_labels_alone(run, root, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("photo,gender,job\n1.png,m,chef\n2.png,w,nurse\n")
    options = ["--attribute", "gender", "--subject-column", "job", "--image-column", "photo", "--version", "v3"]
    result = run("import", "faces", "--labels", labels, *options, "--root", root)
    assert result.exit_code == 0, result.output
    assert open_dataset("faces@v3", root).manifest.subjects == ["chef", "nurse"]


def test_import_of_a_bad_file_exits_4_and_names_the_line(run, root, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("file,gender\n1.png,m\n1.png,w\n")
    result = run("import", "faces", "--labels", labels, "--attribute", "gender", "--subject", "x", "--root", root)
    assert result.exit_code == 4
    assert f"{labels}:2 and {labels}:3" in result.stderr
    assert not (root / "faces" / "v1").exists()


def test_import_refuses_an_attribute_named_twice(run, root, tmp_path):
    named = ["--attribute", "gender", "--attribute", "gender=m"]
    result = run("import", "faces", "--labels", tmp_path / "x.csv", *named, "--subject", "x", "--root", root)
    assert result.exit_code == 4
    assert "named twice" in result.stderr


def test_a_preview_tells_which_groups_a_suite_would_not_judge_and_writes_nothing(run, tmp_path):
    labels = tmp_path / "labels.csv"
    rows = [(number, number % 60, "AB"[number % 7 == 0], "xy"[number % 2]) for number in range(70)]
    labels.write_text("file;age;race;job\n" + "".join(f"{n}.png;{age};{race};{job}\n" for n, age, race, job in rows))
    named = ["import", "faces", "--labels", labels, "--attribute", "age", "--attribute", "race"]
    named += ["--subject-column", "job", "--bin", "age=0-29,30-", "--root", tmp_path / "datasets"]
    seen = run(*named, "--preview")
    assert seen.exit_code == 0, seen.output
    told = [" ".join(line.split()) for line in seen.stdout.splitlines()]
    assert "age 0-29 40 20 (x) yes" in told
    assert "race A 60 30 (x) yes" in told
    assert "B 10 5 (x) no" in told
    assert "age × race: 1 of 4 crossings would be judged" in told
    assert "A check by subject judges a group only if it has 30 images of the subject." in told
    assert "separated by semicolons" in seen.stderr
    assert not (tmp_path / "datasets").exists()
    fewer = run(*named, "--min-sets", "10")
    assert fewer.exit_code == 0
    assert "B 10 5 (x) yes" in [" ".join(line.split()) for line in fewer.stdout.splitlines()]
    assert open_dataset("faces", tmp_path / "datasets").manifest.attributes["age"] == ["0-29", "30-"]


def test_a_preview_lists_some_crossings_and_counts_the_others(run, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("file,one,two\n" + "".join(f"{n}.png,{n},{n}\n" for n in range(6)))
    named = ["--attribute", "one", "--attribute", "two", "--subject", "person"]
    imported = run("import", "faces", "--labels", labels, *named, "--root", tmp_path / "releases")
    assert "0 of 36 crossings" in imported.stdout
    assert "0 × 1" not in imported.stdout
    result = run("import", "faces", "--labels", labels, *named, "--preview")
    assert "0 × 1" in result.stdout
    assert "one × two: 0 of 36 crossings would be judged" in result.stdout
    assert "16 more crossings would not be judged" in result.stdout


def test_export_writes_a_folder_and_says_what_a_reader_should_know(run, root, tmp_path):
    result = run("export", "people", "--to", f"csv:{tmp_path / 'out'}", "--root", root)
    assert result.exit_code == 0, result.output
    assert "people@v1: 6 rows, written to" in result.stdout
    assert (tmp_path / "out" / "test" / "metadata.csv").is_file()
    assert "CSV has no types" in result.stderr
    again = run("export", "people", "--to", f"csv:{tmp_path / 'out'}", "--root", root)
    assert again.exit_code == 4


def test_a_subset_has_the_rows_of_its_groups_and_says_what_it_is_of(run, tmp_path):
    write_dataset(
        tmp_path / "jobs" / "v1",
        _rows(),
        name="jobs",
        version="v1",
        attributes={"gender": ["man", "woman"]},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
    )
    done = run("subset", "jobs", "women", "--where", "gender=woman", "--root", tmp_path)
    assert done.exit_code == 0, done.output
    whole, women = open_dataset("jobs", tmp_path), open_dataset("women", tmp_path)
    assert not women.verify()
    assert women.manifest.attributes == {"gender": ["woman"]}
    assert not women.manifest.counterfactual
    assert women.manifest.recipe == {"kind": "subset", "of": "jobs@v1", "where": {"gender": ["woman"]}}
    assert women.manifest.lineage["subset of"] == f"jobs@v1 {whole.manifest.fingerprint}"
    ids = list(women.index.set_id)
    assert ids == ["set-0", "set-1", "set-2"]
    assert [women.images_of(ids)[one] for one in ids] == [whole.images_of(ids)[one][1:] for one in ids]
    again = run("subset", "jobs", "women", "--where", "gender=woman", "--root", tmp_path)
    assert again.exit_code == 4
    assert run("subset", "jobs", "others", "--where", "gender=women", "--root", tmp_path).exit_code == 4
    assert not (tmp_path / "others").exists()
