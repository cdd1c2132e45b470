"""Registered models: a version as the one checkpoint of a folder on this disk, and a verdict written back to it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

from fairgate.ground.errors import ModelError, TrackingError, listed
from fairgate.ground.hashing import digest, sha256_file
from fairgate.ground.seals import SealedNotes, seal
from fairgate.records import RunRecord
from fairgate.tracking import content
from fairgate.tracking.store_session import READ_REMEDY, redact, require_not_the_branchs, session

if TYPE_CHECKING:
    from mlflow import MlflowClient


ARCHITECTURE_TAG: Final = "fairgate.architecture"
"""Tag of a registered model, or of one version, that names the open_clip architecture of bare weights."""

_PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib", ".cloudpickle")
_SHOWN = 12
_REMEDY = (
    "register one checkpoint in safetensors: a folder with open_clip_config.json, a folder of transformers, or one "
    f".safetensors file with the tag {ARCHITECTURE_TAG}"
)


def checkpoint_uri(folder: Path, architecture: str | None = None) -> str:
    """The model URI of the one checkpoint under `folder`, at any depth (an mlflow flavour has subfolders).

    `architecture` is the open_clip architecture of a bare .safetensors file. Raises ModelError for none, for several,
    for weights that are pickled, and for links.
    """
    from fairgate.models.checkpoints import require_folder

    require_folder(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    if link := next((path for path in folder.rglob("*") if path.is_symlink()), None):
        raise ModelError("the downloaded model holds a link.", where=str(link), remedy="register the files themselves")
    weights = [path for path in files if path.suffix == ".safetensors"]
    named: dict[Path, str] = {}
    for path in files:
        home = path.parent
        if path.name == "open_clip_config.json":
            named[home] = f"open_clip:local-dir:{home}"
        elif path.name == "config.json" and any(weight.parent == home for weight in weights):
            named.setdefault(home, f"hf:{home}")
    bare = [path for path in weights if path.parent not in named]
    if len(named) + len(bare) != 1:
        checkpoints = "no checkpoint" if not named and not bare else f"{len(named) + len(bare)} checkpoints"
        raise _refusal(f"the registered model holds {checkpoints} that could be meant", folder, files)
    if bare and (not architecture or "@" in architecture):
        raise ModelError(
            "the registered model is a file of bare weights, and nothing says of which architecture.",
            where=str(bare[0]),
            remedy=f"set the tag {ARCHITECTURE_TAG} of the version, such as ViT-B-32; or register a folder with its "
            "config",
        )
    if bare:
        return f"open_clip:{architecture}@{bare[0]}"
    ((home, uri),) = named.items()
    if pickled := [path for path in files if path.parent == home and path.suffix in _PICKLED]:
        raise _refusal("the checkpoint of the registered model has pickled weights", home, pickled)
    return uri


def gather_components(folder: Path) -> None:
    """Copy tokenizer and image processor to the weights: `mlflow.transformers.log_model` stores them elsewhere."""
    from fairgate.models.checkpoints import READING_FILES

    home = folder / "model"
    if not (folder / "MLmodel").is_file() or not (home / "config.json").is_file():
        return
    for path in sorted((folder / "components").glob("*/*")):
        if path.name in READING_FILES and path.is_file() and not path.is_symlink() and not (home / path.name).exists():
            shutil.copyfile(path, home / path.name)


def _refusal(problem: str, folder: Path, files: list[Path]) -> ModelError:
    names = [str(path.relative_to(folder)) for path in files]
    there = f": {listed(names, _SHOWN)}" if names else "; it is empty"
    pickled = any(path.suffix in _PICKLED for path in files)
    why = " Pickled files can run code, and are not read." if pickled else ""
    return ModelError(f"{problem}{there}.{why}", where=str(folder), remedy=_REMEDY)


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A version of a registered model, downloaded: `local_uri` is a model URI that `open_scorer` reads."""

    name: str
    version: str
    local_uri: str


def fetch_model(name_version: str, uri: str, folder: Path, key: bytes, root: Path | None = None) -> RegisteredModel:
    """Download `NAME/VERSION` or `NAME@ALIAS` into a folder of its own under `folder`; a version is downloaded once.

    `key` seals what was downloaded: files that are there without that seal are removed, and downloaded again.
    Each call resolves an alias again. Bare weights need the architecture, from the tag
    `fairgate.architecture` of the version or of the model. Raises ModelError where MLflow does not answer, has no such
    version, the version is not one checkpoint in safetensors, or store or files are a branch's own, in the repository
    of `root` (`require_not_the_branchs`).
    """
    name, version, alias = _parsed(name_version)
    problem = f"model '{name_version}' could not be fetched from MLflow"
    try:
        require_not_the_branchs(uri, root)
        with session(uri, problem, READ_REMEDY) as client:
            registered = _version(client, name, version, alias, uri)
            source = str(client.get_model_version_download_uri(name, str(registered.version)))
            identity = digest(
                [uri, name, str(registered.version), source, int(registered.creation_timestamp or 0), seal(key, "")]
            )
            target = folder.absolute() / f"{content.safe_part(name)}-{registered.version}-{identity[:8]}"
            tags = client.get_registered_model(name).tags | registered.tags
        notes = SealedNotes(folder / "seals", key)
        there = target.is_dir()
        if not (there and notes.has(target.name, _digest_of(target))):
            if there:
                shutil.rmtree(target)
            with session(uri, problem, READ_REMEDY, seconds=1800) as client:
                _download(client, source, uri, target, notes, root)
    except TrackingError as error:
        raise ModelError(error.problem, where=error.where, remedy=error.remedy) from error
    return RegisteredModel(name, str(registered.version), checkpoint_uri(target, tags.get(ARCHITECTURE_TAG)))


def tag_model_version(name: str, version: str, record: RunRecord, run_id: str, uri: str) -> None:
    """Write a verdict to a version as tags `fairgate.SUITE.*`. Raises TrackingError where MLflow does not take them."""
    place = record.environment
    known = {
        "verdict": record.verdict,
        "needs_approval": str(len(record.needs_approval)),
        "run_id": run_id,
        "created_at": record.created_at,
        "model_fingerprint": record.model.fingerprint,
        "dataset": f"{record.dataset.name}/{record.dataset.version}",
        "baseline": record.baseline.uri if record.baseline else "none",
        "waived": str(sum(check.waived for check in record.checks)),
        "git_commit": place.git_commit,
        "ci_url": place.ci_url,
    }
    remedy = "the verdict stands; check the address, and that this job may write to the registry"
    with session(uri, f"the verdict was not written to version {version} of model '{name}'", remedy) as client:
        for key, value in known.items():
            tag = f"fairgate.{content.safe_part(record.suite)}.{key}"
            if value is not None:
                client.set_model_version_tag(name, version, tag, value[: content.LONGEST_TAG])


def _parsed(text: str) -> tuple[str, str | None, str | None]:
    """Name, version and alias; one of the last two is None."""
    name, at, alias = text.rpartition("@")
    if at and name and alias and "/" not in text:
        return name, None, alias
    name, slash, version = text.rpartition("/")
    if slash and name and not set(name) & set("/@:") and version.isascii() and version.isdigit():
        return name, version, None
    raise ModelError(
        f"'{text:.200}' is not a version of a registered model.",
        where="mlflow-model:",
        remedy="write mlflow-model:NAME/VERSION, such as mlflow-model:clip/3, or mlflow-model:NAME@ALIAS",
    )


def _version(client: MlflowClient, name: str, version: str | None, alias: str | None, uri: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        if version is None:
            return client.get_model_version_by_alias(name, alias)
        return client.get_model_version(name, version)
    except MlflowException as error:
        if error.error_code not in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
            raise
        missing = f"version {version}" if alias is None else f"alias '{alias}'"
        raise ModelError(
            f"MLflow has no {missing} of a registered model '{name}'.",
            where=redact(uri),
            remedy="check name, version and address; the page Models of MLflow lists what is registered",
        ) from error


def _digest_of(folder: Path) -> str:
    """A digest of a folder's files, by name; of none, where there is no such folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return digest({path.relative_to(folder).as_posix(): sha256_file(path) for path in paths})


def _download(client: MlflowClient, source: str, uri: str, target: Path, notes: SealedNotes, root: Path | None) -> None:
    """Download a version's files to `target`, whole or not at all, sealed first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".incoming-", dir=target.parent) as scratch:
        got = _files_of(client, source, uri, scratch, root)
        parcel = Path(scratch) / "parcel"
        if got.is_file():  # a version may be registered from one file
            parcel.mkdir()
            shutil.move(got, parcel / got.name)
        else:
            got.rename(parcel)
            gather_components(parcel)
        notes.add(target.name, _digest_of(parcel))  # first: what is there without a seal is removed by a neighbour
        try:
            parcel.rename(target)
        except OSError:
            if not target.is_dir():  # else a neighbouring job was faster
                raise


def _files_of(client: MlflowClient, source: str, uri: str, scratch: str, root: Path | None) -> Path:
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    from fairgate.models.checkpoints import require_folder

    try:
        address = _resolved(client, source)
        require_not_the_branchs(address, root)
        place = urlparse(address)
        if place.scheme in {"", "file"} and (local := Path(unquote(place.path))).is_dir():
            require_folder(local)  # MLflow's copy would follow a link out of it
        return Path(download_artifacts(artifact_uri=address, dst_path=scratch, tracking_uri=uri, registry_uri=uri))
    except MlflowException as error:
        message = " ".join(redact(str(error)).split())
        raise ModelError(
            f"the files of the registered model could not be downloaded: {message[:400]}",
            where=redact(source),
            remedy="check that the version's files are still there, or register it again",
        ) from error


def _resolved(client: MlflowClient, source: str, depth: int = 8) -> str:
    """The address of the files behind `models:/` and `runs:/`, which MLflow itself would look for in the process-wide
    store."""
    parts = [unquote(part) for part in urlparse(source).path.split("/") if part]
    scheme = source.partition(":")[0]
    if scheme not in {"models", "runs"} or not parts or not depth:
        return source
    if scheme == "models":
        if len(parts) > 1:
            return _resolved(client, str(client.get_model_version_download_uri(parts[0], parts[1])), depth - 1)
        return str(client.get_logged_model(parts[0]).artifact_location)
    run_id, *path = parts
    run = client.get_run(run_id)
    if path:
        models = client.search_logged_models([run.info.experiment_id], filter_string=f"source_run_id = '{run_id}'")
        for model in models:
            if model.name == path[0]:
                return "/".join([model.artifact_location, *path[1:]])
    return "/".join([str(run.info.artifact_uri), *path])
