"""`diffusion:FOLDER?samples=100`: a Stable Diffusion (1.x, 2.x, XL) that is judged as a zero-shot classifier, as an
editor of pictures, and as a painter (engine.py); any other pipeline as a painter alone (painting_models.py).

A prompt is the more probable, the better the model predicts the noise that was added to a picture when it is told the
prompt (Li et al. 2023, "Your diffusion model is secretly a zero-shot classifier"): log P(prompt | picture) is, up to
one constant a picture, minus the mean over noise levels of the squared error. Local files, safetensors, and no code
from the folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import diverged, judged_folder, naming, split_options, versions
from fairgate.models.contract import (
    Capability,
    Editing,
    Floats,
    Generating,
    ImageSource,
    Request,
    log_softmax,
    register,
)
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.family import FolderFamily, JudgedByText, RowParts
from fairgate.models.generation.diffusion.files import (
    PipelineAddress,
    PipelineFiles,
    find_pipeline,
    is_plain,
    lora_scale,
)
from fairgate.models.generation.diffusion.open import require_role
from fairgate.models.generation.diffusion_classifier.sampling import Classifying, settle, shown_how, timesteps
from fairgate.models.generation.painting_models import PlainPaintingModel, open_plain_pipeline
from fairgate.models.input_digests import preprocessing_digest
from fairgate.models.known_images import KnownImages, Numbers
from fairgate.models.made_pictures import EditedPictures, GeneratedPictures
from fairgate.models.two_towers import SAME_TEXT, averages, near_pairs, unit

if TYPE_CHECKING:
    from fairgate.models.generation.diffusion.pipeline import StableDiffusion
    from fairgate.models.generation.diffusion_classifier.engine import DenoisingErrors

CODE_VERSION = 2  # raise it when this adapter, or what it calls, gives other errors for the same files
_OPTIONS = ("samples", "size", "stop", "vae", "lora", "lora_scale", "config")
_BATCH = 8  # pictures read at once


@register
class DiffusionFamily(FolderFamily):
    """Folders that diffusers saved, and hub ids."""

    scheme: ClassVar[str] = "diffusion"
    forms: ClassVar[tuple[str, ...]] = (
        "diffusion:FOLDER?samples=100",
        "diffusion:FOLDER?lora=FILE",
        "diffusion:FILE?config=FOLDER",
    )
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "edit", "generate"})
    folders = ("vae", "lora", "config")

    def open(self, request: Request) -> DiffusionClassifier | PlainPaintingModel:
        """Find and hash a pipeline: one that is no Stable Diffusion only paints. Raises ModelError; loading waits until
        an error or a picture is needed."""
        named, options = split_options(request.uri, request.address, _OPTIONS)
        if is_plain(judged_folder(options.get("config", named), request.base)):
            return open_plain_pipeline(request)
        settings, scale = Classifying.of(request.uri, options), lora_scale(request.uri, options)
        vae, lora, config = map(options.get, ("vae", "lora", "config"))
        address = PipelineAddress(named, vae=vae, lora=lora, lora_scale=scale, config=config)
        found = find_pipeline(address, request.base, judged_folder)
        require_role(found, "painter")
        return DiffusionClassifier(found, settings, request)


class DiffusionClassifier(JudgedByText["StableDiffusion"]):
    """A judged Stable Diffusion, loaded when an error is not in the cache.

    The error of a picture under a prompt is computed once, whatever the comparisons that the prompt takes part in.
    """

    capabilities: ClassVar[frozenset[Capability]] = DiffusionFamily.capabilities

    def __init__(self, found: PipelineFiles, settings: Classifying, request: Request) -> None:
        super().__init__(request)
        self.settings, self._found, self.source = settings, found, request.source
        self.fingerprint = digest({"files": found.fingerprint, **asdict(settings)})
        self.preparation = f"diffusion/{CODE_VERSION}"
        self.tokenizer = found.tokenizer
        with naming(request.uri, "be read"):
            self.preprocessing = preprocessing_digest(adapter="diffusion", **shown_how(found, asdict(settings)))
        if found.index.get("safety_checker") not in (None, [None, None]):
            self.note = "the pipeline's safety checker is not run: pictures are judged as painted"

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax, over exactly these prompts, of minus the mean squared error: (images, prompts) float64."""
        return log_softmax(-self.errors(prompts))

    def errors(self, prompts: Sequence[str]) -> Floats:
        """Squared norm of the error, averaged over the samples: (images, prompts) float64.

        Of every picture under every different prompt, computed once. Raises DatasetError for an unreadable picture,
        ModelError for a prompt that is too long or an error that is not finite, DeviceError where memory is short.
        """
        if not prompts:
            raise ModelError("there is no prompt to classify by.", where=self.uri, remedy="give at least one")

        (errors,) = self.errors_by_samples(prompts, [self.settings.samples])
        return cast(Floats, errors)

    def errors_by_samples(self, prompts: Sequence[str], counts: Sequence[int]) -> Floats:
        """The errors that `counts` (parts,) of the samples give, (parts, images, prompts) float64. All samples are
        evaluated, once, and `errors` then knows them; with `stop` only those of the parts.

        A part is strided over the samples, as a stage of Li et al.'s adaptive schedule is: 1 of 100, counted from 0,
        is number 50, and 10 are every tenth from number 5. Raises ModelError for a part that the samples do not have,
        and what `errors` raises.
        """
        samples = self.settings.samples
        if wrong := [count for count in counts if not 1 <= count <= samples]:
            raise ModelError(
                f"{wrong[0]} is no part of the {samples} samples that the model takes.",
                where=self.uri,
                remedy=f"take 1 to {samples}, or set ?samples=",
            )
        parts = {count: timesteps(count, samples) for count in counts}
        if self.settings.stop is None:
            parts[samples] = np.arange(samples)
        marks = {count: "" if count == samples else f"{count}\0" for count in parts}
        asked = {mark + prompt: (count, prompt) for count, mark in marks.items() for prompt in prompts}

        def table(pieces: str, missing: list[str], known: KnownImages | None) -> Numbers:
            wanted = [asked[each] for each in missing]
            shown = list(dict.fromkeys(prompt for _, prompt in wanted))
            every = np.unique(np.concatenate([parts[count] for count, _ in wanted]))

            def row(engine: DenoisingErrors, latents: Any, set_id: str) -> Floats:
                errors = engine(latents, [set_id], engine.model.embed_prompts(shown), every)[0]
                means = (errors[np.isin(every, parts[count]), shown.index(prompt)].mean() for count, prompt in wanted)
                return np.fromiter(means, dtype=np.float64)

            return self._table(pieces, row, known)

        self._columns("errors", "prompts", list(asked), table, by_set=True)  # noise is of a set
        names = ([marks[count] + prompt for prompt in prompts] for count in counts)
        return np.stack([self._columns("errors", "prompts", each, table, by_set=True) for each in names])

    def pair_choices(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """Which prompt of each pair a picture is taken for, (images, first, second): 1 the first, 0 the second, 0.5 an
        equal error. With `stop`, as soon as it is clear; else by all samples."""
        prompts, certainty = [*first, *second], self.settings.stop
        if certainty is None:
            errors = self.errors(prompts)
            return 0.5 + 0.5 * np.sign(errors[:, None, len(first) :] - errors[:, : len(first), None])

        def row(engine: DenoisingErrors, latents: Any, set_id: str) -> Floats:
            def evaluate(wanted: Sequence[int], samples: NDArray[np.int64]) -> Floats:
                shown = engine.model.embed_prompts([prompts[number] for number in wanted])
                return cast(Floats, engine(latents, [set_id], shown, samples)[0])

            return settle(evaluate, (len(first), len(second)), self.settings.samples, certainty).ravel()

        table = self._table(f"parts/choices/{self._key()}/{digest([list(first), list(second)])}", row)
        return table.reshape(-1, len(first), len(second)).astype(np.float64)

    def edit(self, prompt: str, how: Editing) -> ImageSource:
        """The edits of all pictures (img2img, as diffusers' pipeline makes them), made as they are read, cached.

        Pictures are worked on with `?size=` pixels on the longer side, by default as the model was trained.
        Raises ModelError for a strength outside of (0, 1], and when read for latents that are not finite.
        """
        from fairgate.models.generation.diffusion_classifier.engine import ImageEditor

        if not 0 < how.strength <= 1:
            raise ModelError(
                f"the strength is {how.strength}, which is no share of the steps.",
                where=self.uri,
                remedy="set a number above 0, and 1 at most",
            )
        request, side = self._request, self.settings.size
        key, cache = digest({**self._ways("diffusers"), "size": side}), request.cache
        return EditedPictures(
            request.source, prompt, how, key, lambda: ImageEditor(self._engine(), prompt, side), cache
        )

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        """A picture of every row's prompt (text to image, as diffusers' pipeline makes it), made as it is read, cached.

        `?size=` is its side in pixels, by default that of training. Raises ModelError unless every row has a prompt,
        and when read for latents that are not finite.
        """
        from fairgate.models.generation.diffusion_classifier.engine import PicturePainter

        request, side = self._request, self.settings.size
        key, cache = digest({**self._ways("diffusers"), "size": side}), request.cache
        return GeneratedPictures(
            request.source, prompts, how, key, lambda: PicturePainter(self._engine(), side), cache, request.progress
        )

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Pairs of ensembles with different prompts whose states in the text encoder are equal up to rounding.

        Which ones is cached, so that a run whose errors are known loads no model.
        """
        cache = self._request.cache
        name = f"prompts/{self._key()}/{digest([list(prompts) for prompts in ensembles])}"
        entry = cache.read(name) if cache else None
        if entry is not None and "pairs" in entry.notes:
            return [(one, other) for one, other in json.loads(entry.notes["pairs"])]
        with naming(self.uri, "read prompts"):  # each by itself: equal tokens give equal states
            every = dict.fromkeys(prompt for prompts in ensembles for prompt in prompts)
            read = {prompt: unit(self._engine().embed_prompts([prompt]).numbers) for prompt in every}
        pairs = near_pairs(averages(ensembles, read, self.uri), ensembles, SAME_TEXT["fp32"])
        if cache:
            cache.write(name, {"none": np.empty(0, dtype=np.float32)}, {"pairs": json.dumps(pairs)})
        return pairs

    def _table(
        self, parts: str, row: Callable[[DenoisingErrors, Any, str], Floats], known: KnownImages | None = None
    ) -> Numbers:
        """Numbers of every picture, (images, numbers) float32; pieces that are done are cached below `parts`."""
        from fairgate.models.checkpoints import scoring

        source = self._request.source
        exact = replace(self._device, precision="fp32")  # the pipeline knows what runs in half precision
        pieces = RowParts(self._request, parts, known)
        if known and known.any and not pieces.has.all():
            pieces.take_known()
        if pieces.has.all():
            return pieces.merged()
        from fairgate.models.generation.diffusion_classifier.engine import DenoisingErrors

        with naming(self.uri, "be loaded"):
            engine = DenoisingErrors(self._engine(), samples=self.settings.samples, size=self.settings.size)
        with pieces as work, scoring(exact):
            for place, data in (each for todo in work.batches(_BATCH) for each in todo):
                latents = engine.latents(decode_rgb(data, source, place))
                with naming(self.uri, "denoise pictures"):
                    found = row(engine, latents, str(source.index.set_id[place]))
                if not np.isfinite(found).all():
                    raise diverged("the model's error is NaN or infinite.", f"{self.uri}: {name_of(source, place)}")
                work.add(np.array([place]), found.astype(np.float32)[None])
        return work.merged()

    def _alike(self) -> dict[str, Any]:
        return {**self._ways("diffusers"), "settings": asdict(self.settings)}

    def _load(self) -> StableDiffusion:
        versions("diffusers", "accelerate")  # where they are missing, the error says how to install them
        from fairgate.models.generation.diffusion.pipeline import StableDiffusion

        return StableDiffusion(self._found, self.uri, self._device.name)
