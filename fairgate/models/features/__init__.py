"""Backbones without labels of their own, and heads that are fitted on their features: linear ones, and neighbours."""
