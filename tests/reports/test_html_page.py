"""report.html: one file, safe, small, and it says what the record says."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser

import pytest
from example_records import (
    GROUPS,
    NOTICE,
    SUBJECTS,
    example_checks,
    example_pictures,
    example_record,
    fairness_check,
    gap_check,
    photographs_record,
    portrait,
    skew_check,
)
from jinja2 import UndefinedError

from fairgate.records import Coverage, Misclassification, RunRecord
from fairgate.reports import read_results, render_html, standalone_page, write_results
from fairgate.reports.standalone_page import filter_of, filter_rules

VOID = {"meta", "img", "line", "rect", "circle", "path"}


class _Reader(HTMLParser):
    """Collects tags with their attributes, and checks that every tag is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))

    def of(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


@pytest.fixture(scope="module")
def page(record: RunRecord) -> _Reader:
    return _Reader(render_html(record, example_pictures))


def test_the_verdict_comes_first_and_then_what_failed_in_plain_words(page: _Reader) -> None:
    places = [
        page.text.rindex(said)
        for said in (
            "occupations: fail, and 1 check could not be computed",
            "3 failed, 1 could not be computed, 1 inconclusive, 15 passed, of 20 checks.",
            "3 of 20 checks failed",
            "doctor (hard_labels): dark × female 0.035 behind its set-mates before and 0.345 behind now; margin 0.040",
            "Across subjects",
            "15 checks within bounds",
            "How this was decided",
            "pytest --fairness-suite occupations",
        )
    ]
    assert places == sorted(places)


def test_the_page_fetches_nothing_and_runs_nothing(page: _Reader) -> None:
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    assert all(str(image["src"]).startswith("data:image/") for image in page.of("img"))
    assert not [attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    assert not [attributes for _, attributes in page.tags if "style" in attributes]
    links = {str(link["href"]) for link in page.of("a")}
    assert {link for link in links if not link.startswith("#")} == {"https://ci.example.org/runs/7"}


def test_the_policy_admits_the_one_style_sheet_and_data_pictures_only(record: RunRecord) -> None:
    text = render_html(record, None)
    css = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    policy = next(m for m in _Reader(text).of("meta") if m.get("http-equiv") == "Content-Security-Policy")["content"]
    assert css is not None
    digest = base64.b64encode(hashlib.sha256(css.group(1).encode()).digest()).decode()
    assert str(policy).startswith(f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'")
    assert "url(" not in css.group(1)
    assert "@import" not in css.group(1)


def test_hostile_text_is_shown_and_does_nothing(record: RunRecord) -> None:
    text = render_html(record, example_pictures)
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x1b" not in text


def test_an_address_that_is_not_of_the_web_is_text(record: RunRecord) -> None:
    environment = record.environment.model_copy(update={"ci_url": "javascript:alert(1)"})
    page = _Reader(render_html(example_record(environment=environment), None))
    assert all(str(link["href"]).startswith("#") for link in page.of("a"))
    assert "javascript:alert(1)" in page.text


def test_every_inner_link_has_its_target(page: _Reader) -> None:
    ids = [str(attributes["id"]) for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(link["href"])[1:] for link in page.of("a") if str(link["href"]).startswith("#")} <= set(ids)


def test_every_picture_has_words_and_every_drawing_is_beside_its_numbers(page: _Reader) -> None:
    assert all(image["alt"] for image in page.of("img"))
    assert all(drawing.get("aria-hidden") == "true" for drawing in page.of("svg") if "class" in drawing)
    labels = [str(drawn["aria-label"]) for drawn in page.of("div") if drawn.get("role") == "img"]
    assert "change −0.310 [−0.331, −0.289]; margin 0.040" in labels


def test_the_worst_sets_are_rows_of_pictures_in_the_order_of_groups(record: RunRecord) -> None:
    text = render_html(record, example_pictures)
    first = text[text.index("doctor-0000</strong>") :]
    shown = re.findall(r'<span class="who">(.*?)</span>', first)[: len(GROUPS)]
    assert tuple(shown) == GROUPS
    said = _Reader(first[: first.index("</figure>")].split("</figcaption>")[1]).text
    assert "dark × female P(true) 0.120 ▼ lowest taken for “nurse”" in said
    assert "light × female P(true) 0.930 ▲ highest “doctor”" in said


def test_single_images_flow_in_one_grid_and_are_called_images() -> None:
    def photographs(ids: Sequence[str]) -> Mapping[str, Sequence[tuple[str, bytes]]]:
        return {set_id: [("0", portrait("light"))] for set_id in ids}

    page = _Reader(render_html(photographs_record(), photographs))
    assert "Worst images" in page.text
    assert len(page.of("img")) == 6
    assert [attributes.get("class") for attributes in page.of("ul")].count("members images") == 1
    assert "light × female P(true) 0.020 taken for “man”val-0" in page.text
    assert "one member" not in page.text
    assert "· person" not in page.text


@pytest.mark.parametrize(
    ("metric", "spread", "said"),
    [
        ("accuracy", 2.0, "doctor-0000 doctor · 2 wrong"),
        ("group_gap", 0.29, "doctor-0000 doctor · one member 0.290 behind its set-mates"),
        ("fairness", 0.29, "doctor-0000 doctor · spread 0.290"),
        ("fairness", None, "doctor-0000 doctor pictures"),
    ],
)
def test_how_bad_a_set_is_is_said_in_the_terms_of_the_metric(metric: str, spread: float | None, said: str) -> None:
    worst = gap_check("doctor", "fail").worst_sets[0].model_copy(update={"spread": spread})
    check = fairness_check(None, 0.2, metric=metric, worst_sets=[worst])
    first = fairness_check("doctor", 0.2, worst_sets=[worst])
    named = fairness_check("nurse", 0.2, worst_sets=[worst.model_copy(update={"subject": "nurse"})])
    page = _Reader(render_html(example_record([first, check, named]), example_pictures))
    assert said in page.text


def test_single_images_count_in_the_facts() -> None:
    page = _Reader(render_html(photographs_record(), None))
    assert page.text.count("Images9") == 2


def test_the_method_shortens_digests_and_explains_only_what_was_measured(page: _Reader) -> None:
    probes = {"gender": f"zero_shot_classification:{'c3' * 32}"}
    single = _Reader(render_html(photographs_record(probes=probes), None))
    assert "Probe genderzero_shot_classification c3c3c3c3c3c3" in single.text
    assert "c3" * 10 not in single.text
    assert "even for a fair ranker" not in single.text
    assert "even for a fair ranker" in page.text


def test_what_would_settle_a_check_with_groups_is_said_per_group() -> None:
    page = _Reader(render_html(photographs_record(), None))
    assert "9; about 2,645 per group would settle it" in page.text
    assert page.text.count("No pictures are in this dataset.") == 1


def test_sets_that_are_neither_counterfactual_nor_single_images_are_called_sets(record: RunRecord) -> None:
    dataset = record.dataset.model_copy(update={"counterfactual": False})
    page = _Reader(render_html(example_record(dataset=dataset), None))
    assert "Worst sets" in page.text
    assert "Worst counterfactual sets" not in page.text


def test_the_notice_of_the_dataset_stands_beside_figures(page: _Reader) -> None:
    assert page.text.count(NOTICE) >= 4


def test_a_dataset_without_pictures_says_so() -> None:
    for pictures in (None, lambda _: {}):
        page = _Reader(render_html(example_record(), pictures))
        assert not page.of("img")
        assert "No pictures are in this dataset." in page.text


def test_missing_and_unreadable_pictures_are_named() -> None:
    def some(ids: Sequence[str]) -> Mapping[str, Sequence[tuple[str, bytes]]]:
        return {ids[0]: [("m0", portrait("light")), ("m1", b"not a picture")]}

    page = _Reader(render_html(example_record(), some))
    assert len(page.of("img")) == 1
    assert "unreadable" in page.text
    assert "no picture" in page.text


def test_a_set_that_speaks_against_two_checks_is_pictured_once() -> None:
    check = gap_check("doctor", "fail")
    page = _Reader(render_html(example_record([check, check.model_copy(update={"id": "second"})]), example_pictures))
    assert len(page.of("img")) == 3 * len(GROUPS)
    assert page.text.count("pictures above") == 3


def test_confusions_heat_maps_and_nulls_are_shown(page: _Reader) -> None:
    assert "71 (59%)" in page.text
    assert "Where attributes cross: change against the baseline" in page.text
    assert "median 0.200, 95% under 0.360" in page.text


def test_an_absent_number_is_a_dash_with_its_reason_and_an_infinite_one_is_not_zero(page: _Reader) -> None:
    assert "– (could not be computed)" in page.text
    assert "– (the baseline has no number)" in page.text
    assert "−∞" in page.text


def test_a_page_from_results_json_says_what_the_first_one_said(tmp_path_factory: pytest.TempPathFactory) -> None:
    record = example_record([skew_check("nurse", 0.78, absent=True), gap_check("doctor", "fail")])
    again = read_results(write_results(record, tmp_path_factory.mktemp("results")))
    said = render_html(record, example_pictures).replace("−∞", "infinite")
    drawn = re.compile(r'<svg x="1%".*?</svg>')
    assert drawn.sub("", said) == render_html(again, example_pictures)


def test_subjects_without_a_finite_number_point_beyond_the_line() -> None:
    checks = [skew_check(subject, value) for subject, value in zip(SUBJECTS, (0.1, 0.2, 0.3), strict=False)]
    low = checks[0].model_copy(update={"value": -math.inf, "lo": None, "hi": None, "null_p95": None})
    text = render_html(example_record([low, *checks[1:]]), None)
    assert 'class="arrow"' in text


def test_a_margin_without_a_known_side_is_drawn_on_both() -> None:
    check = gap_check("doctor", "fail").model_copy(update={"better": None, "groups": []})
    text = render_html(example_record([check]), None)
    assert text.count('class="bound"') == 2
    lower = check.model_copy(update={"better": "lower", "metric": "ndkl_at_k", "delta": 0.3, "delta_lo": 0.2})
    assert render_html(example_record([lower]), None).count('class="bound"') == 1


def test_a_run_that_measured_too_little_never_reads_as_a_pass() -> None:
    assert "No check was run." in render_html(example_record([]), None)
    coverage = Coverage(
        expected_sets=9,
        scored_sets=3,
        expected_images=18,
        scored_images=6,
        prompts=1,
        missing=[f"set-{i}" for i in range(60)],
    )
    page = _Reader(render_html(example_record([skew_check("chef", 0.3)], verdict="error", coverage=coverage), None))
    assert "did not measure everything" in page.text
    assert "set-49" in page.text
    assert "and 10 more in results.json" in page.text
    assert "Nothing failed" not in page.text


def test_a_passing_page_claims_no_proof() -> None:
    passing = [check for check in example_checks() if check.verdict == "pass"]
    page = _Reader(render_html(example_record(passing, baseline=None), None))
    assert "not a proof of fairness" in page.text
    assert "none: only absolute bounds were checked" in page.text
    assert "open" in next(details for details in page.of("details") if details.get("class") == "fold")


def test_many_checks_and_large_pictures_stay_under_five_megabytes() -> None:
    checks = [gap_check(SUBJECTS[i % 6], "fail").model_copy(update={"id": f"check-{i:04d}"}) for i in range(300)]
    checks = [
        check.model_copy(
            update={
                "worst_sets": [
                    worst.model_copy(update={"set_id": f"{check.id}-{i}"}) for i, worst in enumerate(check.worst_sets)
                ]
            }
        )
        for check in checks
    ]
    large = portrait("dark", size=400, noise=1)
    asked: list[str] = []

    def heavy(ids: Sequence[str]) -> Mapping[str, Sequence[tuple[str, bytes]]]:
        asked.extend(ids)
        return {set_id: [(f"m{i}", large) for i in range(len(GROUPS))] for set_id in ids[:4]}

    text = render_html(example_record([*checks, *(fairness_check(f"s{i}", 0.9) for i in range(400))]), heavy)
    page = _Reader(text)
    assert len(text.encode()) < 5_000_000
    assert len(asked) == 24
    assert 0 < len(page.of("img")) <= 32
    assert "Pictures left out to keep this file small." in page.text
    assert "Further checks that did not pass" in page.text
    assert "and 100 more in results.json" in page.text


def test_endless_text_is_cut_and_the_page_still_fits() -> None:
    long = "x" * 20_000  # 14 MB if a single column is not cut
    checks = [
        fairness_check(f"s{i}", 0.1, id=f"{long}{i}", reason=long, over=long, probe=long, interval=long)
        for i in range(700)
    ]
    tables = [
        Misclassification(probe="p", subject=f"s{i}", group=f"g{j}", predicted=f"l{j}", count=0, total=0)
        for i in range(40)
        for j in range(120)
    ]
    text = render_html(example_record(checks, confusions=tables, command=long), None)
    assert len(text.encode()) < 5_000_000
    assert re.search(r"and \d+ more in results.json", text)


def test_a_page_that_is_too_large_tells_less(monkeypatch: pytest.MonkeyPatch, record: RunRecord) -> None:
    from fairgate.reports import run_page

    whole = render_html(record, example_pictures)
    monkeypatch.setattr(run_page, "MAX_BYTES", len(whole.encode()) - 1)
    some = [gap_check(SUBJECTS[i % 6], "fail").model_copy(update={"id": f"c{i}"}) for i in range(40)]
    assert "Further checks that did not pass" in render_html(example_record(some), None)


def test_groups_beyond_the_budget_are_left_to_the_results_file() -> None:
    check = gap_check("doctor", "fail")
    many = [check.groups[0].model_copy(update={"group": f"g{i}"}) for i in range(250)]
    text = render_html(example_record([check.model_copy(update={"groups": many})]), None)
    assert "250 groups: listed in results.json." in text


def test_importing_the_reports_imports_nothing_heavy() -> None:
    heavy = ("torch", "mlflow", "pandas", "pyarrow", "numpy", "PIL", "jinja2", "rich", "matplotlib", "plotly")
    code = f"import sys, fairgate.reports; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_variable_that_a_page_forgets_is_an_error_and_no_import_of_the_words() -> None:
    templates = standalone_page._environment()
    for forgotten in ("Counter", "Final", "check", "clean", "escape", "json", "math", "record"):
        with pytest.raises(UndefinedError):
            templates.from_string(f"{{{{ {forgotten} }}}}").render()


def test_the_filter_shows_the_checks_and_the_rows_of_what_is_chosen(record: RunRecord) -> None:
    page = _Reader(render_html(record, example_pictures))
    classes = [(tag, str(attributes.get("class") or "").split()) for tag, attributes in page.tags]
    choices = filter_of([*record.checks])
    shown = [of for tag, of in classes if tag in ("article", "details") and "k" in of]
    assert len(shown) == len(record.checks)
    assert all(sum(name[0] == "k" and name[1:].isdigit() for name in of) == 1 for of in shown)
    rows = [name for tag, of in classes if tag == "tr" and "g" in of for name in of if name[0] == "g" and name != "g"]
    assert {choices.groups[int(name[1:])] for name in rows} == {
        g.group for check in record.checks for g in check.groups
    }
    rules = filter_rules()
    assert "#by-check option:nth-child(3):checked) .k:not(.k1) " in rules, "the first option is all"
    assert "#by-group option:nth-child(2):checked) :is(.k:not(.h0), tr.g:not(.g0)) " in rules
    assert [attributes["id"] for attributes in page.of("select")] == ["by-check", "by-group"]


def test_a_page_of_one_check_without_groups_has_no_filter() -> None:
    assert not _Reader(render_html(example_record([fairness_check(None, 0.9)]), None)).of("select")
