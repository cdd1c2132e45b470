"""Datasets of counterfactual sets: written once as Parquet shards, fingerprinted by content, opened by name."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
