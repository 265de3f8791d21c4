"""Optimizers against PyTorch's own, their two groups, their state by names; schedules against their formulas."""

import copy
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor, nn

from regard.building import build
from regard.train.optimizers import (
    SGD,
    Adafactor,
    Adam,
    AdamW,
    Settings,
    build_optimizer,
    decays,
    restore_state,
    set_rate,
    state_of,
)
from regard.train.schedules import ConstantSchedule, CosineSchedule, InverseSqrtSchedule, LinearSchedule, Schedule

SETTINGS: dict[str, Settings] = {
    "adamw": AdamW(rate=0.02, betas=(0.8, 0.95), eps=1e-7, decay=0.1),
    "adam": Adam(rate=0.02, betas=(0.8, 0.95), eps=1e-7, decay=0.1),
    "sgd": SGD(rate=0.05, momentum=0.9, decay=0.1),
    "sgd without momentum": SGD(rate=0.05, momentum=0.0, decay=0.1),
    "adafactor": Adafactor(rate=0.05, decay=0.1),
}
THEIRS: dict[str, Callable[[list[dict[str, Any]]], torch.optim.Optimizer]] = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.02, betas=(0.8, 0.95), eps=1e-7, foreach=False),
    "adam": lambda groups: torch.optim.Adam(groups, lr=0.02, betas=(0.8, 0.95), eps=1e-7, foreach=False),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=0.9, foreach=False),
    "sgd without momentum": lambda groups: torch.optim.SGD(groups, lr=0.05, foreach=False),
    "adafactor": lambda groups: torch.optim.Adafactor(groups, lr=0.05, foreach=False),
}


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))


def step(trained: nn.Module, optimizer: torch.optim.Optimizer, i: int) -> None:
    generator = torch.Generator().manual_seed(i)
    x = torch.randn(16, 4, generator=generator)
    optimizer.zero_grad()
    trained(x).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", SETTINGS)
def test_ten_steps_are_pytorchs(kind: str) -> None:
    """With another rate at every step, as a schedule gives; matrices decay, vectors do not."""
    ours, theirs = net(), net()
    groups = [
        {"params": [matrix for matrix in theirs.parameters() if matrix.ndim == 2], "weight_decay": 0.1},
        {"params": [vector for vector in theirs.parameters() if vector.ndim == 1], "weight_decay": 0.0},
    ]  # fmt: skip
    one, two = build_optimizer(SETTINGS[kind], ours), THEIRS[kind](groups)
    before = copy.deepcopy(ours.state_dict())
    for i in range(10):
        rate = SETTINGS[kind].rate * (1 - i / 20)
        set_rate(one, rate)
        for group in two.param_groups:
            group["lr"] = rate
        step(ours, one, i)
        step(theirs, two, i)
    for name, x in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], x, rtol=2e-5, atol=1e-6)
        assert not torch.equal(before[name], x)


def test_the_settings_reach_pytorch() -> None:
    """Each of them changes the outcome."""

    def after(settings: Settings) -> Tensor:
        trained = net()
        optimizer = build_optimizer(settings, trained)
        for i in range(3):
            step(trained, optimizer, i)
        return trained[0].weight.detach()

    betas = {"betas": (0.5, 0.98)}, {"betas": (0.9, 0.5)}
    changes: dict[Settings, tuple[dict[str, Any], ...]] = {
        AdamW(): ({"rate": 1e-3}, {"eps": 0.1}, {"decay": 0.5}, *betas),
        Adam(): ({"rate": 1e-3}, {"eps": 0.1}, {"decay": 0.5}, *betas),
        SGD(): ({"rate": 0.2}, {"momentum": 0.5}, {"decay": 0.1}),
        Adafactor(): ({"rate": 0.1}, {"decay": 0.5}),
    }
    for one, others in changes.items():
        assert torch.equal(after(one), after(one))
        assert not any(torch.equal(after(one), after(replace(one, **other))) for other in others)


FAMILIES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "transformer": ("transformer-small", {"vocab": 11, "norm": "pre", "output_bias": True}, {"output_bias"}),
    "gpt": ("gpt-tiny", {"vocab": 11, "length": 8}, {"norm.weight", "blocks.0.ffn.up.bias"}),
    "switchlm": ("switch-lm-tiny", {"vocab": 11, "length": 8}, {"norm.weight", "blocks.1.mixer.q.bias"}),
    "bert": ("bert-tiny", {"vocab": 11, "length": 8, "head": "words"}, {"words.bias", "norm.bias"}),
    "vit": ("vit-tiny", {"image": 8, "patch": 4, "classes": 3}, {"class_token", "projection.bias", "head.bias"}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_only_matrices_decay(family: str) -> None:
    """Two groups that hold every weight once; all norms, biases and tokens are in the one without decay."""
    name, changes, some = FAMILIES[family]
    made = build(name, **{"dim": 16, "depth": 2, "heads": 2, "hidden": 32, **changes}).net
    optimizer = build_optimizer(AdamW(decay=0.3), made)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
    names = {id(x): key for key, x in made.named_parameters()}
    decayed, spared = ([names[id(x)] for x in group["params"]] for group in optimizer.param_groups)
    assert sorted(decayed + spared) == sorted(names.values())
    weights = dict(made.named_parameters())
    kinds = {key: type(made.get_submodule(key.rpartition(".")[0])) for key in weights}
    for key, x in weights.items():
        vector = key.endswith("bias") or kinds[key] is nn.LayerNorm or key == "class_token" or x.ndim == 1
        assert (key in spared) == vector, key
    assert all(any(key.endswith(wanted) for key in spared) for wanted in some)
    assert any("positions" in key or "embed" in key for key in decayed)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        *(((4, 3), True), ((2, 3, 4), True), ((1, 5, 8), True), ((8, 3, 2, 2), True)),
        *(((8,), False), ((1, 1, 8), False), ((8, 1), False), ((), False), ((1,), False)),
    ],
)
def test_what_is_one_vector_does_not_decay(shape: tuple[int, ...], expected: bool) -> None:
    """A class token, the scale of a layer, of a channel."""
    assert decays(torch.zeros(shape)) is expected


def test_what_is_frozen_is_in_no_group() -> None:
    trained = net()
    trained[0].weight.requires_grad_(False)
    optimizer = build_optimizer(SGD(), trained)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 5
    vectors = nn.LayerNorm(3)  # nothing decays: one group, not an empty one
    assert len(build_optimizer(AdamW(), vectors).param_groups) == 1


@pytest.mark.parametrize("kind", SETTINGS)
def test_to_restore_is_to_go_on(kind: str) -> None:
    """Five steps, the state through a safetensors file, five more: to the bit what ten steps give."""
    whole, first = net(), net()
    optimizer = build_optimizer(SETTINGS[kind], whole)
    for i in range(10):
        step(whole, optimizer, i)
    optimizer = build_optimizer(SETTINGS[kind], first)
    for i in range(5):
        step(first, optimizer, i)
    state = load(save({key: x.contiguous() for key, x in state_of(optimizer, first).items()}))
    second = net()
    second.load_state_dict(first.state_dict())
    again = build_optimizer(SETTINGS[kind], second)
    step(second, again, 99)  # what it remembers of this must be gone
    second.load_state_dict(first.state_dict())
    restore_state(again, second, state)
    assert {key: (x.dtype, x.shape) for key, x in state_of(again, second).items()} == {
        key: (x.dtype, x.shape) for key, x in state.items()
    }
    for i in range(5, 10):
        step(second, again, i)
    for name, x in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], x), name
    assert bool(state) == (kind != "sgd without momentum")
    restore_state(again, second, {})  # as it is before the first step
    assert state_of(again, second) == {}


def test_the_state_has_the_names_of_the_weights() -> None:
    trained = net()
    optimizer = build_optimizer(AdamW(), trained)
    assert state_of(optimizer, trained) == {}
    step(trained, optimizer, 0)
    names = [name for name, _ in trained.named_parameters()]
    assert set(state_of(optimizer, trained)) == {
        f"{kind}/{name}" for kind in ("exp_avg", "exp_avg_sq", "step") for name in names
    }
    with pytest.raises(ValueError, match=r"'exp_avg/9\.weight', but the model has no such weight"):
        restore_state(optimizer, trained, {"exp_avg/9.weight": torch.zeros(1)})


def test_the_state_goes_where_the_weight_is() -> None:
    """It is read on the CPU. A device without memory stands in for a GPU: a count of steps goes there if fused."""
    state = {"exp_avg/weight": torch.zeros(2, 2), "step/weight": torch.tensor(3.0)}
    for fused, place in ((True, "meta"), (False, "cpu")):
        part = nn.Linear(2, 2, bias=False, device="meta")
        optimizer = torch.optim.AdamW(part.parameters())
        optimizer.defaults["fused"] = fused
        restore_state(optimizer, part, state)
        found = optimizer.state[part.weight]
        assert found["exp_avg"].device.type == "meta"
        assert found["step"].device.type == place


@pytest.mark.parametrize(
    ("kind", "wrong", "told"),
    [
        (AdamW, {"rate": 0.0}, "rate = 0.0 must be greater than 0"),
        (AdamW, {"decay": 1.0}, "decay = 1.0 must be at least 0 and less than 1"),
        (Adam, {"eps": -1e-9}, "eps = -1e-09 must be greater than 0"),
        (Adam, {"betas": (0.9,)}, "betas"),
        (AdamW, {"betas": (0.9, 1.0)}, "betas"),
        (AdamW, {"betas": (0.9, 0.98, 0.9)}, "betas"),
        (SGD, {"momentum": 1.5}, "momentum"),
        (SGD, {"rate": -1.0}, "rate"),
        (Adafactor, {"decay": -0.1}, "decay"),
        (InverseSqrtSchedule, {"warmup": 0}, "warmup = 0 must be at least 1"),
        (CosineSchedule, {"warmup": -1}, "warmup"),
        (CosineSchedule, {"floor": 1.0}, "floor"),
        (LinearSchedule, {"floor": -0.1}, "floor"),
        (ConstantSchedule, {"warmup": -3}, "warmup"),
    ],
)
def test_impossible_settings_are_refused(kind: type, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        kind(**wrong)


# --------------------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(("dim", "warmup"), [(512, 4000), (256, 100), (16, 1), (1024, 7)])
def test_vaswanis_schedule(dim: int, warmup: int) -> None:
    """Equation 3 of the paper, whose steps count from 1."""
    peak = (dim * warmup) ** -0.5
    for i in [*range(1, 3 * warmup if warmup < 200 else 300), warmup, warmup + 1, 10 * warmup, 10**6]:
        expected = dim**-0.5 * min(i**-0.5, i * warmup**-1.5)
        assert math.isclose(peak * InverseSqrtSchedule(warmup=warmup).factor(i - 1, 10**6), expected, rel_tol=1e-12)


def test_the_formulas() -> None:
    steps, warmup, floor = 50, 10, 0.1
    for step in range(steps):
        rise = min(1.0, (step + 1) / warmup)
        down = max(0, step - warmup) / (steps - warmup)
        cosine = floor + (1 - floor) * (1 + math.cos(math.pi * down)) / 2
        assert math.isclose(CosineSchedule(warmup=warmup, floor=floor).factor(step, steps), rise * cosine)
        assert math.isclose(
            LinearSchedule(warmup=warmup, floor=floor).factor(step, steps), rise * (1 - (1 - floor) * down)
        )
        assert ConstantSchedule(warmup=warmup).factor(step, steps) == rise


schedules = st.one_of(
    st.builds(InverseSqrtSchedule, warmup=st.integers(1, 60)),
    st.builds(CosineSchedule, warmup=st.integers(0, 60), floor=st.floats(0, 0.99)),
    st.builds(LinearSchedule, warmup=st.integers(0, 60), floor=st.floats(0, 0.99)),
    st.builds(ConstantSchedule, warmup=st.integers(0, 60)),
)


@given(schedules, st.integers(1, 100))
def test_up_then_down(schedule: Schedule, steps: int) -> None:
    """Never 0 where something is to be learned, never above 1; up to the end of the warm-up, and down from there."""
    factors = [schedule.factor(step, steps) for step in range(steps)]
    assert all(0 < factor <= 1 for factor in factors)
    top = min(max(schedule.warmup, 1), steps)
    assert factors[:top] == sorted(factors[:top])
    assert factors[top - 1 :] == sorted(factors[top - 1 :], reverse=True)
    assert math.isclose(factors[0], 1 / max(schedule.warmup, 1))
    if schedule.warmup <= steps:
        assert math.isclose(max(factors), 1.0)


@given(st.sampled_from([CosineSchedule, LinearSchedule]), st.integers(0, 20), st.floats(0, 0.9), st.integers(21, 1000))
def test_the_end(kind: type[CosineSchedule] | type[LinearSchedule], warmup: int, floor: float, steps: int) -> None:
    """After the last step it is at its floor, and stays there."""
    schedule = kind(warmup=warmup, floor=floor)
    assert math.isclose(schedule.factor(steps, steps), floor, abs_tol=1e-12)
    assert math.isclose(schedule.factor(2 * steps, steps), floor, abs_tol=1e-12)
    assert schedule.factor(steps - 1, steps) > floor


def test_the_compiler_is_not_loaded() -> None:
    """PyTorch's own optimizers load it at once, and every start of a run would wait for it."""
    program = """
import sys, torch
from regard.train.optimizers import SGD, Adafactor, Adam, AdamW, build_optimizer
for settings in (AdamW(), Adam(), SGD(), Adafactor()):
    net = torch.nn.Linear(3, 4)
    optimizer = build_optimizer(settings, net)
    net(torch.ones(2, 3)).sum().backward()
    before = net.weight.clone()
    optimizer.step()
    optimizer.zero_grad()
    assert net.weight.grad is None and not torch.equal(net.weight, before)
print("torch._dynamo" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
