"""Studies by name. Each registers itself when it is imported; installed packages add theirs."""

from __future__ import annotations

from fairgate.studies.papers.contract import REGISTERED

STUDIES = REGISTERED.with_modules(
    {
        "intersections": "fairgate.studies.papers.intersections",
        "caption-words": "fairgate.studies.papers.caption_words",
        "robustness": "fairgate.studies.papers.robustness",
        "word-lists": "fairgate.studies.papers.word_lists",
        "words": "fairgate.studies.papers.words",
        "image-editing": "fairgate.studies.papers.image_editing",
        "diffusion-classifier": "fairgate.studies.papers.diffusion_classifier",
        "gensynth": "fairgate.studies.papers.gensynth",
    }
)
