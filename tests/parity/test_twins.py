"""Tiny random twins of the reference agree in outputs, gradients and attention maps."""

from pathlib import Path

import pytest
import torch

from regard.interop.formats import CHECKPOINT_FORMATS
from regard.nn.tap import capture
from tests.parity.ours import OURS, Tensors, assert_close
from tests.parity.references import CASES, FAMILIES, TIMM
from tests.parity.twins import Pair, batch, paired, row

# There the reference takes norms, angles, routes and offsets in float32, whatever comes in.
NARROW = ("llama", "mistral", "qwen", "starcoder", "t5", "switch", "swinv2")


@pytest.fixture(scope="module", params=CASES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Pair:
    return paired(request.param, tmp_path_factory.mktemp(request.param), device)


def on(device: torch.device, inputs: Tensors, dtype: torch.dtype = torch.float32) -> Tensors:
    return {name: x.to(device, dtype if x.is_floating_point() else x.dtype) for name, x in inputs.items()}


@pytest.fixture
def inputs(pair: Pair, device: torch.device) -> Tensors:
    return on(device, batch(pair.case))


def test_outputs_and_maps(pair: Pair, inputs: Tensors) -> None:
    ours, theirs = pair.run_ours(inputs), pair.run_theirs(inputs)
    assert_close(ours.outputs, theirs.outputs)
    assert_close(ours.maps, theirs.maps)


def test_gradients(pair: Pair, inputs: Tensors, tmp_path: Path) -> None:
    ours, theirs = pair.gradients(inputs, tmp_path)
    assert_close(ours, theirs)


def test_in_float64(pair: Pair, inputs: Tensors, device: torch.device, tmp_path: Path) -> None:
    if device.type == "mps":
        pytest.skip("this device has no float64")
    double, wide = pair.double(), on(device, inputs, torch.float64)
    exact = not any(name in pair.case for name in NARROW)
    ours, theirs = double.run_ours(wide), double.run_theirs(wide)
    assert_close(ours.outputs, theirs.outputs, exact=exact)
    if pair.family not in ("vit", "deit", "swin", "clip", "cliptext") or pair.case in TIMM:
        assert_close(ours.maps, theirs.maps, exact=exact)
    ours, theirs = double.gradients(wide, tmp_path)
    assert_close(ours, theirs, exact=exact)


# ----------------------------------------------------------------------------------------------------------- padding


@pytest.fixture
def ragged(request: pytest.FixtureRequest, tmp_path: Path, device: torch.device) -> tuple[Pair, Tensors]:
    case, side = request.param
    return paired(case, tmp_path / "theirs", device), on(device, batch(case, padding=side))


# The reference counts positions through padding unless it is told them, which Marian cannot be, and pools whatever
# stands first. So of these only what it does right is compared in a padded batch; the rest row by row, below.
PADDED = [
    ("gpt", "left"),
    ("gpt", "right"),
    ("gpt-one", "left"),
    ("gpt-llama-groups", "left"),
    ("gpt-llama-groups", "right"),
    ("gpt-mistral", "left"),
    ("gpt-mistral", "right"),
    ("bert-words", "left"),
    ("bert-words", "right"),
    ("bert-pretraining", "right"),
    ("transformer", "right"),
    ("t5", "right"),
    ("switch", "right"),
    ("switch-gelu", "right"),
    ("transformer-deep-decoder", "right"),
    ("perceiverlm", "right"),
    ("cliptext", "right"),
    ("cliptext-highest", "right"),
    ("clip", "right"),
    ("perceiverlm-keys", "right"),
]


@pytest.mark.parametrize("ragged", PADDED, indirect=True, ids="-".join)
def test_a_padded_batch(ragged: tuple[Pair, Tensors], tmp_path: Path) -> None:
    pair, inputs = ragged
    ours, theirs = pair.run_ours(inputs), pair.run_theirs(inputs)
    assert_close(ours.outputs, theirs.outputs)
    assert_close(ours.maps, theirs.maps)
    assert_close(*pair.gradients(inputs, tmp_path / "gradients"))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("case", ["gpt", "bert", "bert-pretraining", "bert-fnet", "transformer"])
def test_a_padded_batch_equals_each_row_by_itself(case: str, side: str, device: torch.device, tmp_path: Path) -> None:
    pair, inputs = paired(case, tmp_path, device), on(device, batch(case, padding=side))
    whole = pair.run_ours(inputs)
    for i in range(3):
        alone = pair.run_theirs(row(inputs, i))
        keys = inputs["keys"][i]
        source = inputs.get("source_keys", inputs["keys"])[i]
        outputs, maps = {}, {}
        for name, x in whole.outputs.items():
            outputs[name] = x[i : i + 1, source if name == "memory" else keys] if x.ndim == 3 else x[i : i + 1]
        for name, x in whole.maps.items():
            rows = source if name.startswith("encoder.") else keys
            columns = keys if name.startswith("decoder.") and name.endswith(".mixer") else source
            assert not x[i][..., ~columns].any(), f"{name} looks at padding"
            maps[name] = x[i : i + 1, :, rows][..., columns]
        assert_close(outputs, alone.outputs)
        assert_close(maps, alone.maps)


# -------------------------------------------------------------------------------------------------------- other sizes


@pytest.mark.parametrize("case", ["gpt", "bert-pretraining", "bert-fnet", "transformer"])
def test_one_token(case: str, device: torch.device, tmp_path: Path) -> None:
    pair, inputs = paired(case, tmp_path / "theirs", device), on(device, batch(case, length=1))
    ours, theirs = pair.run_ours(inputs), pair.run_theirs(inputs)
    assert_close(ours.outputs, theirs.outputs)
    assert_close(ours.maps, theirs.maps)
    assert_close(*pair.gradients(inputs, tmp_path / "gradients"))


@pytest.mark.parametrize("size", [(16, 20), (4, 4), (8, 12)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("case", ["vit", "vit-pooled", "deit"])
def test_images_of_another_size(case: str, size: tuple[int, int], device: torch.device, tmp_path: Path) -> None:
    pair = paired(case, tmp_path / "theirs", device)
    inputs = {"images": torch.randn(2, 3, *size, device=device)}
    ours, theirs = pair.run_ours(inputs), pair.run_theirs(inputs)
    assert_close(ours.outputs, theirs.outputs)
    assert_close(ours.maps, theirs.maps)
    assert_close(*pair.gradients(inputs, tmp_path / "gradients"))


def test_the_longest_text_and_one_more(device: torch.device, tmp_path: Path) -> None:
    """A learned position for every place but the next."""
    pair = paired("gpt", tmp_path, device)
    inputs = on(device, batch("gpt", length=12))
    assert_close(pair.run_ours(inputs).outputs, pair.run_theirs(inputs).outputs)
    with pytest.raises(ValueError, match="12 positions"):
        pair.run_ours(on(device, batch("gpt", length=13)))


@pytest.mark.parametrize("case", ["gpt", "bert-pretraining", "vit", "transformer"])
def test_maps_are_those_of_the_fast_path(case: str, device: torch.device, tmp_path: Path) -> None:
    """The outputs above came from the path that forms no map; listening gives the same ones."""
    pair, inputs = paired(case, tmp_path, device), on(device, batch(case))
    quiet = OURS[pair.family](pair.ours, inputs)
    with capture(pair.ours):
        heard = OURS[pair.family](pair.ours, inputs)
    assert_close(heard, quiet)


def test_every_family_has_a_case() -> None:
    """Of those that the reference has; the others are compared elsewhere, with equations or with its parts."""
    assert set(FAMILIES.values()) == {kind.family for kind in CHECKPOINT_FORMATS.values()}
    assert set(OURS) == {*FAMILIES.values(), "rnn", "switchlm"}
