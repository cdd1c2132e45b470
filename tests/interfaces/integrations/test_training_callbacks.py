"""Suites in real, tiny trainings: numbers are logged, a closed gate is shown, the training is as it would have been."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from classifier_world import save_classifier
from hf_world import TEXT, VISION, tiny_tokenizer
from toy_repository import SUITE, toy_repository

from fairgate.ground.errors import FairgateError
from fairgate.interfaces import integrations  # a name of it imports its library: in the tests, not in each worker
from fairgate.interfaces.api import check
from fairgate.tracking import metric_values

pytestmark = pytest.mark.xdist_group("training")  # with the other file that imports lightning, for three seconds

ROOT = Path(__file__).parents[3]
BOUNDS = """
checks:
  - {id: fairness, probe: labels, metric: fairness, by: subject, at_least: 0.5}
  - {id: useful, probe: labels, metric: accuracy, at_least: 0.99}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.9}
"""
METRICS = {"fairness/chef", "fairness/doctor", "useful/all", *(f"gate/{one}" for one in ("pass", "fail", "error"))}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose suite `training` needs no baseline, and fails a model that has learnt nothing."""
    toy = toy_repository(tmp_path_factory.mktemp("toy"), sets=6)
    head = SUITE.partition("decision:")[0].replace("suite: jobs", "suite: training")
    head = "".join(line for line in head.splitlines(True) if not line.startswith(("baseline", "model")))
    toy.write_suite(f"{head}groups: {{min_sets: 2}}\ndecision: {{draws: 1000}}{BOUNDS}", "training")
    return toy.root


def named(metrics: dict[str, Any]) -> set[str]:
    return {name.removeprefix("fairgate/training/") for name in metrics if name.startswith("fairgate/training/")}


class Pictures(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        made = torch.Generator().manual_seed(at)
        return {
            "pixel_values": torch.randn(3, 32, 32, generator=made),
            "input_ids": torch.tensor([1, 3, 4, 5 + at % 4, 15]),
        }


def a_trainer(folder: Path, steps: int = 4) -> Any:
    """A Trainer of a tiny CLIP with dropout, so that a random number drawn by others changes what is learnt."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    dropped = {"attention_dropout": 0.3}
    model = CLIPModel(CLIPConfig(text_config=TEXT | dropped, vision_config=VISION | dropped, projection_dim=16))
    how = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        seed=0,
    )

    def pairs(rows: list[dict[str, torch.Tensor]]) -> dict[str, Any]:
        stacked = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
        return {**stacked, "return_loss": True}

    trainer = Trainer(model=model, args=how, train_dataset=Pictures(), data_collator=pairs)
    trainer.processing_class = tiny_tokenizer()
    trainer.picture_processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return trainer


def watch(trainer: Any, root: Path, **options: Any) -> integrations.TrainerFairness:
    return integrations.TrainerFairness(
        trainer, "training", root=root, processor=trainer.picture_processor, device="cpu", **options
    )


def test_the_trainer_logs_the_suites_numbers_and_learns_what_it_would_have_learnt(
    root: Path, tmp_path: Path, logged: list[str]
) -> None:
    alone = a_trainer(tmp_path)
    alone.train()
    trainer = a_trainer(tmp_path)
    watch(trainer, root, every_steps=2)
    trainer.train()
    history = [one for one in trainer.state.log_history if named(one)]
    assert [one["step"] for one in history] == [2, 4]
    assert all(named(one) >= METRICS for one in history)
    assert history[0]["fairgate/training/fairness/doctor"] != history[1]["fairgate/training/fairness/doctor"]
    shown = [line.removeprefix("fairgate.training: ") for line in logged if line.startswith("fairgate.training: ")]
    assert [one.partition(":")[0] for one in shown] == ["step 2", "step 4"]
    assert "useful: all subjects (labels): accuracy is" in shown[0]
    for name, learnt in alone.model.state_dict().items():
        assert torch.equal(learnt, trainer.model.state_dict()[name]), name


def test_what_the_trainer_logs_is_what_the_gate_says_of_the_saved_model(root: Path, tmp_path: Path) -> None:
    trainer = a_trainer(tmp_path, steps=1)
    fairness = watch(trainer, root, every_steps=1)
    trainer.train()
    uri = fairness._saved(tmp_path / "saved")
    record = check("training", model=uri, base="none", root=root, device="cpu", cache=tmp_path / "cache").record
    assert fairness.judge.last is not None
    expected = {f"fairgate/training/{name}": value for name, value in metric_values(record).items()}
    assert fairness.judge.last.metrics == expected
    assert fairness.judge.last.record is not None
    assert fairness.judge.last.record.model.fingerprint == record.model.fingerprint


def test_an_image_classifier_in_training_is_judged_as_one(root: Path, tmp_path: Path) -> None:
    from transformers import AutoImageProcessor, AutoModelForImageClassification, Trainer, TrainingArguments

    (root / "fairness_suites" / "classes.yaml").write_text(
        "schema: 1\nsuite: classes\ndataset: toy\ngroups: {min_sets: 2}\n"
        'probes:\n  jobs: {kind: zero_shot_classification, template: "{label}", labels: [chef, doctor]}\n'
        "checks:\n  - {id: useful, probe: jobs, metric: accuracy, at_least: 0.9}\n"
    )
    start = save_classifier("vit", tmp_path / "start", ["chef", "doctor"])
    pictures = [{"pixel_values": torch.full((3, 32, 32), shade), "labels": shade > 0} for shade in (-1.0, 1.0)]

    def batch(rows: list[dict[str, Any]]) -> dict[str, Any]:
        shown = torch.stack([row["pixel_values"] for row in rows])
        return {"pixel_values": shown, "labels": torch.tensor([int(row["labels"]) for row in rows])}

    how = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    model = AutoModelForImageClassification.from_pretrained(start)
    trainer = Trainer(model=model, args=how, train_dataset=pictures, data_collator=batch)
    processor = AutoImageProcessor.from_pretrained(start)
    fairness = integrations.TrainerFairness(
        trainer, "classes", root=root, processor=processor, every_steps=1, device="cpu"
    )
    trainer.train()
    assert fairness.judge.last is not None
    assert fairness.judge.last.record is not None, fairness.judge.last.message
    assert fairness.judge.last.record.model.uri.startswith("classifier:")
    assert fairness.judge.last.record.verdict == "fail"
    assert trainer.state.log_history[0]["fairgate/classes/useful/all"] == 0.5


def test_a_folder_that_shadows_the_library_datasets_is_told_before_the_training(
    root: Path, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    class Trainer:
        def add_callback(self, callback: object) -> None:
            """Takes it."""

    monkeypatch.setattr("fairgate.data.releases.metadata.distributions", lambda **_: iter(()))
    integrations.TrainerFairness(Trainer(), "training", root=root)
    assert "Python takes the folder datasets/ for the library" in "".join(logged)


@pytest.mark.parametrize(("wanted", "steps"), [("stop", 1), ("warn", 2)])
def test_a_closed_gate_ends_a_training_only_where_that_is_asked_for(
    wanted: Any, steps: int, root: Path, tmp_path: Path
) -> None:
    trainer = a_trainer(tmp_path, steps=2)
    watch(trainer, root, every_steps=1, on_failure=wanted)
    trainer.train()
    assert trainer.state.global_step == steps


def test_a_closed_gate_is_an_error_where_that_is_asked_for(root: Path, tmp_path: Path) -> None:
    trainer = a_trainer(tmp_path, steps=2)
    watch(trainer, root, every_epochs=1, on_failure="raise")
    with pytest.raises(integrations.FairnessError, match=r"closed at step 2: training: fail.*useful"):
        trainer.train()


def test_a_wrong_suite_ends_a_training_before_its_first_step(root: Path, tmp_path: Path) -> None:
    trainer = a_trainer(tmp_path)
    integrations.TrainerFairness(trainer, "trainning", root=root, every_steps=1)
    with pytest.raises(FairgateError, match="there is no fairness suite 'trainning'"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_model_that_cannot_be_saved_or_judged_is_shown_and_trained_on(
    root: Path, tmp_path: Path, logged: list[str]
) -> None:
    def full(folder: Path) -> str:
        raise OSError(28, "No space left on device")

    trainer = a_trainer(tmp_path, steps=1)
    fairness = watch(trainer, root, every_steps=1, save=full)
    trainer.train()
    assert trainer.state.global_step == 1
    assert fairness.judge.last == integrations.Judged(
        False, {}, "training: not judged: OSError: [Errno 28] No space left on device"
    )
    assert "No space left" in "".join(logged)
    missing = integrations.TrainingJudge("training", root=root)
    judged = missing.judge(lambda folder: f"hf:{folder}", 7)
    missing.close()
    assert judged.record is not None
    assert (judged.ok, judged.record.verdict) == (False, "error")
    assert judged.metrics["fairgate/training/gate/error"] == 4


def test_one_process_of_several_does_not_end_a_training(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    integrations.TrainingJudge("training", root=root).start()
    with pytest.raises(FairgateError, match="could not end the others"):
        integrations.TrainingJudge("training", root=root, on_failure="stop").start()


def test_nothing_is_left_of_a_training(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "scores.csv").write_bytes((root / "tuned.csv").read_bytes())
    judge = integrations.TrainingJudge("training", root=root)
    judge.judge(lambda _: f"scores:{root / 'tuned.csv'}?values=logit", 1)
    judge.close()
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


@pytest.mark.filterwarnings("ignore")  # Lightning's own, of torch's newer versions and of few loader workers
def test_lightning_logs_at_once_and_stops_where_asked(root: Path, tmp_path: Path) -> None:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.loggers import CSVLogger

    LightningFairness = integrations.LightningFairness

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout(0.5))

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            return self.layer(batch).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def save(module: Any, folder: Path) -> str:
        assert isinstance(module, Module)
        return f"scores:{root}/tuned.csv?values=logit"

    def missing(module: Any, folder: Path) -> str:
        return f"scores:{folder}/nothing.csv?values=logit"

    def fit(*callbacks: Any) -> Any:
        torch.manual_seed(0)
        rows = torch.utils.data.DataLoader(torch.randn(6, 4), batch_size=2)
        trainer = Trainer(
            max_epochs=3,
            accelerator="cpu",
            logger=CSVLogger(tmp_path, name="", version=str(len(list(tmp_path.iterdir())))),
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            callbacks=list(callbacks),
        )
        trainer.fit(Module(), rows)
        return trainer

    every = LightningFairness("training", save, every_steps=2, root=root)
    trainer = fit(every)
    assert trainer.global_step == 9
    rows = list(csv.DictReader((tmp_path / "0" / "metrics.csv").open()))
    assert [int(row["step"]) for row in rows if row["fairgate/training/useful/all"]] == [2, 4, 6, 8]
    assert named(trainer.callback_metrics) >= METRICS
    alone = fit()
    for name, learnt in alone.lightning_module.state_dict().items():
        assert torch.equal(learnt, trainer.lightning_module.state_dict()[name])
    assert fit(LightningFairness("training", missing, every_epochs=2, root=root, on_failure="stop")).current_epoch == 2


def test_a_loop_of_open_clip_writes_the_numbers_and_judges_the_very_weights(root: Path, tmp_path: Path) -> None:
    import open_clip

    start = ROOT / "build" / "portraits" / "checkpoints" / "base"
    model, _, _ = open_clip.create_model_and_transforms(f"local-dir:{start}")
    written: list[tuple[str, float, int]] = []

    class Writer:
        def add_scalar(self, *one: Any) -> None:
            written.append(one)

    fairness = integrations.OpenClipFairness("training", like=start, writer=Writer(), root=root, device="cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in (1, 2):
        loss = model.encode_image(torch.randn(2, 3, 48, 48)).square().mean()
        loss.backward()
        optimizer.step()
        judged = fairness(torch.nn.DataParallel(model), step)
    assert {step for _, _, step in written} == {1, 2}
    assert {name.removeprefix("fairgate/training/") for name, _, _ in written} >= METRICS
    assert not fairness.stops
    uri, quiet = fairness._saved(model, tmp_path), {"base": "none", "root": root, "device": "cpu", "cache": "off"}
    fairness.close()
    assert judged.record is not None
    assert judged.record.model.fingerprint == check("training", model=uri, **quiet).record.model.fingerprint
