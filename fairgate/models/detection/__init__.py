"""Detectors that are judged: folders of transformers, and tables of boxes that somebody computed before."""
