"""`fairgate build`: what it makes, what it finds again, what it refuses."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fairgate.data import read_dataset, read_manifest
from fairgate.interfaces.cli.main import app

Fairgate = Callable[..., Result]


@pytest.fixture
def fairgate(folder: Path, monkeypatch: pytest.MonkeyPatch, toy_recipe: None) -> Fairgate:
    """The command, in a folder whose params.yaml names builds of the toy."""
    monkeypatch.chdir(folder)

    def run(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["build", *words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


def fingerprint(folder: Path = Path("build/toys")) -> str:
    return read_manifest(folder / "dataset").fingerprint


def test_a_build_makes_a_dataset_that_verifies_and_says_how_it_was_made(fairgate: Fairgate) -> None:
    said = fairgate("toys").output
    dataset = read_dataset(Path("build/toys/dataset"))
    assert dataset.verify() == []
    manifest = dataset.manifest
    assert manifest.name == "toys"
    assert manifest.counterfactual
    assert manifest.members == ["light", "tan", "dark"]
    assert manifest.attributes == {"skin_tone": ["light", "tan", "dark"]}
    assert manifest.recipe["name"] == "toy"
    assert manifest.recipe["knobs"]["candidates"] == 40
    assert set(manifest.lineage) == {"sets"}
    assert f"fingerprint {manifest.fingerprint}" in said
    table = dataset.parquet(manifest.shards[0]).read()
    row = table.slice(0, 1).to_pylist()[0]
    assert isinstance(row["seed"], int)
    assert len(row["embedding"]) == 4
    assert row["caption"] == "a light baker"


def test_a_finished_build_is_found_and_nothing_is_made_again(fairgate: Fairgate) -> None:
    fairgate("toys")
    before = {path: path.stat().st_mtime_ns for path in Path("build/toys").rglob("shard-*")}
    said = fairgate("toys").output
    assert "10 shards (10 found)" in said
    assert "build/toys/dataset holds these sets already" in said
    assert {path: path.stat().st_mtime_ns for path in Path("build/toys").rglob("shard-*")} == before


def test_subjects_and_parts_built_one_by_one_make_the_same_dataset(fairgate: Fairgate) -> None:
    fairgate("toys")
    whole = fingerprint()
    for subject in ("car mechanic", "baker"):
        for part in ("pool", "sets"):
            fairgate("toys", "--subject", subject, "--part", part, "--out", "parts")
    assert not Path("parts/toys/dataset").exists()
    fairgate("toys", "--assemble", "--out", "parts")
    assert fingerprint(Path("parts/toys")) == whole


def test_a_part_is_the_shortest_run_of_shards_that_holds_enough(fairgate: Fairgate) -> None:
    fairgate("toys", "--workers", "3", "--device", "cpu")
    for subject in ("baker", "car-mechanic"):
        part = Path("build/toys", subject, "sets")
        said = json.loads((part / "part.json").read_text())
        kept = [
            sum("reason" not in each for each in json.loads(path.read_text())["sets"])
            for path in sorted(part.glob("shard-*.json"))
        ]
        assert said["shards"] == len(kept)
        assert sum(kept) >= 9 > sum(kept[:-1])


def test_a_part_that_ends_before_it_has_enough_says_so(fairgate: Fairgate, folder: Path) -> None:
    (folder / "params.yaml").write_text("builds:\n  toys: {recipe: toy, sets: 500}\n")
    said = fairgate("toys").output
    kept = json.loads(Path("build/toys/baker/sets/part.json").read_text())["kept"]
    assert f"baker, part 'sets': {kept} of 500 wanted sets were kept" in said
    assert " left" not in said.replace("left out", "")
    assert f"{kept} of 500" in fairgate("status", "toys").output
    assert "were kept, and every" not in fairgate("toys", "--limit", "4").output


def test_a_trial_has_a_folder_of_its_own_and_says_that_it_is_one(fairgate: Fairgate) -> None:
    fairgate("toys", "--limit", "12")
    assert not Path("build/toys").exists()
    manifest = read_manifest(Path("build/toys-limit-12/dataset"))
    assert manifest.recipe["limit"] == 12
    assert "A trial: at most 12 starting sets" in manifest.about
    part = json.loads(Path("build/toys-limit-12/baker/pool/part.json").read_text())
    assert part["started"] == 12


def test_shards_of_other_knobs_are_set_aside_and_come_back_with_their_knobs(fairgate: Fairgate, folder: Path) -> None:
    fairgate("toys")
    first = fingerprint()
    params = folder / "params.yaml"
    params.write_text("builds:\n  toys: {recipe: toy, seed: 1}\n")
    said = fairgate("toys").output
    assert "'baker', part 'pool': what is here was made otherwise (settings seed). It is set aside in" in said
    assert fingerprint() != first
    assert len(list(Path("build/toys/.aside").rglob("shard-*.json"))) > 20
    params.write_text("builds:\n  toys: {recipe: toy}\n")
    said = fairgate("toys").output
    assert "made before under this plan; restored" in said
    assert "10 shards (10 found)" in said
    assert fingerprint() == first


def test_a_setting_that_a_part_ignores_redoes_none_of_its_shards(fairgate: Fairgate, folder: Path) -> None:
    fairgate("toys")
    (folder / "params.yaml").write_text("builds:\n  toys: {recipe: toy, sets: 5}\n")
    said = fairgate("toys").output
    assert "baker pool: 10 shards (10 found)" in said
    assert "part 'sets': what is here was made otherwise (settings sets)" in said


def test_fewer_sets_throw_no_finished_shard_away(fairgate: Fairgate, folder: Path) -> None:
    params = folder / "params.yaml"

    def build(sets: int) -> str:
        params.write_text(f"builds:\n  toys: {{recipe: toy, sets: {sets}, loose: true}}\n")
        return fairgate("toys", "--subject", "baker").output

    build(9)
    first = sorted(Path("build/toys/baker/sets").glob("shard-*"))
    build(2)
    assert sorted(Path("build/toys/baker/sets").glob("shard-*")) == first
    assert json.loads(Path("build/toys/baker/sets/part.json").read_text())["shards"] < len(first) // 2
    status = fairgate("status", "toys").output
    assert build(9).count("found)") == 2
    assert "finished" in next(line for line in status.splitlines() if "sets" in line)


def test_a_part_of_which_more_is_wanted_than_when_it_ended_is_unfinished(fairgate: Fairgate, folder: Path) -> None:
    params = folder / "params.yaml"
    params.write_text("builds:\n  toys: {recipe: toy, sets: 2, loose: true}\n")
    fairgate("toys")
    params.write_text("builds:\n  toys: {recipe: toy, sets: 9, loose: true}\n")
    assert "unfinished" in fairgate("status", "toys").output
    fairgate("toys")
    assert "unfinished" not in fairgate("status", "toys").output


def test_a_change_of_the_recipes_code_makes_shards_stale(fairgate: Fairgate, monkeypatch: pytest.MonkeyPatch) -> None:
    fairgate("toys")
    monkeypatch.setattr("fairgate.builds.plan.code_digest", lambda _: "other code")
    said = fairgate("status", "toys").output
    assert "baker, pool: made otherwise (the recipe's code); it would be set aside, or kept if" in said


def test_shards_of_earlier_code_are_kept_if_the_first_one_made_again_is_equal(
    fairgate: Fairgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairgate("toys")
    first, code = fingerprint(), read_manifest(Path("build/toys/dataset")).recipe["code"]
    files = {path: path.stat().st_mtime_ns for path in Path("build/toys").glob("*/*/shard-*.parquet")}
    monkeypatch.setattr("fairgate.builds.plan.code_digest", lambda _: "other code")
    said = fairgate("toys", "--keep-equal").output
    assert "baker, part 'pool': shard 0, made again, is equal: the finished shards are kept (10)" in said
    assert "set aside" not in said
    assert {path: path.stat().st_mtime_ns for path in Path("build/toys").glob("*/*/shard-*.parquet")} == files
    assert fingerprint() == first
    recipe = read_manifest(Path("build/toys/dataset")).recipe
    assert (recipe["code"], recipe["earlier_code"]) == ("other code", [code])
    monkeypatch.setattr("fairgate.builds.plan.code_digest", lambda _: "a third")
    fairgate("toys", "--keep-equal")
    fairgate("toys")
    assert read_manifest(Path("build/toys/dataset")).recipe["earlier_code"] == sorted(["other code", str(code)])


def test_shards_of_earlier_code_are_set_aside_if_the_first_one_made_again_differs(
    fairgate: Fairgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairgate("toys")
    monkeypatch.setattr("fairgate.builds.plan.code_digest", lambda _: "other code")
    for log in Path("build/toys").rglob("shard-00000.json"):
        log.write_text(json.dumps({**json.loads(log.read_text()), "content": "another"}))
    said = fairgate("toys", "--keep-equal").output
    assert "made again, is equal" not in said
    assert "'baker', part 'pool': what is here was made otherwise (the recipe's code). It is set aside in" in said
    assert "earlier_code" not in read_manifest(Path("build/toys/dataset")).recipe


@pytest.mark.parametrize("noted", ["numbers", "nothing kept"])
def test_shards_are_kept_only_where_what_was_noted_of_kept_sets_is_equal_too(
    noted: str, fairgate: Fairgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairgate("toys")
    monkeypatch.setattr("fairgate.builds.plan.code_digest", lambda _: "other code")
    for log in Path("build/toys").rglob("shard-*.json"):
        said = json.loads(log.read_text())
        for record in said["sets"]:
            record.update({"numbers": {"likeness": 0.5}} if noted == "numbers" else {"reason": "dropped"})
        log.write_text(json.dumps(said))
    assert "made again, is equal" not in fairgate("toys", "--keep-equal").output


def test_a_build_that_was_killed_while_it_kept_shards_goes_on(
    fairgate: Fairgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairgate("toys", "--subject", "baker")
    monkeypatch.setattr("fairgate.builds.plan.code_digest", lambda _: "other code")
    files = {path: path.stat().st_mtime_ns for path in Path("build/toys").glob("*/*/shard-*.parquet")}
    with monkeypatch.context() as killed:
        killed.setattr("fairgate.builds.shard_store.ShardStore.write_facts", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            fairgate("toys", "--subject", "baker", "--keep-equal")
    said = fairgate("toys", "--subject", "baker", "--keep-equal").output
    assert "made again, is equal" in said
    assert "set aside" not in said
    assert {path: path.stat().st_mtime_ns for path in Path("build/toys").glob("*/*/shard-*.parquet")} == files


def _killed(*_: object) -> None:
    raise RuntimeError("killed")


def test_shards_of_other_settings_are_not_compared(fairgate: Fairgate, folder: Path) -> None:
    fairgate("toys")
    (folder / "params.yaml").write_text("builds:\n  toys: {recipe: toy, seed: 1}\n")
    said = fairgate("toys", "--keep-equal").output
    assert "made again, is equal" not in said
    assert "made otherwise (settings seed). It is set aside" in said


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a shard cut short": lambda part: (part / "shard-00001.parquet").write_bytes(
        (part / "shard-00001.parquet").read_bytes()[:-9]
    ),
    "a shard of the same size with another byte": lambda part: (part / "shard-00001.parquet").write_bytes(
        b"P" + bytes(reversed((part / "shard-00001.parquet").read_bytes()[1:]))
    ),
    "a shard that is gone": lambda part: (part / "shard-00001.parquet").unlink(),
    "a ledger that is gone": lambda part: (part / "shard-00001.json").unlink(),
    "a ledger cut short": lambda part: (part / "shard-00001.json").write_text("{"),
    "a ledger of another shard": lambda part: (part / "shard-00001.json").write_bytes(
        (part / "shard-00002.json").read_bytes()
    ),
    "a ledger that hides what was kept": lambda part: (part / "shard-00001.json").write_text(
        json.dumps({**json.loads((part / "shard-00001.json").read_text()), "file": None})
    ),
    "a draft": lambda part: (part / ".shard-00001.parquet.1-ab.fairgate-draft").write_bytes(b"half"),
    "part.json that is empty": lambda part: (part / "part.json").write_text(""),
    "part.json that is none": lambda part: (part / "part.json").write_text("[]"),
    "a shard beyond the end": lambda part: (part / "shard-00099.parquet").write_bytes(b"foreign"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", ["pool", "sets"])
def test_what_is_damaged_or_foreign_is_made_again(damage: str, part: str, fairgate: Fairgate) -> None:
    fairgate("toys", "--subject", "baker")
    folder = Path("build/toys/baker", part)
    before = {path.name: path.read_bytes() for path in folder.glob("shard-*.parquet")}
    DAMAGES[damage](folder)
    fairgate("toys", "--subject", "baker")
    assert {path.name: path.read_bytes() for path in folder.glob("shard-*.parquet")} == before
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_shards_are_found_again_though_their_part_cannot_say_its_plan(content: str, fairgate: Fairgate) -> None:
    fairgate("toys", "--subject", "baker")
    Path("build/toys/baker/pool/part.json").write_text(content)
    said = fairgate("toys", "--subject", "baker").output
    assert "baker pool: 10 shards (10 found)" in said
    assert "set aside" not in said


def test_what_reads_annotations_and_pictures_and_filters_edits_is_part_of_a_recipes_code() -> None:
    from fairgate.builds.plan import code_modules
    from fairgate.builds.recipes import open_recipe

    files = {"captions": "c.json", "instances": "i.json", "images": "images"}
    recipe = open_recipe("gensynth", {**files, "licence": "CC0-1.0", "editor": "instruct-pix2pix?vae_tile=512"})
    found = code_modules(recipe)
    assert {"fairgate.data.coco", "fairgate.ground.pixels", "fairgate.models.generation.diffusion.paint"} <= set(found)
    assert "fairgate.formulas.metrics.neighbours" in found
    assert "fairgate.models.checkpoints.files" in found  # by the stub of a lazy face, and not all that the face offers
    assert not {"fairgate.builds.part", "fairgate.models.scores"} & set(found)


def test_what_a_module_calls_by_the_name_of_a_lazy_face_counts_as_what_it_imports(tmp_path: Path) -> None:
    from fairgate.builds.plan import _imports

    (tmp_path / "a.py").write_text("from fairgate.models import checkpoints\nfound = checkpoints.judged_folder\n")
    assert "fairgate.models.checkpoints.addresses" in _imports(tmp_path / "a.py")


def test_a_definition_that_moves_to_another_module_makes_no_shard_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairgate.builds import plan
    from fairgate.builds.recipes import open_recipe

    def digest_of(**files: str) -> str:
        modules = {}
        for name, text in files.items():
            modules[name] = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
            modules[name].write_text(text)
        monkeypatch.setattr(plan, "code_modules", lambda _: modules)
        return plan.code_digest(open_recipe("social_identities", {"licence": "MIT"}))

    start, half = "def start(): return 1\n", "def half(): return 0.5\n"
    whole = digest_of(a=f'"""Both."""\n{start}{half}')
    assert digest_of(b=start, c=f"from b import start\n{half}") == whole
    assert digest_of(a=f"{start}def half(): return 0.25\n") != whole


def test_a_dataset_that_lost_a_file_is_put_together_again(fairgate: Fairgate) -> None:
    fairgate("toys")
    first = fingerprint()
    next(Path("build/toys/dataset").glob("*.parquet")).unlink()
    fairgate("toys", "--assemble")
    assert read_dataset(Path("build/toys/dataset")).verify() == []
    assert fingerprint() == first


def test_yields_say_what_was_dropped_why_and_at_which_group(fairgate: Fairgate) -> None:
    fairgate("toys")
    summary = json.loads(Path("build/toys/yield.json").read_text())
    assert summary["images"] == 3 * summary["sets"]
    assert summary["balance"] == {"skin_tone": 1.0}
    assert summary["exact_duplicates"] == 0
    pool = summary["subjects"]["baker"]["parts"]["pool"]
    assert pool["started"] == pool["kept"] + sum(pool["dropped"].values()) == 40
    with Path("build/toys/drops.csv").open() as handle:
        lines = list(csv.DictReader(handle))
    counts = {tuple(line.values())[:-1]: int(line["count"]) for line in lines}
    wrong = counts["baker", "sets", "all", "all", "wrong_group"]
    assert wrong == summary["subjects"]["baker"]["parts"]["sets"]["dropped"]["wrong_group"]
    by_group = [count for names, count in counts.items() if names[:3] == ("baker", "sets", "skin_tone")]
    assert sum(by_group) == wrong
    with Path("build/toys/yield.csv").open() as handle:
        plotted = [(line["subject"], line["outcome"], int(line["count"])) for line in csv.DictReader(handle)]
    assert (
        sum(count for subject, outcome, count in plotted if (subject, outcome) == ("baker", "sets: wrong_group"))
        == wrong
    )
    assert len({line[:2] for line in plotted}) == len(plotted)
    spent = dict.fromkeys(("baker", "car-mechanic"), 0)
    for subject in spent:
        for path in Path("build/toys", subject).rglob("shard-*.json"):
            spent[subject] += json.loads(path.read_text())["counts"]["unet"]
    assert summary["per_image"]["unet"] == pytest.approx(sum(spent.values()) / summary["images"], abs=1e-3)


def test_yields_are_the_same_for_every_number_of_workers(fairgate: Fairgate) -> None:
    fairgate("toys")
    fairgate("toys", "--workers", "3", "--device", "cpu", "--out", "three")
    for name in ("yield.json", "yield.csv", "drops.csv"):
        assert Path("build/toys", name).read_text() == Path("three/toys", name).read_text()


def test_status_shows_every_part_without_building_anything(fairgate: Fairgate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    fairgate("toys", "--subject", "baker", "--part", "pool")
    said = fairgate("status").output
    assert "toys (toy): build/toys" in said
    assert "slow (toy): not begun" in said
    first = next(number for number, line in enumerate(said.splitlines()) if "baker" in line)
    line, following = said.splitlines()[first : first + 2]
    told = ["baker", "pool", "finished", "10", "40", "27", "24", "too_dark", "7", "unet", "80"]
    assert line.split()[: len(told)] == told
    assert following.split() == ["grey", "6"]
    assert not Path("build/slow").exists()
    fairgate("toys")
    assert "dataset: build/toys/dataset" in fairgate("status", "toys").output


def test_status_tells_what_it_can_where_the_models_are_not(fairgate: Fairgate, monkeypatch: pytest.MonkeyPatch) -> None:
    fairgate("toys", "--limit", "4")
    monkeypatch.setattr("toy_recipe.Toy.models", lambda _: {"painter": "hf:not/here"})
    said = fairgate("status", "toys", "--limit", "4").output
    assert "whether anything is stale is not known here: 'not/here' is neither a folder" in said
    assert "finished" in said


def test_a_status_opens_no_model_and_none_of_their_libraries() -> None:
    words = (
        "from fairgate.builds.plan import code_digest; from fairgate.builds.recipes import open_recipe; import sys; "
    )
    words += "code_digest(open_recipe('occupations', {'licence': 'MIT', 'face_reader': 'fairface:x'})); "
    words += "sys.exit(any(name in sys.modules for name in ('torch', 'diffusers', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


def test_two_builds_of_one_name_do_not_run_at_once(fairgate: Fairgate) -> None:
    from fairgate.builds.shard_store import Places

    with Places(Path("build/toys")).locked(["baker"]):
        said = fairgate("toys", code=4).output
        assert "another process is building 'baker' of 'toys'" in said
        assert "remedy: wait for it" in said
        fairgate("toys", "--subject", "car mechanic")
        fairgate("slow", "--subject", "baker")
    fairgate("toys")


REFUSED = {
    ("typo",): "there is no build 'typo'",
    ("sloww",): "did you mean 'slow'?",
    ("stauts",): "did you mean 'status'?",
    ("toys", "--subject", "bakr"): "did you mean 'baker'?",
    ("toys", "--part", "pol"): "did you mean 'pool'?",
    ("toys", "--part", "sets"): "part 'pool' of 'baker' is not finished",
    ("toys", "--assemble"): "build it first: `fairgate build toys --subject baker`",
    ("toys", "--assemble", "--subject", "baker"): "--assemble joins all subjects",
    ("toys", "--engine", "spark"): "engines: local, ray",
    ("toys", "--device", "tpu"): "'tpu' is not a device",
    ("toys", "--params", "other.yaml"): "the file cannot be read",
    ("toys", "--engine", "ray", "--device", "cuda:1"): "on Ray no single device can be chosen",
}


def test_the_command_that_makes_what_is_missing_reads_the_same_params(fairgate: Fairgate, folder: Path) -> None:
    (folder / "params.yaml").rename("my.yaml")
    said = fairgate("toys", "--part", "sets", "--params", "my.yaml", "--out", "made", code=4).output
    remedy = said.partition("remedy: build it first: `fairgate build ")[2].partition("`")[0]
    assert remedy == "toys --subject baker --params my.yaml --out made"
    fairgate(*remedy.split())
    fairgate("toys", "--subject", "baker", "--part", "sets", "--params", "my.yaml", "--out", "made")


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_built_is_refused_with_a_remedy(words: tuple[str, ...], fairgate: Fairgate) -> None:
    said = fairgate(*words, code=4).output
    assert REFUSED[words] in said
    assert "remedy:" in said


PARAMS = {
    "builds: [a]": "the file names no builds",
    "other: 1": "the file names no builds",
    "builds: {toys: 3}": "a build is a mapping of settings",
    "builds: {toys: {}}": "does not say which recipe it is",
    "builds: {toys: {recipe: os.path}}": "there is no recipe 'os.path'",
    "builds: {toys: {recipe: 'toy_recipe:Toy'}}": "there is no recipe 'toy_recipe:Toy'",
    "builds: {toys: {recipe: toy, sedd: 1}}": "remedy: did you mean 'seed'?",
    "builds: {toys: {recipe: toy, seed: x}}": "recipe 'toy' does not take seed",
    "builds: {toys: {recipe: toy, subjects: [A b, a-B]}}": "subjects 'A b' and 'a-B' would share a folder",
    "builds: {toys: {recipe: toy, subjects: [dataset]}}": "would share a folder",
    "builds: {toys: !!python/object {}}": "tags (!name) are not allowed",
    "builds: {toys: {recipe: toy, candidates: 0}}": "no set of any subject was kept",
}


@pytest.mark.parametrize("text", PARAMS)
def test_params_that_make_no_sense_are_refused_with_a_remedy(text: str, fairgate: Fairgate, folder: Path) -> None:
    (folder / "params.yaml").write_text(text)
    said = fairgate("toys", code=4).output
    assert PARAMS[text] in said
    assert "remedy:" in said


@pytest.mark.parametrize("name", ["status", "run", "With Capitals"])
def test_a_build_may_not_have_the_name_of_a_command(name: str, fairgate: Fairgate, folder: Path) -> None:
    (folder / "params.yaml").write_text(f"builds:\n  {name}: {{recipe: toy}}\n")
    assert f"a build cannot be called '{name}'" in fairgate("run", name, code=4).output
