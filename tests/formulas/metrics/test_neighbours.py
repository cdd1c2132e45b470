"""The nearest-neighbour filter of edited images: by hand, against exact flags, with ties and in blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import _ranking, knn_accept, neighbour_shares
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

CASES = json.loads((Path(__file__).parents[2] / "golden" / "knn_filter.json").read_text())["cases"]
VARIANTS = [
    (f"{self_}/{edge}", self_ == "include_self", edge == "inclusive")
    for self_ in ("exclude_self", "include_self")
    for edge in ("strict", "inclusive")
]


def gallery(case: dict[str, Any]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(case[key]) for key in ("real", "real_gender", "synth", "synth_gender"))


@pytest.mark.parametrize(("variant", "include_self", "inclusive"), VARIANTS, ids=[v[0] for v in VARIANTS])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"k{case['K']}")
def test_every_flag_of_every_variant_is_met(
    case: dict[str, Any], variant: str, include_self: bool, inclusive: bool
) -> None:
    expected = case["outputs"][variant]
    shares = neighbour_shares(*gallery(case), k=case["K"], include_self=include_self)
    np.testing.assert_allclose(shares.real, expected["P_R"], atol=1e-12)
    np.testing.assert_allclose(shares.group, expected["P_G"], atol=1e-12)
    accepted = knn_accept(
        *gallery(case),
        k=case["K"],
        tau_real=case["tau_R"],
        tau_group=case["tau_G"],
        include_self=include_self,
        inclusive=inclusive,
    )
    assert accepted.dtype == np.bool_
    assert accepted.tolist() == [bool(flag) for flag in expected["accept"]]


def test_the_paper_leaves_an_image_out_of_its_own_neighbours_and_takes_more_than_the_threshold() -> None:
    case = CASES[0]
    taken = {"k": case["K"], "tau_real": case["tau_R"], "tau_group": case["tau_G"]}
    assert knn_accept(*gallery(case), **taken).tolist() == case["outputs"]["exclude_self/strict"]["accept"]


def test_many_images_are_answered_in_blocks_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[0]
    for include_self in (False, True):
        monkeypatch.setattr(_ranking, "CHUNK", 4_000_000)
        at_once = neighbour_shares(*gallery(case), k=case["K"], include_self=include_self)
        monkeypatch.setattr(_ranking, "CHUNK", 3 * 120)
        in_blocks = neighbour_shares(*gallery(case), k=case["K"], include_self=include_self)
        np.testing.assert_array_equal(in_blocks.real, at_once.real)
        np.testing.assert_array_equal(in_blocks.group, at_once.group)


def test_some_images_are_judged_as_among_all_and_groups_may_look_at_other_numbers_of_neighbours() -> None:
    case = CASES[0]
    few, many = (neighbour_shares(*gallery(case), k=k) for k in (3, case["K"]))
    some = neighbour_shares(*gallery(case), k=case["K"], group_k=3, judged=[7, 2])
    np.testing.assert_array_equal(some.real, many.real[[7, 2]])
    np.testing.assert_array_equal(some.group, few.group[[7, 2]])


def test_equal_distances_go_by_position_real_images_first() -> None:
    real, synthetic = [[1.0], [-1.0]], [[0.0], [1.0], [-1.0]]
    groups, targets = np.array([0, 1]), np.array([0, 1, 1])
    nearest = [neighbour_shares(real, groups, synthetic, targets, k=k) for k in (1, 2, 3, 4)]
    # around 0 all four stand at distance 1: real 0, real 1, synthetic 1, synthetic 2
    assert [shares.real[0] for shares in nearest] == [1.0, 1.0, 2 / 3, 0.5]
    assert [shares.group[0] for shares in nearest] == [1.0, 0.5, 1 / 3, 0.25]


def test_many_equal_distances_keep_their_positions() -> None:
    groups = np.where(np.arange(200) < 90, 1, 0)
    shares = neighbour_shares(np.ones((200, 2)), groups, [[0.0, 0.0]], np.array([1]), k=120)
    assert shares.group.tolist() == [90 / 120]  # a sort that is not stable would mix the groups


def test_ties_hold_however_far_from_the_origin_the_embeddings_lie() -> None:
    # |x|^2 - 2xy + |y|^2 in floats calls these distances 0 and 2; differences know that both are 1
    far = 1e8
    real = [[far + 1.0, 0.0], [far - 1.0, 0.0], [far, 1.5]]
    shares = neighbour_shares(real, np.array([1, 0, 0]), [[far, 0.0]], np.array([1]), k=1)
    assert shares.group.tolist() == [1.0]
    nearer = neighbour_shares(real[1:], np.array([0, 1]), [[far, 0.6]], np.array([1]), k=1)
    assert nearer.group.tolist() == [1.0]  # 0.9 is under sqrt(1.36)


def test_an_image_may_be_its_own_neighbour_only_when_asked() -> None:
    real, synthetic = [[2.0], [9.0]], [[0.0]]
    kept = neighbour_shares(real, np.array([1, 1]), synthetic, np.array([0]), k=1, include_self=True)
    assert (kept.real[0], kept.group[0]) == (0.0, 1.0)
    left = neighbour_shares(real, np.array([1, 1]), synthetic, np.array([0]), k=1)
    assert (left.real[0], left.group[0]) == (1.0, 0.0)


def test_a_real_image_of_undefined_group_is_real_but_of_no_group() -> None:
    shares = neighbour_shares([[0.1], [0.2]], np.array([-1, 0]), [[0.0]], np.array([0]), k=2)
    assert (shares.real[0], shares.group[0]) == (1.0, 0.5)


def test_both_thresholds_are_needed_and_their_edges_are_as_said() -> None:
    real, groups = [[0.1], [0.2], [7.0]], np.array([0, 1, 1])
    synthetic, target = [[0.0]], np.array([0])  # its two nearest: P_R = 1, P_G = 0.5

    def accepted(tau_real: float, tau_group: float, inclusive: bool = False) -> bool:
        return bool(
            knn_accept(
                real, groups, synthetic, target, k=2, tau_real=tau_real, tau_group=tau_group, inclusive=inclusive
            )[0]
        )

    assert accepted(0.9, 0.4)
    assert not accepted(1.0, 0.4)
    assert not accepted(0.9, 0.5)
    assert accepted(1.0, 0.5, inclusive=True)
    assert not accepted(1.0, 0.51, inclusive=True)


def test_edits_that_fail_are_found_by_the_strength_of_the_failure() -> None:
    rng = stream(6, "planted", "edits")
    groups = np.arange(400) % 2
    real = rng.standard_normal((400, 8)) + 4.0 * groups[:, None]
    target = np.arange(200) % 2

    def share(failed: float) -> float:
        shown = np.where(rng.random(200) < failed, 1 - target, target)
        synthetic = rng.standard_normal((200, 8)) + 4.0 * shown[:, None]
        return float(knn_accept(real, groups, synthetic, target, k=20, tau_real=0.08, tau_group=0.5).mean())

    assert share(0.0) == 1.0
    assert share(0.3) == pytest.approx(0.7, abs=0.08)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"k": 0}, "k is 0, but an image has 3 possible"),
        ({"k": 4}, "k is 4, but an image has 3 possible"),
        ({"k": 5, "include_self": True}, "k is 5, but an image has 4 possible"),
        ({"synthetic": [[0.0, 1.0], [0.0, 1.0]]}, "1 dimensions, synthetic ones 2"),
        ({"real": [[0.0], [np.nan]]}, "not finite"),
        ({"real_group": np.array([0])}, "there are 2 images"),
        ({"real_group": np.array([0.0, 1.0])}, "not integer codes"),
        ({"target_group": np.array([0, -1])}, "holds the code -1"),
        ({"real_group": np.array([0, -2])}, "holds the code -2"),
        ({"tau_real": 1.1}, "tau_real is 1.1"),
        ({"tau_group": -0.1}, "tau_group is -0.1"),
        ({"tau_group": float("nan")}, "tau_group is nan"),
    ],
)
def test_what_cannot_be_answered_is_refused(change: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {
        "real": [[0.0], [1.0]],
        "real_group": np.array([0, 1]),
        "synthetic": [[0.0], [1.0]],
        "target_group": np.array([0, 1]),
        "k": 3,
        "tau_real": 0.0,
        "tau_group": 1.0,
    }
    assert knn_accept(**given).tolist() == [False, False]
    with pytest.raises(MetricError, match=match):
        knn_accept(**{**given, **change})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"group_k": 4}, "group_k is 4, but an image has 3 possible"),
        ({"judged": [2]}, "judged holds the code 2, outside 0..1"),
    ],
)
def test_images_and_numbers_of_neighbours_that_are_not_there_are_refused(change: dict[str, Any], match: str) -> None:
    with pytest.raises(MetricError, match=match):
        neighbour_shares([[0.0], [1.0]], np.array([0, 1]), [[0.0], [1.0]], np.array([0, 1]), k=3, **change)
