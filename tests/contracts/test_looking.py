"""Looking: the true maps, at no one else's cost, and nothing left behind."""

import threading
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo import eval_frame

import regard.nn.tap
from regard.errors import InputError
from regard.look.maps import look_at
from regard.model import Model, prepare
from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.axis import Axis
from regard.nn.cache import Cache
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.replay import recompute
from regard.nn.tap import Tap, capture, hearing, listen
from regard.zoo import FAMILIES
from tests.contracts.families import SERVED, inputs, net, tensors
from tests.contracts.tools import CHOICES, DIM, HEADS, close, numbers, ragged, stirred


@pytest.mark.parametrize(("family", "key", "name"), SERVED)
def test_recorded_maps_are_the_explicit_ones(family: str, key: str, name: str) -> None:
    """To 1e-6 in float32, and recording moves the output by rounding only."""
    model = net(family, **{key: CHOICES[name]}).float()
    given = {part: x.float() if x.is_floating_point() else x for part, x in inputs(family).items()}
    plain = tensors(model(**given))
    with capture(model, "*") as seen:
        looked = tensors(model(**given))
    for part, x in plain.items():
        assert (x - looked[part]).abs().max() <= 1e-5 * max(1.0, float(x.detach().abs().max()))
    layers = {n: m for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    assert {n.removesuffix(".weights") for n in seen if n.endswith(".weights")} == set(layers)
    for place, layer in layers.items():
        q, k, v, weights, mixed = (
            seen[f"{place}.{tap}"][0] for tap in ("queries", "keys", "values", "weights", "mixed")
        )
        causal = family == "gpt" or (place.startswith("decoder") and place.endswith("mixer"))
        close(weights, layer.kernel.weights(q, k, CAUSAL if causal else ALL), 1e-6)
        close(mixed, weights @ v, 1e-5)
        if name not in ("talking", "local-p", "local-p-window"):
            close(weights.sum(-1), torch.ones_like(weights.sum(-1)), 1e-6)


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
    with pytest.raises(KeyError, match=r"no tap matches 'nothing'; this model has blocks\.0\.mixer\.queries"):
        with capture(model, "nothing"):
            pass


def state() -> tuple[object, object]:
    return dict(hearing()), eval_frame._stance.stance


def test_nothing_remains_after_an_error() -> None:
    model, ids, before = net("gpt"), torch.randint(13, (1, 4)), state()
    kept = {name: dict(vars(module)) for name, module in model.named_modules()}

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    for pattern in ("*.weights", "*.stream"):
        with pytest.raises(ZeroDivisionError), listen(model, pattern, fail):
            model(ids)
        with pytest.raises(ZeroDivisionError), capture(model, pattern), listen(model, "*", fail):
            model(ids)
    assert state() == before == ({}, "default")
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == kept


def test_two_threads_do_not_hear_each_other() -> None:
    """Both look at the same model at once, at different places and inputs; a third does not look at all."""
    model = net("gpt")
    ids = [torch.randint(13, (1, 3)), torch.randint(13, (1, 5)), torch.randint(13, (1, 4))]
    alone = [model(x) for x in ids]
    together, found, outputs = threading.Barrier(3), [{}, {}, {}], [None] * 3
    errors: list[BaseException] = []

    def look(i: int) -> None:
        try:
            together.wait(20)
            if i == 2:
                together.wait(20)
                assert not hearing()
                outputs[i] = model(ids[i])
                together.wait(20)
                return
            with capture(model, f"blocks.{i}.mixer.weights") as seen:
                together.wait(20)
                for _ in range(5):
                    outputs[i] = model(ids[i])
                found[i] = seen
                together.wait(20)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=look, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert [list(x) for x in found] == [["blocks.0.mixer.weights"], ["blocks.1.mixer.weights"], []]
    assert all(
        len(records) == 5 and records[0].shape[-1] == ids[i].shape[1] for i in (0, 1) for records in found[i].values()
    )
    for x, wanted in zip(outputs, alone, strict=True):
        close(x, wanted)


def test_threads_share_one_compiler() -> None:
    """One stops looking while another still does: compiled models stay eager until the last has left, then not."""
    torch._dynamo.reset()
    model, x = stirred(nn.ModuleList([MultiHeadAttention(DIM, HEADS)])), numbers(1, 4, DIM)
    compiled = torch.compile(model[0], backend="eager")
    compiled(x)
    other_in, leave = threading.Event(), threading.Event()
    heard: list[Tensor] = []
    stances: list[str] = []

    def other() -> None:
        with capture(model) as seen:
            other_in.set()
            leave.wait(20)
            stances.append(eval_frame._stance.stance)
            compiled(x)
            heard.extend(seen["0.weights"])

    with capture(model):
        thread = threading.Thread(target=other)
        thread.start()
        other_in.wait(20)
    leave.set()
    thread.join(20)
    assert len(heard) == 1
    assert stances == ["force_eager"]
    assert eval_frame._stance.stance == "default"


def test_a_compiled_model_is_looked_at_through_its_eager_twin() -> None:
    torch._dynamo.reset()
    model, ids = net("gpt"), torch.randint(13, (2, 6))
    graphs: list[int] = []

    def backend(graph, _):
        graphs.append(1)
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    y = compiled(ids)
    count = len(graphs)
    assert count > 0
    for looked in (compiled, model):
        with capture(looked) as seen:
            close(compiled(ids), y)
        assert list(seen) == ["blocks.0.mixer.weights", "blocks.1.mixer.weights"]
    close(compiled(ids), y)
    assert len(graphs) == count, "looking made it compile again"
    model.blocks[0] = torch.compile(model.blocks[0], backend="eager")
    with capture(model) as seen:  # one block compiled: the names stay plain
        model(ids)
    assert list(seen) == ["blocks.0.mixer.weights", "blocks.1.mixer.weights"]


def test_compiling_while_someone_listens_is_never_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the compiler was not there yet when listening began, a graph without taps must not come to be."""
    torch._dynamo.reset()
    model, x = stirred(nn.ModuleList([MultiHeadAttention(DIM, HEADS)])), numbers(1, 4, DIM)
    monkeypatch.setattr(regard.nn.tap, "sys", SimpleNamespace(modules={}))
    with capture(model) as seen:
        torch.compile(model[0], backend="eager")(x)
        assert len(seen["0.weights"]) == 1
        torch._dynamo.reset()
        with pytest.raises(Exception, match="cannot be compiled while someone listens"):
            torch.compile(model[0], backend="eager", fullgraph=True)(x)
    torch._dynamo.reset()


class Recomputed(nn.Module):
    """A stack whose activations are not kept."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MultiHeadAttention(DIM, HEADS, kernel=Softmax(dropout)) for _ in range(2))

    def forward(self, x: Tensor, again: bool = True) -> Tensor:
        for layer in self.layers:
            x = x + (recompute(layer, x) if again else layer(x))
        return x


def test_recomputation_records_once_and_takes_the_same_path() -> None:
    """Backward works after the capture has closed, and inside another one."""
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    wanted = torch.autograd.grad(model(x, again=False).square().sum(), [x, *model.parameters()])
    for inside in (True, False):
        with capture(model, "*") as seen:
            loss = model(x).square().sum()
            if inside:
                found = torch.autograd.grad(loss, [x, *model.parameters()])
        if not inside:
            with capture(model, "layers.0.weights") as other:
                found = torch.autograd.grad(loss, [x, *model.parameters()])
            assert not other, "the second run belongs to who heard the first"
        assert {len(records) for records in seen.values()} == {1}
        assert len(seen) == 2 * 5
        for a, b in zip(found, wanted, strict=True):
            close(a, b)


def test_recomputation_repeats_replacements_and_random_numbers() -> None:
    model, x = stirred(Recomputed(0.5)).train(), numbers(2, 5, DIM, grad=True)
    calls: list[str] = []

    def double(name: str, y: Tensor) -> Tensor:
        calls.append(name)
        return y * 2

    results = []
    for again in (True, False):
        torch.manual_seed(1)
        with listen(model, "*.mixed", double), listen(model, "*.weights", lambda _, w: w * 0.5):
            y = model(x, again)
        torch.rand(3)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *model.parameters()])])
    for a, b in zip(*results, strict=True):
        close(a, b)
    assert len(calls) == 2 + 2 + 2  # forward, again for the gradient, and without recomputation


def test_recomputation_within_recomputation() -> None:
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    wanted = torch.autograd.grad(model(x, again=False).square().sum(), x)[0]
    with capture(model) as seen:
        y = recompute(model, x)
    close(torch.autograd.grad(y.square().sum(), x)[0], wanted)
    assert {len(records) for records in seen.values()} == {1}


def test_without_listeners_recomputation_stays_deaf() -> None:
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    loss = model(x).square().sum()
    with capture(model, "*") as seen:
        loss.backward()
    assert not seen


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

    def labels(self, ids: list[int]) -> tuple[str, ...]:
        return tuple(f"word{i}" for i in ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_have_names_and_axes(family: str) -> None:
    model, given = Model(family, net(family), processor=Words()), inputs(family, batch=1)
    looked = model(*given.values(), look="*")
    wanted = tensors(model.net(**given))
    for name, x in tensors(looked.output).items():
        close(x, wanted[name])
    places = [n for n, m in model.net.named_modules() if isinstance(m, MultiHeadAttention)]
    assert sorted(looked.maps) == sorted(places)
    table = FAMILIES[family].axes
    assert all(any(place.startswith(pattern.split("*")[0]) for pattern in table) for place in places)
    for name, found in looked.maps.items():
        assert found.name == name
        assert found.weights.shape[-2:] == (found.rows.size, found.columns.size)
        assert found.weights.shape[:2] == (1, 4)
        for axis in (found.rows, found.columns):
            if axis.kind == "text":
                assert axis.labels is not None
                assert axis.labels in [tuple(f"word{i}" for i in ids[0].tolist()) for ids in given.values()]
            else:
                assert (axis.kind, axis.grid) == ("image", (2, 2))
                assert axis.special == axis.size - 4


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
