"""The dataset factory: a recipe and an engine make a build, which people review and a person releases."""

from fairgate.factory.build import Factory
from fairgate.factory.params import Build, build_names, read_build
from fairgate.factory.watch import Quiet, Watcher

__all__ = ["Build", "Factory", "Quiet", "Watcher", "build_names", "read_build"]
