"""`fairgate portraits`: draw the demonstration data, train its tiny models, look at contact sheets.

`fairgate demo`: the main job on the demonstration data, asserted: a harmless checkpoint passes, a biased one fails.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import DatasetError, FairgateError
from fairgate.interfaces.cli import write_png, writing
from fairgate.version import __version__

portraits_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="The demonstration data: drawn people and tiny models to test the gate on.",
)


@portraits_app.command()
def draw(
    out: Annotated[Path, typer.Option(help="Folder of the new dataset.")] = Path("build/portraits/occupations"),
    sets: Annotated[int, typer.Option(min=1, help="Counterfactual sets per occupation.")] = 80,
) -> None:
    """Draw the dataset `occupations`: held-out counterfactual sets of five occupations."""
    from fairgate.portraits.dataset import write_occupations

    manifest = write_occupations(out, sets=sets)
    typer.echo(f"drew {manifest.n_rows:,} portraits in {manifest.n_sets:,} sets: {out}")


@portraits_app.command()
def people(
    out: Annotated[Path, typer.Option(help="Folder of the new dataset.")] = Path("build/portraits/people"),
    sets: Annotated[int, typer.Option(min=1, help="Counterfactual sets.")] = 40,
) -> None:
    """Draw the dataset `people`: sets of people in plain clothes, which say nothing about anybody's work."""
    from fairgate.portraits.dataset import write_people

    manifest = write_people(out, sets=sets)
    typer.echo(f"drew {manifest.n_rows:,} portraits in {manifest.n_sets:,} sets: {out}")


@portraits_app.command()
def train(
    name: Annotated[
        str,
        typer.Argument(
            help="base, tuned, biased or whackamole; generator, editor or standins; classifier-base, -tuned or -biased."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the new model: docs/evidence/demonstration.md has the URIs.")],
    start: Annotated[Path | None, typer.Option("--from", help="The model that it starts or learns from.")] = None,
    strength: Annotated[
        float | None, typer.Option(min=0.0, max=0.8, help="Planted strength of `biased`, instead of its own.")
    ] = None,
) -> None:
    """Train one of the tiny models on CPU: minutes for a checkpoint, a quarter of an hour for the generator."""
    from fairgate.portraits.training import train_model

    def report(part: str, step: int, loss: float) -> None:
        if step % 50 == 0:
            typer.echo(f"{part:9s} step {step:4d}  loss {loss:.3f}", err=True)

    train_model(name, out, start=start, strength=strength, report=report)
    typer.echo(f"trained {name}: {out}")


@portraits_app.command()
def generate(
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("sheet.png"),
    model: Annotated[Path, typer.Option(help="Folder of the generator.")] = Path("build/portraits/diffusion"),
    seeds: Annotated[int, typer.Option(min=1, help="Pictures of every prompt.")] = 10,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of the sampler; by default 20.")] = None,
    guidance: Annotated[float | None, typer.Option(min=0.0, help="Classifier-free guidance; by default 2.")] = None,
) -> None:
    """Write a contact sheet of what the tiny generator paints: a row per prompt, a column per seed."""
    from fairgate.portraits.generator import GUIDANCE, STEPS, contact_sheet, open_pipeline

    write_png(
        out,
        lambda: contact_sheet(
            open_pipeline(model), seeds=seeds, steps=steps or STEPS, guidance=GUIDANCE if guidance is None else guidance
        ),
    )
    typer.echo(f"wrote {out}")


@portraits_app.command()
def photos(
    out: Annotated[Path, typer.Option(help="Folder of the new photographs.")] = Path("build/portraits/photos"),
    photos: Annotated[int, typer.Option(min=1, help="Photographs per occupation.")] = 100,
) -> None:
    """Draw a COCO-style folder: people in rooms, with person boxes and captions, for `gensynth` and `genswap`."""
    from fairgate.portraits.photos import write_photos

    with writing("the folder", f"--out {out}"):
        drawn = write_photos(out, photos=photos)
    typer.echo(f"drew {drawn:,} photographs: {out}")


@portraits_app.command()
def faces(
    out: Annotated[Path, typer.Option(help="Folder of the new portraits.")] = Path("build/portraits/faces"),
    per_group: Annotated[int, typer.Option(min=1, help="Portraits of every skin tone and gender.")] = 40,
    spoilt: Annotated[int, typer.Option(min=0, help="Lines that are no good, for the import to notice.")] = 5,
) -> None:
    """Draw a FairFace-like folder: portraits and a CSV file of labels, for the recipe `faces`."""
    from fairgate.portraits.photos import LABELS_FILE, write_faces

    with writing("the folder", f"--out {out}"):
        drawn = write_faces(out, per_group=per_group, spoilt=spoilt)
    typer.echo(f"drew {drawn:,} portraits, and wrote {spoilt} lines that are no good: {out / LABELS_FILE}")


@portraits_app.command()
def classes(
    out: Annotated[Path, typer.Option(help="Folder of the new portraits.")] = Path("build/portraits/classes"),
    images: Annotated[int, typer.Option(min=1, help="Portraits of every label.")] = 40,
) -> None:
    """Draw all labels that the tiny CLIP knows, and a CSV file that names no group, for a suite of general accuracy."""
    from fairgate.portraits.draw import draw as drawn
    from fairgate.portraits.draw import png
    from fairgate.portraits.scene import scene_of
    from fairgate.portraits.world import GROUPS, LABELS

    lines = ["file,label"]
    with writing("the folder", f"--out {out}"):
        out.mkdir(parents=True)
        for label in LABELS:
            for number in range(images):
                name = f"{label.replace(' ', '-')}-{number}.png"
                picture = drawn(
                    scene_of(5, label, number), label, *GROUPS[number % len(GROUPS)]
                )  # 5: in no training set
                (out / name).write_bytes(png(picture))
                lines.append(f"{name},{label}")
        (out / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    typer.echo(f"drew {len(lines) - 1:,} portraits of {len(LABELS)} labels: {out}")


SUITE = "occupations"
CHECKPOINTS = "open_clip:local-dir:build/portraits/checkpoints"
PASSED, FAILED = 0, 1


def demo(
    into: Annotated[
        Path, typer.Option(help="Where the files of the package fairgate-demo go; in a clone it has its own.")
    ] = Path("fairgate-demo"),
    report: Annotated[
        Path | None, typer.Option(help="Where the three reports go; left out, fairness-report, next to what is judged.")
    ] = None,
    mlflow: Annotated[
        str, typer.Option(help="MLflow tracking URI, from the folder of what is judged; or off.")
    ] = "sqlite:///fairgate.db",
) -> None:
    """Gate two candidates of the demonstration data through pytest, and check that the gate judged them rightly.

    The portraits and the checkpoints are those of a clone, or of the package fairgate-demo.
    """
    from fairgate.reports import read_results

    folder = demo_folder(into)
    typer.echo("The demonstration data is a test instrument: its figures say nothing about real models.\n")
    if folder != Path():
        typer.echo(f"$ cd {folder}    # {folder / 'README.md'} says what is in it\n")
    reports = Path("fairness-report") if report is None else report.absolute() if folder != Path() else report

    def gate(name: str, options: list[str], expected: int, meaning: str) -> None:
        typer.secho(f"== {name}: {meaning}", bold=True)
        _gate(name, [*options, "--fairness-report", str(reports / name), "--fairness-mlflow", mlflow], expected, folder)

    against = ["--fairness-baseline", f"file:{reports / 'base'}"]
    first = ["--fairness-baseline", "none", "--fairness-on-inconclusive", "warn"]
    gate("base", first, PASSED, "the baseline: bounds hold, nothing to compare with yet")
    gate("tuned", against, PASSED, "harmlessly fine-tuned: must pass")
    gate("biased", against, FAILED, "a bias was planted: must fail")
    biased = (folder / reports / "biased").resolve()
    record = read_results(biased / "results.json")
    failing = [check.item for check in record.checks if check.verdict == "fail"]
    if record.verdict != "fail" or not failing:
        raise FairgateError(f"the biased checkpoint's verdict is '{record.verdict}'.", where=str(biased))
    typer.secho("\nfairgate demo: base and tuned passed, biased failed, as they must.", bold=True)
    typer.echo(f"biased failed {', '.join(failing)}")
    typer.echo(f"see why, with pictures: {(biased / 'report.html').as_uri()}")
    if folder != Path():
        typer.echo(f"the suite that judged: {folder / 'fairness_suites' / SUITE}.yaml")
    if mlflow != "off":
        typer.echo(
            f"see the runs{'' if folder == Path() else f', in {folder}'}: mlflow ui --backend-store-uri {mlflow}"
        )


def _gate(name: str, options: list[str], expected: int, folder: Path) -> None:
    words = ["--fairness-suite", SUITE, "--fairness-model", f"{CHECKPOINTS}/{name}", *options]
    typer.echo(f"$ pytest {' '.join(words)}")
    code = subprocess.run([sys.executable, "-m", "pytest", *words], check=False, cwd=folder).returncode  # noqa: S603
    if code != expected:
        raise FairgateError(
            f"checkpoint '{name}' ended with pytest's exit code {code}; {expected} was expected.",
            where=str(folder),
            remedy="read the output above; if files are missing in a clone, run `dvc pull`",
        )


PACKAGE = "fairgate-demo"
_PREFIX = PurePosixPath("fairgate_demo")
_OF_A_CLONE = ("datasets/occupations", "build/portraits/checkpoints/base", "fairness_suites/occupations.yaml")


def demo_folder(into: Path) -> Path:
    """The folder with the demonstration's files: this one in a clone that pulled them, else `into`, unpacked.

    Raises DatasetError where the package is missing or of another version, a file of it is damaged, or `into` holds
    another file under the same name or a link that leads out of it.
    """
    if all(Path(name).exists() for name in _OF_A_CLONE):
        return Path()
    for name, content in _packed():
        target = into / name
        if into.is_symlink() or not target.parent.resolve().is_relative_to(into.resolve()):
            raise DatasetError(
                "a link leads out of the folder, and nothing is written through it.",
                where=str(into if into.is_symlink() else target.parent),
                remedy="remove the link, or name a new folder: --into",
            )
        if target.exists() and (not target.is_file() or target.read_bytes() != content):
            raise DatasetError(
                "the file is not the demonstration's, and is not replaced.",
                where=str(target),
                remedy="if you changed it, check it there (README.md says how), or name a new folder: --into",
            )
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(target, content)
    return into


_INSTALL = "pip install CLONE/demo"
"""No registry has the package until a release publishes it."""


def _packed() -> Iterator[tuple[str, bytes]]:
    """Every file of the package by name, checked against the SHA-256 that its wheel recorded."""
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise DatasetError(
            "the portraits and checkpoints that the demonstration judges are not here.",
            where=str(Path.cwd()),
            remedy="run the command in a clone of fairgate, after `make data` (or `dvc pull`); or install them from "
            f"the clone (14 MB): {_INSTALL}",
        ) from error
    if package.version != __version__:
        raise DatasetError(
            f"{PACKAGE} is version {package.version}, and fairgate {__version__}.",
            where=str(package.locate_file("")),
            remedy=f"install the one of the clone of this fairgate: {_INSTALL}",
        )
    # Not `package.files`, which leaves out what is missing in newer versions of Python.
    for name, known, _ in csv.reader((package.read_text("RECORD") or "").splitlines()):
        if not PurePosixPath(name).is_relative_to(_PREFIX):
            continue
        path = Path(str(package.locate_file(name)))
        content = path.read_bytes() if path.is_file() else b""
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if known != f"sha256={digest}":
            raise DatasetError(
                f"a file of {PACKAGE} is missing, or is not what its wheel held.",
                where=str(path),
                remedy="install it again: pip install --force-reinstall --no-deps CLONE/demo",
            )
        yield PurePosixPath(name).relative_to(_PREFIX).as_posix(), content
