"""Attention by hashing: against loops that spell it out, and what the paper claims of it."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import regard.nn.attention
from regard.building import build
from regard.nn.cache import Cache, Slot
from regard.nn.hash_rounds import Heads, Outcome, of_chunks, ordinary, slopes_of_chunks
from regard.nn.kernels.chunked import Chunked
from regard.nn.kernels.lsh import LSH, Settings, sizes
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.mechanisms import build_mixer
from regard.nn.recomputation import recompute_forward
from regard.nn.site import Site
from tests.contracts.tools import Largest, close, gradients, numbers

FORMS = [("chunks", False), ("chunks", True), ("band", True)]


def clustered(rows: int, heads: int, n: int, width: int = 8, kinds: int = 5) -> Tensor:
    """Vectors around some directions, so that buckets mean something."""
    return numbers(heads, kinds, width)[:, torch.randint(kinds, (rows, n))].transpose(0, 1) * 2 + 0.5 * numbers(
        rows, heads, n, width
    )


def exact(q: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Softmax over all but oneself, by a large penalty as the paper has it."""
    n = q.shape[-2]
    scores = q @ F.normalize(q, dim=-1).mT - 1e5 * torch.eye(n).double()
    if causal:
        scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -1e9)
    return scores.softmax(-1) @ v


@pytest.mark.parametrize(("form", "causal"), FORMS)
def test_one_bucket_is_a_softmax_over_all_others(form: str, causal: bool) -> None:
    q, v = numbers(2, 3, 11, 8), numbers(2, 3, 11, 8)
    for kernel in (LSH(64, 3, (1,), form=form), LSH(11, 2, (1,), form=form)):
        close(kernel(q, q, v, Mask(causal=causal)), exact(q, v, causal), 1e-5)  # 1e-6 in the length of keys


def chunks_by_loops(q: Tensor, v: Tensor, codes: Tensor, chunk: int, causal: bool) -> Tensor:
    """Every query by itself: whom it meets in any round.  (n, e), (n, f), (r, n) -> (n, f)"""
    n, found = len(q), torch.zeros(len(q), len(q), dtype=torch.bool)
    for code in codes.tolist():
        order = sorted(range(n), key=lambda i: (code[i], i))
        pieces = [order[i : i + chunk] for i in range(0, n, chunk)]
        for i, piece in enumerate(pieces):
            for a in piece:
                for b in piece + pieces[i - 1]:
                    found[a, b] |= not causal or b <= a
    return met(q, v, found)


def band_by_loops(q: Tensor, v: Tensor, codes: Tensor, width: int) -> Tensor:
    n, found = len(q), torch.zeros(len(q), len(q), dtype=torch.bool)
    for code in codes.tolist():
        for i in range(n):
            earlier = [j for j in range(i) if code[j] == code[i]]
            found[i, earlier[-width:]] = True
    return met(q, v, found)


def met(q: Tensor, v: Tensor, found: Tensor) -> Tensor:
    found = found & ~torch.eye(len(q), dtype=torch.bool)
    out = torch.zeros_like(v)
    for i in range(len(q)):
        others = found[i].nonzero().flatten()
        keys = q[others] / (q[others].square().sum(-1, keepdim=True) + q.shape[-1] * 1e-6).sqrt()
        out[i] = (keys @ q[i]).softmax(0) @ v[others] if len(others) else v[i]
    return out


@pytest.mark.parametrize("hashed", ["angular", "planes"])
@pytest.mark.parametrize(("form", "causal"), FORMS)
@pytest.mark.parametrize(("n", "chunk", "rounds"), [(1, 2, 1), (13, 4, 1), (16, 4, 3), (30, 3, 4), (9, 8, 2)])
def test_it_is_what_loops_say(n: int, chunk: int, rounds: int, form: str, causal: bool, hashed: str) -> None:
    """Any length; each key counts once, in however many rounds it was met."""
    kernel = LSH(chunk, rounds, (8,), form=form, hashed=hashed)
    q, v = clustered(2, 3, n), numbers(2, 3, n, 8)
    y, codes = kernel(q, q, v, Mask(causal=causal)), kernel.hash(q)
    for b in range(2):
        for h in range(3):
            given = q[b, h], v[b, h], codes[b, h]
            wanted = chunks_by_loops(*given, chunk, causal) if form == "chunks" else band_by_loops(*given, chunk)
            close(y[b, h], wanted)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(("form", "causal"), FORMS)
@pytest.mark.parametrize("dense", [7, 300, 1 << 20])
def test_the_law_at_length(
    form: str, causal: bool, once: bool, alike: bool, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several chunks in a row of several lengths, holes in it; in pieces of a chunk, of a row, of all."""
    kernel = LSH(4, 3, (2, 4), form=form, once=once, alike=alike)
    q, k, v = (numbers(2, 3, 26, 8, grad=True) for _ in range(3))
    keys = torch.rand(2, 26) < 0.8
    keys[1, 3:] = False
    mask = Mask(causal=causal, keys=keys)
    wanted = kernel.weights(q, k, mask) @ v
    monkeypatch.setattr(regard.nn.attention, "DENSE", dense)
    y = kernel(q, k, v, mask)
    close(y, wanted)
    for found, expected in zip(gradients(y, q, k, v), gradients(wanted, q, k, v), strict=True):
        close(found, expected)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("form", "causal"), FORMS)
def test_padding_is_as_if_it_were_not_there(form: str, causal: bool, side: str) -> None:
    kernel, q, v = LSH(4, 2, (8,), form=form), clustered(3, 2, 24), numbers(3, 2, 24, 8)
    keys = torch.arange(24) < torch.tensor([24, 13, 3])[:, None]
    keys = keys.flip(1) if side == "left" else keys
    y = kernel(q, q, v, Mask(causal=causal, keys=keys))
    for row in range(3):
        q_alone, v_alone = (x[row : row + 1, :, keys[row]] for x in (q, v))
        close(y[row : row + 1, :, keys[row]], kernel(q_alone, q_alone, v_alone, Mask(causal=causal)))


def test_chunks_in_a_text_of_chunks() -> None:
    """Local attention in chunks, by the same words."""
    kernel, q, k, v = Chunked(4), *(numbers(3, 2, 14, 8) for _ in range(3))
    place = torch.arange(14) // 4
    near = (place[:, None] - place >= 0) & (place[:, None] - place <= 1)
    for causal in (False, True):
        allowed = near & torch.ones(14, 14, dtype=torch.bool).tril() if causal else near | (place[:, None] + 3 == place)
        scores = (q @ k.mT / math.sqrt(8)).masked_fill(~allowed, -torch.inf)
        close(kernel(q, k, v, Mask(causal=causal)), scores.softmax(-1) @ v)
    keys = torch.arange(14) >= torch.tensor([0, 3, 9])[:, None]
    y = kernel(q, k, v, Mask(keys=keys))
    for row in range(3):
        alone = (x[row : row + 1, :, keys[row]] for x in (q, k, v))
        close(y[row : row + 1, :, keys[row]], kernel(*alone))


def test_more_rounds_come_closer_and_counting_once_is_needed_for_it() -> None:
    torch.manual_seed(0)
    q, v = clustered(4, 2, 64, kinds=12), numbers(4, 2, 64, 8)
    wanted = exact(q, v, False)

    def error(rounds: int, once: bool) -> float:
        return float((LSH(8, rounds, (16,), once=once)(q, q, v) - wanted).norm() / wanted.norm())

    errors = [error(rounds, True) for rounds in (1, 2, 4, 8, 16, 64)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-2 < errors[0]
    assert error(64, False) > 10 * errors[-1]


def test_planes_part_two_vectors_by_their_angle() -> None:
    """P[equal bit] = 1 - angle / pi"""
    torch.manual_seed(1)
    kernel = LSH(4, 2000, (2,), hashed="planes")
    for angle in (0.2, 0.8, 1.5, 2.5, 3.1):
        pair = torch.tensor([[1.0, 0.0], [math.cos(angle), math.sin(angle)]]).double()
        codes = kernel.hash(pair.view(1, 1, 2, 2))[0, 0]
        assert abs(float((codes[:, 0] == codes[:, 1]).double().mean()) - (1 - angle / math.pi)) < 0.04
    bits = LSH(4, 3, (16,), hashed="planes").hash(numbers(1, 1, 500, 6))
    assert sorted(set(bits.flatten().tolist())) == list(range(16))


def test_the_angular_hash_is_the_nearest_direction() -> None:
    """argmax of [xR; -xR], of any length; near vectors meet more often; two hashes make one of many buckets."""
    x = numbers(2, 3, 50, 6)
    kernel, pairs = LSH(4, 2, (6,)), LSH(4, 2, (4, 8))
    turns = torch.randn(3, 6, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    turned = torch.einsum("bhne,herc->bhrnc", x, turns)
    assert torch.equal(kernel.hash(x).long(), torch.cat((turned, -turned), -1).argmax(-1))
    assert torch.equal(kernel.hash(7 * x), kernel.hash(x))
    turns = torch.randn(3, 6, 2, 6, generator=torch.Generator().manual_seed(0)).double()
    one, two = torch.einsum("bhne,herc->bhrnc", x, turns).split((2, 4), -1)
    wanted = torch.cat((one, -one), -1).argmax(-1) + 4 * torch.cat((two, -two), -1).argmax(-1)
    assert torch.equal(pairs.hash(x).long(), wanted)
    many = LSH(4, 500, (16,))
    meeting = []
    for angle in (0.1, 0.5, 1.0, 2.0):
        pair = torch.zeros(1, 1, 2, 6).double()
        pair[..., 0] = torch.tensor([1.0, math.cos(angle)])
        pair[..., 1] = torch.tensor([0.0, math.sin(angle)])
        codes = many.hash(pair)[0, 0]
        meeting.append(float((codes[:, 0] == codes[:, 1]).double().mean()))
    assert meeting == sorted(meeting, reverse=True)
    assert meeting[0] > 0.7 > 0.1 > meeting[-1]


def test_the_seed_alone_decides() -> None:
    x = numbers(2, 3, 40, 8)
    assert torch.equal(LSH(4, 2, (8,)).hash(x), LSH(4, 2, (8,)).train().hash(x))
    assert torch.equal(LSH(4, 2, (8,)).hash(x.float()), LSH(4, 2, (8,)).float().hash(x.float().double()))
    assert not torch.equal(LSH(4, 2, (8,)).hash(x), LSH(4, 2, (8,), seed=1).hash(x))
    state = torch.get_rng_state()
    LSH(4, 3, (8,), seed=77).hash(x)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("form", ["chunks", "band"])
def test_the_jacobian_is_causal_in_the_order_of_the_text(form: str) -> None:
    kernel, v = LSH(3, 2, (4,), form=form), numbers(1, 1, 12, 4)
    q = numbers(1, 1, 12, 4)
    found = torch.autograd.functional.jacobian(lambda x: kernel(x, x, v, CAUSAL)[0, 0], q)[:, :, 0, 0]
    reached = found.abs().sum((1, 3)) > 0
    assert not reached.triu(1).any()
    assert reached.tril(-1).sum() > 12
    found = torch.autograd.functional.jacobian(lambda x: kernel(q, q, x, CAUSAL)[0, 0], v)[:, :, 0, 0]
    assert not (found.abs().sum((1, 3)) > 0).triu(1).any()


def test_chunks_hang_on_what_comes_later_and_a_band_does_not() -> None:
    """A later token is never looked at, but it moves where the chunks are cut."""
    q, v = clustered(1, 4, 40), numbers(1, 4, 40, 8)
    short, before = Mask(causal=True), slice(0, 30)
    for form, stable in (("chunks", False), ("band", True)):
        kernel = LSH(4, 1, (8,), form=form)
        whole, part = kernel(q, q, v, short), kernel(q[:, :, before], q[:, :, before], v[:, :, before], short)
        assert torch.allclose(whole[:, :, before], part) == stable
    with pytest.raises(ValueError, match="needs the full sequence"):
        LSH(4, 1, (8,), form="chunks").step(Slot(0), q, q, v, CAUSAL)
    with pytest.raises(ValueError, match="sees earlier keys only"):
        LSH(4, 1, (8,), form="band")(q, q, v, ALL)
    with pytest.raises(ValueError, match="sees earlier keys only"):
        build_mixer({"kind": "lsh", "form": "band"}, Site(dim=8, heads=2))


@torch.no_grad()
def test_a_gpt_writes_with_it() -> None:
    """One word; long enough that bands are cut, and token by token."""
    model = (
        build("gpt-tiny", depth=2, length=64, attention={"kind": "lsh", "chunk": 4, "buckets": 8}).net.double().eval()
    )
    for block in model.blocks:
        block.mixer.q.weight.mul_(20)
    ids, cache = torch.randint(256, (2, 50)), Cache()
    full = model(ids)
    parts = [model(part, cache=cache) for part in ids.split((20, 1, 1, 9, 1, 18), 1)]
    close(torch.cat(parts, 1), full)


@pytest.mark.parametrize(("form", "causal"), FORMS)
def test_gradients_of_gradients(form: str, causal: bool) -> None:
    kernel = LSH(3, 2, (4,), form=form)
    given = [numbers(1, 2, 5, 2, grad=True) for _ in range(2)]  # two chunks, the last one padded

    def run(q: Tensor, v: Tensor) -> Tensor:
        return kernel(q, q, v, Mask(causal=causal))

    assert gradcheck(run, given)
    assert gradgradcheck(run, given)


def test_the_fused_block_is_the_one_by_hand() -> None:
    """And its gradient, given what all rounds found, is the share of this block in it."""
    q, k, v = numbers(2, 3, 4, 8), numbers(2, 3, 6, 8), numbers(2, 3, 6, 8)
    bias = torch.where(torch.rand(2, 3, 4, 6) < 0.3, -1e9, 0.0).double()
    wide = torch.cat((v, v[..., :1]), -1)  # of another width, so not fused
    (y, total), (by_hand, same) = (of_chunks(Heads(q, k, x), bias, 0.0) for x in (v, wide))
    close(y, by_hand[..., :8])
    close(total, same)
    slope = numbers(2, 3, 4, 8)
    total = total + 0.3  # of more than this block
    fused = slopes_of_chunks(Heads(q, k, v), Outcome(y, total, slope), bias, 0.0)
    padded = Outcome(F.pad(y, (0, 1)), total, F.pad(slope, (0, 1)))
    by_hand = slopes_of_chunks(Heads(q, k, wide), padded, bias, 0.0)
    for one, two in ((fused.q, by_hand.q), (fused.k, by_hand.k), (fused.v, by_hand.v[..., :8])):
        close(one, two)


def test_ordinary_steps_give_the_same() -> None:
    """What a compiler or a transform sees."""
    kernel, q, v = LSH(4, 3, (8,)), clustered(2, 2, 21), numbers(2, 2, 21, 8)
    plan = kernel.plan(kernel.hash(q), CAUSAL)
    flat = [x.flatten(0, 1) for x in (q, q / (q.square().sum(-1, keepdim=True) + 8e-6).sqrt(), v)]
    close(ordinary(*flat, plan, 0.0).view_as(v), kernel(q, q, v, CAUSAL))


@pytest.mark.parametrize("form", ["chunks", "band"])
def test_memory_is_linear(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1 << 14)
    kernel = LSH(8, 2, (16,), form=form)
    for n in (512, 2048):
        q, v = (torch.randn(1, 1, n, 8, requires_grad=True) for _ in range(2))
        with Largest() as seen:
            kernel(q, q, v, CAUSAL).sum().backward()
        assert seen.numel <= max(1 << 14, 16 * n * 2)  # what a chunk sees is two of it


def test_how_many_buckets() -> None:
    assert sizes(Settings(), 64) == (1,)
    assert sizes(Settings(), 128) == (4,)
    assert sizes(Settings(), 2048) == (64,)
    assert sizes(Settings(), 4096) == (8, 16)
    assert sizes(Settings(hashed="planes"), 4096) == (128,)
    assert sizes(Settings(buckets=512), 64) == (512,)
    assert sizes(Settings(), None) == (32,)
    for wrong in ({"buckets": 3}, {"buckets": 6, "hashed": "planes"}, {"chunk": 0}, {"rounds": 0}):
        with pytest.raises(ValueError, match=r"attention 'lsh'"):
            build_mixer({"kind": "lsh"} | wrong, Site(dim=8, heads=2))


def test_other_hashes_are_drawn_in_training_and_a_saved_net_goes_on_with_them() -> None:
    """Every second call; in use never, and not when a call is repeated for its gradient."""
    torch.manual_seed(0)
    keys = torch.randn(1, 2, 40, 8)
    attention = LSH(4, 2, (8,), redraw=2).train()
    seen = [attention.codes(keys) for _ in range(5)]
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])
    assert torch.equal(seen[2], seen[3])
    assert not torch.equal(seen[3], seen[4])
    other = LSH(4, 2, (8,), redraw=2)
    other.load_state_dict(attention.state_dict())
    assert torch.equal(other.train().codes(keys), attention.codes(keys))
    used = [attention.eval().codes(keys) for _ in range(3)]
    assert torch.equal(used[0], used[2])
    assert int(attention.state_dict()["calls"]) == 6
    assert not LSH(4, 2, (8,)).state_dict()


def test_hashes_that_are_redrawn_keep_gradients_exact() -> None:
    """Recomputed, a layer looks where it looked the first time, though every call draws anew."""
    torch.manual_seed(0)
    attention, x = LSH(4, 2, (8,), redraw=1).train(), torch.randn(1, 2, 24, 8, dtype=torch.float64, requires_grad=True)
    plain = torch.autograd.grad(attention(x, x, x).square().sum(), x)[0]
    attention.calls.zero_()
    again = torch.autograd.grad(recompute_forward(lambda y: attention(y, y, y), x).square().sum(), x)[0]
    torch.testing.assert_close(again, plain)


def test_planes_with_an_odd_number_of_buckets_are_told_of_planes() -> None:
    with pytest.raises(ValueError, match="must be a power of 2"):
        LSH(4, 1, (6,), hashed="planes")
