"""A second run takes its scores from the cache and never imports what computed them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from model_world import PROMPTS, Pictures
from test_hf_adapter import save_folder

from fairgate.models import EmbeddingCache, open_scorer

SECOND_RUN = textwrap.dedent(
    """
    import sys, warnings
    from pathlib import Path
    import numpy as np
    sys.path.insert(0, sys.argv[1])
    from model_world import PROMPTS, Pictures
    from fairgate.models import EmbeddingCache, open_scorer

    folder, uri = Path(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("error")
    blobs = [(folder / f"{row}.png").read_bytes() for row in range(10)]
    source = Pictures(blobs)
    scorer = open_scorer(uri, source, device=sys.argv[4], cache=EmbeddingCache(folder / "cache"))
    np.save(folder / "again.npy", scorer.logits(PROMPTS))
    scorer.similarity([PROMPTS])
    assert source.handed_out == 0, "images were decoded again"
    heavy = {"torch", "transformers", "open_clip", "torchvision", "pandas", "mlflow"} & set(sys.modules)
    assert not heavy, f"imported {heavy}"
    """
)


@pytest.mark.parametrize("kind", ["open_clip:local-dir", "hf"])
def test_a_cached_second_run_imports_neither_torch_nor_the_model_libraries(
    kind: str, tmp_path: Path, local_dir: Path, pictures: Pictures
) -> None:
    folder = local_dir if kind == "open_clip:local-dir" else save_folder("clip", tmp_path / "hf")
    for row, blob in enumerate(pictures.blobs):
        (tmp_path / f"{row}.png").write_bytes(blob)
    uri = f"{kind}:{folder}"
    first = open_scorer(uri, pictures, device="auto", cache=EmbeddingCache(tmp_path / "cache")).logits(PROMPTS)
    command = [sys.executable, "-c", SECOND_RUN, str(Path(__file__).parent), str(tmp_path), uri, "auto"]
    subprocess.run(command, check=True, timeout=60)
    np.testing.assert_array_equal(np.load(tmp_path / "again.npy"), first)


def test_tables_of_scores_need_no_torch(tmp_path: Path, pictures: Pictures) -> None:
    program = textwrap.dedent(
        """
        import sys; sys.path.insert(0, sys.argv[1])
        from pathlib import Path
        from model_world import Pictures
        from fairgate.ground.errors import ScoresError
        from fairgate.models import open_scorer
        Path(sys.argv[2], "s.csv").write_text("path,a man,a woman,a gap\\nval/0.png,20.5,21,\\n")
        scorer = open_scorer("scores:s.csv?values=logit", Pictures([b"x"]), cache=None, base=Path(sys.argv[2]))
        assert scorer.logits(["a woman"])[0, 0] == 21
        try:
            scorer.logits(["a gap"])
        except ScoresError as error:
            assert "is empty, NaN or infinite" in str(error)
        assert not {"torch", "pandas"} & set(sys.modules)
        """
    )
    subprocess.run([sys.executable, "-c", program, str(Path(__file__).parent), str(tmp_path)], check=True, timeout=60)


def test_what_open_clip_says_of_an_architecture_is_read_again_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import open_clip

    from fairgate.models import EmbeddingCache, open_clip_parts

    own, reads = open_clip_parts._facts("ViT-B-32"), list[str]()
    monkeypatch.setattr(open_clip_parts, "_facts", lambda name: reads.append(name) or own)
    monkeypatch.delitem(sys.modules, "open_clip")
    told = [open_clip_parts.architecture_facts("ViT-B-32", EmbeddingCache(tmp_path)) for _ in range(2)]
    assert reads == ["ViT-B-32"]
    assert told[0] == told[1]
    assert told[1][0] == open_clip.get_model_config("ViT-B-32")


def test_every_probe_and_family_is_known_without_torch() -> None:
    """A gate run imports every probe of its suite's schema, and a family to take its answers from the cache."""
    program = (
        "import sys, fairgate.suites\n"
        "from fairgate.models import FAMILIES\n"
        "from fairgate.probes import PROBES\n"
        "[PROBES[one] for one in PROBES], [FAMILIES[one] for one in FAMILIES]\n"
        "heavy = {'torch', 'transformers', 'open_clip', 'diffusers', 'pandas', 'mlflow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
