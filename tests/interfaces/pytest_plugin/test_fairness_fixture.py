"""Tests in Python can assert on a suite, and a failing assertion explains itself."""

from __future__ import annotations

import pytest
from toy_repository import SUITE, Toy, toy_repository

OFF = ("--fairness-mlflow", "off", "--fairness-cache", "off", "-p", "no:cacheprovider")
BIASED = ("--fairness-model", "scores:biased.csv?values=logit")


@pytest.fixture
def repository(pytester: pytest.Pytester) -> Toy:
    pytester.makeini("[pytest]\n")
    return toy_repository(pytester.path)


TEST = """
import pytest

@pytest.mark.fairness(suite="jobs")
def test_doctors(fairness):
    doctors = fairness.probe("labels").subject("doctor")
    search = fairness.probe("search").subject("doctor")
    assert doctors.fairness() >= 0.85
    assert doctors.accuracy() >= 0.9
    assert doctors.accuracy(over="gender") >= 0.9
    assert doctors.group_gap(over=["skin_tone", "gender"]) >= -0.1
    assert search.max_skew(over="gender", k=60) <= 0.6
    assert search.min_skew(over="gender", k=60) >= -3
    assert search.ndkl(over="gender", k=60) <= 1
    assert search.bias(over="gender", k=60) <= 0.5
    assert search.entropy(over=["skin_tone", "gender"], k=60) >= 0.8
    assert search.c_asc(over="gender") <= 0.5
    assert fairness.probe("search").recall() >= 0.9
    assert doctors.p_true(over="gender") >= 0.5
    fairness.assert_no_intersectional_regression(over=("skin_tone", "gender"), margin=0.04)
"""


def test_assertions_hold_for_a_harmless_checkpoint(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.makepyfile(TEST)
    pytester.runpytest(*OFF).assert_outcomes(passed=1)


def test_a_failing_assertion_shows_interval_sets_and_worst_set(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.makepyfile(TEST)
    result = pytester.runpytest(*OFF, *BIASED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*fairness for doctor = 0.* over 40 sets; worst set doctor-*dark × female*"])


def test_an_intersectional_regression_names_the_group(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.fairness("jobs")
        def test_all(fairness):
            fairness.assert_no_intersectional_regression(over=("skin_tone", "gender"), margin=0.04, probe="labels")
        """
    )
    pytester.runpytest(*OFF, *BIASED).stdout.fnmatch_lines(["*dark × female*its set-mates before and * behind now*"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('fairness.probe("labls")', "*did you mean 'labels'*"),
        ('fairness.probe("labels").subject("docter").fairness()', "*did you mean 'doctor'*"),
        ('fairness.probe("labels").accuracy(over="race")', "*recorded attributes*"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    pytester: pytest.Pytester, repository: Toy, body: str, message: str
) -> None:
    pytester.makepyfile(f'import pytest\n@pytest.mark.fairness(suite="jobs")\ndef test_x(fairness):\n    {body}\n')
    result = pytester.runpytest(*OFF)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])


def test_two_classification_probes_ask_which_is_meant(pytester: pytest.Pytester, repository: Toy) -> None:
    repository.write_suite(
        SUITE.replace(
            "probes:",
            'probes:\n  more: {kind: zero_shot_classification, template: "{label}", labels: [chef, doctor]}',
        )
    )
    pytester.makepyfile(TEST)
    pytester.runpytest(*OFF).stdout.fnmatch_lines(["*has 2 classification probes*"])


def test_the_fixture_asks_for_its_suite(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.makepyfile("def test_x(fairness): pass\n")
    result = pytester.runpytest(*OFF)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.fairness(suite=*"])


MISTAKES = """
import pytest

@pytest.mark.fairness(suite="jbos")
def test_unknown_suite(fairness):
    pass

def test_without_a_suite(fairness):
    pass

@pytest.mark.fairness(suite="jobs")
def test_unknown_subject(fairness):
    assert fairness.probe("labels").subject("doktor").fairness() >= 0.85

@pytest.mark.fairness(suite="jobs")
def test_unknown_attribute(fairness):
    fairness.assert_no_intersectional_regression(over=("race", "gender"), margin=0.02)
"""


def test_mistakes_are_shown_with_their_remedy_and_no_line_of_fairgates(
    pytester: pytest.Pytester, repository: Toy
) -> None:
    pytester.makepyfile(MISTAKES)
    result = pytester.runpytest(*OFF)
    result.assert_outcomes(failed=2, errors=2)
    shown = result.stdout.str()
    for remedy in ("did you mean 'jobs'?", "without a suite; mark it", "did you mean 'doctor'?", "skin_tone, gender"):
        assert remedy in shown
    assert "raise " not in shown
    assert not [line for line in shown.splitlines() if "fairgate/" in line and ".py:" in line]
    assert "During handling" not in shown
