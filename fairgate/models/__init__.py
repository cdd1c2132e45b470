"""Models: a model URI and images in, scores out, with embeddings cached by content."""

from fairgate.models.cache import CacheWarning, EmbeddingCache
from fairgate.models.contract import ImageIndex, ImageSource, Scorer
from fairgate.models.registry import local_path, open_scorer, require_uri

__all__ = [
    "CacheWarning",
    "EmbeddingCache",
    "ImageIndex",
    "ImageSource",
    "Scorer",
    "local_path",
    "open_scorer",
    "require_uri",
]
