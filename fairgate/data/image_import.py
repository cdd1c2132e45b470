"""Importing photographs with labels, or labels alone: data that no recipe made and that is not counterfactual."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from fairgate.data.labels import Labels, inside, natural, read_labels, unique_ids
from fairgate.data.manifest import Manifest, check_name
from fairgate.data.releases import ROOT
from fairgate.data.rows import OWN_COLUMNS
from fairgate.data.shards import UnreadableRow
from fairgate.data.writer import refuse_existing, write_dataset
from fairgate.errors import DatasetError
from fairgate.hashing import require_regular, sha256_file

MEMBER = "only"
"""The member of a set that is one photograph."""

Progress = Callable[[int, int], None]


def import_images(  # noqa: PLR0913 -- one keyword per command line option
    labels_csv: Path,
    images_dir: Path | None,
    name: str,
    *,
    attributes: Sequence[str] | Mapping[str, Sequence[str]],
    subject: str | None = None,
    subject_column: str | None = None,
    image_column: str | None = None,
    root: Path = ROOT,
    version: str = "v1",
    licence: str = "unknown",
    progress: Progress | None = None,
) -> Manifest:
    """Make `root/name/version` from a CSV of labels and a folder of images; without a folder, labels only.

    Each image is a set of its own, its bytes stored untouched, its `path` as the CSV spells it (a table of scores is
    joined on that). Groups of an attribute are those of the file in natural order, or as given in a mapping. Other
    columns come along as text. Images are looked for under `images_dir` by path; where not one of the CSV's
    paths is found that way, by file name alone, and the recipe in the manifest says which.
    `progress(done, total)` is called for each row. Raises DatasetError naming file and line.
    """
    check_name(name, version)
    target = root / name / version
    refuse_existing(target)
    labels = read_labels(labels_csv)
    _require_options(labels, attributes, subject, subject_column)
    column = labels.image_column(image_column)
    for attribute in attributes:
        labels.column(attribute, "is named as an attribute")
    if subject_column:
        labels.column(subject_column, "should name the subjects")
    declared = attributes if isinstance(attributes, Mapping) else {attribute: [] for attribute in attributes}
    lines, groups = _first_pass(labels, column, declared, subject_column)
    found_by = None if images_dir is None else _look_up(labels, images_dir, lines)
    ids = unique_ids(list(lines))

    def file_of(value: str) -> Path:
        return (images_dir or Path()) / (PurePosixPath(value).name if found_by == "file name" else value)

    def rows() -> Iterator[dict[str, object]]:
        """One row per line, image read when its turn comes."""
        taken = {column, subject_column, "caption"}
        for done, (line, fields) in enumerate(labels, start=1):
            value = fields[column]
            row: dict[str, object] = {
                "image": None if images_dir is None else _read(file_of(value), labels.place(line)),
                "path": value,
                "set_id": ids[value],
                "member": MEMBER,
                "subject": subject or fields[subject_column or ""],
                "caption": fields.get("caption", ""),
            }
            extras = {name: text for name, text in fields.items() if name not in taken}
            yield row | {(f"label_{name}" if name in OWN_COLUMNS else name): text for name, text in extras.items()}
            if progress is not None:
                progress(done, len(lines))

    recipe = {
        "kind": "import",
        "labels": labels_csv.name,
        "image_column": column,
        "subject_column": subject_column,
        "images_found_by": found_by,
    }
    try:
        return write_dataset(
            target,
            rows(),
            name=name,
            version=version,
            attributes=groups,
            recipe=recipe,
            licence=licence,
            counterfactual=False,
            lineage={"labels": sha256_file(labels_csv)},
            about="Imported photographs with their labels." if images_dir else "Imported labels, without images.",
        )
    except UnreadableRow as error:
        value = next(path for path, set_id in ids.items() if set_id == error.set_id)
        raise DatasetError(
            error.problem,
            where=f"{file_of(value)} ({labels.place(lines[value])})",
            remedy="replace the file with a whole image, or take the line out of the labels",
        ) from error


def _require_options(
    labels: Labels, attributes: Collection[str], subject: str | None, subject_column: str | None
) -> None:
    if bool(subject) == bool(subject_column):
        raise DatasetError(
            "what the images depict has to be said in one way.",
            remedy="give either a subject for all of them (`--subject person`) or a column (`--subject-column`)",
        )
    if not attributes:
        raise DatasetError(
            "no attribute is named.",
            where=labels.place(1),
            remedy=f"name at least one column (`--attribute`); columns: {', '.join(labels.columns)}",
        )


def _read(path: Path, place: str) -> bytes:
    require_regular(path, DatasetError)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"the image file cannot be read: {error.strerror}.",
            where=f"{path} ({place})",
            remedy="make the file readable, or take the line out of the labels",
        ) from error


def _first_pass(
    labels: Labels, column: str, attributes: Mapping[str, Sequence[str]], subject_column: str | None
) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Line of each image, and the groups of each attribute, in order; every cell that matters is checked."""
    lines: dict[str, int] = {}
    spelled: dict[PurePosixPath, int] = {}
    groups: dict[str, set[str]] = {attribute: set() for attribute in attributes}
    for line, fields in labels:
        path = inside(fields[column], labels.place(line))
        if path in spelled:
            raise DatasetError(
                f"image '{fields[column]}' has two lines.",
                where=f"{labels.place(spelled[path])} and {labels.place(line)}",
                remedy="keep one line per image",
            )
        lines[fields[column]] = spelled[path] = line
        for name in [*attributes, *([subject_column] if subject_column else [])]:
            if not fields[name].strip():
                raise DatasetError(
                    f"column '{name}' is empty.",
                    where=labels.place(line),
                    remedy="give every image a label (for example 'unknown'), or take the line out",
                )
        for attribute, declared in attributes.items():
            if declared and fields[attribute] not in declared:
                raise DatasetError(
                    f"'{fields[attribute]}' is not a declared group of '{attribute}'.",
                    where=labels.place(line),
                    remedy=f"declared groups: {', '.join(declared)}",
                )
            groups[attribute].add(fields[attribute])
    return lines, {name: list(given) or sorted(groups[name], key=natural) for name, given in attributes.items()}


def _look_up(labels: Labels, images_dir: Path, lines: dict[str, int]) -> str:
    """How the images are found under `images_dir`: by "path" or by "file name". Raises DatasetError if neither."""
    if not images_dir.is_dir():
        raise DatasetError(
            "the images folder does not exist.", where=str(images_dir), remedy="give the folder that holds the images"
        )
    absent = [path for path in lines if not (images_dir / path).is_file()]
    if not absent:
        return "path"
    names = {PurePosixPath(path).name for path in lines}
    if len(absent) == len(lines) == len(names) and all((images_dir / name).is_file() for name in names):
        return "file name"
    raise DatasetError(
        f"{len(absent):,} of {len(lines):,} images are not in the folder; the first is '{absent[0]}'.",
        where=f"{images_dir / absent[0]} ({labels.place(lines[absent[0]])})",
        remedy="give the folder that the labels' paths start from, or take lines without an image out",
    )
