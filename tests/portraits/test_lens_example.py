"""The example that table 8 of Lui et al. 2024 is printed with: what it teaches is what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

from fairgate.studies.papers.robustness import published_labels

SCRIPT = Path(__file__).parents[2] / "examples" / "lens" / "teach_vlm.py"


def test_its_tokenizer_knows_every_word_of_the_question_and_of_the_papers_labels() -> None:
    example = runpy.run_path(str(SCRIPT))
    words = example["tokenizer"]()
    labels = [label for own in published_labels().values() for label in own]
    assert all(words.unk_token_id not in words(text)["input_ids"] for text in [example["ASKED"], *labels])
    assert len({tuple(words(label)["input_ids"]) for label in labels}) == len(set(labels))
