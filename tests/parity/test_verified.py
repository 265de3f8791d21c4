"""How closely each family agrees with its reference: a committed file, which a fresh measurement may not contradict.

`pytest tests/parity --write-verified` measures anew and writes the file.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.zoo import FAMILIES as ZOO
from regard.zoo import catalog
from tests.parity.ours import difference
from tests.parity.twins import CASES, FAMILIES, batch, paired

FILE = Path(regard.__file__).parent / "verified.json"
FLOOR = 1e-7  # of a number near 1 in float32 the last bit is 6e-8
QUANTITIES = ("logits", "gradients", "maps")
REFERENCES = {
    "transformer": "transformers MarianMTModel",
    "gpt": "transformers GPT2LMHeadModel",
    "bert": "transformers BertForPreTraining",
    "vit": "transformers ViTForImageClassification",
}


def measure(family: str, folder: Path) -> dict[str, float]:
    """The largest differences over some variants of a family, in float32, each relative to the largest number."""
    worst = dict.fromkeys(QUANTITIES, 0.0)
    for case in [case for case in CASES if FAMILIES[case] == family][:4]:
        pair, inputs = paired(case, folder / case), batch(case)
        ours, theirs = pair.run_ours(inputs), pair.run_theirs(inputs)
        found = {
            "logits": difference(ours.outputs, theirs.outputs),
            "maps": difference(ours.maps, theirs.maps),
            "gradients": difference(*pair.gradients(inputs, folder / f"{case}-gradients")),
        }
        worst = {key: max(worst[key], found[key]) for key in QUANTITIES}
    return worst


@pytest.fixture(scope="module")
def verified(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if request.config.getoption("--write-verified"):
        rows = {}
        for family in ZOO:
            found = measure(family, tmp_path_factory.mktemp(family))
            row = {"reference": REFERENCES[family], "version": version("transformers")}
            rows[family] = row | {key: float(f"{value:.1e}") for key, value in found.items()}
        new = FILE.with_suffix(".new")
        new.write_text(json.dumps(rows, indent=2) + "\n")
        new.replace(FILE)
    return json.loads(FILE.read_text())


def test_every_family_has_a_row(verified: dict[str, Any]) -> None:
    assert list(verified) == list(ZOO)
    assert set(FAMILIES.values()) == set(ZOO)
    for family, row in verified.items():
        assert list(row) == ["reference", "version", *QUANTITIES]
        assert row["reference"] == REFERENCES[family]


def test_it_is_of_the_installed_reference(verified: dict[str, Any]) -> None:
    assert {row["version"] for row in verified.values()} == {version("transformers")}


def test_what_is_committed_is_close(verified: dict[str, Any]) -> None:
    """A bad measurement cannot be made good by committing it."""
    assert all(0 <= row[key] < 2e-6 for row in verified.values() for key in QUANTITIES)


@pytest.mark.parametrize("family", ZOO)
def test_a_fresh_measurement(family: str, verified: dict[str, Any], tmp_path: Path) -> None:
    allowed = {key: 10 * max(verified[family][key], FLOOR) for key in QUANTITIES}
    found = measure(family, tmp_path)
    assert {key: value for key, value in found.items() if not value <= allowed[key]} == {}


def test_the_catalog_tells(verified: dict[str, Any]) -> None:
    rows = [*catalog("*-tiny"), *catalog("transformer-small")]
    for row in rows:
        told = dict(row.verified_against or {})
        assert told.pop("difference") == max(told[key] for key in QUANTITIES)
        assert told == verified[row.family]
