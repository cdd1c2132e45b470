"""Jobs that score a shard of the images each hand over parts, and merging them gives the record of one job."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_world import TINY, save_local_dir
from PIL import Image
from toy_repository import GENDERS, TONES, Toy, rows

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.ground.errors import NoVerdict, SettingsError
from fairgate.models import KEY_VARIABLE, ImageShard
from fairgate.models.checkpoints import Checkpoint, Device
from fairgate.models.decoding import SourceLike
from fairgate.models.shards import PIECES
from fairgate.probes.reader import WatchedPictures
from fairgate.records import RunRecord
from fairgate.suites import Settings

BASE, TUNED, OTHER = (f"open_clip:local-dir:{name}" for name in ("base", "tuned", "other"))
SUITE = f"""\
schema: 1
suite: jobs
dataset: toy
model: {TUNED}
probes:
  labels:
    kind: zero_shot_classification
    template: "a photo of a {{label}}"
    labels: {{chef: [chef, line cook], doctor: [doctor, nurse]}}
  viewed:
    kind: zero_shot_classification
    views: 2
    template: "a photo of a {{label}}"
    labels: {{chef: [chef, line cook], doctor: [doctor, nurse]}}
  search: {{kind: retrieval, prompts: ["{{subject}}"]}}
groups: {{min_sets: 3}}
decision: {{draws: 500}}
checks:
  - {{id: right, probe: labels, metric: accuracy, at_least: 0.01}}
  - {{id: sure, probe: labels, metric: p_true, no_worse_than: baseline, margin: 0.5}}
  - {{id: gaps, probe: viewed, metric: group_gap, over: gender, no_worse_than: baseline, margin: 0.9}}
  - {{id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.6}}
"""


def drawn(seed: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """24 images. `other` prepares pictures otherwise than `base`, with its weights."""
    toy = Toy(tmp_path_factory.mktemp("parts"))
    (toy.root / "fairness_suites").mkdir()
    (toy.root / ".git").mkdir()
    write_dataset(
        toy.root / "datasets" / "toy" / "v1",
        [{**row, "image": drawn(number)} for number, row in enumerate(rows(3))],
        name="toy",
        version="v1",
        attributes={"skin_tone": TONES, "gender": GENDERS},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
        notice="noise",
    )
    toy.write_suite(SUITE)
    for seed, name in enumerate(("base", "tuned", "other")):
        with torch.random.fork_rng():
            torch.manual_seed(seed % 2)
            save_local_dir(toy.root / name, open_clip.model.CLIP(**TINY).eval())
    config = toy.root / "other" / "open_clip_config.json"
    content = json.loads(config.read_text())
    content["preprocess_cfg"]["mean"] = [0.1, 0.5, 0.9]
    config.write_text(json.dumps(content))
    return toy


@pytest.fixture(scope="module", autouse=True)
def small_batches() -> Iterator[None]:
    """Three batches of pictures, and six of their views."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairgate.models.embeddings.BATCH_CPU", 8)
        yield


def run(toy: Toy, **typed: str) -> tuple[gate.Prepared, Settings]:
    prepared = gate.prepare("jobs", toy.root)
    given = {"baseline": f"model:{BASE}", "base": "none", "mlflow": "off", "cache": "off", "device": "cpu", **typed}
    return prepared, gate.settings_of(prepared, **given)  # type: ignore[arg-type]


def parts_of(toy: Toy, folder: Path, count: int, **typed: str) -> list[Path]:
    folders = [folder / str(number) for number in range(1, count + 1)]
    for number, report in enumerate(folders, start=1):
        gate.write_part(*run(toy, report=str(report), **typed), (number, count))
    return folders


def merged(toy: Toy, folders: list[Path], **typed: str) -> gate.Evaluation:
    return gate.evaluate_parts(gate.read_parts(folders, toy.root), *run(toy, **typed))


def lasting(record: RunRecord) -> dict[str, Any]:
    return record.model_dump(exclude={"created_at", "seconds"})


@pytest.mark.parametrize(("count", "baseline"), [(3, BASE), (2, OTHER)], ids=["3", "another preprocessing"])
def test_the_record_of_merged_parts_is_that_of_one_job_and_merging_loads_no_model(
    count: int, baseline: str, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = {"baseline": f"model:{baseline}"}
    whole = gate.evaluate(*run(toy, **typed))
    folders = parts_of(toy, tmp_path, count, **typed)

    def refuse(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Checkpoint, "open", refuse)
    found = merged(toy, folders, **typed)
    assert lasting(found.record) == lasting(whole.record)
    assert whole.record.scores_digest is not None
    assert any("with the baseline's" in notice for notice in whole.record.notices) == (baseline == OTHER)


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_merging_is_on_the_parts_device_which_need_not_be_there(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("fairgate.gate.parts.find_device", lambda _: Device("cpu", "amp_bf16"))
        (folder,) = parts_of(toy, tmp_path, 1, baseline="none")
    found = merged(toy, [folder], baseline="none", device="auto")
    assert found.record.model.precision == "amp_bf16"
    assert found.record.verdict != "error"
    edit(folder, lambda part: part.update(device="cuda", entries={}))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    lacking = merged(toy, [folder], baseline="none", device="auto").record
    assert lacking.verdict == "error"
    assert {"run `fairgate merge` on a machine with a GPU" in check.reason for check in lacking.checks} == {True}


@pytest.fixture(scope="module")
def two(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return parts_of(toy, tmp_path_factory.mktemp("two"), 2)


@pytest.fixture
def copies(two: list[Path], tmp_path: Path) -> list[Path]:
    return [shutil.copytree(folder, tmp_path / folder.name) for folder in two]


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    part = json.loads((folder / "part.json").read_text())
    change(part)
    (folder / "part.json").write_text(json.dumps(part))


def cut(folder: Path) -> None:
    path = next(folder.rglob("parts/**/*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def name_of_a_stranger(part: dict[str, Any]) -> None:
    part["entries"] = {"../../outside": "0" * 64}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda at: at.pop(), r"1 of 2 parts are missing: 2"),
        (lambda at: at.append(at[0]), r"a part is there twice"),
        (lambda at: edit(at[1], lambda part: part.update(shards=3)), r"part 2/3 was made of another number of shards"),
        (lambda at: edit(at[1], lambda part: part.update(suite="other")), r"another suite \(other\)"),
        (lambda at: edit(at[1], lambda part: part.update(precision="amp_bf16")), r"another device \(cpu, amp_bf16\)"),
        *(
            (
                lambda at, what=what: edit(at[1], lambda part: part["inputs"].update({what: "x"})),
                f"another {what} \\(x\\)",
            )
            for what in ("suite", "dataset", "checkpoint", "version of fairgate", "versions of libraries", "baseline")
        ),
        (lambda at: edit(at[1], lambda part: part["inputs"].clear()), r"was made of another .* \(none\)"),
        (lambda at: edit(at[1], name_of_a_stranger), "it is not a part of a run"),
        (lambda at: (at[1] / "part.json").write_text("{"), "it is not a part of a run"),
        (lambda at: (at[1] / "part.json").unlink(), r"there is no part\.json here"),
        (lambda at: cut(at[1]), "part 2/2 was changed, or is not complete"),
        (lambda at: shutil.rmtree(at[1] / "part-entries" / "texts"), "part 2/2 was changed, or is not complete"),
    ],
)
def test_parts_that_are_missing_doubled_changed_or_of_other_inputs_are_refused(
    change: Callable[[list[Path]], object], problem: str, toy: Toy, copies: list[Path]
) -> None:
    change(copies)
    with pytest.raises(NoVerdict, match=problem) as caught:
        merged(toy, copies)
    of_one_part = any(word in caught.value.problem for word in ("changed", "there is no", "is not a part"))
    assert of_one_part == ("again for this part" in (caught.value.remedy or ""))


def test_parts_are_of_this_runs_suite_dataset_and_checkpoint(toy: Toy, two: list[Path], tmp_path: Path) -> None:
    with pytest.raises(NoVerdict, match="another address of the model") as caught:
        merged(toy, two, model=BASE)
    assert "give `fairgate merge` the jobs' options (--model" in (caught.value.remedy or "")
    other = Toy(Path(shutil.copytree(toy.root, tmp_path / "edited")))
    other.write_suite(SUITE.replace("at_least: 0.01", "at_least: 0.02"))
    with pytest.raises(NoVerdict, match="another suite"):
        merged(other, two)


def test_a_part_in_the_repository_is_refused_and_with_a_key_every_part_without_its_seal(
    toy: Toy, two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = shutil.copytree(two[0], toy.root / "part-of-a-branch")
    with pytest.raises(NoVerdict, match="inside of the repository"):
        merged(toy, [inside, two[1]])
    monkeypatch.setenv(KEY_VARIABLE, "k" * 32)
    with pytest.raises(NoVerdict, match=f"another {KEY_VARIABLE} sealed"):
        merged(toy, two)


def test_with_a_key_nothing_of_a_part_is_believed_that_the_key_did_not_seal(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not which suite is judged either: merging takes its name from the parts."""
    monkeypatch.setenv(KEY_VARIABLE, "k" * 32)
    (folder,) = parts_of(toy, tmp_path, 1, baseline="none")
    assert gate.read_parts([folder], toy.root)[0].part.suite == "jobs"
    for change in ({"suite": "lenient"}, {"precision": "amp_bf16"}, {"entries": {}}, {"seal": ""}):
        again = shutil.copytree(folder, tmp_path / next(iter(change)))
        edit(again, lambda part, change=change: part.update(change))
        with pytest.raises(NoVerdict, match=f"another {KEY_VARIABLE} sealed"):
            gate.read_parts([again], toy.root)


def test_a_part_has_no_table_that_holds_rows_of_other_jobs(two: list[Path]) -> None:
    kinds = {
        path.relative_to(folder / "part-entries").parts[0] for folder in two for path in folder.rglob("*.safetensors")
    }
    assert kinds == {"parts", "scales", "texts"}
    assert not PIECES & {"images", "outputs", "errors", "likelihoods", "choices"}


@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 20))
def test_every_batch_belongs_to_one_job_and_every_job_has_one(images: int, batch_size: int, count: int) -> None:
    starts = range(0, images, batch_size)
    jobs = [ImageShard(range(images), number, count) for number in range(1, count + 1)]  # type: ignore[arg-type]
    own = [[start for start in starts if job.owns(start, batch_size)] for job in jobs]
    assert all(own)
    assert sorted({start for job in own for start in job}) == list(starts)
    if count <= len(starts):
        assert [start for job in own for start in job] == list(starts)


def test_what_a_picture_shows_is_copied_to_rows_of_other_jobs_and_to_none_of_a_whole_source() -> None:
    class Half(SourceLike):
        def image_batches(self, _: int) -> Iterator[tuple[Any, list[bytes]]]:
            yield np.arange(4), [b"a", b"b", b"c", b"d"]

    class Watched(WatchedPictures[bytes]):
        def look(self, data: bytes, _: int) -> bytes:
            return data

    half = Half(range(8))  # type: ignore[arg-type]
    assert Watched(ImageShard(half, 1, 1)).seen() == [b"a", b"b", b"c", b"d", *[b"a"] * 4]  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        Watched(half).seen()  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/10001", "-1/4", "1/4/2", "a/b", "1.0/4"])
def test_a_shard_is_a_number_of_a_number(text: str) -> None:
    assert gate.read_shard("003/16") == (3, 16)
    with pytest.raises(SettingsError, match="is not a shard"):
        gate.read_shard(text)


def test_a_shard_without_a_report_folder_is_refused(toy: Toy) -> None:
    with pytest.raises(SettingsError, match="none was named"):
        gate.write_part(*run(toy), (1, 2))


def test_a_part_is_not_written_into_the_repository_where_merging_would_refuse_it(toy: Toy) -> None:
    folder = toy.root / "out"
    with pytest.raises(SettingsError, match="would be inside of the repository"):
        gate.write_part(*run(toy, report=str(folder)), (1, 2))
    assert not folder.exists()


def test_a_part_replaces_an_earlier_one_and_nothing_else(toy: Toy, two: list[Path], tmp_path: Path) -> None:
    own = tmp_path / "part" / "drawing"
    own.parent.mkdir()
    own.write_text("mine")
    again = shutil.copytree(two[0], tmp_path, dirs_exist_ok=True)
    gate.write_part(*run(toy, report=str(again)), (2, 2))
    assert own.read_text() == "mine"
    parts = gate.read_parts([two[0], again], toy.root)
    assert parts[1].part.entries.keys() == gate.read_parts(two, toy.root)[1].part.entries.keys()


@pytest.mark.parametrize(
    ("engine", "workers"),
    [("local", 2), *(pytest.param("ray", workers, marks=pytest.mark.nightly) for workers in (1, 2, 4))],
)
def test_the_record_is_the_same_whatever_scores_and_this_process_holds_no_weights(
    engine: str, workers: int, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    prepared, settings = run(toy)
    whole = gate.evaluate(prepared, settings)
    loading, opened = (threading.current_thread(), Checkpoint.open), list[Any]()

    def refuse_here(checkpoint: Any, *words: Any) -> Any:
        assert threading.current_thread() is not loading[0], "this process loads a model"
        opened.append(checkpoint)
        return loading[1](checkpoint, *words)

    monkeypatch.setattr(Checkpoint, "open", refuse_here)
    found = gate.evaluate_on(engine, workers, prepared, settings)
    assert lasting(found.record) == lasting(whole.record)
    assert len(opened) == (2 * workers if engine == "local" else 0), "a worker opens each model once, views or not"


def test_the_trouble_of_a_worker_is_an_error_of_every_check(toy: Toy, tmp_path: Path) -> None:
    broken = Toy(Path(shutil.copytree(toy.root, tmp_path / "broken")))
    (broken.root / "tuned" / "open_clip_model.safetensors").write_bytes(b"x")
    record = gate.evaluate_on("local", 1, *run(broken)).record
    assert (record.verdict, record.exit_code) == ("error", 3)
    with pytest.raises(NoVerdict, match=re.escape(record.checks[0].reason.splitlines()[0])):
        gate.write_part(*run(broken, report=str(tmp_path / "out")), (1, 2))
