"""A release of prompts: what a generator is asked to paint, a row for every prompt and seed, and no picture."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fairgate.data.manifest import Manifest, check_name
from fairgate.data.releases import ROOT
from fairgate.data.rows import MEMBER
from fairgate.data.writer import refuse_existing, write_dataset
from fairgate.ground.errors import DatasetError

MOST_SEEDS: Final = 1_000_000


def write_prompts(
    prompts: Mapping[str, str],
    seeds: int,
    name: str,
    *,
    root: Path = ROOT,
    version: str = "v1",
    licence: str = "unknown",
) -> Manifest:
    """Make `root/name/version` of `prompts`, by what each is about (its subject): `seeds` rows for every one.

    A row is a set of its own, `SUBJECT-SEED` with the member `only`, its caption the prompt. It records no attribute:
    who is painted is perceived later. Raises DatasetError for no prompt or seed, and for subjects or prompts alike.
    """
    check_name(name, version)
    target = root / name / version
    refuse_existing(target)
    if not prompts or not 1 <= seeds <= MOST_SEEDS:
        raise DatasetError(
            f"{len(prompts)} prompts with {seeds:,} seeds make no release.",
            where=str(target),
            remedy=f"give at least one word (`--word doctor`), and 1 to {MOST_SEEDS:,} seeds",
        )
    if blank := [subject for subject, prompt in prompts.items() if not subject.strip() or not prompt.strip()]:
        raise DatasetError(f"the word {blank[0]!r} or its prompt is blank.", where=str(target), remedy="give it a text")
    shown: dict[str, str] = {}
    for subject, prompt in prompts.items():
        plain = " ".join(unicodedata.normalize("NFC", prompt).split())
        if (other := shown.setdefault(plain, subject)) != subject:
            raise DatasetError(
                f"'{other}' and '{subject}' have the same prompt, '{plain}'.",
                where=str(target),
                remedy="give each word once",
            )

    def rows() -> Iterator[dict[str, object]]:
        for subject, prompt in prompts.items():
            for seed in range(seeds):
                yield {
                    "set_id": f"{subject}-{seed}",
                    "member": MEMBER,
                    "subject": subject,
                    "caption": prompt,
                    "seed": str(seed),
                }

    return write_dataset(
        target,
        rows(),
        name=name,
        version=version,
        attributes={},
        recipe={"kind": "prompts", "prompts": dict(prompts), "seeds": seeds},
        licence=licence,
        counterfactual=False,
        about="Prompts for models that make pictures, each with as many seeds. There are no pictures.",
    )
