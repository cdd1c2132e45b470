"""Item 1: a release is identified by what was read, whatever its manifest says of itself."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attack_world import Judged, Repository, ToyRepository
from nightly import some
from PIL import Image, ImageOps
from story_team import write_portraits
from toy_repository import rows as toy_rows

from fairgate.data import open_dataset, write_dataset
from fairgate.ground.hashing import sha256_file

Rows = list[dict[str, Any]]


def forge(folder: Path, change: Callable[[Rows], Rows] = lambda rows: rows, **said: Any) -> None:
    """Change a release's rows, make its manifest agree with the new files, and leave its `fingerprint` as it is."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for shard in manifest["shards"]:
        table = pq.read_table(folder / shard["file"])
        changed = pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema)
        pq.write_table(changed, folder / shard["file"], use_dictionary=False, row_group_size=200)
        shard |= {"sha256": sha256_file(folder / shard["file"]), "bytes": (folder / shard["file"]).stat().st_size}
    path.write_text(json.dumps(manifest | said))


def refused(judged: Judged, what: str, *, known: bool = False) -> None:
    """No verdict, said in words; and where the content is not `known`, no record that claims to be of honest data."""
    assert judged.code == 3, judged.log
    assert judged.verdict == "error"
    assert what in " ".join(judged.log.split()), judged.log
    assert (judged.record.dataset.fingerprint != "unknown") == known


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def inverted(rows: Rows) -> Rows:
    """Every picture is its own negative."""
    return [
        row | {"image": row["image"] | {"bytes": encoded(ImageOps.invert(opened(row).convert("RGB")))}} for row in rows
    ]


def opened(row: dict[str, Any]) -> Image.Image:
    return Image.open(io.BytesIO(row["image"]["bytes"]))


def test_replaced_pictures_under_the_old_fingerprint_give_no_verdict(team_repo: Repository, tmp_path: Path) -> None:
    """Also where the embeddings of the honest pictures are in the cache: they are not used."""
    cache = str(tmp_path / "kept")
    team_repo.branch("honest")
    team_repo.use("tuned")
    team_repo.push()
    assert team_repo.judge(cache=cache).code == 0
    team_repo.branch()
    team_repo.use("tuned")
    team_repo.push()
    forge(team_repo.root / "datasets" / "faces" / "v1", inverted)
    judged = team_repo.judge(cache=cache)
    refused(judged, "the content's fingerprint is")
    assert "fairgate dataset verify faces@v1" in judged.log


def swapped_tones(rows: Rows) -> Rows:
    """The members keep their counts, and every picture of a set its neighbour's label."""
    other = {"light": "dark", "dark": "light"}
    return [row | {"skin_tone": other[row["skin_tone"]]} for row in rows]


def one_caption(rows: Rows) -> Rows:
    return [rows[0] | {"caption": "another"}, *rows[1:]]


def other_encoder(rows: Rows) -> Rows:
    """What a JPEG makes of the pictures: hardly visible, and other pixels."""
    return [row | {"image": row["image"] | {"bytes": encoded(opened(row), "JPEG")}} for row in rows]


def other_order(rows: Rows) -> Rows:
    return [*rows[4:], *rows[:4]]


@pytest.mark.parametrize("change", some([inverted, swapped_tones, one_caption, other_encoder, other_order], few=2))
def test_whatever_is_changed_in_a_shard_gives_no_verdict(
    toy_repo: ToyRepository, change: Callable[[Rows], Rows]
) -> None:
    """Tables of scores too: the labels, and the pictures of the report, are not those that the baseline was made on."""
    toy_repo.branch()
    toy_repo.use("biased")
    forge(toy_repo.root / "datasets" / "toy" / "v1", change)
    toy_repo.push()
    refused(toy_repo.judge(), "the content's fingerprint is")


def test_a_fingerprint_of_the_authors_own_making_gives_no_verdict(toy_repo: ToyRepository) -> None:
    """The manifest alone is edited: the data are honest, and would pass for other data."""
    toy_repo.branch()
    toy_repo.use("tuned")
    forge(toy_repo.root / "datasets" / "toy" / "v1", fingerprint="0" * 64)
    toy_repo.push()
    refused(toy_repo.judge(), "the manifest says 0000")


def drop(manifest: dict[str, Any], attribute: str) -> dict[str, Any]:
    """What a manifest would say of the same shards if it had never declared an attribute: consistent in itself."""
    counts = manifest["counts"]
    return {
        "attributes": {name: groups for name, groups in manifest["attributes"].items() if name != attribute},
        "counts": {
            "subjects": counts["subjects"],
            "groups": {name: groups for name, groups in counts["groups"].items() if name != attribute},
            "subject_groups": {
                subject: {name: groups for name, groups in held.items() if name != attribute}
                for subject, held in counts["subject_groups"].items()
            },
            "intersections": {},
        },
    }


def test_an_attribute_that_the_manifest_no_longer_declares_gives_no_verdict(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    folder = toy_repo.root / "datasets" / "toy" / "v1"
    forge(folder, **drop(json.loads((folder / "manifest.json").read_text()), "skin_tone"))
    assert open_dataset("toy", toy_repo.root / "datasets").verify() == []  # nothing in the release contradicts it
    toy_repo.push()
    judged = toy_repo.judge()
    refused(judged, "skin_tone 'light', skin_tone 'dark' were in the baseline's dataset", known=True)


@pytest.mark.parametrize(
    "said",
    some(
        [
            {"subjects": ["chef"]},
            {"attributes": {"skin_tone": ["light", "dark", "darker"], "gender": ["male", "female"]}},
            {"n_sets": 10},
        ],
        few=1,
    ),
    ids=lambda said: next(iter(said)),
)
def test_a_manifest_that_counts_otherwise_gives_no_verdict(toy_repo: ToyRepository, said: dict[str, Any]) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    forge(toy_repo.root / "datasets" / "toy" / "v1", **said)
    toy_repo.push()
    judged = toy_repo.judge()
    assert judged.code in (3, 4), judged.log  # 4: the suite cannot be planned on it
    assert judged.verdict == "error"


def test_sets_that_the_manifest_calls_no_sets_give_no_verdict(toy_repo: ToyRepository) -> None:
    """`counterfactual` is in no shard: it is compared with what the baseline's record says of the same content."""
    text = toy_repo.suite.read_text()
    checks = [line for line in text.splitlines() if "metric: fairness" not in line and "group_gap" not in line]
    toy_repo.suite.write_text("\n".join(checks) + "\n")
    toy_repo.update_baseline("fewer checks", "--baseline", "none")
    toy_repo.push(branch="main")
    toy_repo.branch()
    toy_repo.use("tuned")
    forge(toy_repo.root / "datasets" / "toy" / "v1", counterfactual=False)
    toy_repo.push()
    refused(toy_repo.judge(), "declares otherwise: counterfactual: False (was: True)", known=True)


def test_a_new_version_without_its_hard_sets_is_named_next_to_the_verdict(team_repo: Repository) -> None:
    """An honest team's change as well: the baseline's checkpoint is scored on it too, and the sets that are gone are
    counted."""
    write_portraits(team_repo.root / "datasets" / "faces" / "v2", "v2", range(4, 40))
    team_repo.branch()
    team_repo.use("tuned")
    team_repo.push()
    judged = team_repo.judge()
    assert judged.code == 0, judged.log
    (notice,) = judged.record.notices
    assert "this change is judged on faces/v2" in notice
    assert "the baseline was made on faces/v1" in notice
    assert "sets are gone" in notice
    assert notice.split("(")[0].strip() in " ".join(judged.comment.split())
    assert "faces/v2" in judged.log


def test_other_content_under_the_same_version_is_named_next_to_the_verdict(toy_repo: ToyRepository) -> None:
    """An honest manifest of other pictures: the baseline's model is scored on them too, and the notice says so."""
    folder = toy_repo.root / "datasets" / "toy" / "v1"
    toy_repo.branch()
    toy_repo.use("tuned")
    forge(folder, inverted)
    (problem,) = open_dataset("toy", toy_repo.root / "datasets").verify()
    forge(folder, fingerprint=re.findall("[0-9a-f]{64}", problem.what)[0])
    toy_repo.push()
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    assert [each.kind for each in judged.record.needs_approval] == ["dataset"]
    both, notice = judged.all_notices
    assert "by the base's checks on main's release toy/v1 (" in both
    assert "this change is judged on toy/v1" in notice
    assert "the baseline was made on toy/v1" in notice
    assert "the sets have the same names, and other images or labels" in notice
    assert notice in " ".join(judged.log.split())


def test_the_same_release_written_again_by_other_tools_reads_as_the_same_data(toy_repo: ToyRepository) -> None:
    """Honest: other row groups, other compression, the same pixels and columns."""
    toy_repo.branch()
    toy_repo.use("tuned")
    forge(toy_repo.root / "datasets" / "toy" / "v1")
    toy_repo.push()
    judged = toy_repo.judge()
    assert judged.code == 0, judged.log
    assert judged.all_notices == []
    assert judged.record.baseline is not None
    assert judged.record.baseline.rescored is None


def test_a_group_renamed_by_a_letter_that_looks_the_same_gives_no_verdict(toy_repo: ToyRepository) -> None:
    """An honest release of its own, of other people's making: who would see that nobody in it is 'dark'?"""
    toy_repo.branch()
    toy_repo.use("tuned")
    renamed = {"light": "light", "dark": "d\u0430rk"}
    write_dataset(
        toy_repo.root / "datasets" / "toy" / "v2",
        [dict(row) | {"skin_tone": renamed[str(row["skin_tone"])]} for row in toy_rows(40)],
        name="toy",
        version="v2",
        attributes={"skin_tone": list(renamed.values()), "gender": ["male", "female"]},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
    )
    toy_repo.push()
    judged = toy_repo.judge()
    refused(judged, "skin_tone 'dark' was in the baseline's dataset 'toy/v1'", known=True)
    assert "letter 2 is U+0061 LATIN SMALL LETTER A in one and U+0430 CYRILLIC SMALL LETTER A" in judged.log
