"""The cache keeps what it is given, and is never the reason that a run fails."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from model_world import PROMPTS, Pictures

from fairgate.models import CacheWarning, EmbeddingCache, open_scorer

ARRAYS = {"embeddings": np.arange(12, dtype=np.float32).reshape(3, 4), "scale": np.ones(1, dtype=np.float32)}


def test_what_is_written_is_read_back(cache: EmbeddingCache) -> None:
    assert cache.read("images/a") is None
    cache.write("images/a", ARRAYS, {"prompts": "[]"})
    entry = cache.read("images/a")
    assert entry is not None
    np.testing.assert_array_equal(entry.arrays["embeddings"], ARRAYS["embeddings"])
    assert entry.notes == {"prompts": "[]"}
    assert [found.notes for found in cache.below("images")] == [{"prompts": "[]"}]
    assert list(cache.below("nothing")) == []
    assert [path.name for path in (cache.folder / "images").iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_damaged_file_is_ignored_once_and_written_anew(damage: str, cache: EmbeddingCache) -> None:
    cache.write("images/a", ARRAYS)
    path = cache.folder / "images/a.safetensors"
    whole = path.read_bytes()
    flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    foreign = b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "
    path.write_bytes({"truncated": whole[:-5], "flipped": flipped, "empty": b"", "foreign": foreign}[damage])
    with pytest.warns(CacheWarning, match="cannot be used and is computed again") as caught:
        assert [cache.read("images/a") for _ in range(2)] == [None, None]
    assert len(caught) == 1
    cache.write("images/a", ARRAYS)
    entry = cache.read("images/a")
    assert entry is not None
    np.testing.assert_array_equal(entry.arrays["embeddings"], ARRAYS["embeddings"])


@pytest.mark.parametrize("damage", [(b"nurse", b"purse"), (b'":"[', b'":"X'), (b'"prompts"', b'"pr0mpts"')])
def test_an_entry_whose_notes_were_changed_is_ignored(damage: tuple[bytes, bytes], cache: EmbeddingCache) -> None:
    cache.write("images/a", ARRAYS, {"prompts": '["a nurse"]'})
    path = cache.folder / "images/a.safetensors"
    whole = path.read_bytes()
    assert whole.count(damage[0]) == 1
    path.write_bytes(whole.replace(*damage))
    with pytest.warns(CacheWarning, match="its checksum does not match"):
        assert cache.read("images/a") is None
    assert not path.exists()


def test_an_entry_from_before_notes_were_checked_counts_where_it_has_none(cache: EmbeddingCache) -> None:
    for name, notes in (("a", {}), ("b", {"prompts": "[]"})):
        cache.write(f"images/{name}", ARRAYS, notes)
        path = cache.folder / f"images/{name}.safetensors"
        path.write_bytes(path.read_bytes().replace(b'"format":"2"', b'"format":"1"'))
    kept, dropped = cache.read("images/a"), cache.read("images/b")
    assert dropped is None
    assert kept is not None
    np.testing.assert_array_equal(kept.arrays["scale"], ARRAYS["scale"])


@pytest.mark.parametrize("name", ["images", "texts"])
def test_scores_survive_damaged_entries(name: str, local_dir: Path, pictures: Pictures, cache: EmbeddingCache) -> None:
    def logits() -> np.ndarray:
        return open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=cache).logits(PROMPTS)

    first = logits()
    (path,) = (cache.folder / name).rglob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(CacheWarning, match="cannot be used"):
        again = logits()
    np.testing.assert_array_equal(first, again)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(first, logits())


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path: Path, local_dir: Path, pictures: Pictures) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = EmbeddingCache(tmp_path / "file" / "cache")
    scorer = open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=cache)
    with pytest.warns(CacheWarning, match="cannot be written: embeddings are not kept") as caught:
        scorer.similarity([PROMPTS, PROMPTS[:1], ["another prompt"]])
    scorer.logits(["a third prompt"])
    assert len(caught) == 1


def test_an_interrupted_write_leaves_no_half_file(cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write("images/a", ARRAYS)

    def full_disk(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.warns(CacheWarning, match="No space left"):
        cache.write("images/a", {"embeddings": np.zeros((9, 9), dtype=np.float32)})
    assert [path.name for path in (cache.folder / "images").iterdir()] == ["a.safetensors"]
    entry = cache.read("images/a")
    assert entry is not None
    assert entry.arrays["embeddings"].shape == (3, 4)


def test_two_processes_may_write_the_same_name(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys, warnings; from pathlib import Path; import numpy as np
        from fairgate.models import EmbeddingCache
        warnings.simplefilter("error")
        cache = EmbeddingCache(Path(sys.argv[1]))
        for turn in range(60):
            cache.write("images/a", {"embeddings": np.full((64, 64), 7, dtype=np.float32)})
            assert (cache.read("images/a").arrays["embeddings"] == 7).all()
        """
    )
    both = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["a.safetensors"]


def test_only_prompts_that_are_new_are_embedded(
    local_dir: Path, pictures: Pictures, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fairgate.models.embeddings as embed

    asked: list[str] = []
    original = embed.embed_texts

    def counted(encoder, prompts, device, uri):  # type: ignore[no-untyped-def]
        asked.extend(prompts)
        return original(encoder, prompts, device, uri)

    monkeypatch.setattr(embed, "embed_texts", counted)
    for prompts in (PROMPTS[:2], PROMPTS, [*PROMPTS, "a cook", "a cook"]):
        open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=cache).logits(prompts)
    assert asked == [*PROMPTS, "a cook"]


def test_another_dataset_gets_other_embeddings(local_dir: Path, pictures: Pictures, cache: EmbeddingCache) -> None:
    fewer = Pictures(pictures.blobs[::-1][:4])
    uri = f"open_clip:local-dir:{local_dir}"
    all_of_them = open_scorer(uri, pictures, device="cpu", cache=cache).logits(PROMPTS)
    some_of_them = open_scorer(uri, fewer, device="cpu", cache=cache).logits(PROMPTS)
    np.testing.assert_allclose(all_of_them[::-1][:4], some_of_them, atol=1e-5)
