"""A Stable Diffusion checkpoint as a classifier: the prompt under which it denoises a picture best (Li et al. 2023)."""
