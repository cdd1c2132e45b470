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
    from rich.table import Table

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
    table = Table("attribute", "group", "images", title="perceived or prompted attributes", title_justify="left")
    for attribute, counted in manifest.counts.groups.items():
        for place, (group, count) in enumerate(counted.items()):
            table.add_row(escape(attribute) if place == 0 else "", escape(group), f"{count:,}")
    if manifest.attributes:
        console.print(table)


def show_sizes(sizes: Sequence[GroupSize], attributes: Sequence[str], min_sets: int, grouping: str) -> None:
    """Print in how many sets each group and each crossing is, and which of them a suite would not judge.

    `grouping` names the options of the command that group more coarsely.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    by_subject = any(size.fewest < size.sets for size in sizes)
    table = Table("attribute", "group", "sets", *(["fewest of a subject"] if by_subject else []), "judged")
    table.title, table.title_justify = f"groups, with min_sets: {min_sets}", "left"
    before = None
    small = [size for size in sizes if size.over not in attributes and not size.judged(min_sets)]
    shown = [*(size for size in sizes if size.over in attributes), *small[:_LISTED]]
    for size in shown:
        fewest = [f"{size.fewest:,} ({escape(harmless(size.subject))})"] if by_subject else []
        judged = "yes" if size.judged(min_sets) else "[bold]no[/bold]"
        over = "" if size.over == before else escape(harmless(size.over))
        table.add_row(over, escape(harmless(size.group)), f"{size.sets:,}", *fewest, judged)
        before = size.over
    console.print(table)
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
