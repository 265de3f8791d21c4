"""Looking: the true maps, at no one else's cost, and nothing left behind."""

import math
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.building import prepare
from regard.errors import InputError
from regard.look.maps import look_at, one_by_one
from regard.model import Model
from regard.nn import batchnorm
from regard.nn.attention import MultiHeadAttention
from regard.nn.axis import Axis
from regard.nn.batchnorm import BatchNorm
from regard.nn.cache import Cache
from regard.nn.mask import ALL, CAUSAL, Mask, TensorBias
from regard.nn.mixers.outlook import Outlook
from regard.nn.tap import Tap, capture, listen
from regard.zoo import FAMILIES
from tests.contracts.families import ATTENDING, SERVED, by_speed, inputs, net, tensors
from tests.contracts.tools import CHOICES, DIM, HEADS, close, numbers, ragged, stirred


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    """As in a process that compiles."""
    import_module("torch._dynamo")


@pytest.mark.parametrize(("family", "key", "name"), by_speed(SERVED))
def test_recorded_maps_are_the_explicit_ones(family: str, key: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To 1e-6 in float32, and recording moves the output by rounding only."""
    model = net(family, **{key: CHOICES[name]}).float()
    given = {part: x.float() if x.is_floating_point() else x for part, x in inputs(family).items()}
    if any(isinstance(module, BatchNorm) for module in model.modules()):  # unmeasured, products grow beyond float32
        monkeypatch.setattr(batchnorm, "MOMENTUM", 1.0)
        model.train()(**given)
        model.eval()
    plain = tensors(model(**given))
    with capture(model, "*") as seen:
        looked = tensors(model(**given))
    for part, x in plain.items():
        error = 1e-3 if family == "rnn" or name in CANCELLING else 1e-5  # a rounding grows from step to step
        assert (x - looked[part]).abs().max() <= error * max(1.0, float(x.detach().abs().max()))
    layers = {n: m for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    compared = {n.removesuffix(".weights") for n in seen if n.endswith(".weights")}
    assert compared == set(layers) | {n for n, m in model.named_modules() if isinstance(m, Outlook)}
    for place, layer in layers.items():
        q, k, v, weights, mixed = (
            seen[f"{place}.{tap}"][0] for tap in ("queries", "keys", "values", "weights", "mixed")
        )
        decoding = place.startswith("decoder") and place.endswith("mixer") and family != "autoencoder"
        causal = family in ("gpt", "switchlm", "reformer", "cliptext") or place.startswith("text.") or decoding
        mask, side = CAUSAL if causal else ALL, place.partition(".")[0]
        learned = hasattr(model, f"{side}_bias") and place.endswith("mixer")  # T5's
        bias = getattr(model, f"{side}_bias")(mask) if learned else None
        if hasattr(model, "stages"):  # the offsets within a window, or of the whole grid
            around = model.get_submodule(place.rpartition(".")[0])
            grid = math.isqrt(k.shape[-2])
            bias = TensorBias(around.offsets(grid, grid, *([around.stride] if hasattr(around, "stride") else [])))
        close(weights, layer.kernel.weights(q, k, mask, bias), 1e-6)
        close(mixed, weights @ v, 1e-5)
        if name not in FREE and not name.startswith("linformer"):
            close(weights.sum(-1), torch.ones_like(weights.sum(-1)), 1e-6)


# Whose weights are sums of sines and cosines, which cancel and leave their rounding.
CANCELLING = {"random-features", "random-features-gate", "performer-waves"}
# Whose weights need not sum to 1.
FREE = {"mean-dot", "mean-concat", "talking", "local-p", "local-p-window"} | CANCELLING


@pytest.fixture
def fused_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **b: calls.append(1) or fused(*a, **b))
    return calls


def test_recording_one_layer_leaves_the_fast_path_elsewhere(fused_calls: list[int]) -> None:
    model, ids = net("gpt", depth=4), torch.randint(13, (2, 6))
    for pattern, left in (("blocks.2.mixer.weights", 3), ("*.weights", 0), ("*.mixed", 4), ("*.stream", 4)):
        fused_calls.clear()
        with capture(model, pattern):
            model(ids)
        assert len(fused_calls) == left
    fused_calls.clear()
    model(ids)
    assert len(fused_calls) == 4


def test_every_call_is_kept_in_order() -> None:
    """Decoding steps, and a layer that is used again."""
    model, ids, cache = net("gpt"), torch.randint(13, (2, 6)), Cache()
    with capture(model) as whole:
        model(ids)
    with capture(model) as seen:
        for part in ids.split((3, 1, 2), 1):
            model(part, cache=cache)
    for name, records in seen.items():
        assert [tuple(x.shape[-2:]) for x in records] == [(3, 3), (1, 4), (2, 6)]
        for x, rows in zip(records, (slice(0, 3), slice(3, 4), slice(4, 6)), strict=True):
            close(x, whole[name][0][:, :, rows, : x.shape[-1]])
    model.blocks = nn.ModuleList([model.blocks[0], model.blocks[0], model.blocks[1]])
    with capture(model) as seen:
        model(ids)
    assert {name: len(records) for name, records in seen.items()} == {
        "blocks.0.mixer.weights": 2,
        "blocks.2.mixer.weights": 1,
    }


def test_replacing_what_passes(fused_calls: list[int]) -> None:
    """A head is switched off at full speed; a weight is edited; the last to listen has the last word."""
    model, ids = net("gpt"), torch.randint(13, (2, 6))
    without = net("gpt")
    without.load_state_dict(model.state_dict())
    with torch.no_grad():
        without.blocks[1].mixer.out.weight[:, 4:8] = 0.0  # head 1
    fused_calls.clear()

    def silent(_: str, y: Tensor) -> Tensor:
        return y * torch.tensor([1, 0, 1, 1])[:, None, None]

    with listen(model, "blocks.1.mixer.mixed", silent):
        close(model(ids), without(ids))
    assert len(fused_calls) == 4

    def last(_: str, w: Tensor) -> Tensor:
        return F.one_hot(torch.arange(6), 6).double().expand_as(w)

    with listen(model, "blocks.0.mixer.weights", last), capture(model, "blocks.0.mixer.*") as seen:
        model(ids)
    close(seen["blocks.0.mixer.weights"][0][0, 0], torch.eye(6).double())
    close(seen["blocks.0.mixer.mixed"][0], seen["blocks.0.mixer.values"][0])  # each looks at itself
    with capture(model, "*") as seen, listen(model, "*.weights", lambda _, w: w * 0):
        model(ids)
    assert not seen["blocks.1.mixer.mixed"][0].any()
    assert seen["blocks.1.mixer.weights"][0].any()  # heard before it was replaced


@pytest.mark.parametrize("tap", ["mixer.weights", "mixer.mixed", "mixer.keys", "stream"])
def test_a_replacement_has_the_shape_of_what_it_replaces(tap: str) -> None:
    """One row would be spread over all without a word."""
    model, ids = net("gpt"), torch.randint(13, (2, 6))
    shape = {"mixer.weights": r"4, 6, 6", "stream": r"6, 16"}.get(tap, r"4, 6, 4")
    expected = rf"blocks\.1\.{tap} .*got \(1, {shape}\), expected \(2, {shape}\)"
    with listen(model, f"blocks.1.{tap}", lambda _, x: x[:1]), pytest.raises(ValueError, match=expected):
        model(ids)


def test_nested_listeners_and_patterns() -> None:
    model, ids, order = net("gpt"), torch.randint(13, (1, 4)), []
    with listen(model, "*.stream", lambda name, _: order.append("a " + name)) as names:
        assert names == ["blocks.0.stream", "blocks.1.stream"]
        with listen(model, "blocks.1.*", lambda name, _: order.append("b " + name) if "stream" in name else None):
            model(ids)
        model(ids)
    model(ids)
    assert order == [
        "a blocks.0.stream",
        "a blocks.1.stream",
        "b blocks.1.stream",
        "a blocks.0.stream",
        "a blocks.1.stream",
    ]
    with pytest.raises(
        KeyError, match=r"no tap matches 'nothing'; the taps of this model are blocks\.0\.mixer\.queries"
    ):
        with capture(model, "nothing"):
            pass


def test_capture_with_gradients() -> None:
    """The gradient of a class's score by each weight (Grad-CAM); without it, records are cut off."""
    model, ids = net("gpt"), torch.randint(13, (2, 6))
    with capture(model, grad=True) as seen:
        y = model(ids)
    weights = seen["blocks.0.mixer.weights"][0]
    (found,) = torch.autograd.grad(y[0, -1, 3], weights, retain_graph=True)
    assert found.shape == weights.shape
    assert found[0].abs().sum() > 0
    assert not found[1].any()

    def nudge(_: str, w: Tensor) -> Tensor:
        moved = w.clone()
        moved[0, 1, 5, 2] += 1e-6
        return moved

    with listen(model, "blocks.0.mixer.weights", nudge):
        slope = (model(ids)[0, -1, 3] - y[0, -1, 3]) / 1e-6
    close(slope, found[0, 1, 5, 2], 1e-4)
    with capture(model) as seen:
        model(ids)
    assert not seen["blocks.0.mixer.weights"][0].requires_grad


class Words:
    """A tokenizer, as far as labels go."""

    @property
    def media(self) -> dict[str, "Words"]:
        return {"text": self}

    def labels(self, ids: list[int]) -> tuple[str, ...]:
        return tuple(f"word{i}" for i in ids)


def test_a_model_that_does_not_attend_says_so() -> None:
    given = inputs("mlp")
    with pytest.raises(InputError, match="this model has no attention layers"):
        Model("mlp", net("mlp"))(*given.values(), look="*")


@pytest.mark.parametrize("family", ATTENDING)
def test_maps_have_names_and_axes(family: str) -> None:
    model, given = Model(family, net(family), processor=Words()), inputs(family, batch=1)
    looked = model(*given.values(), look="*")
    wanted = tensors(model.net(**given))
    for name, x in tensors(looked.output).items():
        close(x, wanted[name])
    places = [n for n, m in model.net.named_modules() if isinstance(m, MultiHeadAttention | Outlook)]
    assert sorted(looked.maps) == sorted(places)
    table = FAMILIES[family].axes
    assert all(any(place.startswith(pattern.split("*")[0]) for pattern in table) for place in places)
    for name, found in looked.maps.items():
        assert found.name == name
        assert found.weights.shape[-2:] == (found.rows.size, found.columns.size)
        heads = 1 if (family, name) == ("perceiver", "decoder.look") else getattr(model.config, "heads", 1)
        if not isinstance(heads, tuple):
            assert found.weights.shape[:2] == (1, heads)
        for axis in (found.rows, found.columns):
            if axis.kind == "text":
                assert axis.labels is not None
                assert axis.labels in [tuple(f"word{i}" for i in ids[0].tolist()) for ids in given.values()]
            elif axis.kind == "time":
                assert axis.size in (given["values"].shape[1], model.config.horizon)
            elif axis.kind in ("latents", "query", "class"):
                assert axis.size == {"latents": 5, "query": 1, "class": 1}[axis.kind]
            elif family == "transgan":  # whose grids grow
                side = 8 if "stages.1" in name else 4
                assert (axis.kind, axis.grid, axis.cut.grid) == ("image", (side, side), (side, side))
            elif hasattr(model.net, "stages"):
                assert axis.kind == "image"
                coarse = 1 if "stages.1" in name and not (axis is found.columns and "shrink" in name) else 2
                assert axis.grid == (coarse, coarse)
                assert (axis.cut is not None) == family.startswith("swin")
            elif family == "perceiver":
                assert (axis.kind, axis.grid) == ("image", (8, 8))
            else:
                side = {"volo": 6 if name.startswith("outlookers") else 3, "autoencoder": 4}.get(family, 2)
                assert (axis.kind, axis.grid) == ("image", (side, side))
                assert axis.special == axis.size - side**2


def test_maps_of_source_and_target() -> None:
    model = Model("transformer", net("transformer"), processor=Words())
    source, target = torch.randint(13, (1, 5)), torch.randint(13, (1, 3))
    maps = model(source, target, look="decoder.*.cross").maps
    assert sorted(maps) == ["decoder.0.cross", "decoder.1.cross"]
    for found in maps.values():
        assert found.rows.labels == Words().labels(target[0].tolist())
        assert found.columns.labels == Words().labels(source[0].tolist())
    keys = ragged(2, 5, "right")
    source, target = torch.randint(13, (2, 5)), torch.randint(13, (2, 3))
    looked = model(source, target, source_keys=keys, look="decoder.0.cross")
    assert not looked.maps["decoder.0.cross"].weights[1, ..., ~keys[1]].any()
    assert looked.maps["decoder.0.cross"].columns == Axis("text", 5)  # of several texts no one has the labels
    with pytest.raises(InputError, match=r"decoder\.0\.mixer"):
        model(source, target, look="decoder.9.cross")


def test_axes_of_a_decoding_step() -> None:
    """It has fewer rows than columns: what does not fit keeps its name alone."""
    model, ids, cache = Model("gpt", net("gpt"), processor=Words()), torch.randint(13, (1, 4)), Cache()
    prompt = model(ids[:, :3], cache=cache, look="blocks.0.mixer").maps["blocks.0.mixer"]
    assert prompt.rows == prompt.columns == Axis("text", 3, Words().labels(ids[0, :3].tolist()))
    step = model(ids[:, 3:], cache=cache, look="blocks.0.mixer").maps["blocks.0.mixer"]
    assert step.weights.shape == (1, 4, 1, 4)
    assert step.rows == Axis("text", 1, Words().labels(ids[0, 3:].tolist()))
    assert step.columns == Axis("tokens", 4)
    with pytest.raises(ValueError, match="3 labels for an axis of 4"):
        Axis("text", 4, ("a", "b", "c"))
    with pytest.raises(ValueError, match="does not fit"):
        Axis("image", 4, grid=(2, 3))


def test_a_prepared_model_can_be_looked_at() -> None:
    model, ids = net("gpt"), torch.randint(13, (2, 6))
    with capture(model) as a, capture(twin := prepare(model)) as b:
        model(ids), twin(ids)
    assert list(a) == list(b)
    for name in a:
        close(a[name][0], b[name][0])


def test_every_call_of_a_look_is_there() -> None:
    layer = stirred(MultiHeadAttention(DIM, HEADS))
    model, x = nn.ModuleDict({"attention": layer}), numbers(1, 4, DIM)

    def run() -> Tensor:
        return layer(layer(x), mask=Mask(causal=True))

    looked = look_at(model, "attention", run, table={"attention": ("a", "b")}, axes={"a": Axis("text", 4)})
    first, second = looked.calls["attention"]
    assert not torch.equal(first.weights, second.weights)
    assert looked.maps["attention"] is second
    assert (first.rows, first.columns) == (Axis("text", 4), Axis("b", 4))
    close(looked.output, run())


def test_looks_are_one_map_only_if_there_is_one_for_each_row() -> None:
    """As of a recurrent decoder; two steps of another kind stay two calls."""
    one, rows = torch.Size((1, 2, 1, 5)), Axis("text", 3)
    assert one_by_one([one] * 3, rows)
    assert not one_by_one([one] * 2, rows)
    assert not one_by_one([one] * 3, None)
    assert not one_by_one([one, one, torch.Size((1, 2, 1, 4))], rows)
    assert not one_by_one([torch.Size((1, 2, 3, 5))] * 3, rows)


def test_a_tap_alone_is_the_identity() -> None:
    tap, x = Tap(), numbers(3)
    assert tap(x) is x
    assert not tap.live
    assert not tap.state_dict()
    with listen(nn.ModuleDict({"tap": tap}), "tap", lambda *_: None):
        assert tap.live
        assert tap(x) is x


def test_a_layer_alone_has_names_too() -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS)), numbers(1, 4, DIM)
    with capture(layer) as seen:
        layer(x)
    assert list(seen) == ["weights"]
