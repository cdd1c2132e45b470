"""Everything that targets import: seconds each, minutes on a busy machine, and no input's fault."""

import importlib

for name in (
    *("pyarrow.parquet", "targets", "torch", "transformers", "world"),
    *(
        f"fairgate.{part}"
        for part in ("checkpoints", "data", "gate", "models.open_clip_network", "reports", "suites.load")
    ),
    *(f"fairgate.generation.{model}" for model in ("fairface", "grounding_dino", "matcher", "sam", "vilt")),
):
    importlib.import_module(name)
