"""So-B-IT on one's own models: which words bring up whom, by category and intersection (Hamidieh et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from fairgate.data import Dataset
from fairgate.ground.errors import SettingsError, suggestion
from fairgate.metrics import Crossing
from fairgate.records import StudyFigure, StudyModel, StudyPicture, StudyTable
from fairgate.studies.papers import word_associations, word_tables
from fairgate.studies.papers.contract import Models, Study, StudyContents, StudyPlace, register

SHOWN_WORDS = 6
"""Words of figures 5 to 7 where none are named."""
CHOSEN = (
    "The top word of a group is the largest of many estimates, so that it overstates; its interval is that of a word "
    "that was named before. Look again on other pictures before you rely on one word."
)


@register
class WordsStudy(Study):
    """Words by category, group and intersection, of one or more models.

    Tables 1, 2 and 4 and figures 3 to 7 of Hamidieh et al. 2024, and the appendix's strong and weak words.
    """

    name: ClassVar[str] = "words"
    title: ClassVar[str] = "Which words bring up whom?"
    paper: ClassVar[str] = (
        "Hamidieh et al. 2024, Identifying Implicit Social Biases in Vision-Language Models (So-B-IT)"
    )

    model: Models = Field(description="A checkpoint, URI or NAME=URI; repeat. Others are compared with the first.")
    data: str = Field(description="Release of pictures, NAME or NAME@VERSION.")
    category: tuple[str, ...] = Field((), description="A category of So-B-IT's words; repeat (default: all).")
    words: Path | None = Field(
        None,
        description="CSV of words, from the current folder: `word`, and if you like `category` and `valence`.",
    )
    template: str = Field("a photo of {a_word}", description="Prompt of --words.")
    valence: Path | None = Field(
        None, description="CSV, from the current folder, of `word` and `valence` (positive, negative, neutral)."
    )
    vocabulary: Path | None = Field(
        None, description="CSV, from the current folder, of `word`: what the strength of words is compared with."
    )
    over: tuple[str, ...] = Field((), description="An attribute; repeat (default: all).")
    group: str | None = Field(None, description="Figures 5 to 7: the words nearest to this group.")
    show: tuple[str, ...] = Field((), description="Figures 5 to 7: a word, in place of --group's; repeat.")
    k: int = Field(100, ge=1, description="Where rankings are cut.")
    draws: int = Field(1000, ge=100, description="Resamples of the sets.")
    seed: int = Field(0, ge=0, description="Seed of the resamples.")

    def run(self, place: StudyPlace) -> StudyContents:
        """Every table and figure. The first model is the one that others are compared with.

        Raises DatasetError for an attribute that the release lacks, SettingsError for a group, word or k that is not
        there, ModelError for a model that compares no texts with pictures.
        """
        self._require_used()
        words = self._words()
        vocabulary = [] if self.vocabulary is None else word_associations.vocabulary_of(self.vocabulary)
        release = place.release(self.data)
        attributes = list(self.over) or list(release.manifest.attributes)
        crossings: list[Crossing] = [(name,) for name in attributes]
        if len(attributes) > 1:
            crossings.append(tuple(attributes))
        gallery = word_associations.WordGallery(release, words, tuple(crossings), self.k, self.draws, self.seed)
        words.require(self.show, "--show")
        towards = _towards(release, attributes, self.group)
        scored = [
            word_associations.score_words(gallery, name, place.opened(name, uri, release, "similarity"))
            for name, uri in self.model.items()
        ]
        show = list(self.show) or _nearest_words(scored[0], *towards)
        tables, figures = _measured(scored, show, vocabulary)
        sheets, notes = list[tuple[StudyPicture, bytes]](), [CHOSEN]
        if release.manifest.image_encoding == "none":
            notes.append("The release has labels and no pictures: no sheet of the pictures of a word.")
        else:
            sheets = [word_tables.pictures_of_words(scores, show) for scores in scored]
        return StudyContents(
            models=[
                StudyModel(name=scores.name, uri=self.model[scores.name], fingerprint=scores.model.fingerprint)
                for scores in scored
            ],
            datasets=[release],
            settings={
                "words": f"{words.name}: {len(words.captions)} words in {len(words.categories)} categories",
                "attributes": attributes,
                "k": self.k,
                "resamples of sets": self.draws,
                "seed": self.seed,
                "words of figures 5 to 7": show,
                "vocabulary": f"{len(vocabulary):,} words" if vocabulary else "none",
            },
            tables=tables,
            figures=figures,
            sheets=sheets,
            notes=notes,
        )

    def _require_used(self) -> None:
        """Raises SettingsError for an option that is given and changes nothing."""
        if self.group is not None and self.show:
            problem = "--group chooses the words of figures 5 to 7, and --show names them."
            raise SettingsError(problem, where="--group", remedy="leave --group or --show out")
        own = self.words is not None
        name = "category" if own else "template"
        if name in self.model_fields_set:
            raise SettingsError(
                f"--{name} is of {'the published words, and --words are given' if own else '--words FILE'}.",
                where=f"--{name}",
                remedy=f"leave it{' or --words' if own else ''} out{'' if own else ', or give --words'}",
            )

    def _words(self) -> word_associations.WordList:
        if self.words is None:
            words = word_associations.published_words(self.category)
        else:
            words = word_associations.words_of_file(self.words, self.template)
        return words if self.valence is None else word_associations.with_valence(words, self.valence)


def _measured(
    scored: Sequence[word_associations.WordScores], show: Sequence[str], vocabulary: Sequence[str]
) -> tuple[list[StudyTable], list[StudyFigure]]:
    entropies = word_tables.entropy_tables(scored)
    strengths, strength_figures = word_tables.strength_tables(scored, vocabulary) if vocabulary else ([], [])
    tables = [
        *word_tables.top_word_tables(scored),
        *entropies,
        *(word_tables.moved_tables(scored) if len(scored) > 1 else []),
        word_tables.shown_table(scored, show),
        *strengths,
        *word_tables.association_tables(scored),
    ]
    return tables, [
        *word_tables.entropy_figures(scored, entropies),
        *word_tables.intersection_figures(scored, show),
        *strength_figures,
    ]


def _towards(release: Dataset, attributes: Sequence[str], group: str | None) -> tuple[str, str]:
    """Attribute and group whose words are shown. Raises SettingsError for a group that no attribute has."""
    homes = {group_name: name for name in attributes for group_name in release.manifest.attributes.get(name, ())}
    if group is None:
        release.index.codes(attributes)  # DatasetError for an attribute that is not recorded
        return attributes[0], release.manifest.attributes[attributes[0]][0]
    if group not in homes:
        remedy = suggestion(group, homes, f"groups: {', '.join(homes)}")
        raise SettingsError(f"there is no group '{group}'.", where="--group", remedy=remedy)
    return homes[group], group


def _nearest_words(scored: word_associations.WordScores, attribute: str, group: str) -> list[str]:
    """The words that are nearest to a group."""
    associations = scored.associations[attribute,]
    column = associations.values[:, associations.groups.index(group)]
    words = scored.gallery.words.words
    return [words[place] for place in (-column).argsort(kind="stable")[:SHOWN_WORDS]]
