"""What measures models and judges none.

`fairgate study`: the papers' tables and figures on one's own models, a command for each registered study. `fairgate
audit`: many models in the tables of the papers. `fairgate power`: what a suite can decide.
"""

from __future__ import annotations

import inspect
import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperGroup

from fairgate import gate, models, records, reports, suites
from fairgate.ground.atomic import atomic_write
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import echo_prose, friendly, progress_line, wide_console, write_report, writing
from fairgate.studies import comparison, papers

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


Out = Annotated[Path | None, typer.Option(help="Write study.html, study.json, and each table and figure, here.")]
_OF_MODELS = {"device": (options.Device, None), "cache": (options.Cache, None), "root": (options.Root, Path())}


class Studies(TyperGroup):
    """A command for each study of the registry, which is imported when its command is called or listed."""

    def list_commands(self, _: Any) -> list[str]:
        """Their names: the package's own first."""
        return list(papers.STUDIES)

    def get_command(self, _: Any, cmd_name: str) -> Any:
        """A command by name, None if no study has it."""
        with friendly():
            return _command(papers.STUDIES[cmd_name]) if cmd_name in papers.STUDIES else None


study_app = typer.Typer(
    cls=Studies,
    no_args_is_help=True,
    help="The papers' tables and figures, measured on one's own models. A study gives no verdict.",
)


@study_app.callback()
def _studies() -> None:
    """A group of commands that are not known before they are listed."""


def _command(study: type[papers.Study]) -> Any:
    """A study's command: an option for each of its fields, and those that all studies have."""

    def run(ctx: typer.Context, **given: Any) -> None:
        _run(study, ctx, given)

    every: dict[str, tuple[Any, Any]] = {"ctx": (typer.Context, inspect.Parameter.empty)}
    every |= {name: _option(field) for name, field in study.model_fields.items()}
    every |= {"out": (Out, None), **(_OF_MODELS if study.asks_models else {})}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in every.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by typer
    run.__doc__ = study.__doc__
    app = typer.Typer(add_completion=False)
    app.command(study.name)(run)
    return typer.main.get_command(app)


def _option(field: FieldInfo) -> tuple[Any, Any]:
    """The annotation and the default of a field's option."""
    form = next((each for each in field.metadata if isinstance(each, papers.Typed)), None)
    repeated = get_args(field.annotation)[0] if get_origin(field.annotation) is tuple else str
    several = form.repeats if form else get_origin(field.annotation) is tuple
    kind: Any = list[repeated] if several else str if form else field.annotation  # type: ignore[valid-type]
    least = next((each.ge for each in field.metadata if hasattr(each, "ge")), None)
    annotation = typer.Option(min=least, help=field.description)
    if field.is_required():
        return Annotated[kind, annotation], inspect.Parameter.empty
    if several or form:
        return Annotated[kind | None, annotation], None
    return Annotated[kind, annotation], field.default


def _run(study: type[papers.Study], ctx: typer.Context, given: dict[str, Any]) -> None:
    """Run a study with the options that are given, print its tables, and write its files if a folder is named."""
    started = time.monotonic()
    sources = {name: ctx.get_parameter_source(name) for name in study.model_fields}
    named = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    settings = study.of_options({name: value for name, value in given.items() if name in named})
    root = given.get("root", Path())
    cache = _answers_cache(given["cache"], root) if study.asks_models else None
    with progress_line() as progress:
        place = papers.StudyPlace(root, given.get("device") or "auto", cache, progress)
        contents = settings.run(place)
    record = settings.record(contents, place, _command_line(ctx), time.monotonic() - started)
    _show(record, contents, given["out"])


def _show(record: records.StudyRecord, contents: papers.StudyContents, out: Path | None) -> None:
    console = wide_console(120)
    for table in reports.study_tables(record, console.width):
        console.print(table)
        console.print()
    notices = dict.fromkeys(data.notice for data in record.datasets if data.notice)
    echo_prose(f"note: {text}" for text in (*record.notes, *notices))
    if out is None:
        return
    for name, data in reports.study_files(record, {picture.name: png for picture, png in contents.sheets}).items():
        with writing("the study", str(out / name)):
            out.mkdir(parents=True, exist_ok=True)
            atomic_write(out / name, data)
    typer.echo(f"study: {out / 'study.html'}")


def _command_line(ctx: typer.Context) -> str:
    """The command with every option that differs from its default."""
    words = ctx.command_path.split()
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        if value in (None, (), []) or value == param.default:
            continue
        if isinstance(value, bool):
            words += [param.opts[0] if value else param.secondary_opts[0]]
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for given in values for word in (param.opts[0], str(given))]
    return shlex.join(["fairgate", *words[1:]])


def _answers_cache(cache: str | None, root: Path) -> models.EmbeddingCache | None:
    """Where answers are cached, by `--cache`: the gate's own place, another folder, or nowhere (`off`).

    Raises SettingsError for a folder inside of the repository.
    """
    folder = suites.cache_folder(cache, os.environ)
    if folder is None:
        return None
    models.require_cache_outside(folder, root)
    return models.EmbeddingCache(folder, root)


def audit(  # noqa: PLR0913, PLR0917 - an option is a parameter
    suite: Annotated[list[str], typer.Argument(help="Names of suites in fairness_suites/.")],
    model: Annotated[list[str], typer.Option(help="Address of a checkpoint; repeat for each.")],
    report: Annotated[
        Path | None,
        typer.Option(help="Write audit.json, .html, .csv and .tex here; of several suites, a folder each and audits.*"),
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="Group that others are measured against (default: the first declared).")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Change of spread that still counts as none (default: suite).")
    ] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Places at the top that count (default: the suite's).")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray: models are scored by its workers.")] = "local",
    workers: Annotated[int | None, typer.Option(help="Workers of ray (default: one per GPU, or core).")] = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """Compare models on one suite or several. What was scored is cached: run it again to go on after an interruption.

    Exit code 0: compared (an audit judges nothing), 4: a suite or an option is wrong.
    """
    settings = comparison.AuditOptions(reference=tuple(reference or ()), margin=margin, k=k)
    run = comparison.AuditRun(root.resolve(), device, cache)
    console, crew = wide_console(120), None if (engine, workers) == ("local", None) else (engine, workers)
    with progress_line() as progress:
        audits = comparison.audit_suites(suite, model, settings, run, workers=crew, progress=progress)
    for record in audits.audits:
        if len(suite) > 1:
            console.rule(record.suite)
        for table in reports.audit_tables(record, console.width):
            console.print(table)
            console.print()
        echo_prose(reports.audit_lines(record))
    for table in reports.trade_off_tables(audits.audits, console.width):
        console.print(table)
        console.print()
    for name, reason in audits.left_out.items():
        typer.echo(f"{name}: no model could be measured: {reason}")
    if report is not None:
        write_report(_files(audits, report, several=len(suite) > 1))


def _files(audits: records.AuditCollection, report: Path, *, several: bool) -> dict[Path, str]:
    """What is written, by its place."""
    texts: dict[Path, str] = {}
    for record in audits.audits:
        place = report / record.suite / "audit" if several else report / "audit"
        texts |= _written(place, record, reports.comparison_html(record), record)
    if several:
        texts |= _written(report / "audits", audits, reports.collection_html(audits), *audits.audits)
    return texts


def _written(place: Path, record: records.RecordPart, page: str, *audits: records.AuditRecord) -> dict[Path, str]:
    """A record, its page and the tables of its audits, as files of one name."""
    texts = {".json": record.model_dump_json(indent=2) + "\n", ".html": page}
    texts |= {".csv": reports.render_csv(*audits), ".tex": reports.render_latex(*audits)}
    return {place.with_suffix(suffix): text for suffix, text in texts.items()}


def power(
    suite: options.Suite,
    model: options.Model = None,
    like: options.Like = None,
    report: Annotated[Path | None, typer.Option(help="Write power.json here.")] = None,
    device: options.Device = None,
    cache: options.Cache = None,
    root: options.Root = Path(),
) -> None:
    """What a suite can decide: whether a harmless change passes each check, and which loss of a group fails it.

    Exit code 0: computed, 4: the suite or an option is wrong.
    """
    from fairgate.studies.power import suite_power

    prepared = gate.prepare(suite, root.resolve())
    settings = gate.settings_of(prepared, model=model, baseline="none", device=device, cache=cache, mlflow="off")
    words = ["fairgate", "power", suite, "--model", settings.model]
    words += [word for uri in like or () for word in ("--like", uri)]
    with progress_line() as progress:
        record = suite_power(prepared, settings, command=shlex.join(words), like=like or (), progress=progress)
    wide_console(120).print(reports.power_table(record))
    echo_prose(reports.power_lines(record))
    if report is not None:
        write_report({report / "power.json": record.model_dump_json(indent=2) + "\n"})
