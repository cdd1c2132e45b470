"""Write one run as wandb does without a network: `python wandb_writer.py PARCEL`. Imports nothing of fairgate."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any


def write_run(parcel: dict[str, Any], folder: Path) -> None:
    """Make `folder/wandb/offline-run-TIME-ID`. Nothing is recorded of console, code, packages or git."""
    import wandb

    settings = wandb.Settings(
        mode="offline",
        root_dir=str(folder),
        entity=parcel["entity"],
        project=parcel["project"],
        run_id=parcel["id"],
        run_name=parcel["name"],
        run_group=parcel["group"],
        run_notes=parcel["notes"],
        run_tags=tuple(parcel["tags"]),
        run_job_type="fairgate",
        console="off",
        silent=True,
        save_code=False,
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        x_disable_meta=True,
        x_disable_stats=True,
    )
    if hasattr(settings, "x_save_requirements"):  # versions before had no such choice
        settings.x_save_requirements = False
    run = wandb.init(settings=settings, config=parcel["config"])
    run.log(parcel["metrics"])
    for path in map(Path, parcel["files"]):
        copied = Path(run.dir) / path.name
        shutil.copyfile(path, copied)
        run.save(str(copied), base_path=run.dir, policy="end")
    run.finish(exit_code=parcel["exit_code"])


if __name__ == "__main__":
    write_run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path.cwd())
