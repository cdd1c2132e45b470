"""What is fitted to a checkpoint and judged then. `fairgate mitigate`: a mitigation, as `debiased:FILE?model=URI`;
`fairgate head fit`: a head on a backbone's features, as `features:FOLDER?head=FILE`."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairgate import models, probes
from fairgate.builds import review
from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import progress_line, writing

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from fairgate.data import Dataset

head_app = typer.Typer(no_args_is_help=True, help="Heads on the features of a backbone.")
mitigate_app = typer.Typer(
    no_args_is_help=True, help="Mitigations of a checkpoint with two towers, to be judged against it."
)

Out = Annotated[Path, typer.Argument(help="JSON file to write, from the repository's root.")]
Origin = Annotated[str, typer.Option(help="Address of the checkpoint that it is for.")]
Data = Annotated[str, typer.Option(help="Release of pictures, NAME or NAME@VERSION: not the one that will judge.")]


@mitigate_app.command("clip-clip")
def clip_clip(
    out: Out,
    model: Origin,
    data: Data,
    attribute: Annotated[str, typer.Option(help="Attribute of the release that dimensions must not tell of.")],
    drop: Annotated[int, typer.Option(min=1, help="How many dimensions to leave out.")] = 100,
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """Leave out the dimensions that tell most about an attribute (Wang et al. 2021)."""
    with progress_line() as show:
        release, scorer = _opened(data, model, root, device, show)
        pictures = _labelled(release, scorer, release.index.codes(attribute)[0])
        mitigation = models.fit_clip_clip(pictures, attribute=attribute, drop=drop)
    _write(out, mitigation, model, root)


@mitigate_app.command()
def projection(
    out: Out,
    model: Origin,
    prompt: Annotated[list[str], typer.Option(help="Text that names a group, such as 'a photo of a man'; repeat.")],
    pair: Annotated[
        list[str] | None,
        typer.Option(help="'TEXT | TEXT' of one content with two groups, to come out alike; repeat. Calibrates."),
    ] = None,
    strength: Annotated[float, typer.Option(min=0.0, help="How much pairs count (lambda).")] = 1000.0,
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """Project texts onto what is orthogonal to prompts that name groups (Chuang et al. 2023)."""
    pairs = [_pair(text) for text in pair or ()]
    mitigation = models.fit_projection(
        model, prompt, pairs=pairs, strength=strength, device=device or "auto", base=root
    )
    _write(out, mitigation, model, root)


@mitigate_app.command("prompt-array")
def prompt_array(  # noqa: PLR0913, PLR0917 - an option is a parameter
    out: Out,
    model: Origin,
    data: Data,
    attribute: Annotated[str, typer.Option(help="Attribute of the release that texts must tell less of.")],
    prompt: Annotated[list[str], typer.Option(help="Neutral text, such as 'a photo of a doctor'; repeat.")],
    keep: Annotated[str, typer.Option(help="Another release, whose subjects are to be found as before.")],
    template: Annotated[str, typer.Option(help="Caption of a subject: `{subject}` or `{a_subject}`.")] = (
        "a photo of {a_subject}"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Steps of training.")] = 300,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """Learn tokens that open each text, against a classifier of the attribute (after Berg et al. 2022, DeBiasCLIP)."""
    import numpy as np

    with progress_line() as show:
        pictures, judging = _opened(data, model, root, device, show)
        captioned, keeping = _opened(keep, model, root, device, show)
        subjects = captioned.index.subject.tolist()
        known = list(dict.fromkeys(subjects))
        words = [subject.replace("_", " ") for subject in known]
        mitigation = models.fit_prompt_array(
            _labelled(pictures, judging, pictures.index.codes(attribute)[0]),
            _labelled(captioned, keeping, np.array([known.index(subject) for subject in subjects])),
            attribute=attribute,
            prompts=prompt,
            captions=[
                template.replace("{a_subject}", probes.with_article(word)).replace("{subject}", word) for word in words
            ],
            steps=steps,
            seed=seed,
        )
    _write(out, mitigation, model, root)


def _opened(
    named: str, model: str, root: Path, device: str | None, show: Callable[[str, int, int], None]
) -> tuple[Dataset, models.Model]:
    """A release, or a build by its folder, known to be intact, and the model over its pictures."""
    release = review.release_or_build(named, root)
    progress = partial(show, named)
    return release, models.open_scorer(model, release, device=device or "auto", base=root, progress=progress)


def _labelled(release: Dataset, scorer: models.Model, labels: NDArray[np.int64]) -> models.AttributeData:
    return models.AttributeData(scorer, labels, release.manifest.ref, release.fingerprint)


def _pair(text: str) -> tuple[str, str]:
    first, bar, other = (part.strip() for part in text.partition("|"))
    if not (first and bar and other) or first == other:
        raise SettingsError(f"'{text}' is no pair.", where="--pair", remedy="write 'a male doctor | a female doctor'")
    return first, other


def _write(out: Path, mitigation: models.Mitigation, model: str, root: Path) -> None:
    """To `out`, a path from the repository's root; how to judge it is printed."""
    path = root / out
    with writing("the mitigation", str(out)):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, (mitigation.model_dump_json(indent=2) + "\n").encode())
    typer.echo(f"mitigation: {path}")
    _judge("it against its origin", root, "--model", f"debiased:{out}?model={model}", "--baseline", f"model:{model}")


def _judge(what: str, root: Path, *words: str) -> None:
    """Print the command that judges what was made."""
    typer.echo(f"judge {what}:")
    place = ["--root", str(root)] if root != Path() else []
    typer.echo(f"  {shlex.join(['fairgate', 'check', 'SUITE', *words, *place])}")


@head_app.callback()
def _group() -> None:
    """A group of one command, so that another can be added."""


@head_app.command("fit")
def fit(
    out: Annotated[Path, typer.Argument(help=".safetensors file to write, from the repository's root.")],
    model: Annotated[str, typer.Option(help="Backbone, as features:FOLDER, with ?pool= if it is not the default.")],
    data: Annotated[str, typer.Option(help="Release of pictures, NAME or NAME@VERSION: not the one that will judge.")],
    attribute: Annotated[str, typer.Option(help="Attribute of the release that the head is to predict, or `subject`.")],
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """Fit a linear head on labelled pictures by logistic regression."""
    import numpy as np

    if out.suffix != ".safetensors":
        raise SettingsError(f"'{out}' is no .safetensors file.", where="OUT", remedy="write the head to such a file")
    with progress_line() as show:
        release, backbone = _opened(data, model, root, device, show)
        if attribute == "subject":
            labels, codes = np.unique(release.index.subject, return_inverse=True)
            named = labels.tolist()
        else:
            codes, named = release.index.codes(attribute)
        head = models.fit_head(
            backbone,
            np.asarray(codes, dtype=np.int64),
            named,
            attribute=attribute,
            release=release.manifest.ref,
            fingerprint=release.fingerprint,
        )
    path = root / out
    with writing("the head", str(out)):
        path.parent.mkdir(parents=True, exist_ok=True)
        models.write_head(path, head)
    typer.echo(f"head: {path}, of {', '.join(head.labels or ())}")
    joined = "&" if "?" in model else "?"
    _judge("it on another release", root, "--model", f"{model}{joined}head={out}")
