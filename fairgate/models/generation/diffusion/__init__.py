"""Stable Diffusion in four roles: files found and checked, a pipeline loaded, and one loop over its schedule."""
