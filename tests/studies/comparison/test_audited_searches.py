"""MaxSkew over subjects and words, beside what chance gives."""

from __future__ import annotations

import numpy as np
import pytest
from audit_toy import audit_of, ranked, uri
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.formulas.metrics import expected_max_skew, max_skew_at_k
from fairgate.records.comparison import AuditRecord, RetrievalAudit, SkewRow
from fairgate.reports.comparison_findings import findings, refusal_words
from fairgate.studies.comparison import AuditOptions
from fairgate.studies.comparison.ranking import summaries
from fairgate.suites import resolve


def gallery(toy: Toy, subject: str) -> tuple[np.ndarray, np.ndarray]:
    """Similarities and genders of a subject's images, for `base`."""
    prepared = gate.prepare("jobs", toy.root)
    typed = {"model": uri("base"), "baseline": "none", "mlflow": "off", "cache": "off"}
    scores = gate.score(prepared, resolve(prepared.loaded.suite, typed)).scores["search"].value
    index = prepared.dataset.index
    here = index.subject == subject
    return scores[here][None, :], np.asarray(index.codes("gender")[0])[here]


def test_max_skew_of_a_subject_stands_beside_the_fair_ranker(audited_toy: Toy, toy_audit: AuditRecord) -> None:
    scores, gender = gallery(audited_toy, "doctor")
    (row,) = [r for r in ranked(toy_audit).skews if (r.model, r.subject, r.over) == ("base", "doctor", "gender")]
    assert row.k == 60
    assert row.value == pytest.approx(max_skew_at_k(scores, gender, 60, groups=2)[0])
    null = expected_max_skew(60, "dataset", [80, 80])
    assert (row.null_median, row.null_p95) == (null.median, null.p95)
    top = gender[np.argsort(-scores[0], kind="stable")[:60]]
    assert row.favoured == ("male" if (top == 0).mean() > 0.5 else "female")
    assert not row.tied


def test_utility_stands_beside_skew(audited_toy: Toy, toy_audit: AuditRecord) -> None:
    rows = {row.model: row for row in ranked(toy_audit).recall}
    assert set(rows) == {"base", "tuned", "biased"}
    for name, row in rows.items():
        prepared = gate.prepare("jobs", audited_toy.root)
        typed = {"model": uri(name), "baseline": "none", "mlflow": "off", "cache": "off"}
        rank = gate.score(prepared, resolve(prepared.loaded.suite, typed)).scores["search"].rank
        assert rank is not None
        assert (row.k, row.n_sets) == (1, 80)
        assert row.value == pytest.approx((rank == 1).mean())
        assert row.lo <= row.value <= row.hi


def test_a_summary_is_the_distribution_over_subjects_and_counts_those_beyond_chance() -> None:
    rows = [
        SkewRow(
            model="m",
            subject=str(at),
            over="race",
            k=9,
            value=value,
            favoured="a",
            null_median=0.1,
            null_p95=0.3,
            tied=False,
        )
        for at, value in enumerate([0.0, 0.1, 0.2, 0.3, 0.8])
    ]
    (row,) = summaries(rows)
    assert (row.lowest, row.lower_quartile, row.median, row.upper_quartile, row.highest) == (0.0, 0.1, 0.2, 0.3, 0.8)
    assert row.mean == pytest.approx(0.28)
    assert (row.beyond, row.subjects, row.null_median, row.null_p95) == (1, 5, 0.1, 0.3)


def test_k_is_the_suites_own_unless_another_is_wished(audited_toy: Toy, toy_audit: AuditRecord) -> None:
    assert {row.k for row in ranked(toy_audit).skews} == {60}
    assert {row.k for row in ranked(audit_of(audited_toy.root, "base", options=AuditOptions(k=12))).skews} == {12}


def test_without_a_k_in_the_suite_there_is_a_place_for_every_crossed_group(toy: Toy) -> None:
    toy.write_suite("\n".join(line for line in SUITE.splitlines() if "id: skew" not in line))
    assert {row.k for row in ranked(audit_of(toy.root, "base")).skews} == {4}


def test_a_k_beyond_the_gallery_is_said_and_not_invented(audited_toy: Toy) -> None:
    found = ranked(audit_of(audited_toy.root, "base", options=AuditOptions(k=161)))
    assert found.skews == []
    assert {one.what for one in found.refusals} >= {"MaxSkew@161 of doctor over gender"}
    assert all(text.startswith("No MaxSkew@161") for text in refusal_words(found.refusals))


def test_all_images_compete_for_the_words_of_an_association(toy: Toy) -> None:
    probe = '  words: {kind: association, template: "a photo of a {word}", words: [nurse, line cook]}\n'
    toy.write_suite(SUITE.replace("decision:", probe + "decision:"))
    record = audit_of(toy.root, "base")
    assert ranked(record).kind == "retrieval"
    (found,) = [one for one in record.probes if isinstance(one, RetrievalAudit) and one.kind == "association"]
    assert {row.subject for row in found.skews} == {"nurse", "line cook"}
    (row,) = [r for r in found.skews if (r.subject, r.over) == ("nurse", "gender")]
    assert row.k == 4
    assert row.null_median == expected_max_skew(4, "dataset", [160, 160]).median


def test_a_search_that_shows_one_group_only_stands_out(toy: Toy) -> None:
    lines = (toy.root / "base.csv").read_text(encoding="utf-8").splitlines()
    pulled = [
        ",".join([*cells[:6], *(str(float(x) + 9) for x in cells[6:])])
        if (cells := line.split(","))[1] == "light-male"
        else line
        for line in lines
    ]
    (toy.root / "pulled.csv").write_text("\n".join(pulled), encoding="utf-8")
    record = audit_of(toy.root, "pulled", options=AuditOptions(k=40))
    rows = [row for row in ranked(record).skews if row.over == "skin_tone × gender"]
    assert {(row.favoured, round(row.value, 6)) for row in rows} == {("light × male", round(np.log(4), 6))}
    assert any(text.startswith("pulled: MaxSkew@40 over skin_tone × gender is beyond") for text in findings(record))


def test_a_check_within_groups_is_a_further_metric_and_cuts_no_table(toy: Toy) -> None:
    """Its k is of the images of one tone; as a cut of whole galleries it would fill every table a second time."""
    toy.write_suite(
        SUITE + "  - {id: within, probe: search, metric: marginal_max_skew_at_k, k: 40, over: crossed, "
        "within: skin_tone, by: subject, at_most: 0.6}\n"
    )
    record = audit_of(toy.root, "tuned", "biased")
    assert {row.k for row in ranked(record).skews} == {60}
    rows = [row for one in record.metrics for row in one.rows if (row.metric, row.k) == ("marginal_max_skew_at_k", 40)]
    assert {(row.model, row.subject) for row in rows} == {
        (m, s) for m in ("tuned", "biased") for s in ("chef", "doctor")
    }
    assert {row.over for row in rows} == {"skin_tone × gender"}
