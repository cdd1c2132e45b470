"""What a release or an import holds, as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairgate.ground.errors import harmless

if TYPE_CHECKING:
    from fairgate.data import GroupSize, Manifest

_LISTED = 20
"""Crossings that are listed because a suite would not judge them; the others are counted."""


def describe(manifest: Manifest, *, groups: bool = True) -> None:
    """Print what a release says of itself; its groups in a table, where wanted."""
    from rich.console import Console
    from rich.markup import escape

    from fairgate.reports import text_table

    console = Console(highlight=False)
    kind = "counterfactual sets" if manifest.counterfactual else "sets, not counterfactual"
    members = f" of {manifest.members_per_set} members" if manifest.members_per_set else ""
    shard_bytes = sum(shard.bytes for shard in manifest.shards)
    facts = {
        "dataset": manifest.ref,
        "holds": f"{manifest.n_rows:,} rows in {manifest.n_sets:,} {kind}{members}",
        "images": manifest.image_encoding,
        "subjects": ", ".join(f"{name} ({count:,})" for name, count in manifest.counts.subjects.items()),
        "shards": f"{len(manifest.shards)} ({shard_bytes / 1e6:,.1f} MB)",
        "recipe": str(manifest.recipe.get("name", manifest.recipe.get("kind", "see manifest.json"))),
        "licence": manifest.licence,
        "fingerprint": manifest.fingerprint,
        **({"notice": manifest.notice} if manifest.notice else {}),
    }
    for fact, text in facts.items():
        console.print(f"[bold]{fact:<12}[/bold]{escape(harmless(text))}", soft_wrap=True)
    if not groups:
        return
    rows = [
        ("" if place else attribute, group, f"{count:,}")
        for attribute, counted in manifest.counts.groups.items()
        for place, (group, count) in enumerate(counted.items())
    ]
    if rows:
        console.print(text_table(("~attribute", "~group", ">images"), rows, title="perceived or prompted attributes"))


def show_sizes(sizes: Sequence[GroupSize], attributes: Sequence[str], min_sets: int, grouping: str) -> None:
    """Print in how many sets each group and each crossing is, and which of them a suite would not judge.

    `grouping` names the options of the command that group more coarsely.
    """
    from rich.console import Console
    from rich.markup import escape

    from fairgate.reports import text_table

    console = Console(highlight=False)
    by_subject = any(size.fewest < size.sets for size in sizes)
    columns = ("~attribute", "~group", ">sets", *(["~fewest of a subject"] if by_subject else []), "judged")
    rows: list[list[str | tuple[str, str]]] = []
    before = None
    small = [size for size in sizes if size.over not in attributes and not size.judged(min_sets)]
    shown = [*(size for size in sizes if size.over in attributes), *small[:_LISTED]]
    for size in shown:
        fewest = [f"{size.fewest:,} ({harmless(size.subject)})"] if by_subject else []
        over = "" if size.over == before else harmless(size.over)
        judged = "yes" if size.judged(min_sets) else ("no", "bold")
        rows.append([over, harmless(size.group), f"{size.sets:,}", *fewest, judged])
        before = size.over
    console.print(text_table(columns, rows, title=f"groups, with min_sets: {min_sets}"))
    for over in dict.fromkeys(size.over for size in sizes if size.over not in attributes):
        cells = [size.judged(min_sets) for size in sizes if size.over == over]
        console.print(f"{escape(harmless(over))}: {sum(cells)} of {len(cells)} crossings would be judged")
    if len(small) > _LISTED:
        console.print(f"{len(small) - _LISTED} more crossings would not be judged")
    lacking = [size for size in sizes if not size.judged(min_sets)]
    if lacking:
        console.print(
            f"{len(lacking)} groups and crossings are in fewer than {min_sets} sets: a suite names them and gives no "
            f"verdict on them. Bring more, or group more coarsely ({grouping}).",
            soft_wrap=True,
        )
    if by_subject and any(size.judged(min_sets) and size.fewest < min_sets for size in sizes):
        console.print("Checks by subject need as many sets of each subject.", soft_wrap=True)
