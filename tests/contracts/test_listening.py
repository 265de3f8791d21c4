"""Listening: threads, errors, compiled models and recomputation; nothing leaks and nothing is left behind."""

import threading
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError, checkpoint

import regard.nn.tap
from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.recomputation import recompute_forward
from regard.nn.tap import capture, listen, listeners_here, use_listeners
from tests.contracts.families import net
from tests.contracts.tools import DIM, HEADS, close, numbers, stirred


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    """As in a process that compiles: here, and not where tests are only collected."""
    import_module("torch._dynamo")


def stance() -> str:
    found: str = import_module("torch._dynamo.eval_frame")._stance.stance
    return found


def state() -> tuple[object, object]:
    return dict(listeners_here()), stance()


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


def test_what_was_entered_is_left_after_an_error() -> None:
    """Who listened before the error hears again after it, also if nobody listened within."""
    model, ids, passed = net("gpt"), torch.randint(13, (1, 4)), []

    def failing() -> None:
        model(ids)
        raise ZeroDivisionError

    with listen(model, "*.stream", lambda name, x: passed.append(name)):
        with pytest.raises(ZeroDivisionError), use_listeners({}):
            failing()
        assert passed == [], "nobody was to hear this"
        model(ids)
    assert passed


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
                assert not listeners_here()
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
    torch.compiler.reset()
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
            stances.append(stance())
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
    assert stance() == "default"


def test_a_compiled_model_is_looked_at_through_its_eager_twin() -> None:
    torch.compiler.reset()
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
    torch.compiler.reset()
    model, x = stirred(nn.ModuleList([MultiHeadAttention(DIM, HEADS)])), numbers(1, 4, DIM)
    monkeypatch.setattr(regard.nn.tap, "sys", SimpleNamespace(modules={}))
    with capture(model) as seen:
        torch.compile(model[0], backend="eager")(x)
        assert len(seen["0.weights"]) == 1
        torch.compiler.reset()
        with pytest.raises(Exception, match="cannot be compiled while a listener is active"):
            torch.compile(model[0], backend="eager", fullgraph=True)(x)
    torch.compiler.reset()


class Recomputed(nn.Module):
    """A stack whose activations are not kept."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MultiHeadAttention(DIM, HEADS, kernel=Softmax(dropout)) for _ in range(2))

    def forward(self, x: Tensor, again: bool = True) -> Tensor:
        for layer in self.layers:
            x = x + (recompute_forward(layer, x) if again else layer(x))
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
        y = recompute_forward(model, x)
    close(torch.autograd.grad(y.square().sum(), x)[0], wanted)
    assert {len(records) for records in seen.values()} == {1}


def test_recomputation_for_several_backward_passes() -> None:
    """The graph is kept, so the layer runs a third time; the listeners come along each time."""
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    with listen(model, "*.mixed", lambda _, y: y * 2):
        wanted = torch.autograd.grad(model(x, again=False).square().sum(), [x, *model.parameters()])
        with capture(model, "*") as seen:
            loss = model(x).square().sum()
    for last in (False, False, True):
        found = torch.autograd.grad(loss, [x, *model.parameters()], retain_graph=not last)
        for a, b in zip(found, wanted, strict=True):
            close(a, b)
    assert {len(records) for records in seen.values()} == {1}
    assert not listeners_here()


def test_reading_a_saved_tensor_records_nothing_again() -> None:
    """Whoever inspects the graph makes PyTorch run the layer again, although no backward pass is under way."""
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    calls: list[str] = []
    with listen(model, "*", lambda name, y: calls.append(name)), capture(model, "*") as seen:
        nodes = [model(x).grad_fn]
        once = len(calls)
        for node in nodes:
            nodes += [after for after, _ in node.next_functions if after is not None and after not in nodes]
            for name in dir(node):
                if name.startswith("_saved_"):
                    getattr(node, name)
    assert len(calls) > once, "nothing was run again"
    assert {len(records) for records in seen.values()} == {1}


def test_without_listeners_recomputation_stays_deaf() -> None:
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    loss = model(x).square().sum()
    with capture(model, "*") as seen:
        loss.backward()
    assert not seen


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    """They are taken away, so that the next ones start anew."""
    found = [part.grad for part in (x, *model.parameters())]
    for part in (x, *model.parameters()):
        part.grad = None
    assert all(grad is not None for grad in found)
    return found


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("pattern", ["*.weights", "*.mixed", "*"])
def test_a_checkpoint_of_pytorch_is_recorded_once(pattern: str, reentrant: bool) -> None:
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    with capture(model, pattern) as wanted:
        model(x, again=False).square().sum().backward()
    slopes = gradients(model, x)
    with capture(model, pattern) as seen:
        checkpoint(model, x, False, use_reentrant=reentrant).square().sum().backward()
    assert {name: len(records) for name, records in seen.items()} == {name: 1 for name in wanted}
    for name, records in seen.items():
        close(records[0], wanted[name][0])
    for a, b in zip(gradients(model, x), slopes, strict=True):
        close(a, b)


@pytest.mark.parametrize("pattern", ["*.weights", "*.mixed"])
def test_replacements_inside_a_checkpoint_of_pytorch(pattern: str) -> None:
    """Made again in the second run, or an error: never a gradient of another function than the one that was run."""
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)

    def double(name: str, y: Tensor) -> Tensor:
        return y * 2

    with listen(model, pattern, double):
        model(x, again=False).square().sum().backward()
        slopes = gradients(model, x)
        checkpoint(model, x, False, use_reentrant=False).square().sum().backward()
        for a, b in zip(gradients(model, x), slopes, strict=True):
            close(a, b)
        loss = checkpoint(model, x, False, use_reentrant=False).square().sum()
    with pytest.raises(CheckpointError, match="different"):
        loss.backward()
    loss = checkpoint(model, x, False, use_reentrant=False).square().sum()
    with pytest.raises(CheckpointError, match="different"), listen(model, pattern, double):
        loss.backward()


def test_replacements_inside_a_reentrant_checkpoint_are_refused() -> None:
    """It would not notice that its second run is another one."""
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    with listen(model, "*.mixed", lambda name, y: y * 2):
        with pytest.raises(RuntimeError, match=r"use regard\.nn\.recomputation\.recompute_forward"):
            checkpoint(model, x, False, use_reentrant=True)
    loss = checkpoint(model, x, False, use_reentrant=True).square().sum()
    with listen(model, "*.mixed", lambda name, y: y * 2), pytest.raises(RuntimeError, match="recompute"):
        loss.backward()


def test_who_only_listens_disturbs_no_checkpoint_of_pytorch() -> None:
    model, x = stirred(Recomputed()), numbers(2, 5, DIM, grad=True)
    model(x, again=False).square().sum().backward()
    slopes = gradients(model, x)
    for reentrant in (False, True):
        with listen(model, "*.mixed", lambda name, y: None):
            loss = checkpoint(model, x, False, use_reentrant=reentrant).square().sum()
        loss.backward()
        for a, b in zip(gradients(model, x), slopes, strict=True):
            close(a, b)


def test_who_leaves_first_hears_nothing_more() -> None:
    """Two generators of one thread that end in the order in which they began, as tasks of a server may."""
    net, x = MultiHeadAttention(4, 2).eval(), torch.randn(1, 3, 4)

    def looking(pattern: str) -> Iterator[dict[str, list[Tensor]]]:
        with capture(net, pattern) as seen:
            yield seen
        yield seen

    first, second = looking("weights"), looking("mixed")
    one, two = next(first), next(second)
    net(x)
    next(first)
    net(x)
    assert (len(one["weights"]), len(two["mixed"])) == (1, 2)
    assert not net.weights.live
    assert net.mixed.live
    next(second)
    net(x)
    assert (len(one["weights"]), len(two["mixed"])) == (1, 2)
    assert not net.mixed.live
