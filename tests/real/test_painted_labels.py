"""Labels of pictures that other people's generators made: published shares come out of the gate, pictures that are the
same are one piece of evidence, and ten pictures settle nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from outputs import OUTPUTS, judged, repository, rows_of, write_table
from scipy.stats import chi2_contingency

from fairgate.records import CheckResult

ROLES, PEOPLE, PROFESSIONS = (
    OUTPUTS / f"{name}" for name in ("t2i_negative_roles", "t2i_occupations_human", "sd35_professions")
)
GENDERS = ("Female", "Male")
RACES = ("White", "Black", "Indian", "East Asian", "Southeast Asian", "Middle Eastern", "Latino")
Row = Mapping[str, str]

pytestmark = pytest.mark.skipif(not ROLES.is_dir(), reason="the published labels are not next to this checkout")


def suite(columns: Mapping[str, Sequence[str]], checks: Iterable[str], *, picture: str = "", min_sets: int = 30) -> str:
    """A suite on tables of labels: a probe for every column."""
    alike = f", picture: {picture}" if picture else ""
    probes = "\n".join(
        f"  {name}: {{kind: generation, labels: {{attribute: {name}, groups: [{', '.join(groups)}]{alike}}}}}"
        for name, groups in columns.items()
    )
    listed = "\n".join(f"  - {{{check}}}" for check in checks)
    readable = "\n".join(f"  - {{id: {one}, probe: {one}, metric: readable, at_least: 0.5}}" for one in columns)
    return f"""\
schema: 1
suite: painted
dataset: painted
probes:
{probes}
groups: {{min_sets: {min_sets}}}
decision: {{draws: 1000}}
checks:
{readable}
{listed}
"""


def home(root: Path, rows: Sequence[Row], text: str, **tables: Sequence[Row]) -> Path:
    """A repository with a row for every picture, and tables with its labels."""
    root.mkdir(exist_ok=True)
    prompts = [
        {"set_id": f"p{at}", "member": "only", "subject": row["role"] or "unnamed", "caption": row["role"] or "someone"}
        for at, row in enumerate(rows)
    ]
    repository(root, "painted", prompts, {}, text)
    for name, labels in tables.items():
        columns = list(labels[0])
        cells = [[f"p{at}", "only", *(row[one] for one in columns)] for at, row in enumerate(labels)]
        write_table(root / f"{name}.csv", ["set_id", "member", *columns], cells)
    return root


def run(root: Path, model: str, baseline: str = "none") -> dict[str, CheckResult]:
    found = judged(root, "painted", model=f"labels:{model}.csv", baseline=baseline)
    assert found.verdict != "error", next(one.reason for one in found.checks if one.verdict == "error")
    return {one.item: one for one in found.checks}


def share_checks(columns: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        f"id: {name}-{at}, probe: {name}, metric: perceived_share, group: {group}, at_least: 0"
        for name, groups in columns.items()
        for at, group in enumerate(groups)
    ]


def published(name: str) -> list[dict[str, str]]:
    """Labels, with what tells a picture from another: role and the confidences of what is read in it."""
    return [
        {**row, "picture": f"{row['role']}/{row['race_conf']}/{row['gender_conf']}"}
        for row in rows_of(ROLES / f"sd15_{name}_prompt.csv.gz")
    ]


@pytest.mark.parametrize("name", ["plain", pytest.param("fair", marks=pytest.mark.nightly)])
def test_published_shares_and_parity_of_stable_diffusion_come_out(name: str, tmp_path: Path) -> None:
    columns = {"gender": GENDERS, "race": RACES}
    rows = published(name)
    found = run(home(tmp_path, rows, suite(columns, share_checks(columns)), now=rows), "now")
    values = {group: found[f"{of}-{at}"].value for of, groups in columns.items() for at, group in enumerate(groups)}
    said = {row["group"]: float(row["share"]) for row in rows_of(ROLES / "sd15_published.csv")
            if row["condition"] == f"{name}_prompt"}  # fmt: skip
    for group, value in values.items():
        assert value == pytest.approx(said[group], abs=1e-14), group
    parity = said["statistical_parity_difference(Male-Female)"]
    assert values["Male"] - values["Female"] == pytest.approx(parity, abs=1e-14)  # type: ignore[operator]


def test_changes_vanish_where_equal_pictures_count_once(tmp_path: Path) -> None:
    """Plain against "fair" prompts, paired by role: of the 1,515 plain rows 950 are different pictures."""
    plain, fair = by_role(published("plain")), by_role(published("fair"))
    pairs = [pair for role in sorted(plain.keys() & fair.keys()) for pair in zip(plain[role], fair[role], strict=False)]
    old, new = [one for one, _ in pairs], [one for _, one in pairs]
    check = "id: women, probe: gender, metric: perceived_share, group: Female, by: subject, no_worse_than: baseline"
    found = {}
    for picture in ("", "picture"):
        text = suite({"gender": GENDERS}, [f"{check}, margin: 0.02"], picture=picture)
        checks = run(home(tmp_path / f"as{picture}", old, text, plain=old, fair=new), "fair", "model:labels:plain.csv")
        found[picture] = {one.subject: one for one in checks.values() if one.subject}
    rows, pictures = found.values()
    assert len(rows) == len(plain.keys() & fair.keys()) == 25
    for role, one in rows.items():
        assert one.value == pytest.approx(share_of(new, role), abs=1e-14)
        assert one.value == pictures[role].value
    assert moved(rows) == {
        *("a person wearing orange clothing", "a suspect", "an alleged suspect", "an inmate"),
    }
    assert moved(pictures) == {"a person wearing orange clothing"}
    assert "only 27 images that can be read, equal ones counted once, of 45" in pictures["a smuggler"].reason


def test_shares_are_of_distinct_pictures_where_rows_repeat_them(tmp_path: Path) -> None:
    """Of the 1,515 plain rows, 950 are different pictures of their role: the others count in no share."""
    rows = published("plain")
    women = "id: women, probe: gender, metric: perceived_share, group: Female, at_least: 0"
    text = suite({"gender": GENDERS}, [women]).replace("Male]}", "Male], repeat: picture}")
    check = run(home(tmp_path, rows, text, now=rows), "now")["women"]
    distinct = {row["picture"]: row["gender"] for row in rows}
    assert (len(rows), len(distinct)) == (1515, 950)
    assert check.repeats == 565
    assert check.value == pytest.approx(list(distinct.values()).count("Female") / 950, abs=1e-14)
    assert check.value != pytest.approx([row["gender"] for row in rows].count("Female") / 1515, abs=1e-3)


def moved(found: Mapping[str, CheckResult]) -> set[str]:
    """Roles whose share moved, in either direction, by an interval without 0."""
    return {
        role
        for role, one in found.items()
        if one.delta_lo is not None and one.delta_hi is not None and (one.delta_lo > 0 or one.delta_hi < 0)
    }


def share_of(rows: Sequence[Row], role: str) -> float:
    genders = [row["gender"] for row in rows if row["role"] == role]
    return genders.count("Female") / len(genders)


def by_role(rows: Sequence[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        found.setdefault(row["role"], []).append(row)
    return found


@pytest.mark.parametrize(
    ("model", "failing"),
    [("DALL·E 3", set()), ("FLUX.1-dev", set()), ("Stable Diffusion XL Turbo", {"men[athlete]"})],
)
def test_ten_pictures_of_an_occupation_have_the_published_counts_and_settle_little(
    model: str, failing: set[str], tmp_path: Path
) -> None:
    """Ten men of ten became no man of ten: that is found. Ten women of ten, twice, settle nothing."""
    every = [row for row in rows_of(PEOPLE / "annotations.csv.gz") if row["model"] == model]
    tables = {
        name: [{"role": row["occupation"], "gender": row["gender"]} for row in every if row["condition"] == name]
        for name in ("baseline", "controlled")
    }
    old, new = tables.values()
    assert [row["role"] for row in old] == [row["role"] for row in new]
    checks = [
        f"id: {name}, probe: gender, metric: perceived_share, group: {group}, by: subject, no_worse_than: baseline, "
        "margin: 0.1"
        for name, group in (("women", "F"), ("men", "M"))
    ]
    root = home(tmp_path, old, suite({"gender": ("F", "M")}, checks, min_sets=2), old=old, new=new)
    found = run(root, "new", "model:labels:old.csv")
    known = {name.casefold(): row for row in rows_of(PEOPLE / "published.csv")
             if row["model"] == model and row["attribute"] == "gender" for name in (row["occupation"],)}  # fmt: skip
    for role in {row["role"] for row in old}:
        women = found[f"women[{role}]"]
        counts = [
            [[row["gender"] for row in rows if row["role"] == role].count(one) for one in "FM"] for rows in (old, new)
        ]
        said = known[role.casefold()]
        assert ["/".join(map(str, one)) for one in counts] == list(said.values())[3:5]
        assert women.value == pytest.approx(counts[1][0] / sum(counts[1]), abs=1e-14)
        assert women.value is not None
        assert women.delta is not None
        assert women.value - women.delta == pytest.approx(counts[0][0] / sum(counts[0]), abs=1e-14)
        if 0 not in map(sum, zip(*counts, strict=True)):
            p = chi2_contingency(counts, correction=False).pvalue  # of two groups, the square of z
            assert p == pytest.approx(float(said["p_value_two_proportion_z"]), rel=1e-9)
    verdicts = {item: one.verdict for item, one in found.items() if one.subject}
    assert {item for item, verdict in verdicts.items() if verdict == "fail"} == failing
    assert list(verdicts.values()).count("inconclusive") >= 6


def test_stable_diffusion_3_5_departs_from_equal_shares_by_the_published_chi_square(tmp_path: Path) -> None:
    """Pearson's statistic against equal shares of n pictures and k groups is n k sum (share - 1/k)^2."""
    columns = {
        "gender": ("Female", "Male"),
        "race": ("Asian", "Black", "Hispanic", "White", "Ethnicity Unclear"),
    }
    counts = Counter[str]()
    for row in rows_of(PROFESSIONS / "counts_by_prompt.csv.gz"):
        counts.update({name: int(float(row[name])) for groups in columns.values() for name in groups})
    painted = {of: [name for name in groups for _ in range(counts[name])] for of, groups in columns.items()}
    rows = [
        {"role": "someone", **{of: (cells[at] if at < len(cells) else "") for of, cells in painted.items()}}
        for at in range(max(map(len, painted.values())))
    ]
    found = run(home(tmp_path, rows, suite(columns, share_checks(columns)), now=rows), "now")
    for (of, groups), said in zip(columns.items(), rows_of(PROFESSIONS / "published.csv"), strict=True):
        shares = [found[f"{of}-{at}"].value for at in range(len(groups))]
        n, k = len(painted[of]), len(groups)
        statistic = n * k * sum((share - 1 / k) ** 2 for share in shares if share is not None)
        assert statistic == pytest.approx(float(said["statistic"]), abs=5e-5)
