"""What the U-Net itself claims: the time, sizes, how it begins, what looks at what."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.models.unet import AXES, FAMILY, Config, UNet
from regard.nn.kernels.topk import TopK
from regard.nn.resnet_blocks import Doubling, Halving, Padding, TimeEmbedding
from regard.nn.spatial_blocks import SpatialTransformer
from regard.nn.tap import capture, listen
from tests.contracts.tools import close, stirred

SMALL = FAMILY.example()
PLAIN = replace(SMALL, context=0, padding="end", attended=(1,))


def net(config: Config = SMALL) -> UNet:
    torch.manual_seed(0)
    return stirred(UNet(config)).eval()


def given(config: Config = SMALL, rows: int = 8, columns: int = 8) -> dict[str, Any]:
    noisy = torch.randn(2, config.channels, rows, columns, dtype=torch.float64)
    context = {"context": torch.randn(2, 5, config.context, dtype=torch.float64)} if config.context else {}
    return {"noisy": noisy, "time": torch.tensor([0, 500]), **context}


@pytest.mark.parametrize(("shift", "slowest"), [(0, 10_000 ** (-3 / 4)), (1, 1e-4)])
@pytest.mark.parametrize("cosines_first", [False, True])
def test_waves(cosines_first: bool, shift: int, slowest: float) -> None:
    """Of width 9: four angles, from 1 down, twice, and a zero."""
    embedding = TimeEmbedding(9, 4, torch.tanh, cosines_first=cosines_first, shift=shift)
    time = torch.tensor([0.0, 3.0])
    found = embedding.waves(time)
    first, second = (torch.cos, torch.sin) if cosines_first else (torch.sin, torch.cos)
    for i, angle in ((0, 1.0), (3, slowest)):
        close(found[:, i], first(time * angle), 1e-6)
        close(found[:, 4 + i], second(time * angle), 1e-6)
    assert found[:, 8].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("padding", "begin"), [("both", 0), ("end", 1)])
@pytest.mark.parametrize("side", [6, 7])
def test_where_a_halving_begins(padding: Padding, begin: int, side: int) -> None:
    """With a kernel that takes its middle pixel alone: the first, or the second."""
    halving = Halving(1, padding)
    with torch.no_grad():
        halving.convolution.weight.zero_()[..., 1, 1] = 1
        halving.convolution.bias.zero_()
    x = torch.randn(1, 1, side, side)
    close(halving(x), x[..., begin::2, begin::2], 1e-6)


def test_a_doubling_finds_an_odd_size_again() -> None:
    assert Doubling(2)(torch.randn(1, 2, 3, 4)).shape[-2:] == (6, 8)
    assert Doubling(2)(torch.randn(1, 2, 3, 4), (5, 7)).shape[-2:] == (5, 7)


def test_how_it_begins() -> None:
    """It says nothing, and every transformer lets pass what comes."""
    fresh = UNet(SMALL).double()
    assert not fresh(**given()).any()
    x, context = torch.randn(1, 8, 3, 2).double(), torch.randn(1, 4, 6).double()
    blocks = [module for module in fresh.modules() if isinstance(module, SpatialTransformer)]
    assert len(blocks) == 7
    assert torch.equal(blocks[0](x, context), x)


def test_the_time_matters() -> None:
    model, inputs = net(), given()
    assert not torch.allclose(model(**inputs), model(**inputs | {"time": torch.tensor([1, 500])}))


@pytest.mark.parametrize("config", [SMALL, PLAIN], ids=["words", "plain"])
@pytest.mark.parametrize("size", [(8, 8), (7, 10)])
def test_axes_are_those_of_the_maps(config: Config, size: tuple[int, int]) -> None:
    model, inputs = net(config), given(config, *size)
    with capture(model) as seen:
        assert model(**inputs).shape[-2:] == size
    axes = model.axes(*inputs.values())
    places = {name.removesuffix(".weights") for name in seen}
    assert places == {name for name in axes if name != "text"}
    for place in places:
        (weights,) = seen[f"{place}.weights"]
        axis = axes[place]
        columns = axes["text"] if place.endswith("cross") else axis
        assert axis.grid is not None
        assert weights.shape[-2:] == (axis.size, columns.size)
        assert axis.grid[0] * axis.grid[1] == axis.size
    assert any(axes[place].grid == size for place in places) == (0 in config.attended)
    assert set(AXES) == {"*.mixer", "*.cross"}


def test_a_word_can_be_crossed_out() -> None:
    """Whoever listens to the maps can change them: what the word then says no longer matters."""
    model, inputs = net(), given()
    other = inputs | {"context": inputs["context"] + (torch.arange(5) == 2)[:, None]}

    def without(name: str, weights: torch.Tensor) -> torch.Tensor:
        rest = weights.masked_fill(torch.arange(5) == 2, 0.0)
        return rest / rest.sum(-1, keepdim=True)

    with listen(model, "*.cross.weights", without):
        close(model(**inputs), model(**other), 1e-12)
    assert not torch.allclose(model(**inputs), model(**other))


def test_attentions_take_turns() -> None:
    """From the first level down to the middle, and up to the last."""
    model = UNet(replace(SMALL, attention=("softmax", {"kind": "top-k", "keep": 2}), cross="top-k"))
    places = [f"down.{level}.steps.0" for level in (0, 1)] + ["middle.0"]
    places += [f"up.{level}.steps.{i}" for level in (0, 1) for i in (0, 1)]
    blocks = [model.get_submodule(f"{place}.attention.block") for place in places]
    assert [isinstance(block.mixer.kernel, TopK) for block in blocks] == [i % 2 == 1 for i in range(7)]
    assert all(isinstance(block.cross.kernel, TopK) for block in blocks)


def test_the_size_is_what_a_length_comes_from() -> None:
    """Of an attention that has one: of 8 x 8 pixels 64, and of the next level 16."""
    model = UNet(replace(SMALL, attention="linformer"))
    lengths = {x.shape[-1] for name, x in model.named_parameters() if ".kernel." in name}
    assert lengths == {64, 16}
    with pytest.raises(ValueError, match="needs the maximum sequence length"):
        UNet(replace(SMALL, attention="linformer", image=None))


def test_a_context_where_there_is_none() -> None:
    plain, inputs = net(PLAIN), given()
    with pytest.raises(ValueError, match=r"no cross-attention \(context = 0\)"):
        plain(**inputs)
    del inputs["context"]
    with pytest.raises(ValueError, match=r"needs a context, \(b, m, d\)"):
        net()(**inputs)
    with pytest.raises(ValueError, match=r"keys .* must have the shape of the tokens"):
        net()(**given(), keys=torch.ones(2, 4, dtype=torch.bool))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"multipliers": (2, 4)}, r"multipliers = \[2, 4\] must begin with 1"),
        ({"multipliers": ()}, "multipliers = .* must be at least 1"),
        ({"attended": (0, 2)}, r"attended = \[0, 2\] must name levels from 0 to 1"),
        ({"heads": (2, 2, 4)}, r"heads = \[2, 2, 4\] must have one number for each of the 2 levels"),
        ({"heads": 3}, "dim = 8 is not a multiple of heads = 3"),
        ({"heads": (2, 3)}, "dim = 8 times 2 is not a multiple of heads = 3"),
        ({"norm_groups": 3}, "dim = 8 is not a multiple of norm_groups = 3"),
        ({"frequency_shift": 4}, "frequency_shift = 4 must be at least 0 and less than half of dim = 8"),
        ({"context": -1}, "context = -1 must be at least 0"),
    ],
)
def test_configs_that_do_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **changes)


def test_equal_heads_are_said_in_one_way() -> None:
    assert replace(SMALL, heads=(2, 2)) == SMALL
    assert replace(SMALL, heads=(2, 4)).heads == (2, 4)
