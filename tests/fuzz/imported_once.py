"""Everything that targets import: seconds each, minutes on a busy machine, and no input's fault."""

import pyarrow.parquet
import targets
import torch
import transformers
import world

import fairgate.checkpoints
import fairgate.data
import fairgate.gate
import fairgate.models.open_clip_network
import fairgate.reports
import fairgate.suites.load
from fairgate.generation import fairface, grounding_dino, matcher, sam, vilt
