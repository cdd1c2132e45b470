"""What all studies share on the command line: options, and how what they found is shown and written."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli.console import wide_console, writing

if TYPE_CHECKING:
    from fairgate.models import EmbeddingCache
    from fairgate.studies.papers import StudyContents

Out = Annotated[Path | None, typer.Option(help="Write study.html, study.json, and each table and figure, here.")]


Models = Annotated[list[str], typer.Option(help="A model, URI or NAME=URI; repeat for each.")]


def show_study(ctx: typer.Context, contents: StudyContents, out: Path | None, started: float) -> None:
    """Print the tables of a study, and write its files where a folder is named. `started` is `time.monotonic()`."""
    from fairgate.reports import study_files, study_tables
    from fairgate.studies.papers import StudyPlace, finished

    given = ctx.params
    place = StudyPlace(
        study=str(ctx.info_name),
        command=command_line(ctx),
        root=given.get("root", Path()),
        device=given.get("device") or "auto",
        started=started,
    )
    record = finished(contents, place)
    console = wide_console(120)
    for table in study_tables(record):
        console.print(table)
        console.print()
    for text in (*record.notes, *dict.fromkeys(one.notice for one in record.datasets if one.notice)):
        typer.echo(f"note: {text}")
    if out is None:
        return
    for name, data in study_files(record, contents.drawn).items():
        with writing("the study", str(out / name)):
            out.mkdir(parents=True, exist_ok=True)
            atomic_write(out / name, data)
    typer.echo(f"study: {out / 'study.html'}")


def command_line(ctx: typer.Context) -> str:
    """The command with every option that differs from its default."""
    words, arguments = ctx.command_path.split(), list[str]()
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        if param.param_type_name == "argument":
            arguments += [str(value)]
        elif value in (None, (), []) or value == param.default:
            continue
        elif isinstance(value, bool):
            words += [param.opts[0] if value else param.secondary_opts[0]]
        else:
            each = value if isinstance(value, list | tuple) else [value]
            words += [word for one in each for word in (param.opts[0], str(one))]
    return shlex.join(["fairgate", *words[1:], *arguments])


def named_models(given: list[str], taken: Sequence[str] = ()) -> dict[str, str]:
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


def answers_cache(cache: str | None, root: Path) -> EmbeddingCache | None:
    """Where answers are cached, as `--cache` says: the gate's own place, another folder, or nowhere (`off`).

    Raises SettingsError for a folder inside of the repository.
    """
    from fairgate.models import EmbeddingCache, require_cache_outside
    from fairgate.suites import default_cache

    if cache == "off":
        return None
    folder = Path(cache) if cache else default_cache(os.environ)
    require_cache_outside(folder, root)
    return EmbeddingCache(folder, root)
