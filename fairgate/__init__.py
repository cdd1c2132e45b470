"""fairgate: a regression test gate for the fairness of vision models."""

__version__ = "0.1.0"
