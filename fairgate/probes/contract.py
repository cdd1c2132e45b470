"""The contract of a probe: its settings in a suite, the capability it needs, how it runs, and what it returns; and all
probes by kind. Each registers itself when it is imported; installed packages add theirs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairgate.data import Manifest, TextColumn, TextRows
from fairgate.ground.errors import SuiteError, suggestion
from fairgate.ground.plugins import Registry
from fairgate.models import Capability, ImageSource, Model
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.settings import SuiteSection, with_article

OpenInstrument = Callable[[str, ImageSource], Model]
"""Opens a model by its URI over pictures: an instrument by which a probe reads what the judged model makes. The gate
opens it, by the rules of a run, so that no judged model chooses its judge."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Labels that compete for a subject's images, and the prompt that each makes."""

    subject: str
    prompts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """Prompts that are averaged into one query, named after its subject, whose images it ranks, or after a word, by
    which everybody's are ranked (`subject` is None)."""

    name: str
    prompts: tuple[str, ...]
    subject: str | None = None


class Probe(SuiteSection):
    """One probe of a suite: the keys of its YAML, and what follows from them.

    `needs` is what a model must be able to do; `needs_where` what instead, by the setting that makes it so (`how:
    likelihood`), as `needed` says of a probe that is set. `value_names` is what the number of an image is, by
    `digest_kind`. Metrics of the kind of probe that `answers_as` names can be measured. `compared_as` says how
    `fairgate audit` compares models by it, None for not at all; `views_have_mean`, whether the mean of answers about
    several views of an image is an answer.

    A probe of one's own needs `kind`, `needs`, `answers_as` and `run`, and `choices` or `queries` so that it is known
    which texts it shows. Register it with the entry point group `fairgate.probes`, under its kind.
    """

    kind: str
    views: int = Field(
        default=1,
        ge=1,
        le=64,
        exclude_if=lambda views: views == 1,  # a suite without views keeps its digest
        description="Views of each image: the mean over these (mirrored, shifted, cropped by up to 5%, resampled) is "
        "its number, for metrics that are means over images.",
    )
    needs: ClassVar[Capability]
    needs_where: ClassVar[Mapping[str, Capability]] = {}
    answers_as: ClassVar[str]
    value_names: ClassVar[Mapping[str, str]] = {}
    compared_as: ClassVar[Literal["classification", "ranking"] | None] = None
    views_have_mean: ClassVar[bool] = False

    @property
    def digest_kind(self) -> str:
        """What records call this kind of probe, before the digest of its settings."""
        return self.kind

    @property
    def needed(self) -> Capability:
        """What a model must be able to do for this probe as it is set: `needs`, where its settings say nothing else."""
        return self.needs

    @property
    def value_name(self) -> str:
        """What the number of an image is."""
        return self.value_names.get(self.digest_kind, "value")

    @property
    def no_views(self) -> str | None:
        """Why its answers about several views of an image have no mean, for a message; None if they have."""
        return None if self.views_have_mean else f"answers of {with_article(self.kind)} probe have no such mean"

    @property
    def named_answers(self) -> tuple[str, ...]:
        """What a model may answer, if that is in none of the texts."""
        return ()

    @property
    def truth_of(self) -> str | None:
        """`subject`, or the attribute that holds an image's true label; None where no label is right."""
        return None

    def reworded(self, dataset: Manifest) -> tuple[Collection[str], Sequence[str]]:
        """Names that `words` writes otherwise, and those that the dataset has; none without such a key."""
        return (), ()

    @property
    def positive_label(self) -> str | None:
        """The label whose probability is measured where none is right."""
        return None

    @property
    def ranked_words(self) -> tuple[str, ...]:
        """Words by each of which images of everybody are ranked; without them a subject's images are."""
        return ()

    @property
    def word_categories(self) -> Mapping[str, tuple[str, ...]]:
        """Ranked words by category, for checks `by: category`; empty where they have none."""
        return {}

    @property
    def published_words(self) -> Mapping[str, Mapping[str, str]]:
        """Words that the settings name by their list alone: prompts by category and word, part of the probe's digest.
        Another release of fairgate may have corrected them."""
        return {}

    @property
    def instruments(self) -> tuple[str, ...]:
        """URIs of the models by which it reads what the judged one makes: files of the repository, or of the hub."""
        return ()

    def names(self, name: str) -> tuple[str, ...]:
        """Names of its answers: its own, or `name[word]` for each word."""
        return tuple(f"{name}[{word}]" for word in self.ranked_words) or (name,)

    def require(self, name: str, dataset: Manifest, at: Callable[[str], str]) -> None:
        """Raise SuiteError where a dataset cannot answer; `at(key)` is the place of a key in the suite."""

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        """Labels that compete, by subject."""
        return []

    def queries(self, subjects: Sequence[str]) -> list[RankingQuery]:
        """Queries by which images are ranked."""
        return []

    def texts(self, subjects: Sequence[str]) -> list[str]:
        """Every text that a model sees, once."""
        labels = [prompt for choice in self.choices(subjects) for prompt in choice.prompts.values()]
        return list(dict.fromkeys([*labels, *(text for query in self.queries(subjects) for text in query.prompts)]))

    def truths(self, rows: Rows) -> TextRows | None:
        """The label of every image whose probability is measured, (images,); None where the probe has none.

        `fairgate doctor --inject-bias` lowers that probability: it leaves out a probe with neither this nor queries.
        """
        return None

    def classes(self, dataset: Manifest) -> tuple[str, ...]:
        """Labels of which every one is expected to be some image's true label; empty if wrong ones are put beside it on
        purpose, as those of other subjects are."""
        return ()

    def given(self, rows: Rows, answers: ProbeScores) -> Mapping[str, NDArray[np.float64]]:
        """Of every answer that is expected, (images,): above 0 if the image has it, NaN if it is not expected of it.

        Without a choice of answers there are none. Those of a probe with a truth are the true labels.
        """
        truths, predicted = self.truths(rows) if self.truth_of else None, answers.predicted
        if truths is None or predicted is None:
            return {}
        return {
            label: np.where((truths == label) | (predicted == label), predicted == label, np.nan)
            for label in TextColumn.of(truths).distinct()
        }

    def asked(self, rows: Rows) -> NDArray[np.bool_]:
        """Which images the model is queried about, (images,): all, where the settings leave none out."""
        return np.ones(len(rows.subject), dtype=bool)

    @abstractmethod
    def run(self, name: str, model: Any, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """The answers of a model about every image, in the order of `rows`, under `names(name)`; what they are read by
        is opened by `open_instrument`."""

    def blind_labels(self, dataset: Manifest | None) -> int | None:
        """Among how many labels a model that never looks guesses, on a dataset (None: not known yet): 1 where each
        image has its labels to itself, or where no labels compete; None where only the dataset says."""
        return 1

    def blind_share(self, rows: Rows) -> float | None:
        """The share of images that have a right answer about which one and the same answer is right, the commonest;
        None where `blind_labels` says what chance is."""
        return None

    def utility_check(self, name: str) -> str | None:
        """Keys of a check by which a model that is of no use fails, `id: ..., probe: ..., metric: ...`; None where this
        probe has none."""
        return None

    def with_subjects_of(self, other: Probe) -> Probe:
        """This probe for the subjects of `other`, another version of it: only what it says of none of them is taken."""
        return self

    @property
    def sees_temperature(self) -> tuple[str, str]:
        """The metric whose regression shows a changed label temperature, and the keys that it needs: P(true), or, where
        no label is true, the gap between groups."""
        return ("group_gap", "over: crossed, ") if self.truth_of is None else ("p_true", "")


def dataset_has(attribute: str, who: str, dataset: Manifest, where: str) -> None:
    """Raise SuiteError, `who` 'attribute' ..., for one that a dataset does not record."""
    if attribute not in dataset.attributes:
        recorded = f"recorded attributes: {', '.join(dataset.attributes) or 'none'}"
        raise SuiteError(
            f"{who} '{attribute}', which dataset '{dataset.name}/{dataset.version}' does not record.",
            where=where,
            remedy=suggestion(attribute, dataset.attributes, recorded),
        )


def _checked(_: str, thing: Any) -> type[Probe]:
    if not (isinstance(thing, type) and issubclass(thing, Probe)):
        raise TypeError("it is no subclass of fairgate.probes.Probe")
    return thing


def _kind(probe: type[Probe]) -> str:
    """The one value of a probe's `kind`, a Literal."""
    (kind,) = probe.model_fields["kind"].annotation.__args__  # type: ignore[union-attr] # a Literal
    return str(kind)


REGISTERED: Registry[type[Probe]] = Registry("probe", _checked, _kind)
register = REGISTERED.add
