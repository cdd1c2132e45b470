"""From chosen sets to a dataset: streamed, counted, searched for duplicates, and swapped in whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fairgate.builds.part import Chosen
from fairgate.builds.paths import DATASET, Places
from fairgate.builds.plan import Ground
from fairgate.builds.shard_store import Watcher, storing
from fairgate.builds.shards import pixel_digest, stored
from fairgate.builds.yields import WRITTEN, Census, write_yields
from fairgate.data import Manifest, read_manifest, write_dataset
from fairgate.errors import DatasetError, RecipeError
from fairgate.hashing import digest
from fairgate.recipes import Recipe

VERSION = "v1"
"""Of every build; a release counts on."""


def assemble(name: str, ground: Ground, places: Places, finished: Mapping[str, Chosen], watch: Watcher) -> Manifest:
    """Write the dataset of a build and its yield tables. Raises RecipeError where no set was chosen at all."""
    recipe = ground.recipe
    if not any(chosen.set_ids for chosen in finished.values()):
        raise RecipeError(
            "no set of any subject was kept.",
            where=str(places.root),
            remedy=f"see with `fairgate build status {name}` why they were dropped",
        )
    facts = _facts(name, ground, finished)
    for left in places.root.glob(f".*{DATASET}*"):  # of a killed run; this one holds the lock
        shutil.rmtree(left, ignore_errors=True)
    if (existing := _up_to_date(places, facts)) is not None:
        watch.note(f"{places.dataset} holds these sets already")
        return existing
    watch.note("putting the dataset together")
    census = Census(recipe.attributes())
    fresh = places.root / f".{DATASET}.new"
    try:
        manifest = write_dataset(fresh, _rows(recipe, finished, census), version=VERSION, **facts)
    except DatasetError as error:
        raise RecipeError(
            f"the dataset cannot be put together: {error.problem}",
            where=error.where,
            remedy=f"{error.remedy or 'check what the recipe writes'}; finished shards are kept",
        ) from error
    write_yields(places, recipe, finished, manifest, census)
    with storing(places.root):
        if places.dataset.exists():
            places.dataset.rename(places.root / f".{DATASET}.old")
        fresh.rename(places.dataset)
        shutil.rmtree(places.root / f".{DATASET}.old", ignore_errors=True)
    return manifest


def _facts(name: str, ground: Ground, finished: Mapping[str, Chosen]) -> dict[str, Any]:
    recipe = ground.recipe
    settings = recipe.settings
    made: dict[str, Any] = {
        "name": recipe.name,
        "paper": recipe.paper,
        "code": ground.code,
        "knobs": settings.model_dump(mode="json"),
        "models": dict(recipe.models()),
    }
    if ground.limit is not None:
        made["limit"] = ground.limit
    lineage = {"sets": digest({subject: chosen.chain for subject, chosen in finished.items()})}
    lineage |= {f"model {role}": found for role, found in ground.models.items()}
    lineage |= {f"input {role}": found for role, found in ground.inputs.items()}
    limited = f" A trial: at most {ground.limit} starting sets per subject and part." if ground.limit else ""
    return {
        "name": settings.name or name,
        "attributes": recipe.attributes(),
        "recipe": made,
        "licence": settings.licence,
        "counterfactual": recipe.counterfactual,
        "notice": settings.notice,
        "lineage": lineage,
        "about": recipe.about() + limited,
    }


def _up_to_date(places: Places, facts: Mapping[str, Any]) -> Manifest | None:
    """The dataset that is there, where it was made from these sets and says the same of itself; files are held
    against their sizes alone (`fairgate dataset verify` reads them)."""
    try:
        manifest = read_manifest(places.dataset)
    except DatasetError:
        return None
    same = all(_plain(getattr(manifest, fact)) == _plain(facts[fact]) for fact in facts)
    sizes = [
        (path := places.dataset / shard.file).is_file() and path.stat().st_size == shard.bytes
        for shard in manifest.shards
    ]
    yields = all((places.root / name).is_file() for name in WRITTEN)
    return manifest if same and all(sizes) and yields else None


def _plain(value: object) -> object:
    return json.loads(json.dumps(value, default=dict))


def _rows(recipe: Recipe, finished: Mapping[str, Chosen], census: Census) -> Iterator[dict[str, object]]:
    """Rows of the dataset as they come off the shards; every one is shown to `census` on its way."""
    for subject, chosen in finished.items():
        census.subject(subject)
        for each in chosen.stored(chosen.set_ids):
            # The stored digest of a picture that the recipe hands on unchanged: it need not be decoded again.
            stored_rows = zip(each.rows.rows, each.pixels, strict=False)
            known = {row["image"]: pixels for row, pixels in stored_rows if isinstance(row.get("image"), bytes)}
            for row in recipe.finish(each.rows):
                where = f"set '{row.get('set_id')}', member '{row.get('member')}'"
                values = {name: stored(value, f"{where}, column '{name}'") for name, value in row.items()}
                image = row.get("image")
                pixels = known.get(image) if isinstance(image, bytes) else None
                census.add(values, pixels or pixel_digest(image, values.get("image")))
                yield {name: cell.tolist() if isinstance(cell, np.ndarray) else cell for name, cell in values.items()}
        chosen.let_go()
