"""Reversible layers: the way back, gradients without activations, and memory that does not grow with depth."""

import pytest
import torch
from torch import Tensor, nn

import regard.nn.reversible
from regard.models.reformer import Config, Reformer
from regard.nn.feedforward import FeedForward
from regard.nn.mask import CAUSAL, Mask
from regard.nn.mechanisms import build_mixer
from regard.nn.residual import Branch
from regard.nn.reversible import ReversibleBlock, Streams, run_reversible
from regard.nn.site import Site
from regard.nn.tap import capture, listen
from tests.contracts.tools import close, numbers, ragged, stirred

LSH = {"kind": "lsh", "chunk": 2, "buckets": 4, "rounds": 2}
DIM = 12


def stack(depth: int = 3, dropout: float = 0.0, attention=("chunked", LSH, "softmax")) -> nn.ModuleList:
    site = Site(dim=DIM, heads=2, causal=True, length=16, dropout=dropout)
    blocks = (
        ReversibleBlock(
            build_mixer(attention[i % len(attention)], site),
            FeedForward(DIM, 20, dropout=dropout),
            lambda: nn.LayerNorm(DIM),
            lambda: Branch(DIM, dropout=dropout),
            20,
        )
        for i in range(depth)
    )
    return stirred(nn.ModuleList(blocks))


def streams(n: int = 9) -> Streams:
    return Streams(numbers(2, n, DIM, grad=True), numbers(2, n, DIM, grad=True))


def one_by_one(blocks: nn.ModuleList, x: Streams, mask: Mask) -> Streams:
    for block in blocks:
        x = block(x, mask=mask)
    return x


def pulled(blocks: nn.ModuleList, x: Streams, y: Streams) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    toward = [torch.randn(part.shape, generator=draw, dtype=part.dtype) for part in (y.first, y.second)]
    loss = (y.first * toward[0]).sum() + (y.second * toward[1]).sum()
    return list(torch.autograd.grad(loss, [x.first, x.second, *blocks.parameters()]))


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_way_back(dtype: torch.dtype, error: float) -> None:
    blocks = stack(6).to(dtype)
    x = Streams(*(torch.randn(2, 16, DIM, dtype=dtype) for _ in range(2)))
    y = one_by_one(blocks, x, CAUSAL)
    assert not torch.allclose(y.second, x.second, atol=0.1)
    for block in reversed(blocks):
        y = block.inverse(y, mask=CAUSAL)
    close(y.first, x.first, error)
    close(y.second, x.second, error)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("padded", [False, True])
def test_gradients_are_those_of_ordinary_layers(dropout: float, padded: bool) -> None:
    """Of inputs and of every weight; what was dropped is dropped again."""
    blocks, x = stack(4, dropout).train(), streams()
    mask = Mask(causal=True, keys=ragged(2, 9, "left") if padded else None)
    torch.manual_seed(3)
    wanted = one_by_one(blocks, x, mask)
    torch.manual_seed(3)
    found = run_reversible(list(blocks), x, mask=mask)
    torch.rand(5)
    close(found.first, wanted.first)
    close(found.second, wanted.second)
    for one, two in zip(pulled(blocks, x, found), pulled(blocks, x, wanted), strict=True):
        close(one, two, 1e-9)


def test_a_layer_that_is_used_twice_gets_both_gradients() -> None:
    blocks, x = stack(2), streams()
    twice = nn.ModuleList([blocks[0], blocks[1], blocks[0]])
    wanted, found = one_by_one(twice, x, CAUSAL), run_reversible(list(twice), x, mask=CAUSAL)
    for one, two in zip(pulled(blocks, x, found), pulled(blocks, x, wanted), strict=True):
        close(one, two, 1e-9)


def test_no_key_changes_its_bucket_on_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is hashed once, although the inputs are found again with a rounding."""
    blocks, x = stack(2, attention=(LSH,)), streams()
    wanted = pulled(blocks, x, one_by_one(blocks, x, CAUSAL))
    kernels = [block.mixer.kernel for block in blocks]
    calls = []
    for kernel in kernels:
        inner = kernel.hash
        monkeypatch.setattr(kernel, "hash", lambda k, draw, inner=inner: calls.append(1) or inner(k, draw))
    y = run_reversible(list(blocks), x, mask=CAUSAL)
    assert len(calls) == 2
    for kernel in kernels:
        monkeypatch.setattr(kernel, "hash", lambda k, draw: torch.zeros(2, 2, 2, 9, dtype=torch.int32))
    for one, two in zip(pulled(blocks, x, y), wanted, strict=True):
        close(one, two, 1e-9)


def test_nothing_is_kept_but_the_end() -> None:
    """24 layers keep what 2 keep, but for a few bytes of random states."""

    def kept(depth: int) -> int:
        found: dict[int, int] = {}

        def keep(x: Tensor) -> Tensor:
            if not isinstance(x, nn.Parameter):
                found[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        blocks, x = stack(depth, attention=("softmax",)), streams(64)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            run_reversible(list(blocks), x, mask=CAUSAL)
        return sum(found.values())

    assert kept(24) <= kept(2)


def test_whoever_listens_hears_and_changes_nothing() -> None:
    """With a live tap the layers are ordinary ones: a record once for each call, replacements with their gradients."""
    blocks, x = stack(3).train(), streams()
    plain = run_reversible(list(blocks), x, mask=CAUSAL)
    with capture(blocks, "*.weights") as seen:
        heard = run_reversible(list(blocks), x, mask=CAUSAL)
    assert {name: len(calls) for name, calls in seen.items()} == {f"{i}.mixer.weights": 1 for i in range(3)}
    for one, two in zip(pulled(blocks, x, plain), pulled(blocks, x, heard), strict=True):
        close(one, two, 1e-9)
    with listen(blocks, "1.mixer.mixed", lambda _, y: 0 * y):
        silent = run_reversible(list(blocks), x, mask=CAUSAL)
    found = dict(zip([n for n, _ in blocks.named_parameters()], pulled(blocks, x, silent)[2:], strict=True))
    assert not found["1.mixer.q.weight"].any()
    assert found["0.mixer.q.weight"].any()
    assert found["2.mixer.v.weight"].any()


@pytest.mark.parametrize("hidden", [40, 200])
def test_a_feed_forward_in_pieces_is_the_whole(hidden: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, x = stack(2), streams()
    whole = run_reversible(list(blocks), x, mask=CAUSAL)
    wanted = pulled(blocks, x, whole)
    monkeypatch.setattr(regard.nn.reversible, "HIDDEN", hidden)
    sizes = []
    blocks[0].ffn.register_forward_hook(lambda module, given, y: sizes.append(y.shape[1]))
    found = run_reversible(list(blocks), x, mask=CAUSAL)
    assert max(sizes) == hidden // 40
    close(found.second, whole.second)
    for one, two in zip(pulled(blocks, x, found), wanted, strict=True):
        close(one, two, 1e-9)


def test_it_cannot_be_differentiated_twice() -> None:
    blocks, x = stack(1), streams()
    y = run_reversible(list(blocks), x, mask=CAUSAL)
    (slope,) = torch.autograd.grad(y.second.square().sum(), x.first, create_graph=True)
    with pytest.raises(RuntimeError, match=r"twice|once_differentiable"):
        slope.square().sum().backward()


def test_a_reformer_that_looks_both_ways() -> None:
    """As an encoder; it has no use for a cache, and without a head it gives both streams."""
    model = stirred(Reformer(Config(vocab=13, length=12, dim=8, depth=2, heads=2, head_dim=4, hidden=12, causal=False)))
    ids = torch.randint(13, (2, 7))
    changed = ids.clone()
    changed[:, -1] = (ids[:, -1] + 1) % 13
    assert not torch.allclose(model.eval()(ids)[:, 0], model(changed)[:, 0])
    with pytest.raises(ValueError, match="bidirectional"):
        model(ids, cache=regard.nn.cache.Cache())
    bare = Reformer(Config(vocab=13, length=12, dim=8, depth=2, heads=2, head_dim=4, hidden=12, head="none"))
    assert bare(ids).shape == (2, 7, 16)
    with pytest.raises(ValueError, match="no language-model head"):
        bare.words()
    with pytest.raises(ValueError, match="has fewer positions than length"):
        Config(grid=(3, 4), length=13)
