"""Faces are cut out as FairFace's authors did: at 800 pixels a side, aligned, padded by a quarter."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from perceiver_world import PHOTOS, REAL, portrait
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models.generation.fairface import DlibFinder

with_dlib = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("dlib", "face_recognition_models")) or not PHOTOS.is_dir(),
    reason="dlib, its models or the photographs are not here: pip install 'fairgate[faces]'",
)


class FakeDlib:
    """dlib's part in it, and what it was asked. Two faces are found in every picture."""

    __version__ = "20"
    full_object_detections = list

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def cnn_face_detection_model_v1(self, path: str) -> Any:
        self.asked["detector"] = Path(path).name
        return self.detect

    def shape_predictor(self, path: str) -> Any:
        self.asked["landmarks"] = Path(path).name
        return lambda _, rect: (rect.left(), rect.right())

    def resize_image(self, pixels: Any, rows: int, cols: int) -> Any:
        self.asked["size"] = rows, cols
        return np.asarray(Image.fromarray(pixels).resize((cols, rows)))

    def detect(self, _: Any, upsample: int) -> list[Any]:
        self.asked["upsample"] = upsample
        sides = [(80, 160, 0.9), (300, 500, 1.2)]
        return [
            SimpleNamespace(rect=SimpleNamespace(**_corners(low, high)), confidence=score) for low, high, score in sides
        ]

    def get_face_chips(self, _: Any, faces: list[Any], size: int, padding: float) -> list[Any]:
        self.asked |= {"chip": size, "padding": padding}
        return [np.full((size, size, 3), left % 251, np.uint8) for left, _ in faces]


def _corners(low: int, high: int) -> dict[str, Any]:
    ends = {"left": low, "top": low, "right": high - 1, "bottom": high - 1}
    return {name: (lambda value=value: value) for name, value in ends.items()}


@pytest.fixture
def dlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDlib:
    models = tmp_path / "face_recognition_models" / "models"
    models.mkdir(parents=True)
    (models.parent / "__init__.py").write_text("raise ImportError('it needs an old setuptools')")
    for name in ("mmod_human_face_detector.dat", "shape_predictor_5_face_landmarks.dat"):
        (models / name).write_bytes(name.encode())
    monkeypatch.syspath_prepend(str(tmp_path))
    fake = FakeDlib()
    monkeypatch.setitem(sys.modules, "dlib", fake)
    return fake


def test_pictures_are_searched_and_cut_with_the_authors_settings(dlib: FakeDlib) -> None:
    faces = DlibFinder().find(portrait(1, (400, 200)))
    assert dlib.asked == {
        **{"detector": "mmod_human_face_detector.dat", "landmarks": "shape_predictor_5_face_landmarks.dat"},
        **{"size": (400, 800), "upsample": 1, "chip": 300, "padding": 0.25},
    }
    boxes = [(face.box.left, face.box.top, face.box.right, face.box.bottom) for face in faces]
    assert boxes == [(150, 150, 250, 250), (40, 40, 80, 80)]  # largest first, in pixels of the picture
    assert [face.box.score for face in faces] == [1.0, 0.9]
    assert [face.chip.getpixel((0, 0))[0] for face in faces] == [300 % 251, 80]


def test_settings_and_models_are_in_the_finders_identity(dlib: FakeDlib) -> None:
    plain, other = DlibFinder().identity, DlibFinder(side=400, upsample=0).identity
    assert {"faces": "dlib", "side": "800", "upsample": "1", "dlib": "20"}.items() <= plain.items()
    assert {name for name in plain if plain[name] != other[name]} == {"side", "upsample"}
    spec = importlib.util.find_spec("face_recognition_models")
    assert spec is not None
    folder = Path(str(spec.origin)).parent / "models"
    (folder / "mmod_human_face_detector.dat").write_bytes(b"another")
    assert DlibFinder().identity["detector"] != plain["detector"]
    (folder / "mmod_human_face_detector.dat").unlink()
    with pytest.raises(ModelError, match="the file does not exist"):
        DlibFinder()


@with_dlib
def test_a_turned_face_comes_out_upright() -> None:
    import dlib

    finder = DlibFinder(side=224, upsample=0)
    spec = importlib.util.find_spec("face_recognition_models")
    assert spec is not None
    predict = dlib.shape_predictor(str(Path(str(spec.origin)).parent / "models/shape_predictor_5_face_landmarks.dat"))
    photo = Image.open(PHOTOS / "1005.jpg").convert("RGB")
    for angle in (0, 25):
        (face,) = finder.find(photo.rotate(angle, resample=Image.Resampling.BILINEAR))
        assert face.chip.size == (300, 300)
        parts = predict(np.asarray(face.chip), dlib.rectangle(50, 50, 250, 250)).parts()
        right, left = (np.mean([(parts[i].x, parts[i].y) for i in eye], axis=0) for eye in ((0, 1), (2, 3)))
        assert abs(right[1] - left[1]) < 0.2 * abs(right[0] - left[0])  # 25 degrees would be 0.47
        assert abs((right[0] + left[0]) / 2 - 150) < 20


@with_dlib
def test_fairfaces_own_photographs_which_are_such_chips_come_back_nearly_as_they_are() -> None:
    finder = DlibFinder(side=224, upsample=0)
    for name in ("1009.jpg", "1037.jpg", "1109.jpg"):
        photo = Image.open(PHOTOS / name).convert("RGB")
        (face,) = finder.find(photo)
        pair = [np.asarray(one.convert("L"), float)[60:240, 60:240] for one in (photo.resize((300, 300)), face.chip)]
        assert np.corrcoef(pair[0].ravel(), pair[1].ravel())[0, 1] > 0.98


@with_dlib
def test_faces_of_photographs_are_found_largest_first() -> None:
    finder = DlibFinder(side=448, upsample=0)
    names = sorted(path.name for path in PHOTOS.glob("*.jpg"))[:2]
    first, second = (Image.open(PHOTOS / name).convert("RGB") for name in names)
    scene = Image.new("RGB", (448, 300), (110, 110, 110))
    scene.paste(second.resize((140, 140)), (20, 80))
    scene.paste(first, (200, 40))
    large, small = finder.find(scene)
    assert large.box.left > 200 > small.box.right
    assert large.area > small.area
    assert finder.find(Image.new("RGB", (448, 300), (110, 110, 110))) == []


@with_dlib
def test_a_face_is_found_in_the_one_whole_photograph() -> None:
    photo = Image.open(REAL / "skin/00000.png").convert("RGB")
    (face,) = DlibFinder(side=300, upsample=0).find(photo)
    assert 0.3 < (face.box.right - face.box.left) / photo.width < 0.8
