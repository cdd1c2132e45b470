"""The cache keeps what it is given, and is never the reason that a run fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from model_world import PROMPTS, Pictures, encoded, picture

from fairgate.ground.errors import SettingsError
from fairgate.models import CacheWarning, EmbeddingCache, open_scorer
from fairgate.models.cache import KEY_VARIABLE

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


def test_a_pipe_in_the_place_of_an_entry_is_not_waited_for(cache: EmbeddingCache) -> None:
    cache.write("images/a", ARRAYS)
    path = cache.folder / "images/a.safetensors"
    path.unlink()
    os.mkfifo(path)
    with pytest.warns(CacheWarning, match="computed again .it is a pipe"):
        assert cache.read("images/a") is None
    cache.write("images/a", ARRAYS)
    assert cache.read("images/a") is not None


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


def test_an_entry_that_was_made_without_the_key_is_a_miss_without_a_message(
    cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = EmbeddingCache(cache.folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(cache.folder.parent / "another-job"))
    own = EmbeddingCache(cache.folder)
    theirs.write("images/a", ARRAYS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own.read("images/a") is None
        assert list(own.below("images")) == []
        assert theirs.read("images/a") is not None, "it stays: another job may need it"
        own.write("images/a", ARRAYS)
    assert own.read("images/a") is not None
    assert theirs.read("images/a") is None


def test_an_entry_under_another_name_is_a_miss(cache: EmbeddingCache) -> None:
    cache.write("images/fair", ARRAYS)
    shutil.copyfile(cache.folder / "images/fair.safetensors", cache.folder / "images/biased.safetensors")
    assert cache.read("images/biased") is None
    assert cache.read("images/fair") is not None


def test_jobs_with_one_key_in_the_environment_share_a_cache(
    cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRGATE_CACHE_KEY", "a secret of the trusted jobs")
    EmbeddingCache(cache.folder).write("images/a", ARRAYS)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(cache.folder.parent / "another-machine"))
    assert EmbeddingCache(cache.folder).read("images/a") is not None
    monkeypatch.setenv("FAIRGATE_CACHE_KEY", "1234")
    with pytest.raises(SettingsError, match="can be guessed"):
        EmbeddingCache(cache.folder)


def test_where_no_key_can_be_stored_a_run_reads_what_it_wrote_itself(
    cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache.folder.parent / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(cache.folder.parent / "file"))
    with pytest.warns(CacheWarning, match="no key could be stored .*FAIRGATE_CACHE_KEY"):
        first = EmbeddingCache(cache.folder)
    first.write("images/a", ARRAYS)
    with pytest.warns(CacheWarning, match="later runs cannot use what this one caches"):
        assert EmbeddingCache(cache.folder).read("images/a") is not None


def test_scores_are_not_those_that_a_job_without_the_key_left_under_the_models_name(
    local_dir: Path, pictures: Pictures, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def logits(where: EmbeddingCache) -> np.ndarray:
        return open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu", cache=where).logits(PROMPTS)

    honest = logits(cache)
    monkeypatch.setenv("FAIRGATE_CACHE_KEY", "the key of a job that runs a branch")
    theirs = EmbeddingCache(cache.folder)
    (path,) = (cache.folder / "images").rglob("*.safetensors")
    name = str(path.relative_to(cache.folder).with_suffix(""))
    own = cache.read(name)
    assert own is not None
    theirs.write(name, {key: value[::-1] for key, value in own.arrays.items()}, own.notes)
    assert not np.array_equal(logits(theirs), honest), "whoever has the key can lie"
    np.testing.assert_array_equal(logits(cache), honest)


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


@pytest.mark.parametrize("keys", [("one key of two jobs",) * 2, ("a key of this job", "a key of another job")])
def test_two_processes_may_write_the_same_name(keys: tuple[str, str], tmp_path: Path) -> None:
    """With one key each reads what either wrote; with two, its own or nothing. Neither ever reads half an entry."""
    program = textwrap.dedent(
        """
        import sys, warnings; from pathlib import Path; import numpy as np
        from fairgate.models import EmbeddingCache
        warnings.simplefilter("error")
        cache, own, shared = EmbeddingCache(Path(sys.argv[1])), len(sys.argv[2]), sys.argv[3] == "shared"
        for turn in range(60):
            cache.write("images/a", {"embeddings": np.full((64, 64), own, dtype=np.float32)})
            entry = cache.read("images/a")
            assert (entry is None and not shared) or (entry.arrays["embeddings"] == own).all()
        """
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    shared = "shared" if len({*keys}) == 1 else "apart"
    both = [subprocess.Popen([*words, key, shared], env={**os.environ, KEY_VARIABLE: key}) for key in keys]
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


def test_of_a_release_that_shares_images_with_others_only_the_new_ones_are_embedded(
    local_dir: Path, pictures: Pictures, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fairgate.models.embeddings as embed

    decoded: list[bytes] = []
    original = embed.decode_rgb
    monkeypatch.setattr(embed, "decode_rgb", lambda data, *where: decoded.append(data) or original(data, *where))
    added = [encoded(picture(seed)) for seed in (100, 101)]
    second = Pictures([*pictures.blobs[:3:-1], *added, added[0]])
    third = Pictures([*pictures.blobs[:2], *added, *pictures.blobs[-2:]])  # of both of the others
    uri = f"open_clip:local-dir:{local_dir}"
    for release, new in ((pictures, pictures.blobs), (second, [*added, added[0]]), (third, [])):
        decoded.clear()
        from_cache = open_scorer(uri, release, device="cpu", cache=cache).logits(PROMPTS)
        assert sorted(decoded) == sorted(new)  # by several threads
        anew = open_scorer(uri, release, device="cpu").logits(PROMPTS)
        np.testing.assert_allclose(from_cache, anew, rtol=0, atol=1e-4)  # other batches: rounding, times a scale of 100
