"""Kernels that are yet to come, in small: that they need no change of the core."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import gpt
from regard.nn.attention import Kernel, Mixer, MultiHeadAttention, repeat_heads
from regard.nn.cache import Cache, Slot
from regard.nn.mask import ALL, CAUSAL, Bias, Mask, TensorBias, masked_softmax
from regard.nn.mechanisms import MECHANISMS, Mechanism, Plain
from regard.nn.site import Site
from regard.nn.tap import capture
from regard.zoo import FAMILIES
from tests.contracts.families import ATTENDING, config
from tests.contracts.tools import DIM, HEADS, WIDTH, close, gradients, numbers, ragged, stirred

CPU = torch.device("cpu")


class LSH(Kernel):
    """Reformer (Kitaev et al., 2020): sort by bucket, look within a chunk and the one before; systems.md A5."""

    def __init__(self, head_dim: int, chunk: int, rounds: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.chunk = chunk
        self.register_buffer("rotation", torch.randn(rounds, head_dim, 2))

    def rounds(self, q: Tensor, mask: Mask, bias: Bias | None) -> tuple[Tensor, Tensor]:
        """The order of each round, and whom each position may see in it.  -> (r, b, h, n), bool (r, b, h, n, n)"""
        if bias is not None:
            raise ValueError("LSH attention never forms the score matrix, so it cannot honour a bias")
        mask, n = mask.structured("LSH attention"), q.shape[-2]
        if n % self.chunk:
            raise ValueError(f"LSH attention cuts chunks of {self.chunk}, which {n} positions are not")
        turned = torch.einsum("...ne,rem->r...nm", q.detach(), self.rotation)
        bucket = torch.cat((turned, -turned), -1).argmax(-1)
        if mask.keys is not None:
            bucket = bucket.masked_fill(~mask.keys[:, None], 99)
        order = (bucket * n + torch.arange(n)).argsort(-1)
        chunk = order.argsort(-1) // self.chunk
        gap = chunk[..., :, None] - chunk[..., None, :]
        seen = (gap == 0) | (gap == 1) | (gap == 1 - n // self.chunk)
        allowed = mask.dense(n, n, q.device)
        return order, seen if allowed is None else seen & allowed

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        seen = self.rounds(q, mask, bias)[1].any(0)
        scores = q @ F.normalize(k, dim=-1).mT
        return masked_softmax(scores.masked_fill(torch.eye(q.shape[-2], dtype=torch.bool), -1e5), seen)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        orders, seen = self.rounds(q, mask, bias)
        count, outs, sums = seen.sum(0).clamp(min=1).to(q.dtype), [], []
        for order, allowed in zip(orders, seen, strict=True):
            chunks = order.unflatten(-1, (-1, self.chunk))
            near = torch.cat((chunks.roll(1, -2), chunks), -1) if chunks.shape[-2] > 1 else chunks
            i, j = chunks.unsqueeze(-1), near.unsqueeze(-2)
            pick = (*torch.meshgrid(*map(torch.arange, q.shape[:2]), indexing="ij"),)
            b, h = (x[..., None, None, None] for x in pick)
            scores = q[b, h, i].squeeze(-2) @ F.normalize(k, dim=-1)[b, h, j].squeeze(-3).mT - count[b, h, i, j].log()
            scores = scores.masked_fill(i == j, -1e5).masked_fill(~allowed[b, h, i, j], -1e9)
            total = scores.logsumexp(-1)
            y = (scores - total.unsqueeze(-1)).exp() @ v[b, h, j].squeeze(-3)
            back = order.argsort(-1)
            outs.append(y.flatten(2, 3).gather(-2, back.unsqueeze(-1).expand(*back.shape, v.shape[-1])))
            sums.append(total.flatten(2).gather(-1, back))
        shares = torch.stack(sums).softmax(0)
        y = (shares.unsqueeze(-1) * torch.stack(outs)).sum(0)
        return y.masked_fill(~seen.any(0).any(-1, keepdim=True), 0.0)

    def step(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        raise ValueError("LSH attention in chunks depends on the whole sequence, so it cannot decode")


class Performer(Kernel):
    """FAVOR+ (Choromanski et al., 2021): positive random features, linear in length; it decodes with sums."""

    def __init__(self, head_dim: int, features: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.register_buffer("omega", torch.randn(head_dim, features))

    def phi(self, x: Tensor) -> Tensor:
        x = x * x.shape[-1] ** -0.25
        return torch.exp(x @ self.omega - x.square().sum(-1, keepdim=True) / 2)

    def features(self, q: Tensor, k: Tensor, mask: Mask, bias: Bias | None, first: int) -> tuple[Tensor, Tensor]:
        if bias is not None:
            raise ValueError("Performer never forms the score matrix, so it cannot honour a bias")
        keys, b = mask.structured("Performer").keys, self.phi(repeat_heads(k, q.shape[-3]))
        return self.phi(q), b if keys is None else b * keys[:, None, first : first + k.shape[-2], None]

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        a, b = self.features(q, k, mask, bias, 0)
        allowed = mask.dense(q.shape[-2], k.shape[-2], q.device)
        w = a @ b.mT if allowed is None else (a @ b.mT).masked_fill(~allowed, 0.0)
        return w / w.sum(-1, keepdim=True).clamp_min(1e-30)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if mask.causal:
            return self.step(Slot(0), q, k, v, mask, bias)
        a, b = self.features(q, k, mask, bias, 0)
        return a @ (b.mT @ repeat_heads(v, q.shape[-3])) / (a @ b.sum(-2).unsqueeze(-1)).clamp_min(1e-30)

    def step(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        a, b = self.features(q, k, mask, bias, int(mask.start))
        sums = torch.einsum("...nm,...nf->...nmf", b, repeat_heads(v, q.shape[-3])).cumsum(-3)
        norm = b.cumsum(-2)
        if "sum" in slot:
            sums, norm = sums + slot["sum"].unsqueeze(-3), norm + slot["norm"].unsqueeze(-2)
        slot["sum"], slot["norm"] = sums[..., -1, :, :], norm[..., -1, :]
        return torch.einsum("...nm,...nmf->...nf", a, sums) / (a * norm).sum(-1, keepdim=True).clamp_min(1e-30)


@dataclass(frozen=True, kw_only=True)
class Chunks:
    chunk: int = 4
    rounds: int = 3


def lsh(settings: Chunks, site: Site) -> Mixer:
    kernel = LSH(site.width, settings.chunk, settings.rounds, site.dropout)
    return MultiHeadAttention(site.dim, site.heads, kernel=kernel, shared="qk", biases=site.biases)


ROWS = {
    "lsh": Mechanism(Chunks, lsh, "near neighbours by hashing"),
    "performer": Mechanism(Plain, lambda c, s: s.attention(Performer(s.width, 16, s.dropout)), "random features"),
}


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new mechanism is a new row, and no more."""
    for name, row in ROWS.items():
        monkeypatch.setitem(MECHANISMS, name, row)


MASKS = {
    "none": ALL,
    "causal": CAUSAL,
    "left": Mask(keys=ragged(2, 8, "left")),
    "right": Mask(keys=ragged(2, 8, "right")),
    "causal-left": Mask(causal=True, keys=ragged(2, 8, "left")),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("kind", "sizes"), [(LSH, (4, 3)), (LSH, (2, 1)), (LSH, (8, 2)), (Performer, (16,))])
def test_law(kind: type[Kernel], sizes: tuple[int, ...], mask: str) -> None:
    kernel, given_mask = kind(WIDTH, *sizes).double(), MASKS[mask]
    q, v = numbers(2, HEADS, 8, WIDTH, grad=True), numbers(2, HEADS, 8, 3, grad=True)
    k = q if isinstance(kernel, LSH) else numbers(2, HEADS, 8, WIDTH, grad=True)
    weights = kernel.weights(q, k, given_mask)
    y = kernel(q, k, v, given_mask)
    real = slice(None) if given_mask.keys is None else given_mask.keys[:, None, :].expand(2, HEADS, 8)
    close(y[real], (weights @ v)[real], 1e-8)
    close(weights.sum(-1)[real], torch.ones_like(weights.sum(-1)[real]))
    for found, wanted in zip(gradients(y[real], q, v), gradients((weights @ v)[real], q, v), strict=True):
        close(found, wanted, 1e-7)


def test_enough_rounds_see_everything() -> None:
    """With the count correction many rounds are exact attention over all; one chunk is, too."""
    q, v = numbers(2, HEADS, 8, WIDTH), numbers(2, HEADS, 8, 3)
    exact = LSH(WIDTH, 8, 1).double()(q, q, v, CAUSAL)
    close(LSH(WIDTH, 2, 200).double()(q, q, v, CAUSAL), exact, 1e-8)


def test_what_they_cannot_honour_they_refuse() -> None:
    q = numbers(1, HEADS, 8, WIDTH)
    for kernel in (LSH(WIDTH, 4, 1).double(), Performer(WIDTH, 8).double()):
        for call in (kernel.weights, lambda *a, kernel=kernel: kernel(a[0], *a)):
            with pytest.raises(ValueError, match="bias"):
                call(q, q, ALL, TensorBias(numbers(8, 8)))
            with pytest.raises(ValueError, match="pairs"):
                call(q, q, Mask(pairs=torch.ones(8, 8, dtype=torch.bool)))


def net(attention: str) -> gpt.GPT:
    config = gpt.Config(vocab=11, length=16, dim=DIM, depth=2, heads=HEADS, attention=attention)
    return stirred(gpt.GPT(config)).eval()


@pytest.mark.parametrize("attention", ROWS)
def test_in_a_model(attention: str) -> None:
    """Causal by the Jacobian; looked at, the same output."""
    model, ids = net(attention), torch.randint(11, (2, 8))
    y = model(ids)
    changed = ids.clone()
    changed[:, 5:] = (ids[:, 5:] + 1) % 11
    if attention == "performer":  # chunks of sorted positions move with a later token: systems.md 10.6
        close(model(changed)[:, :5], y[:, :5])
    with capture(model) as seen:
        close(model(ids), y, 1e-8)
    assert all(not weights[0].triu(1).any() for weights in seen.values())
    x = model.embed(ids).detach().requires_grad_()
    mixed = model.blocks[0].mixer(x, mask=CAUSAL)
    for i in range(8):
        assert not torch.autograd.grad(mixed[0, i].sum(), x, retain_graph=True)[0][0, i + 1 :].any()


def test_chunks_cannot_decode() -> None:
    with pytest.raises(ValueError, match="cannot decode"):
        net("lsh")(torch.randint(11, (1, 4)), cache=Cache())


def stepwise(model: gpt.GPT, ids: Tensor, steps: tuple[int, ...], keys: Tensor | None, cache: Cache) -> Tensor:
    parts, start = [], 0
    for n in steps:
        part = slice(start, start + n)
        parts.append(model(ids[:, part], keys=None if keys is None else keys[:, part], cache=cache))
        start += n
    return torch.cat(parts, 1)


@pytest.mark.parametrize("steps", [(2, 3, 1), (1,) * 6])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("look", [False, True])
def test_a_kernel_that_keeps_sums_decodes(steps: tuple[int, ...], padded: bool, look: bool) -> None:
    """Nothing but sums is kept, unless someone looks: then the keys are kept too, and the map is right."""
    model, ids, keys = net("performer"), torch.randint(11, (2, 6)), ragged(2, 6, "left") if padded else None
    real = torch.ones(2, 6, dtype=torch.bool) if keys is None else keys
    full, cache = model(ids, keys=keys), Cache()
    if not look:
        close(stepwise(model, ids, steps, keys, cache)[real], full[real])
        assert {name for slot in cache.slots.values() for name in slot.tensors} == {"sum", "norm"}
        return
    with capture(model) as whole:
        model(ids, keys=keys)
    with capture(model) as seen:
        close(stepwise(model, ids, steps, keys, cache)[real], full[real])
    for name, records in seen.items():
        start = 0
        for step, n in zip(records, steps, strict=True):
            close(step, whole[name][0][:, :, start : start + n, : start + n])
            start += n


def test_sums_go_on_while_and_after_someone_looks() -> None:
    model, ids, cache = net("performer"), torch.randint(11, (2, 6)), Cache()
    full, parts = model(ids), []
    with capture(model):
        parts.append(model(ids[:, :2], cache=cache))
    parts.append(model(ids[:, 2:4], cache=cache))
    close(torch.cat(parts, 1), full[:, :4])
    with capture(model), pytest.raises(ValueError, match="start listening at the first step"):
        model(ids[:, 4:5], cache=cache)
    late = Cache()
    model(ids[:, :2], cache=late)
    with capture(model), pytest.raises(ValueError, match="start listening at the first step"):
        model(ids[:, 2:3], cache=late)


def test_sums_are_reordered() -> None:
    model, ids, cache = net("performer"), torch.randint(11, (3, 5)), Cache()
    model(ids[:, :4], cache=cache)
    order = torch.tensor([2, 0, 2])
    cache.reorder(order)
    close(model(ids[order, 4:], cache=cache), model(ids[order])[:, 4:])


def test_a_kernel_that_keeps_sums_shares_groups() -> None:
    layer: nn.Module = stirred(MultiHeadAttention(DIM, HEADS, kernel=Performer(WIDTH, 8), groups=2))
    x, cache = numbers(2, 4, DIM), Cache()
    parts = [layer(x[:, i : i + 1], mask=cache.take(1), cache=cache) for i in range(4)]
    close(torch.cat(parts, 1), layer(x, mask=CAUSAL))


class Plainest(Mixer):
    """A mean and a matrix: a mechanism may have any weights of its own."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.map = nn.Linear(dim, dim, bias=False)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        return self.map((x if context is None else context).mean(1, keepdim=True)).expand_as(x)


@pytest.mark.parametrize("family", ATTENDING)
def test_weights_of_its_own(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any model can be built and started around them."""
    monkeypatch.setitem(MECHANISMS, "plainest", Mechanism(Plain, lambda c, s: Plainest(s.dim), "a mean"))
    model = FAMILIES[family].net(config(family, attention="plainest"))
    assert all(p.isfinite().all() for p in model.parameters())
    assert any(isinstance(m, Plainest) for m in model.modules())
