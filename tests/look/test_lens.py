"""The logit lens: the last layer is the net's own answer, earlier ones are what they would be as the last."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.look.answers import Labels, label_choices
from regard.look.examples import Example
from regard.look.lens import logit_lens
from regard.look.trace import record_run
from regard.models import bert, gpt, vit
from regard.zoo import FAMILIES
from tests.contracts.families import inputs, net

CASES: list[tuple[str, dict[str, Any]]] = [
    ("gpt", {}),
    ("gpt", {"norm": "post", "tied": False}),
    ("gpt", {"normed": "rms", "rotary": 100.0}),
    ("switchlm", {}),
    ("bert", {}),
    ("bert", {"shared": True, "narrow": 6}),
    ("bert", {"head": "pretraining"}),
    ("transformer", {}),
    ("transformer", {"norm": "pre", "output_bias": True}),
    ("transformer", {"decoder_depth": 3}),
    ("t5", {}),
    ("t5", {"tied": False}),
    ("switch", {}),
    ("captioner", {}),
    ("vit", {}),
    ("vit", {"pool": "mean", "representation": 7}),
    ("deit", {}),
    ("deit", {"pool": "class"}),
    ("mixer", {}),
]


def said(output: Any) -> Tensor:
    """The logits of whatever a net returns."""
    if isinstance(output, bert.Output):
        assert output.words is not None
        return output.words
    found: Tensor = output if isinstance(output, Tensor) else output.logits
    return found


@pytest.mark.parametrize(("family", "changes"), CASES)
def test_the_last_layer_is_the_answer(family: str, changes: dict[str, Any]) -> None:
    model, given = net(family, **changes).float(), inputs(family)
    given = {name: x.float() if x.is_floating_point() else x for name, x in given.items()}
    with torch.no_grad():
        wanted = said(model(**given))
    layers = list(logit_lens(model, lambda: model(**given)))
    assert len(layers) == (getattr(model.config, "decoder_depth", None) or model.config.depth)
    assert {layer.logits.shape for layer in layers} == {wanted.shape}
    assert torch.allclose(layers[-1].logits, wanted, atol=1e-6)
    assert not torch.allclose(layers[0].logits, wanted, atol=1e-3)
    part = "decoder" if hasattr(model, "decoder") else "blocks"
    shared = changes.get("shared", False)
    assert [layer.name for layer in layers] == [f"{part}.{0 if shared else i}" for i in range(len(layers))]


LOOKS, STAGE = ["looks.0", "looks.1"], ["stages.1.blocks.0", "stages.1.blocks.1"]
LATENTS = ["latents.blocks.0", "latents.blocks.1"] * 2
SEERS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("cait", {}, LOOKS),
    ("volo", {}, LOOKS),
    ("volo", {"token_head": False}, LOOKS),
    ("swin", {"image": 16}, STAGE),
    ("swinv2", {"image": 16}, STAGE),
    ("swinv2", {"image": 16, "depth": (3, 2), "every": 3}, STAGE),
    ("levit", {"image": 16}, STAGE),
    ("levit", {"image": 16, "distilled": False}, STAGE),
    ("perceiver", {"pool": "mean"}, LATENTS),
    ("perceiver", {"pool": "query", "looks": 2}, LATENTS),
]


def cut_off(model: Any, name: str, count: int) -> None:
    """After so many of its layers; those of latents run several times."""
    if name == "looks":
        model.looks = model.looks[:count]
    elif name == "stages":
        model.stages[-1].blocks = model.stages[-1].blocks[:count]
    else:
        depth = len(model.latents.blocks)
        runs = iter([True] * count + [False] * (model.latents.repeats * depth - count))
        for block in model.latents.blocks:
            block.register_forward_hook(lambda _, given, found: found if next(runs) else given[0])
        asks = iter([i * depth < count for i in range(model.latents.looks)])
        for look in filter(None, (model.latents.cross, model.latents.again)):
            look.register_forward_hook(lambda _, given, found: found if next(asks) else given[0])


@pytest.mark.parametrize(("family", "changes", "names"), SEERS)
def test_a_seer_is_read_where_its_head_can_read(family: str, changes: dict[str, Any], names: list[str]) -> None:
    """Of stages the last, of late tokens what they passed, of latents all: the same net cut off there says the same."""
    model = net(family, **changes)
    side = model.config.image
    images = torch.randn(2, 2, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model(images)
    layers = list(logit_lens(model, lambda: model(images)))
    assert [layer.name for layer in layers] == names
    assert torch.allclose(layers[-1].logits, wanted, atol=1e-12)
    assert not torch.allclose(layers[0].logits, wanted, atol=1e-3)
    for count, layer in enumerate(layers, 1):
        short = copy.deepcopy(model)
        cut_off(short, names[0].partition(".")[0], count)
        with torch.no_grad():
            assert torch.allclose(layer.logits, short(images), atol=1e-12), layer.name


@pytest.mark.parametrize("family", ["cait", "volo", "swin", "swinv2", "levit", "perceiver"])
def test_a_seer_can_be_asked_for_its_lens(family: str) -> None:
    model = net(family)
    (images,) = inputs(family, batch=1).values()

    def tell(logits: Tensor) -> Labels:
        return label_choices(logits[0], ())

    with torch.inference_mode():
        found = record_run(model, "*", lambda: model(images), table=FAMILIES[family].axes, axes=model.axes(images))
    told = replace(found, example=Example((images,), tell, ("image",), dict), answer=tell(found.output)).ask("lens")
    best, chance = tell(found.output).choices[0]
    assert told["layers"][-1]["tokens"][0][0] == [best, pytest.approx(chance)]


def test_norms_between_the_last_blocks_are_not_left_out() -> None:
    model = net("swinv2", depth=(1, 2), every=2)
    with pytest.raises(InputError, match="a norm after some blocks of the last stage"):
        logit_lens(model, lambda: None)


def test_an_early_layer_is_what_it_would_be_as_the_last() -> None:
    """The same net cut off after each block answers what the lens says."""
    model, ids = net("gpt", depth=3), torch.randint(13, (2, 6))
    layers = list(logit_lens(model, lambda: model(ids)))
    for count, layer in enumerate(layers, 1):
        short = net("gpt", depth=3)
        short.load_state_dict(model.state_dict())
        short.blocks = short.blocks[:count]
        with torch.no_grad():
            assert torch.allclose(layer.logits, short(ids), atol=1e-12)


def test_padding_and_decoding_are_the_runs_affair() -> None:
    model, ids = net("transformer"), torch.randint(13, (1, 4))
    memory = model.encode(ids)
    layers = list(logit_lens(model, lambda: model.decode(ids[:, :2], memory)))
    assert [layer.logits.shape for layer in layers] == [(1, 2, 13)] * 2
    assert not any(layer.logits.requires_grad for layer in layers)
    assert torch.allclose(layers[-1].logits, model.decode(ids[:, :2], memory))


def test_what_ends_otherwise_is_refused_before_it_runs() -> None:
    def never() -> None:
        raise AssertionError("it ran")

    others = [family for family in FAMILIES if FAMILIES[family].lens is None]
    assert {"resnet", "perceiverlm", "reformer", "rnn", "detr"} <= set(others)
    for family in others:
        with pytest.raises(InputError, match="does not support this architecture"):
            logit_lens(net(family), never)
    for headless in (
        net("bert", head="none"),
        net("bert", head="label"),
        net("vit", classes=0),
        net("deit", classes=0),
        net("swin", classes=0),
        net("levit", classes=0),
        net("volo", classes=0),
    ):
        with pytest.raises(InputError, match="needs a model with an output head"):
            logit_lens(headless, never)


def test_what_is_derived_is_not_taken_for_its_parent() -> None:
    class Odd(gpt.GPT):
        def logits(self, states: Any) -> Tensor:
            return -super().logits(states)

    Odd.__module__ = gpt.__name__  # as if it stood beside its parent
    with pytest.raises(InputError, match="Odd"):
        logit_lens(Odd(gpt.Config(vocab=5, length=4, dim=4, depth=1, heads=1)), lambda: None)


def test_classes_come_from_the_place_that_the_net_reads() -> None:
    """Not from a patch, and through the last norm: an answer at each depth, one for each image."""
    config = vit.Config(image=8, patch=4, channels=1, classes=3, dim=8, depth=2, heads=2, hidden=16)
    model = vit.ViT(config).eval()
    nn.init.normal_(model.head.weight)
    images, streams = torch.randn(2, 1, 8, 8), []
    model.blocks[0].register_forward_hook(lambda *call: streams.append(call[2].detach()))
    first = next(logit_lens(model, lambda: model(images)))
    with torch.no_grad():
        assert torch.allclose(first.logits, model.head(model.norm(streams[0])[:, 0]))
