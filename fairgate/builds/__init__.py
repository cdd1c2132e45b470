"""The dataset factory: a recipe and an engine make a build, which people review and a person releases."""

from fairgate.builds.build import Factory
from fairgate.builds.params import NamedBuild, build_names, read_build
from fairgate.builds.plan import Ground
from fairgate.builds.shard_log import Ledger, Quiet, Watcher
from fairgate.builds.status import PartStatus, part_states

__all__ = [
    "Factory",
    "Ground",
    "Ledger",
    "NamedBuild",
    "PartStatus",
    "Quiet",
    "Watcher",
    "build_names",
    "part_states",
    "read_build",
]
