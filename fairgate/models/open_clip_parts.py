"""What an open_clip model is built from: its config and the files that were hashed."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.checkpoints import HashedFiles

CONFIG = "open_clip_config.json"
TEXT_FOLDER, TOKENIZER = "text", "tokenizer/"
TEXT_CONFIG = f"{TEXT_FOLDER}/config.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model is built from: open_clip's config of both towers and the preprocessing, and hashed files by role.

    Roles: `weights`, `text/config.json` (of a text tower of transformers), `tokenizer/NAME`, or a file's plain name.
    """

    shown: str
    model: Mapping[str, Any]
    preprocessing: Mapping[str, Any]
    files: HashedFiles

    @contextlib.contextmanager
    def closed(self) -> Iterator[Path]:
        """A folder for open_clip that holds the config and shows the hashed text files, and nothing else."""
        model = {**self.model, "text_cfg": dict(self.model["text_cfg"])}
        with tempfile.TemporaryDirectory(prefix="fairgate-model-") as name:
            folder = Path(name)
            for role, path in self.files.paths.items():
                if role not in ("weights", CONFIG):
                    link = folder / role.removeprefix(TOKENIZER)
                    link.parent.mkdir(exist_ok=True)
                    link.symlink_to(path.resolve())
            if TEXT_CONFIG in self.files.paths:
                model["text_cfg"]["hf_model_name"] = str(folder / TEXT_FOLDER)
            config = {"model_cfg": model, "preprocess_cfg": dict(self.preprocessing)}
            (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
            yield folder
