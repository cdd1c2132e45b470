"""`hf:` ViLT fine-tuned for visual question answering (Kim et al. 2021), the judge of paper 1's base images.

Its head was trained with one sigmoid per answer (binary cross-entropy against soft scores), so the probability of an
answer is the sigmoid of its own logit, and probabilities of different answers do not sum to 1. Paper 1's code ranks
images by the logit of "real"; the sigmoid ranks them alike, and a softmax over all answers would not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.models.checkpoints import Device
from fairgate.models.generation.perceiver import FolderPerceiver

Probabilities = NDArray[np.float64]


class ViltVQA(FolderPerceiver):
    """Several questions about an image are one batch: the image is prepared once. `spent` counts "vilt"."""

    kinds: ClassVar = {"vilt": ("ViltForQuestionAnswering", "ViltProcessor")}
    use = "answer questions with"

    def __init__(self, uri: str, fingerprint: str, device: Device, model: Any, processor: Any) -> None:
        super().__init__(uri, fingerprint, device, model, processor)
        labels = model.config.id2label
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
        chosen: Probabilities = self._probabilities(images, questions)[:, :, wanted]
        return chosen

    def answer(self, images: Sequence[Image], questions: Sequence[str]) -> list[list[str]]:
        """The likeliest answer to each question about each image."""
        best = self._probabilities(images, questions).argmax(axis=2)
        return [[self._answers[position] for position in row] for row in best]

    def _probabilities(self, images: Sequence[Image], questions: Sequence[str]) -> Probabilities:
        found = np.empty((len(images), len(questions), len(self._answers)))
        if not found.size:
            return found
        limit = self._model.config.max_position_embeddings
        tokens = self._tokens(list(questions), limit, remedy="shorten the question")
        with self._running("answer questions"):
            for group, inputs in self._batches(images, tokens):
                # ViLT shuffles the patches by the global generator; with it fixed, the last bits stay as they are
                with torch.random.fork_rng(devices=[]):
                    torch.default_generator.manual_seed(0)
                    logits = self._model(**inputs).logits
                answered = torch.sigmoid(logits.double()).cpu().numpy()
                if np.isnan(answered).any():
                    raise self._diverged()
                found[group] = answered.reshape(len(group), len(questions), -1)
        self.spent["vilt"] += len(images) * len(questions)
        return found


open_asker = ViltVQA.open
