"""The folder of the stand-ins: config.json and a safetensors file per net, hashed before anything loads them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.checkpoints.files import HashedFiles, read_config, require_file, require_folder, require_weights, resolve
from fairgate.errors import ModelError
from fairgate.hashing import digest, sha256_file
from fairgate.portraits.standin_sizes import CHIP, LOOK
from fairgate.portraits.standin_words import READ
from fairgate.portraits.world import LABELS

NETS = ("asker", "finder", "reader")
KIND = "fairgate-portraits-standins"


@dataclass(frozen=True, slots=True)
class StandinFiles:
    """The files of one net, hashed, and where they lie."""

    folder: Path
    net: str
    hashed: HashedFiles


def new_net(name: str) -> Any:
    """A net of the folder with untrained weights."""
    from fairgate.portraits import standin_nets as nets

    if name == "finder":
        return nets.Finder()
    if name == "asker":
        return nets.Looker(LOOK, len(LABELS) + 3)
    return nets.Looker(CHIP, sum(map(len, READ.values())))


def save(nets: dict[str, Any], folder: Path) -> None:
    """Write the nets in half precision, and a config with their digests."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    for name, net in nets.items():
        weights = {
            key: value.detach().to(torch.float16 if value.is_floating_point() else value.dtype).contiguous()
            for key, value in net.state_dict().items()
            if not key.endswith("num_batches_tracked")
        }
        save_file(weights, folder / f"{name}.safetensors")
    config = {
        "kind": KIND,
        "labels": LABELS,
        "perceives": READ,
        "sha256": {name: sha256_file(folder / f"{name}.safetensors") for name in NETS},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def find(address: str, net: str, base: Path) -> StandinFiles:
    """The files of a net, hashed. Raises ModelError where they are missing, of another kind or not the saved ones."""
    folder = resolve(address, base)
    require_folder(folder)
    config_path, weights = folder / "config.json", folder / f"{net}.safetensors"
    for path in (config_path, weights):
        require_file(path)
    require_weights(weights)
    config = read_config(config_path)
    known = config.get("kind") == KIND and config.get("labels") == LABELS
    if not known or config.get("perceives") != {name: list(groups) for name, groups in READ.items()}:
        raise ModelError(
            "the folder does not hold the stand-ins of this version's embedded world.",
            where=str(config_path),
            remedy="run `dvc pull`, or train them with `dvc repro train-standins`",
        )
    hashed = HashedFiles.of({"config": config_path, net: weights})
    if config.get("sha256", {}).get(net) != hashed.hashes[net]:
        raise ModelError(
            f"the weights of the {net} are damaged or replaced: the config was saved with others.",
            where=str(weights),
            remedy="run `dvc pull --force`, or train them with `dvc repro train-standins`",
        )
    return StandinFiles(folder, net, hashed)


def load(files: StandinFiles, device: str) -> tuple[Any, Any]:
    """The net in evaluation mode and its torch device. Raises ModelError when the weights do not fit."""
    import torch

    from fairgate.checkpoints.weights import read_state_dict, require_finite, require_fit

    weights = files.hashed.paths[files.net]
    files.hashed.require_unchanged()
    state = {name: value.float() for name, value in read_state_dict(weights).items()}
    net = new_net(files.net)
    counters = {name: value for name, value in net.state_dict().items() if name.endswith("num_batches_tracked")}
    state |= counters
    require_finite(state, str(weights))
    require_fit(state, net, str(weights), f"the stand-ins' {files.net}")
    net.load_state_dict(state)
    place = torch.device(device)
    return net.to(place).eval(), place


def joined(*fingerprints: str) -> str:
    """One fingerprint of a model that is made of several."""
    return digest(list(fingerprints))
