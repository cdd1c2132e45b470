"""What a study is: a settings model that gives its options, its command and its computation; all studies by name; and
numbers with the limits of their resamples, and series of figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, ValidationError

from fairgate import gate
from fairgate.data import Dataset, open_dataset, releases_folder
from fairgate.formulas.statistics import bootstrap
from fairgate.ground.errors import SettingsError
from fairgate.ground.plugins import Registry
from fairgate.ground.validation_words import fault_words
from fairgate.metrics import Floats, Limits
from fairgate.models import Capability, EmbeddingCache, open_scorer, require_capability
from fairgate.probes import checked_template
from fairgate.records import Estimate, FigureSeries, StudyFigure, StudyModel, StudyPicture, StudyRecord, StudyTable
from fairgate.tracking import environment


@dataclass(frozen=True, slots=True)
class StudyContents:
    """What a study returns. `settings` holds every choice that decides a number; `sheets` are pictures, each with its
    PNG."""

    models: Sequence[StudyModel]
    datasets: Sequence[Dataset]
    settings: Mapping[str, str | int | float | list[str]]
    tables: Sequence[StudyTable] = ()
    figures: Sequence[StudyFigure] = ()
    sheets: Sequence[tuple[StudyPicture, bytes]] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StudyPlace:
    """Where a study runs: the repository, the device, where answers are cached, and who is told how far it is."""

    root: Path = Path()
    device: str = "auto"
    cache: EmbeddingCache | None = None
    progress: Callable[[str, int, int], None] | None = field(default=None, compare=False)

    def release(self, name: str) -> Dataset:
        """A release of the repository. Raises DatasetError, also if the content is not that of the manifest."""
        release = open_dataset(name, releases_folder(self.root))
        release.require_intact()
        return release

    def opened(
        self,
        name: str,
        uri: str,
        source: Any,
        needs: Capability,
        *,
        option: str = "--model",
    ) -> Any:
        """A model on the pictures of a source. Raises ModelError for one without the capability that it needs, with
        the option that names it."""
        progress = None if self.progress is None else partial(self.progress, name)
        scorer = open_scorer(
            uri,
            source,
            device=self.device,
            cache=self.cache,
            base=self.root,
            progress=progress,
        )
        require_capability(scorer, needs, f"{option} {uri}")
        return scorer


def pictures_of(release: Dataset, rows: Iterable[int]) -> dict[int, bytes]:
    """The encoded pictures of some rows of a release."""
    index, wanted = release.index, list(rows)
    sets = release.images_of([str(index.set_id[row]) for row in wanted])
    members = {(set_id, member): data for set_id, own in sets.items() for member, data in own}
    return {row: members[index.set_id[row], index.member[row]] for row in wanted}


@dataclass(frozen=True, slots=True)
class Typed:
    """Metadata of a field that is typed in another form than it has: as an option that repeats, or as one text.
    `read` makes the value from what is typed."""

    read: Callable[[Any], Any]
    repeats: bool = True


class Study(BaseModel):
    """A study. Its fields are the options of `fairgate study NAME`: name, type, default, least value (`ge`) and
    description; its docstring is the help of the command."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    """The publication whose tables and figures these are."""
    asks_models: ClassVar[bool] = True
    """Whether the command has --device, --cache and --root."""

    @classmethod
    def of_options(cls, typed: Mapping[str, Any]) -> Self:
        """Settings from the options that are given. Raises SettingsError for a value that is none."""
        values = dict(typed)
        for name, value in typed.items():
            for form in cls.model_fields[name].metadata:
                if isinstance(form, Typed):
                    values[name] = form.read(value)
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            option = f"--{str(first['loc'][0]).replace('_', '-')}" if first["loc"] else cls.name
            remedy = f"fairgate study {cls.name} --help lists what options take"
            raise SettingsError(f"{fault_words(first)}.", where=option, remedy=remedy) from error

    def run(self, place: StudyPlace) -> StudyContents:
        """Measure every table and figure."""
        raise NotImplementedError

    def record(self, contents: StudyContents, place: StudyPlace, command: str, seconds: float) -> StudyRecord:
        """The record of a run that has just ended."""
        return StudyRecord(
            study=self.name,
            title=self.title,
            paper=self.paper,
            models=list(contents.models),
            datasets=[gate.dataset_info(release) for release in contents.datasets],
            settings=dict(contents.settings),
            tables=list(contents.tables),
            figures=list(contents.figures),
            pictures=[picture for picture, _ in contents.sheets],
            notes=list(contents.notes),
            environment=environment(place.root, place.device),
            command=command,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(seconds, 3),
        )


def _checked(_: str, study: Any) -> type[Study]:
    if not (isinstance(study, type) and issubclass(study, Study)):
        raise TypeError("it is not a subclass of fairgate.studies.papers.Study")
    return study


REGISTERED: Registry[type[Study]] = Registry("study", _checked, lambda study: study.name, group="fairgate.studies")
register = REGISTERED.add


def named_models(given: Sequence[str], taken: Sequence[str] = ()) -> dict[str, str]:
    """URIs by name, from NAME=URI, or a URI, which is named by its last part. Raises SettingsError for one name twice,
    or one that is `taken`.

    >>> named_models(["hf:runs/new", "old=hf:runs/old/final", "vlm:runs/seer?question=Who is it?"])
    {'new': 'hf:runs/new', 'old': 'hf:runs/old/final', 'seer': 'vlm:runs/seer?question=Who is it?'}
    """
    models: dict[str, str] = {}
    for option in given:
        name, equals, uri = option.partition("=")
        if not equals or ":" in name:
            place = re.sub(r"\.(csv|parquet|safetensors|pt)$", "", option.partition("?")[0].rstrip("/"))
            name, uri = re.split(r"[/:]", place)[-1] or option, option
        if name in models or name in taken:
            remedy = "give each a name of its own: --model NAME=URI"
            raise SettingsError(f"two models are named '{name}'.", where="--model", remedy=remedy)
        models[name] = uri
    return models


def named_texts(given: Sequence[str], option: str, example: str) -> dict[str, str]:
    """Texts by name, from NAME=TEXT. Raises SettingsError for an option of another form."""
    texts: dict[str, str] = {}
    for typed in given:
        name, equals, text = typed.partition("=")
        if not (name and equals and text):
            raise SettingsError(f"'{typed}' is no NAME=TEXT.", where=option, remedy=f'{option} "{example}"')
        texts[name] = text
    return texts


def required_template(template: str, placeholder: str, option: str = "--template", also: Iterable[str] = ()) -> str:
    """A template that uses `{placeholder}` or `{a_placeholder}`, and of others at most `also`. Raises SettingsError."""
    try:
        return checked_template(template, placeholder, also)
    except ValueError as error:
        remedy = f"write it like 'a photo of {{a_{placeholder}}}'"
        raise SettingsError(f"{error}.", where=option, remedy=remedy) from error


Models = Annotated[dict[str, str], Typed(named_models)]
"""URIs of models by name, typed as NAME=URI or URI."""


MEAN_DRAWS = 2000
"""Resamples of a mean's interval."""


@dataclass(frozen=True)
class ResampledNumber:
    """A number and its values in resamples of the images, (draws,); `n` images, `why` it is missing."""

    value: float
    draws: Floats
    n: int
    why: str = ""

    def estimate(self, alike: str = "no interval: the resamples do not differ") -> Estimate:
        """With its 95% percentile interval, or the reason for none: `alike` if the resamples never differ."""
        known = self.draws[np.isfinite(self.draws)]
        if not np.isfinite(self.value):
            return Estimate(value=None, n=self.n, why=self.why or "under 5% skin in the average face, or bluish")
        if known.size < len(self.draws) or not known.size:
            return Estimate(value=self.value, n=self.n, why="no interval: some resamples have no number")
        lo, hi = np.quantile(known, [0.025, 0.975])
        if lo == hi:
            return Estimate(value=self.value, n=self.n, why=alike)
        return Estimate(value=self.value, lo=float(lo), hi=float(hi), n=self.n)

    def less(self, other: ResampledNumber, n: int) -> ResampledNumber:
        """Its difference from another one, in the same resamples, of `n` images."""
        return ResampledNumber(self.value - other.value, self.draws - other.draws, n, self.why or other.why)


def mean_of(parts: Sequence[ResampledNumber]) -> ResampledNumber:
    """The mean of several groups' numbers, each resampled by itself."""
    draws = np.mean([part.draws for part in parts], axis=0)
    missing = next((part.why for part in parts if part.why), "")
    return ResampledNumber(
        float(np.mean([part.value for part in parts])), draws, sum(part.n for part in parts), missing
    )


def mean_estimate(
    values: Floats, rng: np.random.Generator, *, less: float = 0.0, units: ArrayLike | None = None
) -> Estimate:
    """The mean of values, `less` a number, with its 95% interval in resamples of the units: of the values, or of what
    `units` (values,) names. Without an interval for a single unit, and where all values are equal."""
    _, unit = np.unique(np.arange(len(values)) if units is None else units, return_inverse=True)
    n = int(unit.max()) + 1
    if n < 2 or np.ptp(values) == 0:
        why = "no interval: there is one unit" if n < 2 else "no interval: all are equal"
        return Estimate(value=float(values.mean()) - less, n=n, why=why)
    mean = bootstrap(values, unit, rng, MEAN_DRAWS)
    return Estimate(value=mean.estimate - less, lo=mean.lo - less, hi=mean.hi - less, n=n)


def estimate_of(value: float, limits: Limits, n: int) -> Estimate:
    """A number with a metric's interval, or the reason for none."""
    why = None if limits.lo is not None else limits.how
    return Estimate(value=value, lo=limits.lo, hi=limits.hi, n=n, why=why)


def series_of(name: str, x: list[str] | list[float], cells: Sequence[Estimate]) -> FigureSeries:
    """A series of a figure, with the limits that its numbers have."""
    y, lo, hi = ([getattr(cell, part) for cell in cells] for part in ("value", "lo", "hi"))
    return FigureSeries(name=name, x=x, y=y, lo=lo, hi=hi)
