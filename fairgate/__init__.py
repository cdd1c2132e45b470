"""fairgate: a regression test gate for the fairness of vision models."""

from fairgate.version import __version__

__all__ = ["__version__"]
