"""Which tokens end what a model writes: those that end it in deployment. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairgate.checkpoints import GENERATION_CONFIG, TransformersFolder, read_config
from fairgate.errors import ModelError

_ENDS = "eos_token_id"
_MOST = 64


def end_ids(found: TransformersFolder) -> list[int] | None:
    """The ids that end a text, sorted: of generation_config.json where there is one, else of config.json; None where
    neither names any, and the model type's own end counts. BLIP-2's language model writes by its own config alone.

    Raises ModelError for ids that are none, and where generation_config.json leaves out an end that config.json has.
    """
    path = found.files.paths.get(GENERATION_CONFIG)
    own = _ids(found.config, str(found.path / "config.json"))
    text = found.config.get("text_config")
    inner = _ids(text, str(found.path / "config.json")) if isinstance(text, Mapping) else None
    said = _ids(read_config(path), str(path)) if path else None
    if said is not None and own is not None and not set(own) <= set(said):
        raise ModelError(
            f"texts end at {own} by config.json, and at {said} by generation_config.json, which is used in deployment.",
            where=str(path),
            remedy=f"give both files one {_ENDS}: model.save_pretrained(FOLDER) writes both",
        )
    if found.kind == "blip-2":
        return inner
    return own or inner if path is None else said


def _ids(config: Mapping[str, Any], where: str) -> list[int] | None:
    said = config.get(_ENDS)
    if said is None:
        return None
    ids = said if isinstance(said, list) else [said]
    if not 1 <= len(ids) <= _MOST or not all(type(one) is int and one >= -1 for one in ids):
        raise ModelError(
            f"{_ENDS} is {str(said)[:40]!r}.", where=where, remedy=f"give an id, or a list of at most {_MOST}"
        )
    return sorted(set(ids))
