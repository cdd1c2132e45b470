"""Everything that targets import: seconds each, minutes on a busy machine, and no input's fault."""

import importlib

from PIL import Image

for name in (
    *("pandas", "pyarrow.parquet", "rich.console", "targets", "torch", "worker", "world"),
    *("accelerate", "torchvision.transforms.v2", "transformers.image_processing_utils", "transformers.modeling_utils"),
    *(
        f"fairgate.{part}"
        for part in ("data", "gate", "models.checkpoints", "models.open_clip_network", "models.score_table")
    ),
    "fairgate.suites.load",
    *(f"fairgate.reports.{part}" for part in ("results", "run_comment", "run_page", "run_terminal")),
    *(f"fairgate.models.generation.{model}" for model in ("fairface", "matcher", "perceivers")),
):
    importlib.import_module(name)
for face, registry in (("fairgate.metrics", "METRICS"), ("fairgate.probes", "PROBES")):
    known = getattr(importlib.import_module(face), registry)
    for each in known:
        known[each]  # its module is imported when it is first named
Image.preinit()
