"""Every model of the zoo, as it runs: any attention in it, batches, padding, and that it learns."""

import re
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.building import prepare
from regard.contracts.families import one_of_many, padded
from regard.errors import ConfigError, InputError
from regard.folders import save
from regard.model import Model
from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import Cache
from regard.nn.pool import pool_first, pool_mean
from regard.zoo import FAMILIES, empty_net
from tests.contracts.families import ATTENDING, PADDED, SERVED, SITES, by_speed, config, inputs, net, tensors, words
from tests.contracts.tools import CHOICES, close

LATENT = ("perceiver", "perceiverlm", "forecaster")
# The one clear error of a family that cannot take an attention; no flag says which.
REFUSED = (
    r"attention '.*': .* "
    r"(cannot (be causal|take a bias)|does not support cross-attention to a context|needs the maximum sequence length)"
)


@pytest.mark.parametrize(("family", "key", "name"), by_speed(SERVED))
def test_any_attention_in_any_model(family: str, key: str, name: str) -> None:
    """It runs, forward and back."""
    model = net(family, **{key: CHOICES[name]})
    for x in tensors(model(**inputs(family))).values():
        assert x.isfinite().all()
    loss = sum(x.square().mean() for x in tensors(model(**inputs(family))).values())
    loss.backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert missing in ([], ["follows.weight", "follows.bias"], ["scale"])


@pytest.mark.parametrize(("family", "key"), sorted({site[:2] for site in SITES}))
def test_only_what_cannot_be_served_is_refused(family: str, key: str) -> None:
    changes = {"depth": 1} if hasattr(config(family), "depth") else {}
    for name in CHOICES:
        made, expected = config(family, **changes, **{key: CHOICES[name]}), (family, key, name) in SERVED
        with nullcontext() if expected else pytest.raises(ConfigError, match=REFUSED):
            empty_net(family, made)


@pytest.mark.parametrize(("family", "key", "name"), by_speed(SERVED))
def test_a_batch_of_one_is_a_row_of_many(family: str, key: str, name: str) -> None:
    one_of_many(net(family, **{key: CHOICES[name]}), inputs(family))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("family", "key", "name"), by_speed([site for site in SERVED if site[0] in PADDED]))
def test_padding_never_changes_a_real_output(family: str, key: str, name: str, side: str) -> None:
    """Whatever stands there; every input may be padded, all at once."""
    padded(net(family, **{key: CHOICES[name]}), inputs(family), side, 13)


def falls(family: str, steps: int, share: float, **changes: Any) -> bool:
    """Whether the loss on one batch falls to this share of the first one, in so many steps at most."""
    model, given = FAMILIES[family].net(config(family, **changes)).train(), inputs(family)
    given = {name: x.float() if x.is_floating_point() else x for name, x in given.items()}
    optimizer, start = torch.optim.Adam(model.parameters(), lr=1e-2), None

    def logits() -> Tensor:
        found = tensors(model(**given))
        return next(found[name] for name in ("words", "logits", "", *found) if name in found)

    labels = torch.randint(logits().shape[-1], logits().shape[:-1])
    for _ in range(steps):
        loss = F.cross_entropy(logits().flatten(0, -2), labels.flatten())
        start = loss.item() if start is None else start
        if loss.item() < share * start:
            return True
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return False


@pytest.mark.parametrize("family", FAMILIES)
def test_overfits_one_batch(family: str) -> None:
    """What is read step by step learns slowly, and slower through a few latents, or from placeholders."""
    assert falls(family, 300 if family in LATENT else 150 if family not in ATTENDING else 60, 0.05)


@pytest.mark.parametrize(
    ("family", "key", "name"), by_speed([site for site in SERVED if site[0] in ("gpt", "transformer")])
)
def test_learns_with_any_attention(family: str, key: str, name: str) -> None:
    assert falls(family, 15, 0.5, **{key: CHOICES[name]}, depth=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_prepared_is_the_same(family: str, tmp_path) -> None:
    """The twin is a frozen copy that what happens to the model does not reach; the model can still be saved."""
    model = Model(family, net(family))
    given, names = inputs(family), list(model.state_dict())
    wanted = tensors(model.net(**given))
    twin = prepare(model)
    assert twin.net is not model.net
    assert list(model.state_dict()) == names
    fused = any(type(module) is MultiHeadAttention for module in model.net.modules())
    assert any("fused" in name for name in twin.state_dict()) == fused
    for name, x in tensors(twin.net(**given)).items():
        close(x, wanted[name])
    assert not any(p.requires_grad for p in twin.parameters())
    assert all(p.requires_grad for p in model.parameters())
    if fused:
        with pytest.raises(InputError, match="fused"):
            save(twin, tmp_path / "twin")
        assert not (tmp_path / "twin").exists()
    save(model, tmp_path / "model")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.1)
    for name, x in tensors(twin.net(**given)).items():
        close(x, wanted[name])


@pytest.mark.parametrize("family", FAMILIES)
def test_repeatable(family: str) -> None:
    """The same call gives the same bits, and nothing is left on the model by a call."""
    model, given = net(family), inputs(family)
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    one, two = tensors(model(**given)), tensors(model(**given))
    assert all(torch.equal(one[name], two[name]) for name in one)
    for name, module in model.named_modules():
        assert vars(module).keys() == before[name].keys()
        for key in ("_buffers", "_forward_hooks", "_modules"):
            assert vars(module)[key] == before[name][key]


def test_pooling_of_ragged_rows() -> None:
    x, keys = torch.randn(2, 4, 3), torch.tensor([[False, False, True, True], [True, True, True, False]])
    close(pool_first(x, keys), torch.stack((x[0, 2], x[1, 0])))
    close(pool_first(x, None), x[:, 0])
    x[0, 0] = torch.nan
    close(pool_mean(x, keys), torch.stack((x[0, 2:].mean(0), x[1, :3].mean(0))), 1e-6)


def test_too_long_is_an_error() -> None:
    for family in ("gpt", "bert"):
        with pytest.raises(ValueError, match="position 12 is out of range for a model with 12 positions"):
            net(family)(torch.randint(13, (1, 13)))
    model, cache = net("gpt"), Cache()
    model(torch.randint(13, (1, 12)), cache=cache)
    with pytest.raises(ValueError, match="position 12"):
        model(torch.randint(13, (1, 1)), cache=cache)


@pytest.mark.parametrize("family", PADDED)
def test_keys_of_other_tokens_are_refused(family: str) -> None:
    given = inputs(family, batch=2)
    last = list(given)[-1]
    for part, ids in words(given).items():
        name, (rows, length) = "keys" if part == last else f"{part}_keys", ids.shape
        for shape in ((rows, length - 1), (rows, length + 1), (rows + 1, length), (length,)):
            keys = {name: torch.ones(shape, dtype=torch.bool)}
            told = re.escape(f"shape of the tokens: got {shape}, expected {(rows, length)}")
            with pytest.raises(ValueError, match=told):
                net(family)(**given, **keys)


def test_keys_of_another_memory_or_step_are_refused() -> None:
    model, target, memory = net("transformer"), torch.randint(13, (2, 3)), torch.randn(2, 5, 16).double()
    with pytest.raises(ValueError, match=r"shape of the tokens: got \(2, 4\), expected \(2, 5\)"):
        model.decode(target, memory, source_keys=torch.ones(2, 4, dtype=torch.bool))
    model, cache = net("gpt"), Cache()
    model(target, cache=cache)
    with pytest.raises(ValueError, match=r"shape of the tokens: got \(2, 4\), expected \(2, 1\)"):
        model(target[:, :1], keys=torch.ones(2, 4, dtype=torch.bool), cache=cache)
    assert cache.length == 3


@pytest.mark.parametrize("family", PADDED)
@pytest.mark.parametrize("wrong", [13, -1])
def test_an_id_outside_of_the_vocabulary_is_told(family: str, wrong: int) -> None:
    for part in words(given := inputs(family, batch=2)):
        ids = given[part].clone()
        ids[1, 2] = wrong
        with pytest.raises(ValueError, match=rf"vocabulary: got {wrong}, expected from 0 to 12"):
            net(family)(**given | {part: ids})


def test_segments() -> None:
    """Another segment is another input; left out, all is the first."""
    model, ids = net("bert"), torch.randint(13, (2, 5))
    segments = torch.tensor([0, 0, 1, 1, 1]).expand(2, 5)
    close(model(ids).states, model(ids, segments=segments * 0).states)
    assert not torch.allclose(model(ids).states, model(ids, segments=segments).states)
