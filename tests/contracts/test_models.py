"""Every model of the zoo: its config, any attention in it, batches, padding, and that it learns."""

import json
import re
import tomllib
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
import tomlkit
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.building import build, prepare
from regard.contracts.families import one_of_many, padded, through_files
from regard.errors import ConfigError, InputError
from regard.folders import save
from regard.model import Model
from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import Cache
from regard.nn.pool import pool_first, pool_mean
from regard.zoo import FAMILIES, PRESETS, config_data, empty_net, find_preset, read_config
from tests.contracts.families import (
    ATTENDING,
    PADDED,
    SERVED,
    SITES,
    STAGES,
    by_speed,
    config,
    inputs,
    net,
    staged,
    tensors,
    words,
)
from tests.contracts.tools import CHOICES, close, stirred

# One other value for every key that a config may have; what is missing here is taken from its type.
OTHER: dict[str, Any] = {
    "dim": 32,
    "heads": 2,
    "image": 16,
    "patch": 2,
    "norm": "pre",
    "activation": "tanh",
    "waves": "halves",
    "pool": "mean",
    "last": "dilated",
    "head": "none",
    "attention": "dot",
    "decoder_attention": "dot",
    "cross": "dot",
    "eps": 0.3,
    "representation": 7,
    "decoder_depth": 1,
    "cell": "lstm",
    "decoder": "luong",
    "groups": 2,
    "normed": "rms",
    "biases": "none",
    "rotary": 100.0,
    "narrow": 8,
    "pooling": "relu",
    "every": 1,
    "decoder_every": 1,
    "capacity": 0.1,
    "capacity_eval": 0.1,
    "room": 1,
    "jitter": 0.5,
    "positions": "learned",
    "token_dim": 8,
    "cross_heads": 2,
    "key_dim": 12,
    "value_dim": 8,
    "decoder_heads": 2,
    "decoder_keys": 4,
    "keep": 1,
    "grid": (3, 4),
    "stem": "large",
    "layer": "plain",
    "depths": (2, 1),
    "dims": (8, 16),
    "halving": "first",
    "nonlocals": (1,),
    "form": "dot",
    "subsample": 2,
    "backbone_norm": "batch",
    "trained": (3, 3),
    "window": 3,
    "fine_dim": 8,
    "fine_heads": 2,
    "quantiles": (0.5,),
}
# What a key needs beside it to mean anything.
BESIDE: dict[str, dict[str, Any]] = {
    "feeding": {"decoder": "luong"},
    "classes": {"head": "label"},
    "pooling": {"head": "none"},
    "bidirectional": {"head": "tags"},
    "tied": {"dim": 24},
    "channels": {"cross_heads": 1},
    "features": {"positions": "learned", "cross_heads": 1},
    "row_dim": {"grid": (3, 4)},
    "hashed_dropout": {"attention": "lsh"},
    "halving": {"layer": "bottleneck"},
    "window": {"image": 32},
}
LATENT = ("perceiver", "perceiverlm", "forecaster")
# Keys that say something of training alone.
TRAINING = ("capacity", "jitter", "backbone_norm")
# The one clear error of a family that cannot take an attention; no flag says which.
REFUSED = (
    r"attention '.*': .* "
    r"(cannot (be causal|take a bias)|does not support cross-attention to a context|needs the maximum sequence length)"
)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_pass_through_files(name: str) -> None:
    through_files(*find_preset(name, {}))


@pytest.mark.parametrize(
    "choice",
    ["top-k", {"kind": "top-k", "keep": 3}, ("softmax", "dot"), ("softmax", {"kind": "softmax", "scale": 0.5})],
)
@pytest.mark.parametrize("family", ATTENDING)
def test_any_choice_passes_through_files(family: str, choice: Any) -> None:
    made = config(family, attention=choice)
    data = config_data(made)
    back = read_config(family, json.loads(json.dumps(data)), "")
    assert back == made
    assert read_config(family, tomllib.loads(tomlkit.dumps(data)), "") == made
    mixers = [type(m.kernel) for m in FAMILIES[family].net(back).modules() if hasattr(m, "kernel")]
    assert mixers == [type(m.kernel) for m in FAMILIES[family].net(made).modules() if hasattr(m, "kernel")]


@pytest.mark.parametrize("family", FAMILIES)
def test_bad_configs(family: str) -> None:
    good = config_data(config(family))
    for key in good:
        with pytest.raises(ConfigError, match=f"unknown key '{key}x'; did you mean '{key}'"):
            read_config(family, good | {f"{key}x": 1}, "")
        with pytest.raises(ConfigError, match=key):
            read_config(family, good | {key: {1: 2} if key not in ("attention", "cross") else 3}, "")
    for key in (
        "dim",
        "heads",
        "depth",
        "vocab",
        "length",
        "hidden",
        "patch",
        "image",
        "decoder_depth",
        "representation",
    ):
        if hasattr(config(family), key):
            for bad in (0, -1):
                value = (1, bad) if staged(family, key) else bad
                with pytest.raises(ConfigError, match=re.escape(f"{key} = {value} must be at least 1")):
                    read_config(family, good | {key: value}, "")
    for key in [key for key in good if "drop" in key]:
        for bad in (1.0, -0.5):
            with pytest.raises(ConfigError, match=f"{key} = {bad} must be at least 0 and less than 1"):
                read_config(family, good | {key: bad}, "")
    for bad in (0.0, -1e-5):
        with pytest.raises(ConfigError, match="eps"):
            read_config(family, good | {"eps": bad}, "")
    with pytest.raises(ConfigError, match="activation"):
        read_config(family, good | {"activation": "gellu"}, "")
    if "heads" in good and "head_dim" not in good:  # else they need not add up
        with pytest.raises(ConfigError, match=r"dim = 18 is not a multiple of heads = \(?4"):
            read_config(family, good | {"dim": 18}, "")
    if "depth" in good:  # some have one for each stage
        with pytest.raises(ConfigError, match="depth = None is not"):
            read_config(family, good | {"depth": None}, "")


def test_bad_names() -> None:
    with pytest.raises(InputError, match="did you mean 'gpt-small'"):
        build("gpt-smal")
    with pytest.raises(ConfigError, match="did you mean 'attention'"):
        build("gpt-tiny", atention="softmax")
    with pytest.raises(ConfigError, match="cannot be causal"):
        build("gpt-tiny", attention="local-p")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gtp-tiny", "did you mean 'gpt-tiny'?"),
        ("GPT-Small", "did you mean 'gpt-small'?"),
        ("vit_base", "did you mean 'vit-base'?"),
        ("resnet18", "did you mean 'resnet-18'?"),
        ("gpt2-medium", "did you mean 'gpt-medium' or 'gpt3-medium'?"),
        ("llama", "did you mean 'llama-15m' or 'llama-7b' or 'llama-13b'?"),
        ("gpt", "the gpt models are gpt-tiny, gpt1, gpt-small, "),
        ("GPT-2", "the gpt models are gpt-tiny, gpt1, gpt-small, "),
        ("transformer", "the transformer models are transformer-small, transformer-base, "),
        ("zzz", "run `regard models`"),
        ("", "run `regard models`"),
    ],
)
def test_an_unknown_name_gets_few_names_that_may_be_meant(name: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        build(name)
    assert caught.value.fix.startswith(meant)
    assert caught.value.fix.endswith("run `regard models` to list all models")
    assert len(str(caught.value)) < 300  # not all of the names


@pytest.mark.parametrize(
    ("name", "changes", "problems"),
    [
        (
            "gpt-small",
            {"attention": "softmaxx", "depht": 2, "dim": "wide", "heads": 0, "dropout": 2, "activation": "gellu"},
            [
                "'softmax'",
                "'depth'",
                "dim = 'wide'",
                "heads = 0 must be at least 1",
                "dropout = 2 must be at least 0 and less than 1",
                "did you mean 'gelu'",
            ],
        ),
        ("gpt-tiny", {"attention": "local-p", "depht": 2}, ["cannot be causal", "'depth'"]),
        (
            "gpt-tiny",
            {"attention": {"kind": "top-k", "keep": 0}, "zz": 2},
            ["must be at least 1, got 0", "'zz'; valid keys are"],
        ),
        (
            "transformer-base",
            {"norm": "prre", "cross": [], "attention": ["dott", {"kind": "top-k", "kep": 3}]},
            ["did you mean 'pre'", "cross is an empty list", "did you mean 'dot'", "did you mean 'keep'"],
        ),
        (
            "bert-tiny",
            {"head": "pretraining", "pooler": False, "hed": 1},
            ["needs pooler = true", "did you mean 'head'"],
        ),
        (
            "vit-tiny",
            {"classes": -1, "patch": 5, "heads": 7},
            ["classes = -1 must be at least 0", "image = 224", "dim = 192 is not a mult"],
        ),
        (
            "gpt2",
            {"attention": "softmaxx", "depht": 2},
            ["    gpt2", "the gpt models are gpt-tiny, gpt1, gpt-small, gpt-medium", "'softmax'", "'depth'"],
        ),
        ("gpt-smal", {"depht": 2, "dim": 100}, ["did you mean 'gpt-small'", "did you mean 'depth'"]),
    ],
)
def test_every_problem_of_a_build_comes_in_one_error(name: str, changes: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(InputError) as error:
        build(name, **changes)
    assert [problem for problem in problems if problem not in str(error.value)] == []
    assert len(error.value.got.strip().splitlines()) >= min(len(problems), len(changes))
    assert "dim = 100" not in str(error.value), "no size is known to which this would not fit"


@pytest.mark.parametrize("family", FAMILIES)
def test_one_bad_value_is_one_problem(family: str) -> None:
    """Nothing else is concluded from a value that cannot be read."""
    good = config_data(config(family))
    for key in good:
        with pytest.raises(ConfigError) as error:
            read_config(family, good | {key: 3.5 if isinstance(good[key], str) else "x"}, "")
        assert "\n" not in error.value.got
        assert error.value.got.startswith(key)


def other(field: str, value: Any) -> Any:
    if field in OTHER:
        return {"pre": "post", "dot": "softmax", "lstm": "gru"}[value] if value == OTHER[field] else OTHER[field]
    if "drop" in field:
        return 0.5
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else 7


@pytest.mark.parametrize(("family", "key"), [(name, field.name) for name in FAMILIES for field in fields(config(name))])
def test_no_key_is_ignored(family: str, key: str) -> None:
    """Each key changes the weights that a model has, or what it makes of them."""
    beside = {name: value for name, value in BESIDE.get(key, {}).items() if hasattr(config(family), name)}
    plain = config(family, **beside)
    new = other(key, getattr(plain, key))
    changed = replace(plain, **{key: (new,) * STAGES if staged(family, key) else new})
    before, after = stirred(FAMILIES[family].net(plain)).eval(), FAMILIES[family].net(changed).double().eval()
    shapes = {name: x.shape for name, x in before.state_dict().items()}
    if shapes != {name: x.shape for name, x in after.state_dict().items()}:
        return
    after.load_state_dict(before.state_dict())
    given = inputs(family)
    if "drop" in key:
        wanted = tensors(after(**given))
        assert any(not torch.allclose(x, wanted[name]) for name, x in tensors(after.train()(**given)).items())
        after.eval()
        assert all(torch.equal(x, wanted[name]) for name, x in tensors(before(**given)).items())
    elif key in TRAINING:
        wanted = tensors(before(**given))
        assert all(torch.equal(x, wanted[name]) for name, x in tensors(after(**given)).items())
        runs = []
        for model in (before, after):
            torch.manual_seed(0)
            runs.append(tensors(model.train()(**given)))
        assert any(not torch.allclose(x, runs[1][name]) for name, x in runs[0].items())
    else:
        wanted, found = tensors(before(**given)), tensors(after(**given))
        assert any(x.shape != wanted[name].shape or not torch.allclose(x, wanted[name]) for name, x in found.items())


@pytest.mark.parametrize("family", [family for family in FAMILIES if hasattr(config(family), "depth")])
def test_depth(family: str) -> None:
    for depth in (1, 3):
        model = net(family, depth=depth)
        lists = {name: x for name, x in model.named_modules() if isinstance(x, nn.ModuleList) and len(x)}
        lists = {name: x for name, x in lists.items() if not name.startswith("backbone.")}
        stacks = {name: x for name, x in lists.items() if name not in ("stages", "stem")}
        assert stacks or family == "workspace"  # one layer, applied again and again
        others = {name: x for name, x in vars(model.config).items() if isinstance(x, int)}  # which have their own key
        for name, stack in stacks.items():
            assert len(stack) == others.get(name, others.get(f"{name}_depth", depth))
    assert len(net("transformer", depth=3, decoder_depth=1).decoder) == 1
    if family in ATTENDING:
        with pytest.raises(ValueError, match="empty list"):
            FAMILIES[family].net(config(family, attention=()))


@pytest.mark.parametrize(("family", "key", "name"), by_speed(SERVED))
def test_any_attention_in_any_model(family: str, key: str, name: str) -> None:
    """It runs, forward and back."""
    model = net(family, **{key: CHOICES[name]})
    for x in tensors(model(**inputs(family))).values():
        assert x.isfinite().all()
    loss = sum(x.square().mean() for x in tensors(model(**inputs(family))).values())
    loss.backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert missing in ([], ["follows.weight", "follows.bias"])


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
        return next(found[name] for name in ("words", "logits", "") if name in found)

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


def test_configs_are_values() -> None:
    for family in FAMILIES:
        assert config(family) == config(family)
        with pytest.raises(AttributeError):
            config(family).classes = 3
        assert asdict(config(family)).get("hidden", 24) in (24, (24,) * STAGES)


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
