"""Decoders: with a cache as without, and never a look ahead."""

import pytest
import torch
from torch import Tensor, nn

from regard.building import prepare
from regard.nn.cache import Cache
from tests.contracts.families import SERVED, by_speed, net
from tests.contracts.tools import CHOICES, DECODERS, close, ragged

DECODING = [site for site in SERVED if site[0] in ("gpt", "transformer", "rnn", "t5", "switch", "switchlm", "reformer")]
PLAIN = ["gpt", "transformer", "switch", "switchlm", "reformer"]


def decoder(family: str, model: nn.Module, padded: bool):
    """(ids, keys, cache) -> logits, of either family; the transformer looks at a ragged source."""
    if family in ("gpt", "reformer"):
        return lambda ids, keys, cache: model(ids, keys=keys, cache=cache)
    if family == "switchlm":
        return lambda ids, keys, cache: model(ids, keys=keys, cache=cache).logits
    source = torch.randint(13, (3, 5))
    source_keys = ragged(3, 5, "right") if padded else None
    memory = model.encode(source, source_keys)
    return lambda ids, keys, cache: model.decode(ids, memory, source_keys=source_keys, keys=keys, cache=cache)


def stepwise(run, ids: Tensor, keys: Tensor | None, steps: tuple[int, ...], cache: Cache) -> Tensor:
    parts, start = [], 0
    for n in steps:
        part = slice(start, start + n)
        parts.append(run(ids[:, part], None if keys is None else keys[:, part], cache))
        start += n
    return torch.cat(parts, 1)


@pytest.mark.parametrize(
    ("padded", "steps"),
    [
        (False, (1,) * 6),
        (True, (2, 3, 1)),
        pytest.param(False, (2, 3, 1), marks=pytest.mark.slow),
        pytest.param(True, (1,) * 6, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("family", "key", "name"), by_speed(DECODING))
def test_cached_is_full(family: str, key: str, name: str, padded: bool, steps: tuple[int, ...]) -> None:
    """Several tokens at a time and one by one, padding on the left, caches of self- and cross-attention."""
    run = decoder(family, net(family, **{key: CHOICES[name]}), padded)
    ids, keys = torch.randint(13, (3, 6)), ragged(3, 6, "left") if padded else None
    real = torch.ones(3, 6, dtype=torch.bool) if keys is None else keys
    full = run(ids, keys, None)
    for capacity in (0, 4, 50):
        close(stepwise(run, ids, keys, steps, Cache(capacity))[real], full[real])


@pytest.mark.parametrize("family", PLAIN)
def test_padding_only_in_the_prompt(family: str) -> None:
    """After a padded prompt, on either side, the steps come without keys."""
    model = net(family)
    run = decoder(family, model, False)
    for side in ("left", "right"):
        ids, keys, cache = torch.randint(13, (3, 6)), ragged(3, 4, side), Cache()
        run(ids[:, :4], keys, cache)
        found = torch.cat([run(ids[:, i : i + 1], None, cache) for i in (4, 5)], 1)
        everything = torch.cat((keys, torch.ones(3, 2, dtype=torch.bool)), 1)
        close(found, run(ids, everything, None)[:, 4:])


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_cached_in_training_has_the_same_gradient(family: str) -> None:
    model = net(family)
    run, ids = decoder(family, model, False), torch.randint(13, (3, 6))
    weight = model.blocks[0].mixer.k.weight if family == "gpt" else model.decoder[0].mixer.k.weight
    wanted = torch.autograd.grad(run(ids, None, None).square().sum(), weight, retain_graph=True)[0]
    found = torch.autograd.grad(stepwise(run, ids, None, (2, 3, 1), Cache(9)).square().sum(), weight)[0]
    close(found, wanted)


@pytest.mark.parametrize("family", PLAIN)
def test_prepared_decodes_the_same(family: str) -> None:
    model, ids = net(family), torch.randint(13, (3, 6))
    state = torch.get_rng_state()
    full = decoder(family, model, True)(ids, None, None)
    torch.set_rng_state(state)
    close(stepwise(decoder(family, prepare(model), True), ids, None, (2, 3, 1), Cache()), full)


@pytest.mark.parametrize(("family", "key", "name"), by_speed(DECODING))
def test_a_later_token_never_changes_an_earlier_output(family: str, key: str, name: str) -> None:
    """Not if it is another, not if it is huge."""
    model = net(family, **{key: CHOICES[name]})
    run, ids = decoder(family, model, True), torch.randint(12, (3, 6))
    y = run(ids, None, None)
    with torch.no_grad():
        model.embed.weight[12] = 1e4 * torch.randn(16).double()
    memory = run  # the source may hold token 12: take its encoding as it was
    for i in range(1, 6):
        for new in ((ids + 1) % 12, torch.full_like(ids, 12)):
            changed = torch.where(torch.arange(6) < i, ids, new)
            close(memory(changed, None, None)[:, :i, :12], y[:, :i, :12])


def test_a_changed_token_changes_what_follows() -> None:
    for family in ("gpt", "transformer"):
        run, ids = decoder(family, net(family), False), torch.randint(13, (3, 6))
        changed = ids.clone()
        changed[:, 2] = (ids[:, 2] + 1) % 13
        moved = (run(changed, None, None) - run(ids, None, None)).abs().sum(-1) > 1e-9
        assert moved.tolist() == [[False] * 2 + [True] * 4] * 3


@pytest.mark.parametrize("name", DECODERS)
def test_jacobian_is_lower_triangular(name: str) -> None:
    """Output i depends on inputs 0 to i, on each of them, and on no later one."""
    model = net("gpt", attention=CHOICES[name], tied=False)
    x = torch.randn(1, 5, 16, dtype=torch.float64, requires_grad=True)
    hook = model.embed.register_forward_hook(lambda *_: x)
    y = model(torch.zeros(1, 5, dtype=torch.long))
    hook.remove()
    found = [torch.autograd.grad(y[0, i].square().sum(), x, retain_graph=True)[0][0].abs().sum(-1) for i in range(5)]
    reached = torch.stack(found) > 0
    assert not reached.triu(1).any()
    if name == "local-window":  # two layers, each one key further back
        assert torch.equal(reached, torch.ones(5, 5, dtype=torch.bool).tril().triu(-2))
    elif name == "chunked-chunk":  # its own and the chunk before, twice
        chunks = torch.arange(5) // 2
        assert torch.equal(reached, torch.ones(5, 5, dtype=torch.bool).tril() & (chunks[:, None] - chunks <= 2))
    elif "keep" not in name and "lsh-" not in name:  # whom they find hangs on what they look for
        assert torch.equal(reached, torch.ones(5, 5, dtype=torch.bool).tril())


@pytest.mark.parametrize("beams", [1, 3])
def test_encoder_runs_once(beams: int) -> None:
    """And the keys and values of its last layer are made once for each decoder layer and sentence."""
    model = net("transformer")
    calls: dict[str, int] = {}
    for name, module in model.named_modules():
        if name.startswith("encoder.") or name.endswith(("cross.k", "cross.v")):
            module.register_forward_hook(lambda *_, name=name: calls.update({name: calls.get(name, 0) + 1}))
    source, keys = torch.randint(13, (2, 5)), ragged(2, 5, "right")
    memory, cache = model.encode(source, keys), Cache()
    ids = torch.randint(13, (2 * beams, 4))
    parts = [model.decode(ids[:, i : i + 1], memory, source_keys=keys, cache=cache) for i in range(4)]
    assert set(calls.values()) == {1}
    assert {"encoder.0", "encoder.1", "decoder.0.cross.k", "decoder.1.cross.v"} <= calls.keys()
    full = model(source.repeat_interleave(beams, 0), ids, source_keys=keys.repeat_interleave(beams, 0))
    close(torch.cat(parts, 1), full)


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_reordered_beams(family: str) -> None:
    """After every step rows take each other's place, as in beam search; without reordering the answer is another."""
    torch.manual_seed(0)
    model = net(family)
    run = decoder(family, model, False)
    ids, moves = torch.randint(13, (3, 6)), [torch.tensor(x) for x in ([0, 0, 2], [1, 2, 1], [2, 2, 0], [0, 1, 1])]
    if family == "transformer":  # beams of one sentence
        memory = model.encode(torch.randint(13, (1, 5)))
        run = lambda ids, keys, cache: model.decode(ids, memory, cache=cache)  # noqa: E731
    for reordering in (True, False):
        cache, written = Cache(), ids[:, :1]
        y = run(written, None, cache)
        for i, move in enumerate(moves):
            if reordering:
                cache.reorder(move)
            written = torch.cat((written[move], ids[:, i + 1 : i + 2]), 1)
            y = run(written[:, -1:], None, cache)
        assert torch.allclose(y[:, 0], run(written, None, None)[:, -1]) == reordering


@torch.no_grad()
@pytest.mark.parametrize("family", PLAIN)
def test_the_same_words_are_written(family: str) -> None:
    """Greedy, from 300 ragged prompts at once, with the cache and without."""
    model, prompts = net(family), torch.randint(13, (300, 4))
    keys = torch.arange(4) >= torch.randint(4, (300, 1))
    memory = model.encode(torch.randint(13, (300, 9))) if hasattr(model, "encode") else None

    def run(ids: Tensor, keys: Tensor, cache: Cache | None) -> Tensor:
        if memory is None:
            return model.logits(model.read(ids, keys=keys, cache=cache))
        return model.decode(ids, memory, keys=keys, cache=cache)

    cache, new = Cache(12), prompts
    written, real = prompts, keys
    for _ in range(8):
        full = run(written, real, None)[:, -1].argmax(-1)
        found = run(new, real[:, -new.shape[1] :], cache)[:, -1].argmax(-1)
        assert torch.equal(found, full)
        new = full[:, None]
        written, real = torch.cat((written, new), 1), torch.cat((real, torch.ones_like(new, dtype=torch.bool)), 1)


def test_cross_looks_at_the_last_layer_of_the_encoder() -> None:
    """The only link between the two: without the source nothing is known of it."""
    model, target = net("transformer"), torch.randint(13, (2, 4))
    a, b = torch.randint(13, (2, 5)), torch.randint(13, (2, 5))
    assert not torch.allclose(model(a, target), model(b, target))
    for block in model.decoder:
        nn.init.zeros_(block.cross.out.weight)
    close(model(a, target), model(b, target))
