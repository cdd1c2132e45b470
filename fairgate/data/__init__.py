"""Datasets of counterfactual sets: written once as Parquet shards, fingerprinted by content, opened by name."""

from __future__ import annotations

from fairgate.data.dataset import Dataset, read_dataset
from fairgate.data.image_import import import_images
from fairgate.data.index import Index
from fairgate.data.manifest import Counts, Manifest, Shard, read_manifest
from fairgate.data.pixels import UnreadableImage, decode
from fairgate.data.releases import open_dataset, release, versions
from fairgate.data.set_integrity import Problem
from fairgate.data.sheet import contact_sheet
from fairgate.data.writer import write_dataset

__all__ = [
    "Counts",
    "Dataset",
    "Index",
    "Manifest",
    "Problem",
    "Shard",
    "UnreadableImage",
    "contact_sheet",
    "decode",
    "import_images",
    "open_dataset",
    "read_dataset",
    "read_manifest",
    "release",
    "versions",
    "write_dataset",
]
