"""Importing tables: separators, Parquet with and without pictures, frames, bins, merged groups and sets."""

from __future__ import annotations

import gzip
import io

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from imported_photographs import import_images

import fairgate
from fairgate.data import ColumnGrouping, ImportColumns, open_dataset, plan_import
from fairgate.ground.errors import DatasetError

TABLE = {
    "file": ["a/1.png", "a/2.png", "3.png"],
    "gender": ["Female", "Male", "Female"],
    "age": ["34", "7", "61"],
    "race": ["Latino_Hispanic", "White", "Middle Eastern"],
}


@pytest.fixture
def take(tmp_path):
    """`import_images` of labels alone, with everything that a test does not speak of already said."""

    def take(labels, images=None, **options):
        said = {"attributes": ["gender", "age"], "subject": "person", "root": tmp_path / "datasets"}
        return import_images(labels, images, "faces", **(said | options))

    return take


@pytest.fixture
def index(tmp_path):
    """The text columns of what was imported."""
    return lambda: open_dataset("faces", tmp_path / "datasets").index


def stored(tmp_path):
    dataset = open_dataset("faces", tmp_path / "datasets")
    return [row for shard in dataset.manifest.shards for row in dataset.parquet(shard).read().to_pylist()]


@pytest.mark.parametrize(("separator", "said"), [(",", None), (";", "semicolons"), ("\t", "tabs")])
@pytest.mark.parametrize("packed", [False, True])
def test_the_separator_is_read_off_the_header_and_recorded(take, index, tmp_path, separator, said, packed):
    text = "\n".join(separator.join(row) for row in [list(TABLE), *zip(*TABLE.values(), strict=True)])
    path = tmp_path / ("labels.tsv.gz" if packed else "labels.tsv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    manifest = take(path)
    assert manifest.recipe.get("separated_by") == said
    assert index().attributes["gender"].tolist() == TABLE["gender"]


def test_a_quoted_name_with_another_separator_in_it_does_not_decide(take, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text('file,"gender;as;seen;by us",age\n1.png,Male,3\n')
    assert take(path, attributes=["gender;as;seen;by us"]).n_rows == 1


def test_a_header_that_two_separators_cut_alike_is_refused(take, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("file;a,gender\n1.png;a,Male\n")
    with pytest.raises(DatasetError, match="commas and semicolons cut the header into equally many columns"):
        take(path, attributes=["gender"])


def test_parquet_and_a_frame_make_the_release_that_a_csv_makes(take, tmp_path):
    frame = pd.DataFrame(TABLE)
    frame.to_csv(tmp_path / "labels.csv", index=False)
    frame.to_parquet(tmp_path / "labels.parquet")
    of_csv = take(tmp_path / "labels.csv")
    assert take(tmp_path / "labels.parquet", version="v2").fingerprint == of_csv.fingerprint
    of_frame = take(frame, version="v3")
    assert of_frame.fingerprint == of_csv.fingerprint
    assert list(of_frame.lineage) == ["frame"]


def test_numbers_of_a_frame_are_groups_without_a_fraction_and_gaps_are_empty(take, index, tmp_path):
    frame = pd.DataFrame(
        {**TABLE, "age": [34, 7, 61], "score": [0.5, None, 2.0], "seen": pd.Categorical(["a", "b", None])}
    )
    take(frame, attributes=["gender", "age"])
    assert index().attributes["age"].tolist() == ["34", "7", "61"]
    assert [(row["score"], row["seen"]) for row in stored(tmp_path)] == [(0.5, "a"), (None, "b"), (2.0, None)]
    with pytest.raises(DatasetError, match="column 'seen' is empty") as caught:
        take(frame, attributes=["seen"], version="v2")
    assert caught.value.where == "the frame, row 3"


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pd.DataFrame({0: ["1.png"], "gender": ["Male"]}), "has no name"),
        (pd.DataFrame([["1.png", "Male", "M"]], columns=["file", "gender", "gender"]), "another column has"),
        (pd.DataFrame({"file": [], "gender": []}), "no rows"),
        (pd.DataFrame({"file": ["1.png"], "gender": [["Male"]]}), "of type list"),
        (pd.DataFrame({"file": ["1.png"], "gender": [float("inf")]}), "of type float"),
        (pd.DataFrame({"file": ["1.png"], "gender": ["M"], "::error::": ["x"]}), "reads as a command"),
    ],
)
def test_a_frame_that_is_no_table_of_labels_is_refused(take, frame, problem):
    with pytest.raises(DatasetError, match=problem):
        take(frame, attributes=["gender"])


def test_numbers_become_bins_and_names_are_merged_and_what_was_recorded_stays(take, index, tmp_path):
    grouping = ColumnGrouping.parse(["age=0-19,20-39,40-"], ["race=Latino_Hispanic,Middle Eastern=other"])
    manifest = take(pd.DataFrame(TABLE), attributes=["age", "race"], grouping=grouping)
    assert manifest.attributes == {"age": ["0-19", "20-39", "40-"], "race": ["White", "other"]}
    assert index().attributes["age"].tolist() == ["20-39", "0-19", "40-"]
    assert [row["label_age"] for row in stored(tmp_path)] == TABLE["age"]
    assert [row["label_race"] for row in stored(tmp_path)] == TABLE["race"]
    assert manifest.recipe["bins"] == {"age": ["0-19", "20-39", "40-"]}
    assert manifest.recipe["merged"] == {"race": {"Latino_Hispanic": "other", "Middle Eastern": "other"}}


def test_subjects_are_merged_too(take, index):
    take(
        pd.DataFrame(TABLE),
        subject=None,
        subject_column="race",
        grouping=ColumnGrouping.parse([], ["race=White=other"]),
    )
    assert index().subject.tolist() == ["Latino_Hispanic", "other", "Middle Eastern"]


def test_a_number_in_no_bin_is_named_with_its_line(take, tmp_path):
    pd.DataFrame(TABLE).to_csv(tmp_path / "labels.csv", index=False)
    with pytest.raises(DatasetError, match="column 'age': 61 is in no bin") as caught:
        take(tmp_path / "labels.csv", grouping=ColumnGrouping.parse(["age=0-59"], []))
    assert caught.value.where.endswith("labels.csv:4")


def test_a_column_that_is_grouped_and_no_attribute_is_refused(take):
    with pytest.raises(DatasetError, match="neither an attribute nor") as caught:
        take(pd.DataFrame(TABLE), attributes=["gender"], grouping=ColumnGrouping.parse(["age=0-"], []))
    assert caught.value.remedy == "name it as an attribute, too (`--attribute age`)"
    with pytest.raises(DatasetError, match="'Age' is grouped") as caught:
        take(pd.DataFrame(TABLE), attributes=["age"], grouping=ColumnGrouping.parse(["Age=0-"], []))
    assert caught.value.remedy.startswith("did you mean 'age'?")


def test_what_is_recorded_of_a_group_never_takes_the_name_of_another_column(take):
    frame = pd.DataFrame({**TABLE, "label_age": ["x", "y", "z"]})
    with pytest.raises(DatasetError, match="two columns would be stored as 'label_age'"):
        take(frame, grouping=ColumnGrouping.parse(["age=0-"], []))


def test_a_plan_says_how_large_groups_will_be_and_writes_nothing(tmp_path):
    plan = plan_import(pd.DataFrame(TABLE), None, ImportColumns({"gender": []}, subject="person"))
    assert {size.group: size.sets for size in plan.group_sizes()} == {"Female": 2, "Male": 1}
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def pictured(tmp_path, image):
    """A Parquet file as `datasets` writes it, of pictures with ClassLabels."""
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "gender": datasets.ClassLabel(names=["Male", "Female"]),
            "age": datasets.Value("int32"),
            "service_test": datasets.Value("bool"),
            "box": datasets.List(datasets.Value("float32")),
        }
    )

    def pictured(paths=("a.png", "b.png", "c.png"), gender=(1, 0, 1)):
        rows = [
            {"image": {"bytes": image((place, 0, 0)), "path": path}, "gender": sex, "age": 20 + place}
            | {"service_test": place == 1, "box": [1.0]}
            for place, (path, sex) in enumerate(zip(paths, gender, strict=True))
        ]
        path = tmp_path / "train-00000-of-00001.parquet"
        datasets.Dataset.from_list(rows, features=features).to_parquet(str(path))
        return path

    return pictured


def test_pictures_and_class_names_come_out_of_the_parquet_of_a_hub(take, index, pictured, tmp_path, image):
    manifest = take(pictured(), attributes=["gender", "age"])
    assert manifest.image_encoding == "PNG"
    assert manifest.attributes["gender"] == ["Female", "Male"]
    assert manifest.recipe["names_of_ids_from_the_schema"] == "gender"
    assert manifest.recipe["left_out"] == "box"
    assert index().path.tolist() == ["a.png", "b.png", "c.png"]
    assert index().attributes["gender"].tolist() == ["Female", "Male", "Female"]
    dataset = open_dataset("faces", tmp_path / "datasets")
    assert next(dataset.image_batches(9))[1] == [image((place, 0, 0)) for place in range(3)]
    assert [row["service_test"] for row in stored(tmp_path)] == [False, True, False]
    assert dataset.verify() == []


@pytest.mark.parametrize("paths", [(None, None, None), ("a.png", "a.png", "b.png"), ("../a.png", "b.png", "c.png")])
def test_pictures_without_a_different_path_each_are_named_by_their_row(take, index, pictured, paths):
    manifest = take(pictured(paths), attributes=["gender"])
    assert index().set_id.tolist() == ["00000001", "00000002", "00000003"]
    assert "row's number" in manifest.recipe["images_named_by"]


def test_a_frame_of_pictures_is_imported(take, pictured, tmp_path):
    frame = pd.read_parquet(pictured()).drop(columns="box")
    take(frame, attributes=["age"])
    assert open_dataset("faces", tmp_path / "datasets").verify() == []


def test_a_class_that_the_schema_does_not_name_is_refused(take, pictured):
    path = pictured()
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "gender", pa.array([1, 2, 0])), path)
    with pytest.raises(DatasetError, match="holds the id 2, and its schema names 2 classes"):
        take(path, attributes=["gender"])


def test_an_unnamed_class_is_an_empty_label(take, pictured):
    with pytest.raises(DatasetError, match="column 'gender' is empty") as caught:
        take(pictured(gender=(1, -1, 0)), attributes=["gender"])
    assert caught.value.where.endswith("parquet, row 2")


def test_a_picture_that_does_not_decode_is_named_with_its_row(take, pictured):
    path = pictured()
    table = pq.read_table(path)
    images = table.column("image").to_pylist()
    images[1]["bytes"] = images[1]["bytes"][:40]
    pq.write_table(table.set_column(0, "image", pa.array(images)), path)
    with pytest.raises(DatasetError, match="image cannot be read") as caught:
        take(path, attributes=["gender"])
    assert caught.value.where.endswith("parquet, row 2")


def test_a_row_without_its_picture_is_named(take, pictured):
    path = pictured()
    table = pq.read_table(path)
    images = [*table.column("image").to_pylist()[:2], None]
    pq.write_table(table.set_column(0, "image", pa.array(images)), path)
    with pytest.raises(DatasetError, match="has no picture") as caught:
        take(path, attributes=["gender"])
    assert caught.value.where.endswith("parquet, row 3")


def test_counterfactual_sets_are_imported_as_sets(take, index):
    frame = pd.DataFrame({"set": ["x", "x", "y", "y"], "gender": ["Male", "Female"] * 2, "file": list("abcd")})
    manifest = take(frame, attributes=["gender"], set_column="set", member_column="gender")
    assert manifest.counterfactual
    assert (manifest.n_sets, manifest.members) == (2, ["Male", "Female"])
    assert index().set_id.tolist() == ["x", "x", "y", "y"]


@pytest.mark.parametrize(
    ("sets", "options", "problem"),
    [
        (["x", "y", "x", "y"], {"set_column": "set", "member_column": "gender"}, "not one after another"),
        (["x", "x", "y", "z"], {"set_column": "set", "member_column": "gender"}, "expected Male, Female"),
        (["x", "x", "x", "x"], {"set_column": "set", "member_column": "gender"}, "member 'Male' twice"),
        (["x", "x", "y", "y"], {"set_column": "set"}, "need two columns"),
        (["x", "x", "y", "y"], {"set_column": "sets", "member_column": "gender"}, "no column 'sets'"),
    ],
)
def test_sets_that_are_not_whole_are_refused(take, sets, options, problem):
    frame = pd.DataFrame({"set": sets, "gender": ["Male", "Female"] * 2, "file": list("abcd")})
    with pytest.raises(DatasetError, match=problem):
        take(frame, attributes=["gender"], **options)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (pa.table({"file": pa.array([], pa.string()), "gender": pa.array([], pa.string())}), "no rows"),
        (pa.table({"file": ["1.png"], "gender": ["x" * 70_000]}), "at most 65,536 are read"),
        (pa.table([["1.png"], ["M"], ["M"]], names=["file", "gender", "gender"]), "there twice"),
        (pa.table({"file": [b"1"], "image": [b"2"], "gender": ["M"]}), "2 columns hold pictures"),
    ],
)
def test_parquet_that_is_no_table_of_labels_is_refused(take, tmp_path, table, problem):
    pq.write_table(table, tmp_path / "labels.parquet")
    with pytest.raises(DatasetError, match=problem):
        take(tmp_path / "labels.parquet", attributes=["gender"])


def test_a_column_of_parquet_that_unpacks_to_too_much_is_refused(take, pictured, monkeypatch):
    monkeypatch.setattr("fairgate.data.parquet_file.GROUP_BYTES", 50)
    with pytest.raises(DatasetError, match="unpacks to 0 MB: write smaller row groups"):
        take(pictured(), attributes=["gender"])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"file,gender\n1.png,Male\n", b"PAR1" + bytes(40) + b"PAR1"])
def test_bytes_that_are_no_parquet_are_refused(take, tmp_path, content):
    path = tmp_path / "labels.parquet"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="cannot be read"):
        take(path)


@pytest.mark.parametrize("said", [b"{", b"[]", b'{"info": {"features": {"gender": {"_type": "ClassLabel"}}}}'])
def test_metadata_that_are_not_those_of_datasets_name_no_class(take, tmp_path, said):
    held = pa.table({"file": ["1.png"], "gender": pa.array([0])}).replace_schema_metadata({"huggingface": said})
    pq.write_table(held, tmp_path / "labels.parquet")
    if said == b"[]":
        assert take(tmp_path / "labels.parquet", attributes=["gender"]).attributes == {"gender": ["0"]}
    else:
        with pytest.raises(DatasetError, match="cannot be read"):
            take(tmp_path / "labels.parquet", attributes=["gender"])


def test_the_api_imports_a_frame_with_bins_into_a_repository(tmp_path, image):
    (tmp_path / "photos").mkdir()
    for place, name in enumerate("abc"):
        (tmp_path / "photos" / f"{name}.png").write_bytes(image((place, 0, 0)))
    frame = pd.DataFrame({"file": ["a.png", "b.png", "c.png"], "age": [3, 30, 60], "race": ["A", "B", "C"]})
    dataset = fairgate.import_images(
        frame, tmp_path / "photos", "faces", attributes=["age", "race"], subject="person", root=tmp_path,
        bins={"age": "0-19,20-"}, merge={"race": {"A": "other", "B": "other"}},
    )  # fmt: skip
    assert dataset.manifest.counts.groups == {"age": {"0-19": 1, "20-": 2}, "race": {"C": 1, "other": 2}}
    assert dataset.manifest.image_encoding == "PNG"


def test_a_frame_is_read_without_importing_pandas_first():
    import subprocess
    import sys

    code = "import sys, fairgate.data.image_import; fairgate.import_images; assert 'pandas' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_bytes_of_images_are_streamed_from_a_dictionary_page(take, tmp_path, image):
    data = image((1, 2, 3))
    held = io.BytesIO()
    pq.write_table(pa.table({"image": [data] * 20, "gender": ["M"] * 20}), held, use_dictionary=True)
    (tmp_path / "labels.parquet").write_bytes(held.getvalue())
    assert take(tmp_path / "labels.parquet", attributes=["gender"]).n_rows == 20
