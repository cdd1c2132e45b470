"""`fairgate build`: make a dataset by a recipe, go on where a run was ended, see how far it is and what it needs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from fairgate import builds, engines
from fairgate.ground.errors import ModelError, RecipeError, SettingsError, harmless
from fairgate.interfaces.cli.console import print_table
from fairgate.models import checkpoints
from fairgate.models.generation import Offload


class _BuildByDefault(TyperGroup):
    """`fairgate build NAME` is `fairgate build run NAME`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override] # typer's is click's
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


build_app = typer.Typer(
    cls=_BuildByDefault,
    no_args_is_help=True,
    help="Build a dataset: `fairgate build NAME` makes what `params.yaml` calls NAME, `fairgate build status` looks.",
)

Params = Annotated[Path, typer.Option(help="File with the mapping `builds:`.")]
Out = Annotated[Path, typer.Option(help="Folder of all builds.")]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="At most so many starting sets per subject and part, in a folder of its own: to try out."),
]
PARAMS, OUT = Path("params.yaml"), Path("build")


@build_app.command("run")
def run(  # noqa: PLR0913, PLR0917 -- each is an option of the command line
    name: Annotated[str, typer.Argument(help="A build of params.yaml.")],
    subject: Annotated[list[str] | None, typer.Option(help="Build only this one; repeatable.")] = None,
    part: Annotated[str | None, typer.Option(help="Build only this part; those before it must be finished.")] = None,
    assemble: Annotated[bool, typer.Option("--assemble", help="Only put the finished subjects together.")] = False,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Default: one per GPU, or one.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    offload: Annotated[
        Offload,
        typer.Option(
            help="For a GPU with little memory: model (parts of a diffusion model take turns on it) or sequential "
            "(each layer is there while it computes: slow). No picture changes but for rounding."
        ),
    ] = "none",
    keep_equal: Annotated[
        bool,
        typer.Option(
            "--keep-equal",
            help="If only the recipe's code changed, make each part's first shard again; if equal, keep the part.",
        ),
    ] = False,
    limit: Limit = None,
    params: Params = PARAMS,
    out: Out = OUT,
) -> None:
    """Build NAME: all subjects and then the dataset, or one --subject or --part. What is finished is not made again."""
    if assemble and (subject or part):
        raise SettingsError(
            "--assemble joins all subjects, and cannot be combined with --subject or --part.",
            where="--assemble",
            remedy="leave one of them out",
        )
    recipe = builds.read_build(name, params)
    if offload != "none" and engine == "local" and not checkpoints.find_device(device).is_cuda:
        raise SettingsError(
            f"--offload {offload} spares the memory of a GPU, and this build runs on a CPU.",
            where="--offload",
            remedy="leave it out, or name the GPU: --device cuda",
        )
    with BuildProgress() as progress:
        factory = builds.Factory(name, recipe, out, limit, progress, params, offload, keep_equal)
        if assemble:
            manifest = factory.assemble()
        else:
            with closing(engines.open_engine(engine, workers=workers, device=device)) as crew:
                if subject or part:
                    factory.build(crew, subject or (), part)
                    return
                manifest = factory.assemble(crew)
    typer.echo(f"built {manifest.n_rows:,} images in {manifest.n_sets:,} sets: {factory.places.dataset}")
    typer.echo(f"fingerprint {manifest.fingerprint}")


@build_app.command()
def preflight(
    name: Annotated[str, typer.Argument(help="A build of params.yaml.")],
    params: Params = PARAMS,
    out: Out = OUT,
) -> None:
    """What NAME reads and will cost: models with licence, size and the command that fetches them, evaluations, GPU
    memory and hours. Nothing is loaded. Exit code 1: something is missing."""
    needed = builds.preflight_of(builds.read_build(name, params), out)
    show_preflight(name, needed)
    if needed.missing:
        raise typer.Exit(1)


@build_app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="A build of params.yaml; all of them when left out.")] = None,
    limit: Limit = None,
    params: Params = PARAMS,
    out: Out = OUT,
) -> None:
    """How far builds are: shards, finished sets, drops by reason, evaluations, seconds, and what is stale."""
    for build in [name] if name else builds.build_names(params):
        show_status(build, params, out, limit)


WIDTH = 110
"""Columns of text that the table takes at least: in a narrower terminal lines wrap, and nothing is cut."""


def show_status(name: str, params: Path, out: Path, limit: int | None) -> None:
    """Print one build's table."""
    factory = builds.Factory(name, builds.read_build(name, params), out, limit)
    title = f"{name} ({factory.recipe.name})"
    if not factory.places.root.is_dir():
        typer.echo(f"{title}: not begun")
        return
    title = f"{title}: {factory.places.root}"
    columns = ("subject", "part", "state", "shards", "started", "kept", "chosen", "~dropped", "~work", "~seconds")
    rows, notes = [], []
    try:
        ground = builds.Ground.of(factory.recipe, limit)
    except (ModelError, RecipeError) as error:
        ground = None
        notes.append(f"whether anything is stale is not known here: {error.problem}")
    for part_state in builds.part_states(factory, ground):
        tally = part_state.tally
        chosen = (
            ""
            if part_state.chosen is None
            else f"{part_state.chosen:,}" + (f" of {part_state.wanted:,}" if part_state.short else "")
        )
        dropped = "\n".join(f"{harmless(reason)} {count:,}" for reason, count in tally.reasons.most_common())
        work = "\n".join(f"{what} {count:,}" for what, count in sorted(tally.counts.items()))
        numbers = [f"{number:,}" for number in (part_state.shards, tally.started, tally.kept)]
        cells = [harmless(part_state.subject), part_state.part, part_state.state, *numbers, chosen, dropped, work]
        rows.append([*cells, f"{tally.seconds:,.1f}"])
        if part_state.stale:
            remedy = ", or kept if it is equal (--keep-equal)" if part_state.stale == "the recipe's code" else ""
            what = f"{part_state.subject}, {part_state.part}: made otherwise ({part_state.stale})"
            notes.append(f"{what}; it would be set aside{remedy}")
    print_table(columns, rows, title=title, width=WIDTH)
    for note in notes:
        typer.echo(harmless(note))
    if factory.places.dataset.is_dir():
        typer.echo(f"dataset: {factory.places.dataset}")


def show_preflight(name: str, preflight: builds.Preflight) -> None:
    """Print what a build reads, what fetches the rest, and what it will cost."""
    rows = []
    for need in preflight.needs:
        size = builds.published(need.source) if need.model else None
        numbers = ("", "", "") if size is None else (size.licence, f"{size.disk:.1f}", f"{size.memory:.1f}")
        cells = (need.name, harmless(need.source), ", ".join(need.parts) if need.model else "", *numbers)
        rows.append([*cells, "no" if need.problem else "yes"])
    print_table(_READS, rows, title=f"{name}: what it reads", width=WIDTH)
    for problem, (names, remedy) in preflight.remedies.items():
        typer.echo(f"{names}: {problem}\n  {remedy}")
    if preflight.missing_disk > preflight.free_disk:
        free = f"{preflight.free_disk:.0f} GB of disk are free"
        typer.echo(f"models to fetch need {preflight.missing_disk:.0f} GB; {free}")
    if preflight.work:
        rows = []
        for work in preflight.work:
            pictures = "?" if work.pictures is None else f"{work.pictures:,}"
            total = "?" if work.pictures is None else f"{work.pictures * work.evaluations:,}"
            rows.append([work.part, work.role, pictures, f"{work.evaluations:,}", total])
        print_table(_WORK, rows, title="what it will do, at most: filters end parts earlier", width=WIDTH)
    if preflight.estimates:
        rows = []
        for estimate in preflight.estimates:
            fits = "yes" if estimate.fits else "no"
            card = (estimate.gpu.name, str(estimate.gpu.memory), f"{preflight.memory:.1f}", fits)
            rows.append([*card, f"{estimate.hours:,.1f}" if estimate.fits else ""])
        print_table(_COST, rows, title="on one GPU, computed and not measured", width=WIDTH)
        typer.echo("a batch that does not fit is halved; `needs` is of batches of 8 (docs/use/building.md)")
    if preflight.ways:
        rows = [
            [way.settings, f"{way.memory:.1f}", "-" if way.card is None else f"{way.card} GB"] for way in preflight.ways
        ]
        print_table(_FITS, rows, title="memory of a GPU that it needs, computed and not measured", width=WIDTH)
    for line in preflight.unknown:
        typer.echo(f"not counted: {line}")


_READS = ("~", "~source", "~parts", "~licence", ">disk GB", ">GPU GB", "there")
_WORK = ("~part", "~model", ">pictures", ">UNet evaluations each", ">evaluations")
_COST = ("~GPU", ">memory GB", ">needs", "fits", ">hours")
_FITS = ("~setting", ">needs GB", ">smallest card that should do")


_COLUMNS = (
    SpinnerColumn(),
    TextColumn("{task.description}"),
    BarColumn(bar_width=20),
    TextColumn("{task.fields[summary]}"),
    TimeElapsedColumn(),
)


EVERY = 60.0
"""Seconds between two lines about one part where there is no terminal."""


class BuildProgress:
    """A line per part: in a terminal it moves; elsewhere one about every minute. One stays when the part ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = Progress(*_COLUMNS, console=self._console, disable=not self._console.is_terminal)
        self._lines: dict[tuple[str, str], tuple[_Line, TaskID]] = {}
        self._printed = clock()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        for subject, part in list(self._lines):
            self.end(subject, part)
        self._bar.stop()

    def part(self, subject: str, part: str, *, wanted_sets: int | None, shards: int | None) -> None:
        """A line for a part that begins."""
        line = _Line(harmless(f"{subject} {part}"), wanted_sets, shards, self._clock)
        if not self._lines:
            self._printed = self._clock()
        self._lines[subject, part] = line, self._bar.add_task(escape(line.name), total=line.total, summary="")

    def shard(self, subject: str, part: str, ledger: builds.Ledger, *, images: int, found: bool) -> None:
        """Move the part's line, or print it where the last one is old."""
        line, task = self._lines[subject, part]
        line.add(ledger, images, found)
        self._bar.update(task, completed=line.done, summary=escape(line.summary()))
        if self._bar.disable and self._clock() - self._printed >= EVERY:
            self._print(line, line.summary())

    def note(self, text: str) -> None:
        """A sentence above the lines."""
        self._console.print(escape(harmless(text)))

    def end(self, subject: str, part: str) -> None:
        """The last line of a part."""
        line, task = self._lines.pop((subject, part))  # before anything else: an interrupt here ends no part twice
        self._bar.remove_task(task)  # of many bars a terminal shows the first ones alone
        self._print(line, line.summary(ended=True))

    def _print(self, line: _Line, summary: str) -> None:
        self._console.print(escape(f"{line.name}: {summary}"))
        self._printed = self._clock()


class _Line:
    """Progress of one part."""

    def __init__(self, name: str, wanted: int | None, shards: int | None, clock: Callable[[], float]) -> None:
        self.name = name
        self._wanted, self._shards = wanted, shards
        self._clock, self._since = clock, clock()
        self._finished = self._found = self._kept = self._fresh = self._images = 0
        self._seconds = 0.0
        self._reasons: Counter[str] = Counter()

    @property
    def total(self) -> int | None:
        """In finished sets where a number is wanted, else in shards."""
        return self._wanted if self._wanted is not None else self._shards

    @property
    def done(self) -> int:
        """Of `total`."""
        return self._kept if self._wanted is not None else self._finished

    def add(self, ledger: builds.Ledger, images: int, found: bool) -> None:
        """Count a shard. Rates are of made ones: what it took to find others is no part of them."""
        before, since, self._since = self.done, self._since, self._clock()
        self._finished += 1
        self._kept += sum(record.kept for record in ledger.sets)
        self._reasons.update(record.reason for record in ledger.sets if record.reason is not None)
        if found:
            self._found += 1
        else:
            self._images += images
            self._fresh += self.done - before
            self._seconds += self._since - since

    def summary(self, *, ended: bool = False) -> str:
        """One line of words; of what has ended, no time left."""
        reused = f" ({self._found} found)" if self._found else ""
        drops = ", ".join(f"{reason} {count:,}" for reason, count in self._reasons.most_common(4))
        of = f" of {self._wanted:,}" if self._wanted is not None else ""
        words = [f"{self._finished:,} shards{reused}", f"{self._kept:,}{of} sets kept"]
        words += [f"dropped: {drops}"] if drops else []
        words += [f"{self._images / self._seconds:.2f} images/s"] if self._images and self._seconds else []
        left = None if ended else self._left()
        return "; ".join(words + ([f"about {left} left"] if left else []))

    def _left(self) -> str | None:
        if self.total is None or not self._fresh or self.done >= self.total:
            return None
        left = int((self.total - self.done) * self._seconds / self._fresh)
        return f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
