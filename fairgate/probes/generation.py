"""Pictures that a generator makes of neutral prompts: who is perceived in them? (Cho et al. 2023, Bianchi et al.)"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fairgate import models
from fairgate.ground.errors import ModelError, listed
from fairgate.ground.hashing import sha256_bytes
from fairgate.probes.answers import ABSENT, PICTURE, REFUSAL, REPEAT, SHOWN, ProbeScores, Rows
from fairgate.probes.contract import OpenInstrument, Probe, register
from fairgate.probes.question_items import CaptionedRows
from fairgate.probes.reader import UNREADABLE, KnownCounts, PictureReader, WatchedPictures, require_confusion
from fairgate.probes.settings import SuiteSection, Text, filled, template_of

REFUSED = "refused"
"""What a table of labels has where the generator made no picture."""


class TableLabels(SuiteSection):
    """Labels that somebody gave to pictures that a generator made: columns of a `labels:` table."""

    attribute: Text = Field(
        description="Column with the perceived group; empty if nobody can be perceived, `refused` if the generator "
        "made no picture."
    )
    groups: list[Text] = Field(min_length=2, description="The groups that it may hold.")
    picture: Text | None = Field(
        default=None,
        description="Column with a digest of each picture: equal pictures are one piece of evidence. It may be empty "
        "where nobody is perceived.",
    )
    repeat: Text | None = Field(
        default=None,
        exclude_if=lambda repeat: repeat is None,  # a suite without one has the digest that it had before there was it
        description="Column that tells how a picture was made, such as its seed: rows of a subject with the same value "
        "are one picture, listed again, and count once.",
    )
    independent: bool = Field(
        default=False,
        exclude_if=lambda independent: not independent,
        description="The samples that are compared are not paired by row, and may differ in size: a smaller one lacks "
        "the last rows of a subject, which count as refused unless the baseline lacks them too, and has `min_sets` of "
        "it. Left out, every row needs a picture.",
    )

    @property
    def absent(self) -> tuple[str, ...]:
        """What the cells of a row are that a smaller sample lacks; nothing where every row needs a picture."""
        return (ABSENT,) if self.independent else ()

    def read(self, model: models.PredictingModel) -> tuple[NDArray[Any], NDArray[np.bool_], list[str] | None]:
        """The group of every picture, whether there is none, and what tells pictures apart."""
        given = self._cells(model, self.attribute)
        if unknown := sorted(set(given) - {*self.groups, "", UNREADABLE, REFUSED, *self.absent}):
            raise ModelError(
                f"the labels of '{self.attribute}' hold {listed(unknown)}, which are no groups of the probe.",
                where=model.uri,
                remedy=f"name them in `groups`, or leave the cell empty where nobody is perceived ({UNREADABLE}), and "
                f"write `{REFUSED}` where the generator made no picture",
            )
        perceived: NDArray[Any] = np.array([label or UNREADABLE for label in given], dtype=object)
        refused = (perceived == REFUSED) & (REFUSED not in self.groups)
        someone = ~np.isin(perceived.astype(str), (UNREADABLE, *self.absent))
        if self.picture is None:
            return perceived, refused, None
        pictures = self._filled(model, "picture", self.picture, ~refused & someone)
        return perceived, refused, ["" if picture in self.absent else picture for picture in pictures]

    def _cells(self, model: models.PredictingModel, column: str) -> list[str]:
        """A column's cells, (rows,). A row that the table lacks is an error, unless samples are independent."""
        if self.independent and hasattr(model, "labels"):
            return [str(label) for label in model.labels(column, ABSENT)]
        return [str(label) for label in model.predict(column).labels]

    def _filled(self, model: models.PredictingModel, key: str, column: str, needed: NDArray[np.bool_]) -> list[str]:
        """A column without an empty cell in the rows that are `needed`, (rows,). Raises ModelError."""
        cells = self._cells(model, column)
        if empty := [row for row in np.flatnonzero(needed).tolist() if not cells[row]]:
            raise ModelError(
                f"row {empty[0] + 1:,} has no '{column}'.",
                where=model.uri,
                remedy=f"fill the column in every row, or leave `{key}` out of the probe",
            )
        return cells

    def repeats(self, model: models.PredictingModel, column: str, rows: Rows, perceived: NDArray[Any]) -> models.Floats:
        """Whether each row lists a picture again by the column `repeat`, (images,). Raises ModelError if it has another
        label then."""
        first: dict[tuple[str, str], int] = {}
        everywhere = np.ones(len(perceived), dtype=bool)
        made = zip(map(str, rows.subject), self._filled(model, "repeat", column, everywhere), strict=True)
        of = [row if key[1] in self.absent else first.setdefault(key, row) for row, key in enumerate(made)]
        if odd := [row for row, before in enumerate(of) if perceived[row] != perceived[before]]:
            raise ModelError(
                f"rows {of[odd[0]] + 1:,} and {odd[0] + 1:,} are one picture by '{column}', and have different labels.",
                where=model.uri,
                remedy="keep one row a picture, or name a column that tells pictures apart in `repeat`",
            )
        return np.array([before < row for row, before in enumerate(of)], dtype=np.float64)


MOST_SMALL = 600
"""Pictures of a probe that are kept small, spread over its rows, for the contact sheet of a report."""
_SIDE = 96


class _Digests(WatchedPictures[str | None]):
    """The digest of every picture; None for a black one, which safety checkers put in place of what they refuse.
    `small` are JPEGs of some by row."""

    def __init__(self, source: models.ImageSource) -> None:
        super().__init__(source)
        self.small: dict[int, bytes] = {}

    def look(self, data: bytes, row: int) -> str | None:
        """Its digest, unless all is black."""
        picture = models.decode_rgb(data, self.source, row)
        black = picture.getbbox() is None
        if not black and row % -(-len(self) // MOST_SMALL) == 0:
            buffer = io.BytesIO()
            picture.thumbnail((_SIDE, _SIDE))
            picture.save(buffer, "JPEG", quality=80)
            self.small[row] = buffer.getvalue()
        return None if black else sha256_bytes(data)


@register
class GenerationProbe(Probe):
    """Paint a picture of every row's caption, and perceive who is in it; or take the labels that somebody gave.

    A row's number is 1 where somebody is perceived, else 0, and the group is its predicted label. Next to it: the first
    row with the very same picture, and whether the reader takes the picture for its own subject. `measured` says how
    often the reader is wrong. In a picture that the generator refused (a black one; `refused` in a table) nobody is
    perceived.
    """

    needs: ClassVar[models.Capability] = "generate"
    needs_where: ClassVar[Mapping[str, models.Capability]] = {"labels": "predict"}
    answers_as: ClassVar[str] = "generation"
    value_names: ClassVar[Mapping[str, str]] = {"generation": "readable"}

    kind: Literal["generation"]
    reader: PictureReader | None = Field(default=None, description="The model that perceives, of a generator.")
    labels: TableLabels | None = Field(default=None, description="Instead: columns of a table of labels.")
    steps: int = Field(default=50, ge=1, le=1000, description="Steps of the schedule.")
    guidance: float = Field(default=7.5, ge=0, le=100, description="Scale of classifier-free guidance.")
    seed: int = Field(default=0, ge=0, description="Pictures of another seed are made from other noise.")
    shows: Annotated[Text, template_of("subject")] | None = Field(
        default=None,
        description="The reader's prompt for a subject, with `{subject}` or `{a_subject}`: does a picture show it?",
    )
    measured: KnownCounts | None = Field(
        default=None,
        description="Pictures of each known group by what the reader perceives: a group, or `unreadable`. Left out, "
        "what is perceived counts as it is.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> GenerationProbe:
        if (self.reader is None) == (self.labels is None):
            raise ValueError("give a `reader` (of a generator's pictures) or `labels` (of a table), one of them")
        if self.shows is not None and self.reader is None:
            raise ValueError("`shows` is a question to the `reader`, and a table of labels has none")
        if UNREADABLE in self.groups or len(set(self.groups)) < len(self.groups):
            raise ValueError(f"groups are different names, and none is '{UNREADABLE}': {listed(self.groups)}")
        if self.labels is not None and self.labels.independent and ABSENT in self.groups:
            raise ValueError(f"of `independent` samples no group is called '{ABSENT}'")
        if self.measured is not None:
            require_confusion(self.measured, self.groups)
        return self

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that may be perceived."""
        if self.reader is not None:
            return tuple(self.reader.labels)
        return tuple(self.labels.groups) if self.labels is not None else ()

    @property
    def needed(self) -> models.Capability:
        """Pictures to read, or labels that exist."""
        return self.needs if self.reader is not None else self.needs_where["labels"]

    @property
    def confusion(self) -> models.Floats | None:
        """Counts of known groups (rows) by what is perceived (groups, then nobody), (groups, groups + 1)."""
        if self.measured is None:
            return None
        columns = [*self.groups, UNREADABLE]
        return np.array([[self.measured[group].get(column, 0) for column in columns] for group in self.groups], float)

    @property
    def how(self) -> models.Generating:
        return models.Generating(self.seed, self.steps, self.guidance)

    @property
    def instruments(self) -> tuple[str, ...]:
        return () if self.reader is None else (self.reader.model,)

    def given(self, rows: Rows, answers: ProbeScores) -> Mapping[str, models.Floats]:
        return {group: np.asarray(answers.predicted == group, dtype=np.float64) for group in self.groups}

    def utility_check(self, name: str) -> str | None:
        """That somebody is seen."""
        return f"id: readable, probe: {name}, metric: readable"

    def run(self, name: str, model: Any, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """Who is perceived in every row's picture."""
        more: dict[str, models.Floats] = {}
        small: Mapping[int, bytes] = {}
        pictures: Sequence[str | None] | None
        if self.reader is not None:
            painted = self._pictures(cast(models.GeneratingModel, model), cast(CaptionedRows, rows))
            perceived, shown = self._read(painted, self.reader, rows, open_instrument)
            pictures, small = painted.seen(), painted.small
            refused = np.array([picture is None for picture in pictures], dtype=bool)
            if shown is not None:
                more[SHOWN] = np.where(refused, 0.0, shown)
        else:
            assert self.labels is not None
            table = cast(models.PredictingModel, model)
            perceived, refused, pictures = self.labels.read(table)
            absent = np.isin(perceived.astype(str), self.labels.absent)
            if absent.any():
                _require_last(absent, rows, model.uri)
                more[ABSENT] = absent.astype(np.float64)
            if self.labels.repeat is not None:
                more[REPEAT] = self.labels.repeats(table, self.labels.repeat, rows, perceived)
        if refused.any():
            perceived = np.where(refused, UNREADABLE, perceived)
            more[REFUSAL] = refused.astype(np.float64)
        if pictures is not None:
            first: dict[str | int, int] = {}
            keys = (row if refused[row] or not picture else picture for row, picture in enumerate(pictures))
            more[PICTURE] = np.array([first.setdefault(key, row) for row, key in enumerate(keys)], dtype=np.float64)
        readable = (perceived != UNREADABLE).astype(np.float64)
        return {name: ProbeScores(readable, predicted=perceived, more=more, painted=small)}

    def _pictures(self, model: models.GeneratingModel, rows: CaptionedRows) -> _Digests:
        """A picture of every caption."""
        prompts = [str(caption) for caption in rows.caption]
        if hasattr(model, "indistinct"):
            models.require_told_apart(model, "prompts", {prompt: prompt for prompt in prompts}, model.uri)
        return _Digests(model.generate(prompts, self.how))

    def _read(
        self, pictures: models.ImageSource, reader: PictureReader, rows: Rows, open_instrument: OpenInstrument
    ) -> tuple[NDArray[Any], models.Floats | None]:
        """The group of every picture, and whether it shows its subject."""
        opened = reader.over(open_instrument, pictures)
        shown = None
        if self.shows is not None:
            shown = self._shown(opened, [str(subject) for subject in rows.subject], self.shows)
        return reader.perceived(opened), shown

    def _shown(self, reader: models.LabelModel, subjects: Sequence[str], template: str) -> models.Floats:
        """Whether each picture is taken for its own subject among all, (images,)."""
        every = {subject: filled(template, "subject", subject) for subject in dict.fromkeys(subjects)}
        models.require_told_apart(reader, "subjects", every, "shows")
        names: NDArray[Any] = np.array(list(every), dtype=object)
        taken = names[reader.log_probabilities(list(every.values())).argmax(axis=1)]
        return np.asarray(taken == np.array(subjects, dtype=object), dtype=np.float64)


def _require_last(absent: NDArray[np.bool_], rows: Rows, where: str) -> None:
    """Raises ModelError unless the rows that a sample lacks are the last ones of their subjects, as those of a smaller
    sample are: a row that is taken out of the middle was chosen."""
    for subject in dict.fromkeys(rows.subject.tolist()):
        lost = absent[rows.subject == subject]
        if (lost[:-1] > lost[1:]).any():
            raise ModelError(
                f"rows of '{subject}' are missing before others that have a picture.",
                where=where,
                remedy="number the pictures of a smaller sample from the first row of the subject on; write `refused` "
                "where the generator made no picture",
            )
