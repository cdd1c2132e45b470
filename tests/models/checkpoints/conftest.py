"""Fixtures: pictures, a tiny model, an architecture that open_clip is told of."""

from model_world import local_dir, pictures, tiny_arch, tiny_model  # noqa: F401 - fixtures
