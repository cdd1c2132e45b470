"""Write the reference pages that follow from the code: `make generate`.

suite.md comes from the JSON schema of suites and the pytest fixture, metrics.md and probes.md from their registries,
commands.md from the commands' own help, files.md from the modules' docstrings. In other pages it fills in the code that
a comment names:
`<!-- source: FILE CLASS, to METHOD -->`. tests/docs/test_reference.py fails on a stale page.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.cli import get_docs_for_click

from fairgate.interfaces.cli.main import app
from fairgate.interfaces.pytest_plugin.fixture import Fairness, ScoredProbe
from fairgate.metrics import METRICS, Metric
from fairgate.models.table_files import LONGEST_NAME, MAX_COLUMNS, MAX_CSV_BYTES, PATH_COLUMNS
from fairgate.probes import PROBES, Probe
from fairgate.records import MetricSpec
from fairgate.suites.schema import Suite

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MANY = 5  # values that a table still lists
EXAMPLE = """\
schema: 1
suite: jobs
dataset: jobs@v1
model: open_clip:ViT-B-32@checkpoint.pt
baseline: git:origin/main

probes:
  labels:
    kind: zero_shot_classification
    template: "a photo of {a_label}"
    labels: [doctor, nurse, pilot]

groups: {attributes: [gender, skin_tone], min_sets: 30}

checks:
  - {id: useful, probe: labels, metric: accuracy, at_least: 0.9}
  - {id: groups, probe: labels, metric: accuracy, over: each, no_worse_than: baseline, margin: 0.02}
  - {id: crossings, probe: labels, metric: group_gap, over: crossed, no_worse_than: baseline,
     margin: 0.05}
  - {id: still-sure, probe: labels, metric: p_true, no_worse_than: baseline, margin: 0.02}

waivers:
  - {check: crossings, until: 2027-03-01, reason: "retraining tracked in #412"}
"""
_SOURCE = re.compile(r"(<!-- source: (\S+) (\w+)(?:, to (\w+))? -->\n```python\n).*?^```", re.DOTALL | re.MULTILINE)
_WRITTEN = "<!-- Written by `make generate`; tests/docs/test_reference.py fails if it is stale. -->\n"


def suite_page() -> str:
    """Every key of a suite, what it may be, and what it means."""
    schema = Suite.model_json_schema(by_alias=True)
    parts = schema["$defs"]
    sections = [
        f"# Suite files\n\n{_WRITTEN}",
        "A suite is one YAML file, `fairness_suites/NAME.yaml`: a dataset, probes and checks. `fairgate suite new` "
        "writes a first one. Unknown keys are errors, with the line and the nearest key. The JSON schema, for "
        "editors, is what `fairgate suite schema` prints.",
        f"```yaml\n{EXAMPLE}```",
        "## The file",
        _keys(schema),
        "### groups",
        _keys(parts["Groups"]),
        "### decision",
        "All `no_worse_than` checks of a suite are one family of tests ([how a regression is decided]"
        "(../use/gate.md)).",
        _keys(parts["DecisionRule"]),
        "### waivers",
        _keys(parts["Waived"]),
        "## Probes",
        "A probe queries the model about every image of the dataset. [Probes](probes.md) has the keys of each `kind`: "
        f"{', '.join(f'[`{_kind_of(probe)}`](probes.md#{_kind_of(probe)})' for probe in PROBES.own())}. Installed "
        "packages add others ([extending](../use/extending.md)).",
        "## Checks",
        "A check is a metric of a probe with exactly one rule: `at_least`, `at_most`, or `no_worse_than: baseline` "
        "with a `margin`. Groups in fewer than `min_sets` sets are named and not judged.",
        _keys(parts["Check"]),
        f"[Metrics](metrics.md) has all {len(list(METRICS.own()))} of them with their settings.",
        "## The `fairness` fixture",
        *_fixture(),
        "## Tables of scores",
        *_scores(),
    ]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def metrics_page() -> str:
    """Every metric: what it is of, how it is judged, its interval and its value by chance."""
    rows = [
        (f"[`{metric.spec.name}`](#{metric.spec.name})", _shown(metric), metric.spec.better, _range(metric.spec))
        for metric in METRICS.own()
    ]
    sections = [
        f"# Metrics\n\n{_WRITTEN}",
        "A check names a metric of its probe ([suite files](suite.md#checks)). *groups*: whether a check on the metric "
        "names groups by `over`. *interval*: from counterfactual sets that are resampled, never the images inside one; "
        "[intervals](../evidence/intervals.md) has their coverage. *fair ranker*: whether reports show the value of a "
        "perfectly fair ranker on the same gallery next to it; other metrics have 0 for equal treatment, or no value "
        "by chance. Formulas and papers: [definitions](../evidence/metrics.md). Packages add others "
        "([extending](../use/extending.md)).",
        _table(("metric", "in reports", "better", "range"), rows),
        *(section for metric in METRICS.own() for section in _metric(metric)),
    ]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def probes_page() -> str:
    """Every probe: its settings, what a model must be able to do, and what it records."""
    parts = Suite.model_json_schema(by_alias=True)["$defs"]
    rows = [(f"[`{_kind_of(probe)}`](#{_kind_of(probe)})", _needs(probe), _recorded(probe)) for probe in PROBES.own()]
    sections = [
        f"# Probes\n\n{_WRITTEN}",
        "A probe of a suite queries the model about every image of the dataset, or about every prompt of a release of "
        "prompts. It works with every model that has the capability that it needs ([families](families.md)). Its "
        "numbers are in `scores.parquet`, a row per item.",
        _table(("`kind`", "needs", "records"), rows),
        *(section for probe in PROBES.own() for section in _probe(probe, parts)),
    ]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def commands_page() -> str:
    """The commands with their options, as their own help has them."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="fairgate", title="Commands")
    head, _, rest = text.partition("\n")
    return f"{head}\n\n{_WRITTEN}{rest.rstrip()}\n"


def files_page() -> str:
    """Every module of the package by room: the first sentence of its docstring, and its public names."""
    package = ROOT / "fairgate"
    sections = [
        f"# Files\n\n{_WRITTEN}",
        "What each file of the package is for, by room ([architecture](../architecture.md)).",
    ]
    for room in sorted(path for path in package.iterdir() if (path / "__init__.py").is_file()):
        rows = [_file(path) for path in sorted(room.rglob("*.py")) if path.name not in ("__init__.py", "__main__.py")]
        sections += [f"## {room.name}", _table(("file", "for", "public names"), rows)]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def _file(path: Path) -> tuple[str, str, str]:
    tree = ast.parse(path.read_bytes())
    first = re.split(r"(?<=\.) ", " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split()))
    purpose = first[0].rstrip(".").replace("|", "/")
    public = [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
    ]
    return f"`{path.relative_to(ROOT).as_posix()}`", purpose, " ".join(f"`{name}`" for name in public)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _keys(schema: Mapping[str, Any], leave_out: Sequence[str] = ()) -> str:
    """The keys of one mapping of the file."""
    needed = schema.get("required", [])
    rows = []
    for name, key in schema["properties"].items():
        if name not in leave_out:
            default = "required" if name in needed else _default(key)
            rows.append((f"`{name}`", _kind(key), default, key.get("description", "")))
    return _table(("key", "value", "default", "meaning"), rows)


def _default(key: Mapping[str, Any]) -> str:
    value = key.get("default")
    return "" if value is None or isinstance(value, dict) else f"`{value}`"


def _kind(key: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "anyOf" in key:
        return " or ".join(_kind(one) for one in key["anyOf"] if one.get("type") != "null")
    values = key.get("enum", [key["const"]] if "const" in key else [])
    if values:
        return ", ".join(f"`{one}`" for one in values) if len(values) < MANY else "a name below"
    if key.get("type") in ("array", "object"):
        return _several(key)
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}.get(
        key.get("type", ""), "mapping"
    )
    limits = [("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")]
    limited = ", ".join(f"{sign} {key[name]}" for name, sign in limits if name in key)
    return f"{'date' if key.get('format') == 'date' else words} {limited}".strip()


def _several(key: Mapping[str, Any]) -> str:
    """A list, or a mapping of names, by what it holds."""
    entries = key.get("additionalProperties") or next(iter(key.get("patternProperties", {}).values()), {})
    inner = _kind(key["items"] if key["type"] == "array" else entries)
    plural = {"list of": "lists of", "mapping of": "mappings of", "whole number": "whole numbers", "number": "numbers"}
    many = next((inner.replace(one, more, 1) for one, more in plural.items() if inner.startswith(one)), f"{inner}s")
    return f"{'list of' if key['type'] == 'array' else 'mapping of names to'} {many}"


def _probe(probe: type[Probe], parts: Mapping[str, Any]) -> list[str]:
    names = [metric.spec.name for metric in METRICS.own() if probe.answers_as in metric.spec.probes]
    own = parts[probe.__name__]
    return [
        f"## {_kind_of(probe)}",
        inspect.cleandoc(probe.__doc__ or ""),
        f"Needs a model with {_needs(probe)}. Records {_recorded(probe)}. Metrics: "
        f"{', '.join(f'[`{name}`](metrics.md#{name})' for name in names)}.",
        _keys(own, leave_out=["kind"]),
        *(part for name, inner in _inner(own, parts) for part in (f"Keys of {name}:", _keys(inner))),
    ]


def _kind_of(probe: type[Probe]) -> str:
    kind: str = probe.model_fields["kind"].annotation.__args__[0]  # type: ignore[union-attr] # a Literal
    return kind


def _needs(probe: type[Probe]) -> str:
    """The capability that a model must have, and others under some settings."""
    return "; ".join([f"`{probe.needs}`", *(f"with `{how}`, `{other}`" for how, other in probe.needs_where.items())])


def _recorded(probe: type[Probe]) -> str:
    """What the number of an item is, by the kinds under which records name the probe."""
    kinds = [
        f"{value} (as `{kind}`)" if kind != _kind_of(probe) else value for kind, value in probe.value_names.items()
    ]
    return f"{' or '.join(kinds)} per item"


def _inner(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The keys of a mapping that hold mappings with keys of their own, and what these are."""
    for name, key in schema["properties"].items():
        for one in key.get("anyOf", [key]):
            entries = [one.get("additionalProperties"), one.get("items"), *one.get("patternProperties", {}).values()]
            for held, words in ((one, f"`{name}`"), *((entry, f"each of `{name}`") for entry in entries)):
                if isinstance(held, dict) and "$ref" in held:
                    yield words, parts[held["$ref"].rpartition("/")[2]]


def _metric(metric: Metric) -> list[str]:
    spec = metric.spec
    groups = {"yes": "needed (`over`)", "maybe": "possible (`over`)", "no": "none"}[spec.per_group]
    facts = {
        "probes": ", ".join(f"`{kind}`" for kind in spec.probes),
        "better": f"{spec.better} (`{'at_least' if spec.better == 'higher' else 'at_most'}`)",
        "range": _range(spec),
        "groups": groups,
        "settings": ", ".join(f"`{name}`" for name in metric.Settings.model_fields) or "none",
        "in reports": _shown(metric),
        "interval": _interval(metric),
        "fair ranker": "–" if type(metric).fair_chance is Metric.fair_chance else "median and 95% point in reports",
    }
    sentence = f"{spec.meaning[:1].upper()}{spec.meaning[1:]}."
    needs = [
        "Needs counterfactual sets." if spec.counterfactual else "",
        "Needs images with a right answer." if spec.truth else "",
        "Shows whether the model is of use." if spec.utility else "",
    ]
    text = " ".join([f"**{_shown(metric)}**: {sentence}", *filter(None, needs)])
    return [f"## {spec.name}", text, _table(list(facts), [list(facts.values())])]


def _shown(metric: Metric) -> str:
    """Its name in reports."""
    return metric.spec.shown_as() + ("@K" if metric.needs_k else "")


def _range(spec: MetricSpec) -> str:
    return f"{_number(spec.lowest)} to {_number(spec.highest)}"


def _interval(metric: Metric) -> str:
    """How its interval is found: the first line of its method."""
    if type(metric).interval is Metric.interval:
        return "percentiles of the resamples; none for a worst group"
    return (type(metric).interval.__doc__ or "").split("\n")[0].strip().removesuffix(".")


def _number(value: float) -> str:
    return ("∞" if value > 0 else "−∞") if math.isinf(value) else f"{value:.3g}".replace("-", "−")


def _fixture() -> list[str]:
    rows = []
    for metric in METRICS.own():
        spec = metric.spec
        settings = [name for name in metric.Settings.model_fields if name != "k"]
        takes = [
            *({"yes": ["over"], "maybe": ["over=None"], "no": []}[spec.per_group]),
            *([f"k={spec.usual_k}"] if metric.needs_k else []),
            *(f"{name}=..." for name in settings),
        ]
        rows.append((f"`.{spec.alias}({', '.join(takes)})`", f"[`{spec.name}`](metrics.md#{spec.name})"))
    methods = []
    for owner, name in (
        (Fairness, "probe"),
        (Fairness, "assert_no_intersectional_regression"),
        (ScoredProbe, "subject"),
    ):
        function = getattr(owner, name)
        of = "fairness" if owner is Fairness else "fairness.probe(...)"
        parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
        written = re.sub(r": '?([^,=)']+)'?", "", str(inspect.Signature(parameters)))
        methods += [f"**`{of}.{name}{written}`**", inspect.cleandoc(function.__doc__ or "")]
    return [
        "In a test of your own, marked with the suite; its dataset, model and probes are the suite's, and the options "
        "those of the run ([gate](../use/gate.md)).",
        '```python\nimport pytest\n\n\n@pytest.mark.fairness(suite="jobs")\ndef test_doctors(fairness):\n'
        '    doctors = fairness.probe("labels").subject("doctor")\n    assert doctors.accuracy(over="gender") >= 0.9\n'
        '    fairness.assert_no_intersectional_regression(over=["gender", "skin_tone"], margin=0.05)\n```',
        *methods,
        "A probe has one method per metric, which returns a number. When an assertion on it fails, pytest shows its "
        "interval, its number of sets and the worst set.",
        _table(("method", "metric"), rows),
    ]


def _scores() -> list[str]:
    paths = ", ".join(f"`{name}`" for name in PATH_COLUMNS)
    return [
        "`scores:FILE?values=cosine`, `logit`, `probability` or `frequency` is a model whose answers somebody computed "
        "before. FILE is a CSV in UTF-8, Parquet or JSON Lines with one row per image of the dataset, in any order:",
        _table(
            ("column", "value"),
            [
                ("`set_id` and `member`", "the image, as the dataset names it"),
                (f"or one of {paths}", "the image, by the path that the dataset recorded"),
                ("or `id`", "the image by any name: path (or one that ends in it), set, or number of the row, from 0"),
                ("a column per prompt, named by the prompt to the letter", "the score of the image for this prompt"),
            ],
        ),
        _table(
            ("option", "meaning"),
            [
                ("`values=cosine`", "cosines, −1 to 1; classifications need `logit_scale` too"),
                ("`values=logit`", "logits; 100 times the cosine is a CLIP's logit"),
                ("`values=probability`", "probabilities, 0 to 1, renormalised over the labels that compete"),
                ("`values=frequency`", "shares of sampled answers, 0 to 1, which have no label temperature"),
                ("`logit_scale=100`", "what cosines are multiplied by to make logits"),
                ("`NAME=COLUMN`", "what the file calls a column: `id=question_id`, `a photo of a nurse=p_nurse`"),
            ],
        ),
        "Images that are missing or not of the dataset are errors, and so are empty, NaN and infinite scores, and two "
        "rows of an image that differ; equal ones count once. A study of some images (`--where`) needs no rows of the "
        "others. "
        f"Limits: {MAX_COLUMNS:,} columns, {MAX_CSV_BYTES >> 30} GiB of CSV, {LONGEST_NAME:,} characters in a name.",
    ]


def with_sources(text: str) -> str:
    """A page with the code that its comments name, as it is now."""
    return _SOURCE.sub(lambda found: f"{found[1]}{_source(found[2], found[3], found[4])}```", text)


def _source(file: str, name: str, last: str | None) -> str:
    """A class of a file with its decorators, to the end of one of its methods or of the class."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines(keepends=True)
    (found,) = (one for one in ast.parse("".join(lines)).body if isinstance(one, ast.ClassDef) and one.name == name)
    ends = {one.name: one.end_lineno for one in found.body if isinstance(one, ast.FunctionDef)}
    first = min([found.lineno, *(one.lineno for one in found.decorator_list)])
    return "".join(lines[first - 1 : ends[last] if last else found.end_lineno])


def pages() -> dict[Path, str]:
    """Every page that is generated, in part or whole, with its text."""
    written = {
        HERE / "suite.md": suite_page(),
        HERE / "metrics.md": metrics_page(),
        HERE / "probes.md": probes_page(),
        HERE / "commands.md": commands_page(),
        HERE / "files.md": files_page(),
    }
    others = {
        page: page.read_text(encoding="utf-8") for page in sorted(HERE.parent.rglob("*.md")) if page not in written
    }
    return written | {page: with_sources(text) for page, text in others.items() if _SOURCE.search(text)}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
