"""Words of a study: a taxonomy's or a file's, with the caption, the categories and the valence of each; and the plain
vocabulary that their strength is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairgate.data import read_labels
from fairgate.ground.errors import SettingsError, suggestion
from fairgate.probes import TAXONOMIES, WORD_FORMS, checked_template, filled, taxonomy

VALENCES = ("positive", "negative", "neutral")
NO_CATEGORY = "words"
MOST_WORDS = 2_000
MOST_VOCABULARY = 100_000
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class WordList:
    """Words in order, each with its caption; categories with their words; the valence of words that have one."""

    name: str
    captions: Mapping[str, str]
    categories: Mapping[str, Sequence[str]]
    valence: Mapping[str, str]

    @property
    def words(self) -> list[str]:
        """Every word, once."""
        return list(self.captions)

    def places(self, words: Sequence[str]) -> list[int]:
        """Where words are in the list."""
        at = {word: place for place, word in enumerate(self.captions)}
        return [at[word] for word in words]

    def require(self, words: Sequence[str], option: str) -> None:
        """Raise SettingsError for a word that is not in the list."""
        for word in words:
            if word not in self.captions:
                remedy = suggestion(word, self.captions, f"words: {', '.join(self.words[:12])}, ...")
                raise SettingsError(f"'{word}' is none of the study's words.", where=option, remedy=remedy)


def published_words(name: str, categories: Sequence[str]) -> WordList:
    """The words of a taxonomy, or of some of its categories. Raises SettingsError for names that are none."""
    known = {one: taxonomy(one) for one in TAXONOMIES}
    if name not in known:
        remedy = suggestion(name, known, f"taxonomies: {', '.join(known)}; or give --words FILE")
        raise SettingsError(f"there is no taxonomy '{name}'.", where="--taxonomy", remedy=remedy)
    chosen = known[name].chosen(categories) if categories else dict(known[name].categories)
    captions = {word: known[name].captions[word] for words in chosen.values() for word in words}
    valence = {word: label for word, label in known[name].valence.items() if word in captions}
    return WordList(name, captions, chosen, valence)


def words_of_file(path: Path, template: str) -> WordList:
    """Words of a CSV with a column `word`, and where it has them `category` and `valence`.

    A word may have several lines, one for each of its categories. Raises DatasetError for a file that cannot be read,
    SettingsError for one that is no such list.
    """
    try:
        checked_template(template, "word")
    except ValueError as error:
        remedy = "write it like 'a photo of {a_word}'"
        raise SettingsError(f"{error}.", where="--template", remedy=remedy) from error
    table = read_labels(path)
    table.column("word", "holds the words")
    captions, valence, categories = dict[str, str](), dict[str, str](), dict[str, list[str]]()
    for line, row in table:
        word = _word(row["word"], table.place(line))
        captions[word] = filled(template, "word", word)
        words = categories.setdefault(row.get("category", "").strip() or NO_CATEGORY, [])
        if word in words:
            raise _refused(f"'{word}' is given twice in one category", table.place(line), "keep one of the lines")
        words.append(word)
        if label := row.get("valence", "").strip():
            valence[word] = _valence(label, table.place(line))
        if len(captions) > MOST_WORDS:
            raise _refused(f"it holds more than {MOST_WORDS:,} words", str(path), "study them in parts")
    return WordList(path.name, captions, categories, valence)


def with_valence(words: WordList, path: Path) -> WordList:
    """The words with the labels of a CSV with the columns `word` and `valence` instead of their own; it may hold words
    that the list lacks, such as a whole lexicon's. Raises as `words_of_file` does."""
    table = read_labels(path)
    table.column("word", "holds the words")
    table.column("valence", f"says {', '.join(VALENCES)}")
    labels = {row["word"].strip(): _valence(row["valence"].strip(), table.place(line)) for line, row in table}
    known = {word: labels[word] for word in words.captions if word in labels}
    if not known:
        raise _refused("it holds none of the study's words", str(path), "spell words as the study does")
    return replace(words, valence=known)


def vocabulary_of(path: Path) -> list[str]:
    """Captions of a vocabulary, most frequent words of a language as a rule: a CSV with a column `word`, and where it
    has one `form` (adjective, noun or activity; noun where it is empty). Raises as `words_of_file` does."""
    table, captions = read_labels(path), dict[str, None]()
    table.column("word", "holds the vocabulary (write `word` as the first line of a plain list)")
    forms = {form: form for form in WORD_FORMS}
    so_b_it = taxonomy("so-b-it")
    for line, row in table:
        form = row.get("form", "").strip() or "noun"
        if form not in forms:
            raise _refused(f"'{form[:40]}' is no form of a word", table.place(line), f"write {', '.join(forms)}")
        captions[so_b_it.caption(_word(row["word"], table.place(line)), forms[form])] = None
        if len(captions) > MOST_VOCABULARY:
            raise _refused(f"it holds more than {MOST_VOCABULARY:,} words", str(path), "keep the most frequent ones")
    return list(captions)


def _word(text: str, place: str) -> str:
    word = text.strip()
    if not 0 < len(word) <= _LONGEST:
        raise _refused("a word is empty or very long", place, f"give 1 to {_LONGEST} characters")
    return word


def _valence(label: str, place: str) -> str:
    if label not in VALENCES:
        raise _refused(f"'{label[:40]}' is no valence", place, f"write {', '.join(VALENCES)}, or leave it empty")
    return label


def _refused(problem: str, where: str, remedy: str) -> SettingsError:
    return SettingsError(f"{problem}.", where=where, remedy=remedy)
