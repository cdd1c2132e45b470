"""A judged Stable Diffusion: a classifier, by the prompt under which it denoises a picture best (Li et al. 2023), and
an editor of pictures (img2img; Saravanan et al. 2023)."""
