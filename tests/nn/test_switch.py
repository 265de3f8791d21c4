"""The switch layer, by loops over tokens and by hand; its models, and that they learn to share the work out."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.building import build
from regard.errors import ConfigError
from regard.modalities.text.tasks.language import Language, next_tokens
from regard.models import gpt, switch, switchlm
from regard.models.switch import SwitchTransformer
from regard.nn.block import Block, replay_blocks
from regard.nn.feedforward import FeedForward, Gated
from regard.nn.residual import Branch, PreNorm
from regard.nn.switch import Experts, RoutedStates, Switch, SwitchBlock, spread_experts, switch_layers
from regard.nn.tap import capture
from regard.zoo import find_preset
from tests.contracts.families import config, net
from tests.contracts.tools import close, mixer, ragged, stirred

DIM, HIDDEN = 6, 10


def layer(experts: int = 4, *, gated: bool = False, **how: object) -> Switch:
    made = Experts(experts, DIM, HIDDEN, F.relu, gated=gated)
    return stirred(Switch(DIM, made, **{"jitter": 0.0, **how}))  # type: ignore[arg-type]


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def one_expert(switch: Switch, i: int, x: Tensor) -> Tensor:
    """(d,) -> (d,)"""
    experts = switch.experts
    up = experts.up.weight[i] @ x
    inner = up.relu() if experts.gate is None else (experts.gate.weight[i] @ x).relu() * up
    return experts.down.weight[i] @ inner


def token_by_token(switch: Switch, x: Tensor, real: Tensor, places: float) -> tuple[Tensor, Tensor, int]:
    """(b, n, d) -> (b, n, d), load, dropped; ``places`` is how many tokens an expert takes"""
    y, taken, dropped = torch.zeros_like(x), {}, 0
    seen: list[tuple[int, Tensor]] = []
    for row in range(len(x)):
        for place in range(x.shape[1]):
            if not real[row, place]:
                continue
            p = (switch.router.weight @ x[row, place]).softmax(0).detach()
            i = int(p.argmax())
            seen.append((i, p))
            if taken.get(i, 0) < places:
                taken[i] = taken.get(i, 0) + 1
                y[row, place] = p[i] * one_expert(switch, i, x[row, place])
            else:
                dropped += 1
    experts = switch.router.out_features
    shares = [sum(i == own for own, _ in seen) / max(len(seen), 1) for i in range(experts)]
    means = [sum(float(p[i]) for _, p in seen) / max(len(seen), 1) for i in range(experts)]
    load = experts * sum(f * p for f, p in zip(shares, means, strict=True))
    return y, torch.tensor(load, dtype=torch.float64), dropped


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    experts=st.integers(1, 5),
    factor=st.sampled_from([0.3, 0.5, 1.0, 1.25, 9.0]),
    gated=st.booleans(),
    length=st.integers(0, 6),
)
def test_as_token_by_token(seed: int, experts: int, factor: float, gated: bool, length: int) -> None:
    """Any padding, any capacity: the same outputs, load and count of dropped tokens."""
    torch.manual_seed(seed)
    made, x, real = layer(experts, gated=gated, capacity=factor), numbers(3, length, DIM), torch.rand(3, length) < 0.7
    found = made.train()(x, real)
    y, load, dropped = token_by_token(made, x, real, math.ceil(factor * int(real.sum()) / experts))
    close(found.x, y)
    close(found.load, load)
    assert int(found.dropped) == dropped
    if factor >= experts:
        assert not dropped


@pytest.mark.parametrize("gated", [False, True])
def test_one_expert_is_the_dense_feed_forward(gated: bool) -> None:
    made = layer(1, gated=gated)
    kind = Gated if gated else FeedForward
    dense = kind(DIM, HIDDEN, F.relu, biases=False).double()
    dense.load_state_dict({name: x[0] for name, x in made.experts.state_dict().items()})
    x = numbers(2, 5, DIM)
    found = made(x)
    close(found.x, dense(x))
    close(found.load, torch.tensor(1.0).double())


def test_in_evaluation_none_is_dropped_unless_it_is_asked_for() -> None:
    x = numbers(3, 8, DIM)
    made = layer(4, capacity=0.25).eval()
    y, _, _ = token_by_token(made, x, torch.ones(3, 8, dtype=torch.bool), math.inf)
    close(made(x).x, y)
    assert int(made(x).dropped) == 0
    assert int(made.train()(x).dropped) > 0
    tight = layer(4, capacity=9.0, capacity_eval=0.25)
    assert int(tight.eval()(x).dropped) > 0
    assert int(tight.train()(x).dropped) == 0


def sure(made: Switch, strength: float = 1e4) -> Switch:
    """A router that looks at the first features alone: the expert of a one-hot token is its feature."""
    with torch.no_grad():
        made.router.weight.copy_(strength * torch.eye(made.router.out_features, DIM))
    return made


def test_load_is_1_when_even_and_the_number_of_experts_when_one_has_all() -> None:
    made = sure(layer(4))
    even = torch.eye(DIM)[torch.arange(8) % 4].double()[None]
    close(made(even).load, torch.tensor(1.0).double())
    close(made(even[:, [2] * 8]).load, torch.tensor(4.0).double())
    close(sure(made, 0.0)(even).load, torch.tensor(1.0).double())  # whoever is chosen, none is likelier


def test_load_has_the_gradient_of_its_likelihoods_alone() -> None:
    """And it does not hang on what was dropped."""
    x, free, tight = numbers(2, 6, DIM), layer(3, capacity=9.0).train(), layer(3, capacity=0.4).train()
    tight.load_state_dict(free.state_dict())
    weight = free.router.weight
    p = (x.flatten(0, 1) @ weight.T).softmax(-1)
    shares = F.one_hot(p.argmax(-1), 3).double().mean(0)
    (wanted,) = torch.autograd.grad(3 * (shares * p.mean(0)).sum(), weight)
    (found,) = torch.autograd.grad(free(x).load, weight)
    close(found, wanted)
    routed = tight(x)
    assert int(routed.dropped) > 0
    close(torch.autograd.grad(routed.load, tight.router.weight)[0], wanted)


def test_dropped_by_hand() -> None:
    """Ten tokens, two experts, factor 0.8: four places each. The first in the batch stay; the others are zero."""
    made = sure(layer(2, capacity=0.8)).train()
    wants = torch.tensor([[0, 1, 0, 0, 0], [1, 0, 0, 0, 1]])
    found = made(torch.eye(DIM)[wants].double())
    assert int(found.dropped) == 3
    kept = found.x.abs().sum(-1) > 0
    assert kept.tolist() == [[True, True, True, True, True], [True, False, False, False, True]]
    real = torch.tensor([[True, True, False, False, False], [True, True, True, True, True]])
    found = made(torch.eye(DIM)[wants].double(), real)  # seven tokens: three places each
    assert int(found.dropped) == 1
    assert (found.x.abs().sum(-1) > 0).tolist() == [[True, True, False, False, False], [True, True, True, False, True]]


def test_groups_and_texts_count_for_themselves() -> None:
    x, real = numbers(4, 5, DIM), ragged(4, 5, "left")
    grouped, alone = layer(3, capacity=0.5, groups=2).train(), layer(3, capacity=0.5).train()
    alone.load_state_dict(grouped.state_dict())
    found, parts = grouped(x, real), [alone(x[rows], real[rows]) for rows in (slice(0, 2), slice(2, 4))]
    close(found.x, torch.cat([part.x for part in parts]))
    assert int(found.dropped) == sum(int(part.dropped) for part in parts) > 0
    close(found.load, alone(x, real).load)
    with pytest.raises(ValueError, match="3 rows cannot be divided into 2 equal groups"):
        grouped(x[:3])
    roomy = layer(3, room=2).eval()
    rows = [token_by_token(roomy, x[i : i + 1], real[i : i + 1], 2) for i in range(4)]
    close(roomy(x, real).x, torch.cat([row[0] for row in rows]))
    assert int(roomy(x, real).dropped) == sum(row[2] for row in rows) > 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_takes_no_place(side: str) -> None:
    """Whatever stands there, and however much of it."""
    made, x = layer(3, capacity=0.6).train(), numbers(3, 6, DIM)
    real = ragged(3, 6, side)
    found, other = made(x, real), made(torch.where(real[..., None], x, 1e3 * numbers(3, 6, DIM)), real)
    assert torch.equal(found.x, other.x)
    assert torch.equal(found.load, other.load)
    flat = made(x[real][None])
    close(found.x[real], flat.x[0])
    assert not found.x[~real].any()
    assert int(found.dropped) == int(flat.dropped) > 0


def test_the_gate_teaches_the_router() -> None:
    made, x = layer(3, capacity=9.0), numbers(2, 4, DIM)
    (found,) = torch.autograd.grad(made(x).x.square().sum(), made.router.weight)
    assert found.abs().sum() > 0
    twice = 1e-6 * numbers(3, DIM)
    before = made(x).x.square().sum()
    with torch.no_grad():
        made.router.weight.add_(twice)
    close(made(x).x.square().sum() - before, (found * twice).sum(), 1e-7)


def test_jitter_moves_the_router_alone() -> None:
    made, x = layer(3, capacity=9.0, jitter=0.3), numbers(2, 4, DIM)
    seen: list[Tensor] = []
    made.experts.up.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with capture(made, "routes") as quiet:
        made.eval()(x)
    with capture(made, "routes") as moved:
        made.train()(x)
    assert not torch.allclose(quiet["routes"][0], moved["routes"][0])
    for rows in seen:  # every token as it was, in the order of the experts
        assert sorted(rows.tolist()) == sorted(x.flatten(0, 1).tolist())
    still = layer(3, capacity=9.0, jitter=0.0).train()
    assert torch.equal(still(x).x, still(x).x)


def test_the_router_is_precise_where_the_rest_is_not() -> None:
    made, x = layer(3).float(), torch.randn(2, 4, DIM)
    with capture(made, "routes") as precise:
        made(x)
    with capture(made, "routes") as seen, torch.autocast("cpu", torch.bfloat16):
        found = made(x)
    assert torch.equal(seen["routes"][0], precise["routes"][0])
    assert found.x.dtype == torch.float32
    half = made.bfloat16()(x.bfloat16())
    assert (half.x.dtype, half.load.dtype) == (torch.bfloat16, torch.float32)


def test_no_tensor_of_tokens_times_experts_times_places() -> None:
    """Memory follows the tokens: the largest piece is what the experts hold within."""
    from tests.contracts.tools import Largest

    made, x = layer(8, capacity=1.0).train(), numbers(4, 64, DIM)
    with Largest() as largest:
        made(x)
    assert largest.numel <= max(4 * 64 * HIDDEN, 4 * 64 * 8)


# ------------------------------------------------------------------------------------------------------------ blocks


def residual() -> PreNorm:
    return PreNorm(nn.RMSNorm(16), Branch(16))


def test_a_block_is_a_block() -> None:
    """With one expert it says what the dense one says; with drops it passes the token on as it is."""
    attention = mixer("softmax")
    routed = stirred(SwitchBlock(attention, Switch(16, Experts(1, 16, 24, F.relu), jitter=0.0), residual))
    dense = Block(attention, FeedForward(16, 24, F.relu, biases=False), residual).double()
    state = routed.state_dict()
    names = {name.replace("ffn.experts.", "ffn."): x[0] if "experts" in name else x for name, x in state.items()}
    dense.load_state_dict({name: x for name, x in names.items() if "router" not in name})
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    found = routed(x)
    assert isinstance(found, RoutedStates)
    close(found.x, dense(x))
    full = stirred(SwitchBlock(attention, Switch(16, Experts(2, 16, 24, F.relu), capacity_eval=1e-9), residual)).eval()
    found = full(x)  # one place for each expert
    assert int(found.dropped) >= 8
    mixed = full.mixer_residual(x, full.mixer)
    assert int(((found.x - mixed).abs().sum(-1) == 0).sum()) == int(found.dropped)


def test_replayed_blocks_route_as_before() -> None:
    model = net("switch", every=1, jitter=0.3, capacity=0.7).train()
    source, target = torch.randint(13, (2, 6)), torch.randint(13, (2, 5))
    found = []
    for replayed in (False, True):
        if replayed:
            assert replay_blocks(model) == 4
        model.zero_grad()
        torch.manual_seed(5)
        out = model(source, target)
        (out.logits.square().sum() + out.load).backward()
        found.append((out, [p.grad.clone() for p in model.parameters()]))
    (one, slopes), (two, again) = found
    assert torch.equal(one.logits, two.logits)
    assert int(one.dropped) == int(two.dropped) > 0
    for a, b in zip(slopes, again, strict=True):
        close(a, b)


# ------------------------------------------------------------------------------------------------------------ models


def test_load_and_dropped_tokens_of_all_layers_add_up() -> None:
    model = net("switch", every=1, depth=2, decoder_depth=3, capacity_eval=0.5)
    source, target = torch.randint(13, (3, 6)), torch.randint(13, (3, 5))
    found: list[RoutedStates] = []
    for module in switch_layers(model):
        module.register_forward_hook(lambda _, given, out: found.append(out))
    out = model(source, target)
    assert len(found) == 5
    close(out.load, sum(one.load for one in found))
    assert int(out.dropped) == sum(int(one.dropped) for one in found) > 0


@pytest.mark.parametrize(("every", "layers"), [(1, [0, 1, 2, 3, 4]), (2, [1, 3]), (3, [1, 4]), (4, [1])])
def test_which_layers_are_switches(every: int, layers: list[int]) -> None:
    model = SwitchTransformer(config("switch", depth=5, every=every, decoder_every=5 - every))
    routing = [i for i, block in enumerate(model.encoder) if isinstance(block, SwitchBlock)]
    assert routing == layers
    assert [i for i, b in enumerate(model.decoder) if isinstance(b, SwitchBlock)] == [
        i for i in range(5) if every == 4 or i % (5 - every) == 1
    ]


def test_one_expert_is_a_gpt() -> None:
    small = {"vocab": 13, "length": 12, "dim": 16, "depth": 3, "heads": 4, "hidden": 24}
    routed = stirred(switchlm.SwitchLM(switchlm.Config(**small, experts=1))).eval()
    dense = gpt.GPT(gpt.Config(**small, biases="attention")).double().eval()
    state = {name: x for name, x in routed.state_dict().items() if "router" not in name}
    flat = {name.replace("experts.", ""): x[0] if "experts" in name else x for name, x in state.items()}
    dense.load_state_dict(flat)
    ids = torch.randint(13, (2, 7))
    close(routed(ids).logits, dense(ids))


def test_weights_start_small() -> None:
    """Truncated at two deviations of sqrt(0.1 / fan-in); a query's, smaller by the square root of a head's width."""
    model = SwitchTransformer(switch.Config(vocab=50, dim=64, depth=2, heads=4, head_dim=16, hidden=128)).encoder[1]
    fans = {"mixer.q": 64 * 16, "mixer.k": 64, "mixer.out": 64, "ffn.experts.up": 64, "ffn.experts.down": 128}
    for name, fan in (fans | {"ffn.router": 64}).items():
        std, weight = (0.1 / fan) ** 0.5, model.get_submodule(name).weight.detach()
        assert float(weight.abs().max()) <= 2 * std
        assert float(weight.std()) == pytest.approx(0.88 * std, rel=0.1)  # what is cut off is missing


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"experts": 0}, "experts = 0 must be at least 1"),
        ({"every": 0}, "every = 0 must be at least 1"),
        ({"capacity": 0.0}, "capacity = 0.0 must be greater than 0"),
        ({"room": 0}, "room = 0 must be at least 1"),
        ({"room": 4, "capacity": 2.0}, "capacity = 2.0 has no effect when room is set"),
        ({"room": 4, "capacity_eval": 2.0}, "capacity_eval = 2.0 has no effect when room is set"),
        ({"jitter": 1.0}, "jitter = 1.0 must be at least 0 and less than 1"),
        ({"expert_dropout": 1.0}, "expert_dropout = 1.0 must be at least 0 and less than 1"),
    ],
)
@pytest.mark.parametrize("name", ["switch-base-8", "switch-lm-tiny"])
def test_bad_configs(name: str, changes: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        find_preset(name, changes)


def test_one_way_to_say_it() -> None:
    assert switch.Config(decoder_every=2, expert_dropout=0.1) == switch.Config()


def test_experts_that_cannot_be_spread() -> None:
    model = net("switch")
    with pytest.raises(ValueError, match="3 experts cannot be divided equally among 2 processes"):
        spread_experts(model, 0, 2)
    spread_experts(model, 1, 3)
    assert all(len(one.experts.up.weight) == 1 for one in switch_layers(model))
    with pytest.raises(ValueError, match="already"):
        spread_experts(model, 0, 3)


# ------------------------------------------------------------------------------------------------------------- tasks


def text(rows: int, seed: int) -> list[list[int]]:
    """Each begins with a sign that says how it counts on: up by one, two, three or four."""
    draw = torch.Generator().manual_seed(seed)
    starts, steps = (torch.randint(high, (rows,), generator=draw).tolist() for high in (16, 4))
    pairs = zip(starts, steps, strict=True)
    return [[16 + step, *((start + (step + 1) * i) % 16 for i in range(12))] for start, step in pairs]


def trained(load: float) -> Language:
    """From a router that knows two experts only."""
    torch.manual_seed(0)
    sizes = {"vocab": 20, "length": 16, "dim": 32, "depth": 2, "heads": 2, "hidden": 32, "dropout": 0.0, "experts": 4}
    model = build("switch-lm-tiny", **sizes, attention_dropout=0.0, embedding_dropout=0.0, capacity=4.0).net
    with torch.no_grad():
        router = switch_layers(model)[0].router.weight
        router[1:] = 0.0
        router[0] *= 5.0
    task, optimizer = Language(model, load=load), torch.optim.Adam(model.parameters(), 3e-3)
    assert task.indivisible == ("load",)
    for step in range(100):
        model.train()
        batch = next_tokens(text(16, step))
        (loss,) = task.losses(batch, step)
        assert set(loss.terms) == {"loss", "load", "dropped"}
        tokens = task.counts(batch)["tokens"]
        sum(term.weight * term.sum / tokens for term in loss.terms.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    return task


@torch.no_grad()
def used(task: Language) -> tuple[float, float]:
    """-> the entropy of the experts' shares, of the largest possible one; and the share of right words"""
    with capture(task.net, "*.routes") as seen:
        metrics = task.metrics(task.evaluate(next_tokens(text(64, 999))))
    shares = F.one_hot(seen["blocks.1.ffn.routes"][0].argmax(-1), 4).double().mean(0)
    return float(-torch.special.xlogy(shares, shares).sum() / math.log(4)), metrics["accuracy"]


def test_language_learns_with_experts_and_shares_them_out() -> None:
    """The load is a term of the loss; without it some experts are hardly used."""
    even, accuracy = used(trained(0.05))
    assert accuracy > 0.8
    assert even > 0.9
    assert used(trained(0.0))[0] < 0.7


def test_a_net_without_experts_has_no_such_terms() -> None:
    task = Language(build("gpt-tiny", vocab=20, depth=1).net)
    (loss,) = task.losses(next_tokens(text(2, 0)), 0)
    assert set(loss.terms) == {"loss"}
    assert task.indivisible == ()
