"""Checkpoints: files that are hashed before anything loads them, their weights, and the device they run on."""
