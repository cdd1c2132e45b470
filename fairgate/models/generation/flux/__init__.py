"""FLUX as a painter that is judged."""
