"""`hf:` models that judge the pictures of a build: ViLT answers questions, Grounding DINO finds boxes, SAM masks. And
what all models share that perceive: the device, counts of forward passes, checks of their outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torchvision.ops import batched_nms

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.models import checkpoints
from fairgate.models.detection.engine import DetectorEngine, grouped
from fairgate.models.generation.roles import Box, Mask

Probabilities = NDArray[np.float64]
MAX_GRID = 1024
SAME_OBJECT = 0.8
"""Intersection over union above which two boxes are of one object. The model suppresses none; its authors recommend it
(IDEA-Research/GroundingDINO issue 131). This is the number of their demos that detect one named class
(Grounded-Segment-Anything, grounded_efficient_sam.py, NMS_THRESHOLD); where they label everything it is 0.5."""
_PIXELS = ("pixel_values", "pixel_mask")


class Perceiver:
    """A model on a device. It computes in float32 everywhere: published thresholds were set on such scores.

    `spent` counts forward passes, by the model's kind: an image counts once, or once per question.
    """

    def __init__(self, uri: str, fingerprint: str, device: checkpoints.Device) -> None:
        self.uri = uri
        self.fingerprint = fingerprint
        self.spent: Counter[str] = Counter()
        self._device = device

    @contextmanager
    def _running(self, what: str) -> Iterator[None]:
        """No gradients, deterministic kernels; what a library raises becomes a ModelError: the model cannot `what`."""
        with checkpoints.scoring(self._device), checkpoints.naming(self.uri, what):
            yield

    def _diverged(self) -> ModelError:
        return checkpoints.diverged("the model answered with NaN or infinity.", self.uri)


def device_of(name: str) -> checkpoints.Device:
    """A device by name ("auto", "cpu", "cuda:1"), in float32. Raises DeviceError where it is not there."""
    device = checkpoints.Device(checkpoints.find_device(name).name, "fp32")
    checkpoints.require_device(device)
    return device


class FolderPerceiver(Perceiver):
    """A model of transformers in a folder."""

    kinds: ClassVar[tuple[str, ...]]
    """model_type of config.json."""
    use: ClassVar[str]
    """What is done with such models, for messages: "detect with"."""
    reads_text: ClassVar[bool] = True

    def __init__(self, uri: str, found: checkpoints.TransformersFolder, device: checkpoints.Device) -> None:
        super().__init__(uri, found.fingerprint, device)
        self._load(found)

    @abstractmethod
    def _load(self, found: checkpoints.TransformersFolder) -> None:
        """Load the model and what prepares its inputs. Raises ModelError."""

    @classmethod
    def open(cls, uri: str, address: str, *, device: str, base: Path) -> Self:
        """Load a model from a folder or the hub's cache. Raises ModelError or DeviceError."""
        where, folder = device_of(device), checkpoints.model_folder(address, base)
        found = checkpoints.find_folder(folder, cls.kinds, use=cls.use, tokenizer=cls.reads_text, pickled=True)
        return cls(uri, found, where)


class ViltVQA(FolderPerceiver):
    """ViLT fine-tuned for visual question answering (Kim et al. 2021), the judge of paper 1's base images.

    Its head was trained with one sigmoid per answer (binary cross-entropy against soft scores), so the probability of
    an answer is the sigmoid of its own logit, and probabilities of different answers do not sum to 1. Paper 1's code
    ranks images by the logit of "real"; the sigmoid ranks them alike, and a softmax over all answers would not. Several
    questions about an image are one batch: the image is prepared once. `spent` counts "vilt".
    """

    kinds = ("vilt",)
    use = "answer questions with"

    def _load(self, found: checkpoints.TransformersFolder) -> None:
        name = "ViltForQuestionAnswering"
        self._model, self._images, self._texts = checkpoints.load_parts(name, found, self._device)
        labels = self._model.config.id2label
        self._answers = [str(labels[number]) for number in sorted(labels)]

    def ask(self, images: Sequence[Image], questions: Sequence[str], answers: Sequence[str]) -> Probabilities:
        """Probability of each of `answers`, the sigmoid of its logit: (images, questions, answers), each in 0..1.

        Raises ModelError for an answer that is not among the model's, and for a question that is too long for it.
        """
        for answer in answers:
            if answer not in self._answers:
                raise ModelError(
                    f"'{answer}' is not among the {len(self._answers):,} answers of the model.",
                    where=self.uri,
                    remedy=did_you_mean(answer, self._answers) or "choose one that its config.json lists (id2label)",
                )
        wanted = [self._answers.index(answer) for answer in answers]
        found = np.empty((len(images), len(questions), len(answers)))
        if not found.size:
            return found
        pictures, tokens = [image.convert("RGB") for image in images], self._tokens(list(questions))
        with self._running("answer questions"):
            for group, prepared in grouped(self._images, pictures, self.uri):
                inputs = {name: prepared[name].repeat_interleave(len(questions), dim=0) for name in _PIXELS}
                inputs |= {name: value.repeat(len(group), 1) for name, value in tokens.items()}
                moved = {name: value.to(self._device.name) for name, value in inputs.items()}
                # ViLT shuffles the patches by the global generator; with it fixed, the last bits stay as they are
                with torch.random.fork_rng(devices=[]):
                    torch.default_generator.manual_seed(0)
                    logits = self._model(**moved).logits
                answered = torch.sigmoid(logits.double()).cpu().numpy()
                if np.isnan(answered).any():
                    raise self._diverged()
                found[group] = answered[:, wanted].reshape(len(group), len(questions), -1)
        self.spent["vilt"] += len(images) * len(questions)
        return found

    def _tokens(self, questions: list[str]) -> dict[str, torch.Tensor]:
        """Questions as tensors, padded to one length. Raises ModelError for one that the model cannot read."""
        with self._running("read the text"):
            tokens = self._texts(questions, padding=True, return_tensors="pt")
        limit = self._model.config.max_position_embeddings
        if tokens["input_ids"].shape[1] > limit:
            raise ModelError(
                f"a text is longer than the {limit} tokens that the model reads.",
                where=max(questions, key=len)[:200],
                remedy="shorten the question",
            )
        return dict(tokens)


class GroundingDino(FolderPerceiver):
    """Grounding DINO (Liu et al. 2023), as the gate's family `detector:` runs it: boxes of what a text names. Paper 1
    detects "person" at 0.35 and 0.25. `spent` counts "grounding_dino", once per image."""

    kinds = ("grounding-dino",)
    use = "find boxes with"

    def _load(self, found: checkpoints.TransformersFolder) -> None:
        self.engine = DetectorEngine(found, self._device)

    def detect(
        self, images: Sequence[Image], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Box]]:
        """Boxes per image in its own pixels, clipped to it, highest score first; empty where nothing was found.

        A box scores above `box_threshold` (its likeliest token); its label holds the tokens above `text_threshold`. Of
        boxes that overlap by more than SAME_OBJECT the one with the highest score is left; where a text names several
        things, among boxes of one label.
        """
        pictures = [image.convert("RGB") for image in images]
        found: list[list[Box]] = [[] for _ in images]
        with self._running("detect"):
            for place, result in self.engine.answers(pictures, text, box_threshold, text_threshold):
                found[place] = _boxes(result, images[place].size, several="." in text.strip(". "))
        self.spent["grounding_dino"] += len(images)
        return found


def _boxes(result: Any, size: tuple[int, int], *, several: bool) -> list[Box]:
    """Boxes that have an area inside the image, one for each object, highest score first."""
    width, height = size
    found = []
    scores = result["scores"].float().cpu()
    labels = result["text_labels"] if len(scores) else []  # for no box at all, transformers gives one empty label
    corners = result["boxes"].float().cpu()
    kinds = torch.tensor([labels.index(label) if several else 0 for label in labels], dtype=torch.int64)
    for at in batched_nms(corners, scores, kinds, SAME_OBJECT).tolist():
        (left, top, right, bottom), score, label = corners[at].tolist(), float(scores[at]), labels[at]
        inside = max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))
        if inside[0] < inside[2] and inside[1] < inside[3]:
            found.append(Box(*inside, score=score, label=label))
    return sorted(found, key=lambda box: -box.score)


class Sam(FolderPerceiver):
    """Segment Anything (Kirillov et al. 2023) and SAM 2 (Ravi et al. 2024): a mask of what is in a box.

    Of the three masks that the model proposes for a box, the one whose predicted IoU is highest is taken.

    `spent` counts "sam", once per image.
    """

    kinds = ("sam", "sam2", "sam2_video")  # published SAM 2 folders are of the video model, whose image half is used
    use = "segment with"
    reads_text = False

    def _load(self, found: checkpoints.TransformersFolder) -> None:
        """Raises ModelError for a config whose grid of positions would fill the memory."""
        import transformers

        prompts = found.config.get("prompt_encoder_config")
        sides = [prompts.get(name, 1) if isinstance(prompts, dict) else 1 for name in ("image_size", "patch_size")]
        whole = all(isinstance(side, int) and side > 0 for side in sides)
        if not whole or sides[0] // sides[1] > MAX_GRID:
            raise ModelError(
                f"prompts lie on a grid of {sides[0]} / {sides[1]} positions a side; at most {MAX_GRID} are built.",
                where=str(found.path / "config.json"),
                remedy="check 'prompt_encoder_config': published models have 64",
            )
        name = "Sam" if found.kind == "sam" else "Sam2"
        parts = checkpoints.load_parts(f"{name}Model", found, self._device, images=False, texts=False)
        self._model, processor_class = parts[0], getattr(transformers, f"{name}Processor")
        with checkpoints.loading(found) as path:
            self._processor = processor_class.from_pretrained(path, **checkpoints.LOCAL)

    def segment(self, images: Sequence[Image], boxes: Sequence[Box]) -> list[Mask]:
        """A mask per image, (height, width) of the image itself, True inside. One box per image, in its pixels."""
        if not images:
            return []
        pictures = [image.convert("RGB") for image in images]
        corners = [[[box.left, box.top, box.right, box.bottom]] for box, _ in zip(boxes, pictures, strict=True)]
        with self._running("segment"):
            inputs = self._processor(images=pictures, input_boxes=corners, return_tensors="pt")
            sizes = {name: inputs.pop(name) for name in ("original_sizes", "reshaped_input_sizes") if name in inputs}
            moved = {name: value.to(self._device.name) for name, value in inputs.items()}
            outputs = self._model(**moved, multimask_output=True)
            # (images, 1, masks): one box per image
            best = outputs.iou_scores[:, 0].argmax(dim=1)
            chosen = outputs.pred_masks[torch.arange(len(pictures)), :, best][:, :, None].cpu()
            if torch.isnan(outputs.iou_scores).any() or torch.isnan(chosen).any():
                raise self._diverged()
            masks = self._processor.image_processor.post_process_masks(chosen, **sizes)
        self.spent["sam"] += len(pictures)
        return [mask[0, 0].numpy().astype(bool) for mask in masks]


open_asker, open_detector, open_segmenter = ViltVQA.open, GroundingDino.open, Sam.open
