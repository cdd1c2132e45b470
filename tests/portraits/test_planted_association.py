from __future__ import annotations

import itertools

import pytest

from fairgate.portraits.world import (
    BIASED_STRENGTH,
    CHECKPOINTS,
    GROUPS,
    HARD_LABELS,
    LABELS,
    NOISE,
    PLANTS,
    SUBJECTS,
    WHACKAMOLE_DEPTH,
    caption_shares,
    family_of,
    noise,
    planted_cells,
)

CELLS = list(itertools.product(LABELS, GROUPS))


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_caption_shares_are_a_distribution_over_the_family(checkpoint):
    for label, group in CELLS:
        shares = caption_shares(checkpoint, label, *group)
        assert set(shares) == set(family_of(label))
        assert sum(shares.values()) == pytest.approx(1)
        assert shares[label] == pytest.approx(1 - noise(checkpoint, label, *group))
        assert min(shares.values()) > 0


@pytest.mark.parametrize("checkpoint", ["base", "tuned"])
def test_base_and_tuned_treat_every_cell_alike(checkpoint):
    assert {noise(checkpoint, label, *group) for label, group in CELLS} == {NOISE}


def test_biased_departs_from_base_in_the_planted_cells_and_no_others():
    planted = {(plant.subject, group) for plant in PLANTS for group in plant.groups}
    for label, group in CELLS:
        more = noise("biased", label, *group) - noise("base", label, *group)
        assert more == pytest.approx(BIASED_STRENGTH if (label, group) in planted else 0)
    assert planted_cells("biased", "doctor") == {("brown", "female"), ("dark", "female")}
    assert planted_cells("biased", "chef") == set()


@pytest.mark.parametrize("strength", [0.0, 0.2, 0.4])
def test_all_of_the_strength_goes_to_the_plants_neighbour(strength):
    for plant in PLANTS:
        for group in plant.groups:
            base = caption_shares("base", plant.subject, *group)
            biased = caption_shares("biased", plant.subject, *group, strength=strength)
            assert biased[plant.subject] == pytest.approx(base[plant.subject] - strength)
            assert biased[plant.neighbour] == pytest.approx(base[plant.neighbour] + strength)


@pytest.mark.parametrize("label", LABELS)
def test_whackamole_improves_every_marginal_and_sinks_one_intersection(label):
    right = {group: 1 - noise("whackamole", label, *group) for group in GROUPS}
    mean = sum(right.values()) / len(right)
    for axis in (0, 1):
        for value in {group[axis] for group in GROUPS}:
            marginal = [p for group, p in right.items() if group[axis] == value]
            assert sum(marginal) / len(marginal) == pytest.approx(mean)
    assert mean > 1 - NOISE + 0.02
    assert right["dark", "female"] < 1 - NOISE
    behind = {group: mean - p for group, p in right.items()}
    assert behind.pop(("dark", "female")) == pytest.approx(1.5 * WHACKAMOLE_DEPTH)
    assert max(behind.values()) == pytest.approx(0.5 * WHACKAMOLE_DEPTH)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_training_uses_the_table(checkpoint):
    from fairgate.portraits.training import targets

    table = targets(checkpoint)
    for row, label in enumerate(LABELS):
        for column, group in enumerate(GROUPS):
            shares = caption_shares(checkpoint, label, *group)
            assert table[row, column].tolist() == pytest.approx([shares.get(other, 0.0) for other in LABELS])


def test_every_subject_comes_first_in_its_family():
    assert all(HARD_LABELS[subject][0] == subject for subject in SUBJECTS)
    assert len(set(LABELS)) == len(LABELS)
