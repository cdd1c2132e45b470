"""What an open_clip model is built from, and the closed folder that open_clip is shown instead of the files' own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.models.checkpoints import HashedFiles

CONFIG = "open_clip_config.json"
TEXT_FOLDER, TOKENIZER = "text", "tokenizer/"
TEXT_CONFIG = f"{TEXT_FOLDER}/config.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model is built from: open_clip's config of both towers and the preprocessing, and hashed files by role.

    Roles: `weights`, `text/config.json` (of a text tower of transformers), `tokenizer/NAME`, or a file's plain name.
    `architecture` is the one that open_clip names, None for a folder's own; `tag` the pretrained one, whose
    preprocessing applies.
    """

    shown: str
    model: Mapping[str, Any]
    preprocessing: Mapping[str, Any]
    files: HashedFiles
    architecture: str | None
    tag: str | None
    allow_pickle: bool

    @contextlib.contextmanager
    def closed(self) -> Iterator[Path]:
        """A folder for open_clip that holds the config and shows the hashed text files, and nothing else."""
        model = {**self.model, "text_cfg": dict(self.model["text_cfg"])}
        texts = [role for role in self.files.paths if role not in ("weights", CONFIG)]
        with self.files.closed({role: role.removeprefix(TOKENIZER) for role in texts}) as folder:
            if TEXT_CONFIG in texts:
                model["text_cfg"]["hf_model_name"] = str(folder / TEXT_FOLDER)
            config = {"model_cfg": model, "preprocess_cfg": dict(self.preprocessing)}
            (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
            yield folder
