"""What is tried: each target takes bytes that a stranger wrote, and either works or raises a FairgateError."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import classifier_inputs
import detector_inputs
import imported_tables
import judged_folders
import perceiver_folders
import published_inputs
from hypothesis import strategies as st
from mutations import as_json, as_yaml, leaves, mutated_bytes, texts, written
from uses import (
    addresses,
    baseline_folder,
    captions,
    checkpoint,
    kept_scores,
    labels,
    manifest,
    model_folder,
    model_seeds,
    parse_record,
    picture,
    plan_suite,
    read_record,
    read_suite,
    shard,
    table_of_answers,
    table_of_scores,
    weights,
)
from world import World


@dataclass(frozen=True)
class Target:
    """A name, how inputs are made, and what is done with one. `explored`: atheris has a go at its bytes, too."""

    name: str
    inputs: Callable[[World], st.SearchStrategy[bytes]]
    use: Callable[[World, bytes], object]
    seeds: Callable[[World], Sequence[bytes]] | None = None
    explored: tuple[str, ...] = ()


def trees(make: Callable[[World], Sequence[Any]], *ways: Callable[[Any], bytes]) -> Callable[..., Any]:
    return lambda world: written(make(world), *ways)


def bytes_of(make: Callable[[World], Sequence[bytes]]) -> Callable[..., Any]:
    return lambda world: mutated_bytes(make(world))


def odd_columns(make: Callable[[World], Sequence[bytes]]) -> Callable[[World], st.SearchStrategy[bytes]]:
    """Whole Parquet files, a few columns of which are of another kind, renamed, doubled, empty or gone."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    plain = [pa.string(), pa.large_string(), pa.float64(), pa.float16(), pa.int64(), pa.uint64(), pa.bool_(), pa.null()]
    odd = [pa.binary(), pa.date32(), pa.decimal128(38, 2), pa.list_(pa.float64()), pa.struct([("x", pa.float64())])]
    kinds = st.sampled_from([*plain, *odd, pa.dictionary(pa.int32(), pa.string()), pa.timestamp("ns")])

    def another(draw: st.DrawFn, column: Any, rows: int) -> Any:
        kind = draw(kinds)
        try:
            values = column if draw(st.booleans()) else pa.array([draw(leaves)] * rows)
            return values.cast(kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return pa.nulls(rows, pa.string() if pa.types.is_dictionary(kind) else kind)

    def strategy(world: World) -> st.SearchStrategy[bytes]:
        tables = [pq.read_table(pa.BufferReader(data)) for data in make(world)]

        @st.composite
        def made(draw: st.DrawFn) -> bytes:
            table = draw(st.sampled_from(tables))
            columns = list(zip(table.column_names, table.columns, strict=True))
            for _ in range(draw(st.integers(0, 2))):
                at = draw(st.integers(0, len(columns) - 1))
                name, column = columns[at]
                what = draw(st.sampled_from(["kind", "name", "double", "gone"]))
                if what == "gone" and len(columns) > 1:
                    del columns[at]
                elif what == "double":
                    columns.insert(0, columns[at])
                elif what == "name":
                    columns[at] = (draw(texts).encode("utf-8", "replace").decode(), column)
                else:
                    columns[at] = (name, another(draw, column, len(table)))
            rows = slice(draw(st.integers(0, 2)), None) if draw(st.booleans()) else slice(None)
            held = io.BytesIO()
            try:
                changed = pa.Table.from_arrays([one for _, one in columns], names=[name for name, _ in columns])
                pq.write_table(changed.slice(rows.start or 0), held, use_dictionary=draw(st.booleans()))
            except (pa.ArrowException, ValueError):
                return b"PAR1"
            return held.getvalue()

        return made()

    return strategy


def answer_tables(world: World) -> list[bytes]:
    """An answer for every image, as CSV."""
    index = world.source.index
    names = zip(index.set_id.tolist(), index.member.tolist(), strict=True)
    rows = [f'{set_id},{member},Who is it?,"A nurse, {set_id}."' for set_id, member in names]
    return ["\n".join(["set_id,member,prompt,answer", *rows, ""]).encode()]


def answer_columns(world: World) -> list[bytes]:
    """The same as Parquet."""
    import pyarrow.csv as pacsv
    from pyarrow import parquet as pq

    held = io.BytesIO()
    pq.write_table(pacsv.read_csv(io.BytesIO(answer_tables(world)[0])), held)
    return [held.getvalue()]


def samples(world: World) -> list[bytes]:
    """The same as samples of lmms-eval."""
    rows = [{"doc_id": n, "filtered_resps": ["A nurse."], "input": "Who is it?"} for n in range(len(world.source))]
    return ["".join(json.dumps(row) + "\n" for row in rows).encode()]


def states(world: World) -> list[Any]:
    """The same as the state of a run of HELM."""

    def state(set_id: str, member: str) -> dict[str, Any]:
        text = {"content_type": "text/plain", "text": "Who is it?"}
        instance = {"id": f"{set_id}/{member}", "input": {"multimedia_content": {"media_objects": [text]}}}
        return {"instance": instance, "result": {"success": True, "completions": [{"text": "A nurse."}]}}

    index = world.source.index
    names = zip(index.set_id.tolist(), index.member.tolist(), strict=True)
    return [{"request_states": [state(*name) for name in names]}]


def shard_bytes(world: World) -> list[bytes]:
    (path,) = (world.toy.root / "datasets/toy/v1").glob("*.parquet")
    return [path.read_bytes()]


def kept(world: World) -> list[bytes]:
    return [(world.report / "scores.parquet").read_bytes()]


def manifests(world: World) -> list[Any]:
    return [json.loads((world.toy.root / "datasets/toy/v1/manifest.json").read_text(encoding="utf-8"))]


def label_files(world: World) -> list[bytes]:
    return [
        b"file,gender,age\na/1.jpg,Male,3-9\na/2.jpg,Female,10-19\n",
        b'\xef\xbb\xbf,"file",gender,caption\n0,"x, y.png",\xc3\xa9,"two\nlines"\n',
    ]


_CAPTIONS = [{"caption": "a nurse and her hat", "image": "a.png"}, {"caption": None, "image": None}]


def caption_parquet(world: World) -> list[bytes]:
    """A file of captions with pictures in it."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    pictures = [{"bytes": world.pictures[0], "path": "a.png"}, None]
    buffer = io.BytesIO()
    pq.write_table(pa.table({"caption": ["a nurse and her hat", None], "image": pictures}), buffer)
    return [buffer.getvalue()]


_ADDRESSES = [
    *(
        "scores:base.csv?values=logit",
        "hf:x",
        "open_clip:ViT-B-32@x.pt",
        "open_clip:local-dir:x",
        "open_clip:ViT-B-32@~x/y",
    ),
    *(
        "git:origin/main",
        "file:x",
        "mlflow:latest",
        "model:scores:x",
        "none",
        "toy",
        "toy@v1",
        "jobs",
        "open_clip:@",
        "hf:/",
    ),
]

TARGETS = (
    Target("suite", trees(lambda w: w.suite_trees, as_yaml, as_json), plan_suite),
    Target("suite-text", bytes_of(lambda w: w.suites), read_suite, lambda w: w.suites, ("fairgate.suites", "yaml")),
    Target("record", trees(lambda w: w.results, as_json), read_record),
    Target(
        "record-text",
        bytes_of(lambda w: [as_json(one) for one in w.results]),
        parse_record,
        lambda w: [as_json(one) for one in w.results],
        ("fairgate.reports", "fairgate.records", "json"),
    ),
    Target("baseline", trees(lambda w: w.results, as_json), baseline_folder),
    Target(
        "table-csv", bytes_of(lambda w: w.tables), table_of_scores("t.csv"), lambda w: w.tables, ("fairgate.models",)
    ),
    Target("table-parquet", bytes_of(lambda w: w.parquet_tables), table_of_scores("t.parquet")),
    Target("table-columns", odd_columns(lambda w: w.parquet_tables), table_of_scores("t.parquet")),
    Target("answers", bytes_of(answer_tables), table_of_answers("a.csv"), answer_tables, ("fairgate.models",)),
    Target("answers-samples", bytes_of(samples), table_of_answers("a.jsonl")),
    Target("answers-helm", trees(states, as_json), table_of_answers("a.json")),
    Target("answers-columns", odd_columns(answer_columns), table_of_answers("a.parquet")),
    Target("scores", bytes_of(kept), kept_scores),
    Target("scores-columns", odd_columns(kept), kept_scores),
    Target("manifest", trees(manifests, as_json), manifest),
    Target("shard", bytes_of(shard_bytes), shard),
    Target("shard-columns", odd_columns(shard_bytes), shard),
    Target("picture", bytes_of(lambda w: w.pictures), picture),
    Target("labels", bytes_of(label_files), labels, label_files, ("fairgate.data", "csv")),
    Target("labels-parquet", bytes_of(imported_tables.parquet), imported_tables.use("l.parquet")),
    Target("labels-columns", odd_columns(imported_tables.parquet), imported_tables.use("l.parquet")),
    Target("labels-json", trees(imported_tables.lines, as_json), imported_tables.use("l.jsonl")),
    Target("archive", bytes_of(imported_tables.archives), imported_tables.use("l.tar")),
    Target("footer", bytes_of(imported_tables.footers), imported_tables.use_footer),
    Target("captions-parquet", bytes_of(caption_parquet), captions("c.parquet")),
    Target("captions-columns", odd_columns(caption_parquet), captions("c.parquet")),
    Target("captions-json", trees(lambda _: _CAPTIONS, as_json), captions("c.jsonl")),
    Target("addresses", bytes_of(lambda _: [one.encode() for one in _ADDRESSES]), addresses),
    Target(
        "safetensors",
        bytes_of(weights("m.safetensors")),
        checkpoint("m.safetensors"),
        weights("m.safetensors"),
        ("fairgate.models.checkpoints",),
    ),
    Target("pickled", bytes_of(weights("m.pt")), checkpoint("m.pt")),
    Target("open-clip-config", trees(model_seeds("open_clip"), as_json), model_folder("open_clip")),
    Target("hf-config", trees(model_seeds("hf"), as_json), model_folder("hf")),
    Target("detector-config", trees(detector_inputs.seeds, as_json), detector_inputs.use),
    Target("boxes-columns", odd_columns(detector_inputs.tables), detector_inputs.table_of_boxes("b.parquet")),
    Target(
        "classifier-config", trees(classifier_inputs.seeds("classifier"), as_json), classifier_inputs.use("classifier")
    ),
    Target("timm-config", trees(classifier_inputs.seeds("timm"), as_json), classifier_inputs.use("timm")),
    Target("label-names", trees(classifier_inputs.label_files, as_json), classifier_inputs.use_labels),
    Target("heads", bytes_of(classifier_inputs.heads), classifier_inputs.use_head),
    Target("label-columns", odd_columns(classifier_inputs.tables), classifier_inputs.use_table),
    Target("vlm-config", trees(judged_folders.seeds("vlm"), as_json), judged_folders.use("vlm")),
    Target("flux-config", trees(judged_folders.seeds("flux"), as_json), judged_folders.use("flux")),
    Target("perceiver-config", trees(perceiver_folders.seeds, as_json), perceiver_folders.use),
    *(
        Target(f"published-{kind}", bytes_of(published_inputs.archives(kind)), published_inputs.unpack(name))
        for kind, name in {"zip": "a.zip", "tar": "a.tar", "tgz": "a.tar.gz"}.items()
    ),
    Target(
        "published-columns",
        odd_columns(published_inputs.hub_tables),
        published_inputs.read("social_counterfactuals", "data/train-0.parquet"),
    ),
    Target(
        "published-json",
        trees(published_inputs.questions, as_json),
        published_inputs.read(
            "genderbias_vl",
            "VLbias/occ_test_base_ask_gender.json",
            published_inputs.PAIR,
            ["VLbias/occ_test_cf_ask_gender.json"],
        ),
    ),
    Target(
        "published-list",
        bytes_of(published_inputs.lists),
        published_inputs.read("pata", "pata_fairness.files.lst", ["pata_00001.png", "pata_00002.png"]),
    ),
)
