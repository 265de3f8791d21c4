"""Published configs, as their hubs hold them, load around tiny random weights and compute what the reference does."""

from pathlib import Path

import pytest

from tests.parity.published import PUBLISHED
from tests.parity.published_images import IMAGES
from tests.parity.published_others import OTHERS
from tests.parity.told import compared
from tests.parity.unusual import built

ALL = PUBLISHED | OTHERS | IMAGES


@pytest.mark.parametrize("name", ALL)
def test_a_published_config(name: str, tmp_path: Path) -> None:
    case, config, small = ALL[name]
    theirs = built(case, config | small, tmp_path / "x", seed=0, most=20_000_000)
    assert theirs is not None, "the reference reads it"
    assert compared(case, theirs, tmp_path / "x") == ""


@pytest.mark.parametrize("name", ALL)
def test_every_value_is_the_published_one(name: str, tmp_path: Path) -> None:
    """Nothing but sizes was changed to make it tiny: those keys stand in the config, or mean a size."""
    _, config, small = ALL[name]
    assert [key for key in small if key not in config] in ([], ["num_decoder_layers"], ["decoder_vocab_size"])
