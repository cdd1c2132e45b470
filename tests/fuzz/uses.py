"""What is done with an input: each use takes bytes that a stranger wrote, and works or raises a FairgateError."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from world import PROMPTS, TESTS, World, one_picture


def placed(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def plan_suite(world: World, data: bytes) -> None:
    from fairgate import gate

    placed(world.toy.suite, data)
    gate.prepare("jobs", world.toy.root)


def read_suite(world: World, data: bytes) -> None:
    from fairgate.suites.load import load_suite

    load_suite(placed(world.root / "jobs.yaml", data), world.root)


def read_record(world: World, data: bytes) -> None:
    """Accepted means: reads back as equal, and every report can be made of it."""
    from rich.console import Console

    from fairgate import reports

    record = reports.read_results(placed(world.root / "read" / "results.json", data))
    again = reports.read_results(reports.write_results(record, world.root / "again"))
    assert again == record, "what was read and written back is another record"
    reports.render_html(record, None)
    reports.render_comment(record)
    reports.job_summary(record)
    reports.github_annotations(record)
    reports.terminal_summary(record)
    Console(file=io.StringIO()).print(reports.terminal_table(record))
    reports.flat_metrics(record)
    reports.render_card(record)
    reports.render_annex(record)
    reports.badge_svg(record)
    reports.badge_json(record)
    reports.render_sarif(record, "fairness_suites/jobs.yaml", {})
    reports.render_code_quality(record, "fairness_suites/jobs.yaml", {})
    for check in record.checks:
        reports.junit_properties(check, record)


def parse_record(world: World, data: bytes) -> None:
    from fairgate.reports import read_results

    read_results(placed(world.root / "read" / "results.json", data))


def table_of_scores(name: str) -> Callable[[World, bytes], None]:
    def use(world: World, data: bytes) -> None:
        from fairgate.models import open_scorer

        path = placed(world.root / name, data)
        scorer = open_scorer(f"scores:{path}?values=logit", world.source, cache=None)
        scorer.logits(PROMPTS[:2])
        scorer.log_probabilities(PROMPTS)

    return use


def table_of_answers(name: str) -> Callable[[World, bytes], None]:
    """Read a table of answers, and put a question to it."""

    def use(world: World, data: bytes) -> None:
        from fairgate.models import open_scorer

        path = placed(world.root / name, data)
        model: Any = open_scorer(f"answers:{path}", world.source, cache=None)
        assert len(model.answer(["Who is it?"] * len(world.source), 8)) == len(world.source)

    return use


def kept_scores(world: World, data: bytes) -> None:
    from fairgate.probes import read_scores, scores_digest, write_scores

    scores = read_scores(placed(world.root / "kept.parquet", data), world.index)
    write_scores(world.root / "again.parquet", world.index, scores)
    again = read_scores(world.root / "again.parquet", world.index)
    assert scores_digest(again) == scores_digest(scores), "scores that were read and written back are others"


def use_dataset(world: World) -> None:
    from fairgate.data import open_dataset

    dataset = open_dataset("toy", world.toy.root / "datasets")
    dataset.verify()
    dataset.index.codes(list(dataset.index.groups))
    for _ in dataset.image_batches(7):
        pass
    dataset.images_of([str(dataset.index.set_id[0])])


def manifest(world: World, data: bytes) -> None:
    path = world.toy.root / "datasets/toy/v1/manifest.json"
    before = path.read_bytes()
    try:
        placed(path, data)
        use_dataset(world)
    finally:
        path.write_bytes(before)


def shard(world: World, data: bytes) -> None:
    (path,) = (world.toy.root / "datasets/toy/v1").glob("*.parquet")
    before = path.read_bytes()
    try:
        placed(path, data)
        use_dataset(world)
    finally:
        path.write_bytes(before)


def picture(world: World, data: bytes) -> None:
    from fairgate.ground.pixels import UnreadableImage, pixels_of
    from fairgate.models.decoding import decode_rgb

    image = decode_rgb(data, one_picture(data), 0)
    assert image.mode == "RGB"
    try:
        pixels_of(data)
    except UnreadableImage as error:
        raise AssertionError("an image that a model is shown is one that `verify` cannot read") from error


def checkpoint(name: str) -> Callable[[World, bytes], None]:
    def use(world: World, data: bytes) -> None:
        from fairgate.models.checkpoints.files import require_weights
        from fairgate.models.checkpoints.weights import read_state_dict, require_finite

        path = placed(world.root / name, data)
        require_weights(path)
        require_finite(read_state_dict(path), str(path))

    return use


def model_folder(kind: str) -> Callable[[World, bytes], None]:
    """The configs of a folder with good weights: all of them in one JSON object, by file name."""

    def use(world: World, data: bytes) -> None:
        from fairgate.models import open_scorer

        folder = world.root / kind
        if not folder.exists():
            model_seeds(kind)(world)
        try:
            files = json.loads(data)
        except (ValueError, RecursionError):
            files = {}
        for name in MODEL_CONFIGS[kind]:
            content = files.get(name, {}) if isinstance(files, dict) else {}
            placed(folder / name, json.dumps(content).encode("utf-8", "surrogatepass"))
        uri = f"open_clip:local-dir:{folder}" if kind == "open_clip" else f"hf:{folder}"
        open_scorer(uri, world.source, device="cpu", cache=None).logits(PROMPTS[:1])

    return use


MODEL_CONFIGS = {
    "open_clip": ("open_clip_config.json", "tokenizer_config.json"),
    "hf": ("config.json", "preprocessor_config.json", "tokenizer_config.json"),
}


def model_seeds(kind: str) -> Callable[[World], list[Any]]:
    def seeds(world: World) -> list[Any]:
        import sys

        folder = world.root / kind
        if not folder.exists():
            if kind == "open_clip":
                sys.path.insert(0, str(TESTS / "trust"))
                from trust_world import local_dir, tiny_model

                local_dir(folder, tiny_model())
            else:
                from hf_folder import save_folder

                save_folder(folder)
        there = [name for name in MODEL_CONFIGS[kind] if (folder / name).is_file()]
        return [{name: json.loads((folder / name).read_text(encoding="utf-8")) for name in there}]

    return seeds


def weights(name: str) -> Callable[[World], list[bytes]]:
    def seeds(world: World) -> list[bytes]:
        import torch
        from safetensors.torch import save

        state = {"a": torch.arange(6.0).reshape(2, 3), "b.c": torch.ones(2, dtype=torch.float16), "n": torch.tensor(3)}
        if name.endswith("safetensors"):
            return [save(state), save({"x": torch.zeros(0)}), save(state, {"format": "pt"})]
        made = []
        for held in (state, {"state_dict": state, "epoch": 3}):
            for zipped in (True, False):
                stream = io.BytesIO()
                torch.save(held, stream, _use_new_zipfile_serialization=zipped)
                made.append(stream.getvalue())
        return made

    return seeds


def baseline_folder(world: World, data: bytes) -> None:
    """A whole gate run against a forged record: it never ends in an exception, and never in an open gate by mistake."""
    from fairgate import gate
    from fairgate.suites import resolve

    (world.report / "results.json").touch()
    forged = world.root / "forged"
    placed(forged / "results.json", data)
    placed(forged / "scores.parquet", (world.report / "scores.parquet").read_bytes())
    prepared = gate.prepare("jobs", world.toy.root)
    typed = {"mlflow": "off", "cache": "off", "baseline": f"file:{forged}"}
    record = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="check").record
    assert record.verdict == record.decided
    assert record.baseline is not None or record.verdict == "error"


def addresses(world: World, data: bytes) -> None:
    """Whatever is typed: a model URI, a baseline, a dataset, a suite."""
    from fairgate.data import open_dataset
    from fairgate.gate.baselines import parse_baseline
    from fairgate.ground.errors import FairgateError
    from fairgate.models import open_scorer
    from fairgate.suites import suite_path

    text = data.decode("utf-8", "surrogateescape")  # as Python hands over what was typed
    said: list[FairgateError] = []
    for use in (
        lambda: parse_baseline(text),
        lambda: open_dataset(text, world.toy.root / "datasets"),
        lambda: suite_path(text, world.toy.root),
        lambda: open_scorer(text, world.source, cache=None, base=world.root),
    ):
        try:
            use()
        except FairgateError as error:
            require_parts(error, place=False)
            said.append(error)
    if len(said) == 4:
        raise said[-1]


def labels(world: World, data: bytes) -> None:
    import shutil

    from imported_photographs import import_images

    shutil.rmtree(world.root / "imported", ignore_errors=True)
    path = placed(world.root / "labels.csv", data)
    import_images(path, None, "people", attributes=["gender"], subject="person", root=world.root / "imported")


def captions(name: str) -> Callable[[World, bytes], None]:
    """Count the words of a file of captions, and draw its pictures."""

    def use(world: World, data: bytes) -> None:
        from fairgate.studies.papers import StudyPlace
        from fairgate.studies.papers.caption_words import CaptionWordsStudy

        placed(world.root / name, data)
        CaptionWordsStudy(captions=world.root / name, word=("nurse",), image="image").run(StudyPlace())

    return use


def require_parts(error: Any, place: bool = True) -> None:
    """What every refusal has: a problem, a remedy, mostly a place; each on one line."""
    assert error.problem.strip(), "no problem is named"
    assert error.remedy, f"no remedy: {error}"
    assert error.where or not place, f"no place: {error}"
    assert "\n" not in error.problem + error.remedy + (error.where or ""), f"a part has several lines: {error}"
    str(error).encode("utf-8")
