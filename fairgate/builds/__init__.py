"""The dataset factory: a recipe and an engine make a build, which people review and a person releases."""

from fairgate.builds.build import Factory
from fairgate.builds.params import NamedBuild, build_names, read_build
from fairgate.builds.shard_log import Quiet, Watcher

__all__ = ["Factory", "NamedBuild", "Quiet", "Watcher", "build_names", "read_build"]
