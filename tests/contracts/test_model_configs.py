"""Every model of the zoo, from its config: read, refused with all its problems, and no key without an effect."""

import copy
import json
import re
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any

import pytest
import tomlkit
import torch
from torch import Tensor, nn

from regard.building import build
from regard.contracts.families import through_files
from regard.errors import ConfigError, InputError
from regard.zoo import FAMILIES, PRESETS, config_data, find_preset, read_config
from tests.contracts.families import ATTENDING, STAGES, config, inputs, net, staged, tensors

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
    "ending": "highest",
    "text_dim": 32,
    "text_heads": 2,
    "text_activation": "tanh",
    "text_attention": "dot",
    "multipliers": (1, 3),
    "norm_groups": 8,
    "attended": (1,),
    "projection": "linear",
}
# What a key needs beside it to mean anything.
BESIDE: dict[str, dict[str, Any]] = {
    "feeding": {"decoder": "luong"},
    "classes": {"head": "label"},
    "pooling": {"head": "none"},
    "bidirectional": {"head": "tags"},
    "representation": {"pool": "class"},
    "tied": {"dim": 24},
    "channels": {"cross_heads": 1},
    "features": {"positions": "learned", "cross_heads": 1},
    "row_dim": {"grid": (3, 4)},
    "hashed_dropout": {"attention": "lsh"},
    "halving": {"layer": "bottleneck"},
    "window": {"image": 32},
}
# Keys that say something of training alone.
TRAINING = ("capacity", "jitter", "backbone_norm")
# Of what others do with a net, and of attentions that need a length: tests/models/test_autoencoder.py.
ELSEWHERE = {("autoencoder", "scale"), ("autoencoder", "shift"), ("autoencoder", "image"), ("unet", "image")}
# Of what drawing and its training do with a net, and of tables of its parts: tests/models/test_diffusion.py.
DRAWN_WITH = ("padding", "filler", "prediction", "schedule", "times", "first", "last", "terminal")
ELSEWHERE |= {
    ("diffusion", key) for key in (*DRAWN_WITH, "image", "text", "denoiser", "autoencoder", "given", "sampling")
}
KEYS = [(name, field.name) for name in FAMILIES for field in fields(config(name))]
# In a net that has as many blocks in each level; that they are so many: tests/models/test_autoencoder.py.
BLOCKS = [name for name in FAMILIES if hasattr(config(name), "depth") and not hasattr(config(name), "multipliers")]


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


@dataclass(frozen=True)
class Plain:
    """A family's net in small, what it was given and what it made of it; one for all of its keys."""

    config: Any
    net: nn.Module
    shapes: dict[str, torch.Size]
    given: dict[str, Tensor]
    made: dict[str, Tensor]


@cache
def plain_net(family: str, beside: tuple[tuple[str, Any], ...]) -> Plain:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same, whichever key comes first
        model, given = net(family, **dict(beside)), inputs(family)
        shapes = {name: x.shape for name, x in model.state_dict().items()}
        made = {name: x.detach() for name, x in tensors(model(**given)).items()}
    return Plain(config(family, **dict(beside)), model, shapes, given, made)


@pytest.mark.parametrize(("family", "key"), [key for key in KEYS if key not in ELSEWHERE])
def test_no_key_is_ignored(family: str, key: str) -> None:
    """Each key changes the weights that a model has, or what it makes of them."""
    beside = {name: value for name, value in BESIDE.get(key, {}).items() if hasattr(config(family), name)}
    plain = plain_net(family, tuple(beside.items()))
    new = other(key, getattr(plain.config, key))
    changed = replace(plain.config, **{key: (new,) * STAGES if staged(family, key) else new})
    after = FAMILIES[family].net(changed).double().eval()
    if plain.shapes != {name: x.shape for name, x in after.state_dict().items()}:
        return
    after.load_state_dict(plain.net.state_dict())
    if "drop" in key:
        assert all(torch.equal(x, plain.made[name]) for name, x in tensors(after(**plain.given)).items())
        found = tensors(after.train()(**plain.given))
        assert any(not torch.allclose(x, plain.made[name]) for name, x in found.items())
    elif key in TRAINING:
        assert all(torch.equal(x, plain.made[name]) for name, x in tensors(after(**plain.given)).items())
        runs = []
        for model in (copy.deepcopy(plain.net), after):
            torch.manual_seed(0)
            runs.append(tensors(model.train()(**plain.given)))
        assert any(not torch.allclose(x, runs[1][name]) for name, x in runs[0].items())
    else:
        found = tensors(after(**plain.given))
        assert any(
            x.shape != plain.made[name].shape or not torch.allclose(x, plain.made[name]) for name, x in found.items()
        )


@pytest.mark.parametrize("family", BLOCKS)
def test_depth(family: str) -> None:
    for depth in (1, 3):
        model = net(family, depth=depth)
        lists = {name: x for name, x in model.named_modules() if isinstance(x, nn.ModuleList) and len(x)}
        lists = {name: x for name, x in lists.items() if not name.startswith("backbone.")}
        stacks = {name: x for name, x in lists.items() if name not in ("stages", "stem")}
        assert stacks or family == "workspace"  # one layer, applied again and again
        others = {name: x for name, x in vars(model.config).items() if isinstance(x, int)}  # which have their own key
        for name, stack in stacks.items():
            assert len(stack) == others.get(name, others.get(f"{name.removesuffix('.blocks')}_depth", depth))
    assert len(net("transformer", depth=3, decoder_depth=1).decoder) == 1
    if family in ATTENDING:
        with pytest.raises(ValueError, match="empty list"):
            FAMILIES[family].net(config(family, attention=()))


def test_configs_are_values() -> None:
    for family in FAMILIES:
        assert config(family) == config(family)
        with pytest.raises(AttributeError):
            config(family).classes = 3
        assert asdict(config(family)).get("hidden", 24) in (24, (24,) * STAGES)
