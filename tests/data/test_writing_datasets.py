"""write_dataset: what is stored, what is refused, and that nothing half-written is ever seen."""

from __future__ import annotations

import tracemalloc

import datasets
import pyarrow.parquet as pq
import pytest
import yaml

from fairgate.data import Dataset, open_dataset, read_dataset
from fairgate.ground.errors import DatasetError


def test_every_column_comes_back_as_it_was_given(root, rows):
    dataset = open_dataset("people", root)
    given = list(rows())
    index = dataset.index
    assert len(dataset) == len(index) == len(given) == 24
    for column in ("set_id", "member", "subject", "caption", "path"):
        assert getattr(index, column).tolist() == [row[column] for row in given]
    for attribute in ("tone", "gender"):
        assert index.attributes[attribute].tolist() == [row[attribute] for row in given]
    stored = [row for shard in dataset.manifest.shards for row in dataset.parquet(shard).read().to_pylist()]
    assert [row["sharpness"] for row in stored] == [row["sharpness"] for row in given]
    assert [row["image"]["bytes"] for row in stored] == [row["image"] for row in given]


def test_the_manifest_counts_subjects_groups_and_intersections(root):
    manifest = open_dataset("people", root).manifest
    assert (manifest.n_sets, manifest.n_rows, manifest.members_per_set) == (6, 24, 4)
    assert manifest.counts.subjects == {"doctor": 12, "nurse": 12}
    assert manifest.counts.groups["tone"] == {"light": 12, "dark": 12}
    assert manifest.counts.subject_groups["nurse"]["gender"] == {"man": 6, "woman": 6}
    assert manifest.counts.intersections == {
        "tone × gender": {"light × man": 6, "light × woman": 6, "dark × man": 6, "dark × woman": 6}
    }
    assert manifest.image_encoding == "PNG"
    assert manifest.recipe == {"name": "drawn", "seed": 3}


def test_a_group_without_images_is_counted_as_zero(write):
    manifest = write(attributes={"tone": ["light", "dark", "medium"], "gender": ["man", "woman"]})
    assert manifest.counts.groups["tone"] == {"light": 12, "dark": 12, "medium": 0}


def test_three_attributes_are_counted_in_pairs_and_all_together(write, rows):
    aged = ({**row, "age": "old"} for row in rows())
    manifest = write(rows=aged, attributes={"tone": ["light", "dark"], "gender": ["man", "woman"], "age": ["old"]})
    assert list(manifest.counts.intersections) == [
        "tone × gender",
        "tone × age",
        "gender × age",
        "tone × gender × age",
    ]
    assert manifest.counts.intersections["tone × gender × age"]["dark × woman × old"] == 6


def test_the_example_of_the_card_loads_the_split_that_its_front_matter_names(root, monkeypatch, tmp_path):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = open_dataset("people", root).folder
    monkeypatch.chdir(root.parent)
    card = (folder / "README.md").read_text(encoding="utf-8")
    example = card.split("```python\n")[1].split("```")[0]
    held: dict[str, datasets.Dataset] = {}
    exec(example, held)
    (config,) = yaml.safe_load(card.split("---")[1])["configs"]
    loaded = held["rows"]
    assert str(loaded.split) == config["data_files"][0]["split"]
    assert len(loaded) == 24
    assert loaded[5]["image"].getpixel((0, 0)) == (1, 1, 7)
    assert loaded[5]["set_id"] == "set-1"


def test_all_members_of_a_set_are_in_one_shard_and_shards_stay_under_the_limit(write, rows):
    manifest = write(rows=rows(40), shard_bytes=6000)
    assert len(manifest.shards) > 3
    assert all(shard.bytes <= 6000 and shard.rows == 4 * shard.sets for shard in manifest.shards)
    assert manifest.shards[0].file == f"shard-00000-of-{len(manifest.shards):05d}.parquet"


def test_a_set_larger_than_a_shard_gets_a_shard_of_its_own(write):
    manifest = write(shard_bytes=1)
    assert [shard.sets for shard in manifest.shards] == [1] * 6


def test_members_are_stored_in_one_order_so_that_rows_reshape_to_sets(write, rows, tmp_path):
    given = list(rows())
    given[4:8] = given[4:8][::-1]
    write(rows=given)
    index = open_dataset("people", tmp_path / "datasets").index
    assert index.member.reshape(6, 4).tolist() == [["0", "1", "2", "3"]] * 6


def test_rows_are_read_as_they_are_written_and_never_gathered(write, monkeypatch):
    monkeypatch.setattr("fairgate.data.shard_writer.ROW_GROUP_BYTES", 200_000)

    def large_rows():
        for number in range(400):
            yield {
                "image": None,
                "set_id": str(number),
                "member": "only",
                "subject": "doctor",
                "tone": "dark",
                "blob": bytes([number % 256]) * 50_000,
            }

    tracemalloc.start()
    manifest = write(rows=large_rows(), attributes={"tone": ["dark"]}, counterfactual=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert manifest.n_rows == 400
    assert peak < 5_000_000  # of 20,000,000 bytes that went through


def test_a_crash_in_the_middle_leaves_no_dataset_and_no_litter(write, rows, tmp_path):
    def interrupted():
        for number, row in enumerate(rows(50)):
            if number == 100:
                raise KeyboardInterrupt
            yield row

    with pytest.raises(KeyboardInterrupt):
        write(rows=interrupted(), shard_bytes=3000)
    assert list((tmp_path / "datasets" / "people").iterdir()) == []
    with pytest.raises(DatasetError, match="dataset import"):
        open_dataset("people", tmp_path / "datasets")


def test_while_it_is_written_a_dataset_cannot_be_opened(write, rows, tmp_path):
    def watched():
        for row in rows():
            with pytest.raises(DatasetError):
                open_dataset("people", tmp_path / "datasets")
            yield row

    write(rows=watched(), shard_bytes=3000)
    assert open_dataset("people", tmp_path / "datasets").version == "v1"


def test_an_existing_version_is_never_written_over(root, write):
    before = open_dataset("people", root)
    with pytest.raises(DatasetError, match="write it as v2"):
        write()
    assert open_dataset("people", root) == before


def test_a_version_that_appears_meanwhile_is_not_written_over(write, rows, tmp_path):
    folder = tmp_path / "datasets" / "people" / "v1"

    def overtaken():
        yield from rows(2)
        folder.mkdir()
        (folder / "manifest.json").write_text("someone else's")

    with pytest.raises(DatasetError, match="never written over"):
        write(rows=overtaken())
    assert (folder / "manifest.json").read_text() == "someone else's"


def test_the_card_is_front_matter_for_the_hub_and_a_page_for_people(write, tmp_path):
    write(notice="embedded world: a test instrument", about="Drawn people.", lineage={"checkpoint": "ab12"})
    card = (tmp_path / "datasets" / "people" / "v1" / "README.md").read_text()
    _, front, page = card.split("---\n", 2)
    assert yaml.safe_load(front)["license"] == "apache-2.0"
    assert yaml.safe_load(front)["configs"][0]["data_files"][0]["path"] == "shard-*.parquet"
    for told in ("embedded world: a test instrument", "Drawn people.", "| doctor | 6 | 6 |", "| dark × woman | 6 |"):
        assert told in page
    assert "differ in social attributes; nobody has reviewed how far they do." in page
    for told in (
        'load_dataset("datasets/people/v1", split="test")',
        "perceived",
        "prompted",
        '"seed": 3',
        "checkpoint: `ab12`",
        "Apache-2.0",
    ):
        assert told in page


def test_the_card_of_labels_says_so_and_an_unlisted_licence_is_other(write, rows, tmp_path):
    write(rows=rows(images=False), licence="FairFace terms", counterfactual=False)
    card = (tmp_path / "datasets" / "people" / "v1" / "README.md").read_text()
    front = yaml.safe_load(card.split("---\n", 2)[1])
    assert (front["license"], front["license_name"]) == ("other", "FairFace terms")
    assert "labels only, no images" in card
    assert "not counterfactual" in card


def test_what_strangers_wrote_is_no_link_image_or_mention_in_the_card(write, rows, tmp_path):
    name = "![x](https://evil.example/p.png) @someone _a_|b <b>"
    hostile = [{**row, "subject": name} for row in rows()]
    write(rows=hostile, notice=name, licence=name, lineage={name: f"`{name}"})
    card = (tmp_path / "datasets" / "people" / "v1" / "README.md").read_text()
    shown = "!\\[x\\]\\(https://\u200bevil.example/p.png\\) @\u200bsomeone \\_a\\_\\|b &lt;b&gt;"
    for told in (f"| {shown} |", f"> **{shown}**", f"Licence: {shown}.", f"- {shown}: `'{name.replace('<', '&lt;')}`"):
        assert told in card


def test_a_card_of_many_subjects_points_to_the_manifest(write, rows, tmp_path):
    many = ({**row, "subject": row["set_id"]} for row in rows(120, images=False))
    write(rows=many)
    assert "20 more are in `manifest.json`." in (tmp_path / "datasets/people/v1/README.md").read_text()


def test_a_dataset_outside_a_root_can_be_read_by_its_folder(write, tmp_path):
    write(folder=tmp_path / "build" / "people")
    assert isinstance(read_dataset(tmp_path / "build" / "people"), Dataset)


def _changed(rows, number, **values):
    return [{**row, **values} if place == number else row for place, row in enumerate(rows())]


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ({"set_id": ""}, "names its set"),
        ({"member": 3}, "names its set, its member"),
        ({"subject": None}, "its subject"),
        ({"caption": 3}, "give text or None"),
        ({"path": b"x"}, "give text or None"),
        ({"tone": "drak"}, "declared groups: light, dark"),
        ({"image": None}, "in every row, or in none"),
        ({"image": "doctor.png"}, "bytes of a PNG"),
        ({"image": b"no image"}, "replace the file"),
        ({"member": "0"}, "its own name"),
        ({"member": "9"}, "the same members"),
        ({"subject": "chef"}, "differ in social attributes"),
        ({"seed": "three"}, "one type in all rows"),
        ({"sharpness": float("nan")}, "finite numbers"),
        ({"colour": "red"}, "the same columns"),
    ],
)
def test_a_bad_row_is_refused_with_its_place_and_a_remedy(write, rows, tmp_path, values, remedy):
    with pytest.raises(DatasetError) as caught:
        write(rows=_changed(rows, 9, **values))
    assert remedy in (caught.value.remedy or "")
    assert "set" in (caught.value.where or "")
    assert not (tmp_path / "datasets" / "people" / "v1").exists()


def test_a_missing_attribute_column_is_refused_with_the_nearest_name(write, rows):
    misnamed = ({("gendre" if key == "gender" else key): value for key, value in row.items()} for row in rows())
    with pytest.raises(DatasetError, match="did you mean 'gendre'"):
        write(rows=misnamed)


def test_rows_of_a_set_that_are_not_consecutive_are_refused(write, rows):
    with pytest.raises(DatasetError, match="one after another"):
        write(rows=[*rows(2), *rows(1)])


def test_a_missing_member_is_refused(write, rows):
    with pytest.raises(DatasetError, match="set 'set-2' has the members 0, 1, 3; expected 0, 1, 2, 3"):
        write(rows=[row for place, row in enumerate(rows()) if place != 10])


def test_a_counterfactual_set_has_at_least_two_members(write, rows):
    with pytest.raises(DatasetError, match="at least two"):
        write(rows=[row for row in rows() if row["member"] == "0"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "../people"}, "not a dataset name"),
        ({"name": "people\n"}, "not a dataset name"),
        ({"version": "1"}, "not a dataset version"),
        ({"licence": ""}, "needs a licence"),
        ({"attributes": {"subject": ["a"]}}, "cannot be called 'subject'"),
        ({"attributes": {"tone": []}}, "needs a list of different groups"),
        ({"attributes": {"tone": "dark"}}, "needs a list of different groups"),
        ({"attributes": {"tone": ["dark × light"]}}, "has a group called"),
        ({"recipe": {"model": object()}}, "recipe cannot be recorded"),
        ({"rows": []}, "there are no rows"),
    ],
)
def test_a_bad_description_is_refused(write, tmp_path, options, problem):
    with pytest.raises(DatasetError, match=problem) as caught:
        write(**options)
    assert caught.value.remedy
    assert not (tmp_path / "datasets" / "people" / "v1").exists()


def test_a_column_without_any_value_is_text(write, rows, tmp_path):
    write(rows=({**row, "note": None} for row in rows()))
    dataset = open_dataset("people", tmp_path / "datasets")
    stored = pq.read_schema(dataset.folder / dataset.manifest.shards[0].file)
    assert str(stored.field("note").type) == "string"
    assert dataset.verify() == []


def test_images_are_stored_uncompressed_and_labels_compressed(root):
    dataset = open_dataset("people", root)
    group = pq.ParquetFile(dataset.folder / dataset.manifest.shards[0].file).metadata.row_group(0)
    compression = {group.column(n).path_in_schema: group.column(n).compression for n in range(group.num_columns)}
    assert compression["image.bytes"] == "UNCOMPRESSED"
    assert compression["set_id"] == "ZSTD"


def test_types_are_settled_by_the_first_rows_and_shards_of_any_size_agree(write, rows, monkeypatch, tmp_path):
    monkeypatch.setattr("fairgate.data.shard_writer.ROW_GROUP_BYTES", 1500)
    late = ({**row, "late": None if row["set_id"] == "set-0" else 1.5} for row in rows(30))
    write(rows=late, shard_bytes=4000)
    dataset = open_dataset("people", tmp_path / "datasets")
    assert {str(dataset.parquet(shard).schema_arrow.field("late").type) for shard in dataset.manifest.shards} == {
        "double"
    }
    assert dataset.verify() == []


def test_a_column_of_mixed_types_is_refused_at_once_and_later(write, rows, monkeypatch):
    with pytest.raises(DatasetError, match="one type in all rows"):
        write(rows=({**row, "mixed": "text" if row["member"] == "0" else 1} for row in rows()))
    monkeypatch.setattr("fairgate.data.shard_writer.ROW_GROUP_BYTES", 1500)
    with pytest.raises(DatasetError, match="one type in all rows"):
        write(rows=({**row, "mixed": 1 if row["set_id"] != "set-29" else "text"} for row in rows(30)))


def test_an_empty_folder_is_filled(write, tmp_path):
    (tmp_path / "empty").mkdir()
    write(folder=tmp_path / "empty")
    assert len(read_dataset(tmp_path / "empty")) == 24


def test_a_folder_that_cannot_be_made_is_told(write, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DatasetError, match="cannot be written: Not a directory"):
        write(folder=tmp_path / "file" / "v1")


def test_a_full_disk_is_told_and_leaves_nothing(write, rows, monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(DatasetError, match="No space left on device"):
        write()
    assert list((tmp_path / "datasets" / "people").iterdir()) == []
