"""Models that are judged: a model URI and images in, answers out, with embeddings cached by content."""

from fairgate.models.cache import CacheWarning, EmbeddingCache
from fairgate.models.contract import (
    PRECOMPUTED,
    Capability,
    Capable,
    ImageIndex,
    ImageSource,
    LabelModel,
    Model,
    ModelFamily,
    Request,
    RereadingModel,
    SimilarityModel,
    equal_columns,
    indistinct,
    require_capability,
)
from fairgate.models.registry import local_path, open_scorer, register, require_uri, uri_forms

__all__ = [
    "PRECOMPUTED",
    "CacheWarning",
    "Capability",
    "Capable",
    "EmbeddingCache",
    "ImageIndex",
    "ImageSource",
    "LabelModel",
    "Model",
    "ModelFamily",
    "Request",
    "RereadingModel",
    "SimilarityModel",
    "equal_columns",
    "indistinct",
    "local_path",
    "open_scorer",
    "register",
    "require_capability",
    "require_uri",
    "uri_forms",
]
