"""A family's numbers are those of the library's own forward pass on the same files, or the files are refused."""

from __future__ import annotations

import pytest
from differential import GENERATIVE, LAYOUTS, Compared
from differential_models import LAYOUTS as PLAIN
from differential_variants import variants
from nightly import some

# the libraries warn of the spoilt files
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("seeing_here")]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("differential"))


@pytest.mark.parametrize("key", [*some(list(PLAIN), 1), *some(list(GENERATIVE), 1)])
def test_no_variant_of_a_layouts_files_is_judged_otherwise_than_its_library_computes(
    key: str, compared: Compared
) -> None:
    outcomes = {name: compared.outcome(key, edit, name=name) for name, edit in variants(LAYOUTS[key]).items()}
    different = {name: (found.largest, found.said) for name, found in outcomes.items() if found.kind == "different"}
    assert different == {}
    assert outcomes["as saved"].kind == "equal"
