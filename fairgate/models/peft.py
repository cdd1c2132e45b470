"""`peft:DIR?base=URI`: an adapter that peft saved, merged into the model that it was trained on.

`base=` is last and holds all that follows: the URI of a folder of transformers, with its options. What the adapter's
config calls its base is not followed: it may be a path of the machine that trained it, or whatever its author wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, get_args

from fairgate.ground.errors import ModelError
from fairgate.models import checkpoints
from fairgate.models.contract import Capability, Model, Request, register

_BASE = "?base="


@register
class PeftAdapters:
    """Adapters of the models in transformers' folders."""

    scheme: ClassVar[str] = "peft"
    forms: ClassVar[tuple[str, ...]] = ("peft:DIR?base=URI",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset(get_args(Capability))
    """The base's: the opened model says which."""

    def local_path(self, address: str) -> Path | None:
        """The adapter's folder, unless it is one of the hub."""
        return checkpoints.local_folder(address)

    def origin(self, address: str) -> str:
        """The URI of the base."""
        return address.partition(_BASE)[2]

    def open(self, request: Request) -> Model:
        """Find and hash the adapter and its base; the base's family opens both as one. Raises ModelError."""
        named, origin = request.address.partition("?")[0], self.origin(request.address)
        if not named or not request.address.startswith(f"{named}{_BASE}") or not origin:
            known = checkpoints.named_base(checkpoints.resolve(named, request.base)) if named else ""
            raise ModelError(
                "the URI does not say which model the adapter was trained on"
                + (f" (its config says '{known}', which is not followed)." if known else "."),
                where=request.uri,
                remedy=f"end it with the base: peft:{named or 'DIR'}?base=hf:FOLDER (or vlm:FOLDER?question=TEXT, ...)",
            )
        adapter = checkpoints.find_adapter(checkpoints.judged_folder(named, request.base))
        with checkpoints.adapting(adapter, request.uri):
            model = request.open_other(origin, known_as=request.uri)
        own = checkpoints.files_named(adapter.path, checkpoints.READING_FILES)
        rank = f"an adapter ({adapter.config.kind}) is merged into {origin}"
        notes = [rank, f"it brings its own {', '.join(own)}" if own else None, getattr(model, "note", None)]
        model.note = "; ".join(filter(None, notes))  # type: ignore[attr-defined] # what a notice reads where a model has it
        return model
