"""A release's own captions without the words that name groups: the queries of Howard et al. 2023, one per prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import numpy as np

from fairgate.data import Dataset
from fairgate.ground.errors import DatasetError
from fairgate.probes import with_article

MOST = 32
"""Different neutral captions of a subject that are averaged: templates make a few, free text one per set."""
NOUN = "person"
"""What a caption is of that names nobody but by groups: "a friendly Muslim female", of the subject friendly."""
_ARTICLES = ("a", "an")


def neutral_caption(captions: Sequence[str], noun: str = NOUN) -> str:
    """What the captions of a set's members have in common, before and after the words for groups.

    >>> neutral_caption(["A photo of an Indian male pilot", "A photo of a Middle Eastern male pilot"])
    'A photo of a male pilot'
    >>> neutral_caption(["A photo of a White male nurse", "A photo of an Asian female nurse"])
    'A photo of a nurse'
    >>> neutral_caption(["a photo of a light-skinned male chef", "a photo of a dark-skinned female chef"])
    'a photo of a chef'
    >>> neutral_caption(["a friendly Muslim female", "a friendly Hindu male"])
    'a friendly person'
    """
    words = [caption.split() for caption in dict.fromkeys(captions)]
    if len(words) == 1:
        return " ".join(words[0])
    before = _in_common([_without_articles(one) for one in words])
    after = _in_common([one[::-1] for one in words])[::-1]
    room = min(map(len, words)) - len(before)
    after = after[-room:] if 0 < room < len(after) else after if room > 0 else []
    named = " ".join(after or [noun])
    if before and before[-1] == _ARTICLE:  # which article it is depends on the word that follows
        return " ".join([*words[0][: len(before) - 1], with_article(named)])
    return " ".join([*words[0][: len(before)], named])


_ARTICLE = "\0"


def _in_common(words: Sequence[Sequence[str]]) -> list[str]:
    """The words that all begin with."""
    same = takewhile(lambda at: len(set(at)) == 1, zip(*words, strict=False))
    return [at[0] for at in same]


def _without_articles(words: Sequence[str]) -> list[str]:
    """Both articles as one word."""
    return [_ARTICLE if word in _ARTICLES else word for word in words]


def neutral_captions(data: Dataset, noun: str = NOUN) -> Mapping[str, list[str]]:
    """By subject, the different neutral captions of its sets. DatasetError where a subject has none, or too many."""
    index = data.index
    order = np.argsort(index.set_id, kind="stable")
    starts = np.flatnonzero(np.r_[True, index.set_id[order][1:] != index.set_id[order][:-1]])
    found: dict[str, dict[str, None]] = {subject: {} for subject in data.manifest.subjects}
    for rows in np.split(order, starts[1:]):
        caption = neutral_caption([str(index.caption[row]) for row in rows], noun)
        if caption:
            found[str(index.subject[rows[0]])][caption] = None
    for subject, captions in found.items():
        if not 1 <= len(captions) <= MOST:
            raise DatasetError(
                f"the captions of '{subject}' are {len(captions)} different ones without their words for groups, "
                f"where 1 to {MOST} are averaged.",
                where=data.manifest.ref,
                remedy="name the queries: --prompt 'a photo of {a_subject}', once for each",
            )
    return {subject: list(captions) for subject, captions in found.items()}
