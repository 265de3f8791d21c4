"""Traces: a pass on the fast path, of which every map can be had afterwards; and what changes when it is changed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.errors import InputError
from regard.look.changes import Head, Temperature, Token, apply_changes
from regard.look.maps import look_at
from regard.look.trace import Call, Changed, Trace, record_run
from regard.nn.attention import Kernel, MultiHeadAttention
from regard.nn.axis import Axis
from regard.nn.cache import Cache
from regard.nn.mask import CAUSAL, Mask, TensorBias
from regard.nn.tap import capture
from regard.zoo import FAMILIES
from tests.contracts.families import SERVED, by_speed, inputs, net, tensors
from tests.contracts.tools import CHOICES, DIM, HEADS, close, numbers, stirred

ONE = {"layer": ("rows", "columns")}


def of_layer(
    layer: nn.Module, mask: Mask, x: Tensor, *changes: object, bias: TensorBias | None = None
) -> Trace[Tensor]:
    model = nn.ModuleDict({"layer": layer})
    return record_run(model, "*", lambda: layer(x, mask=mask, bias=bias), table=ONE, axes={}, changes=changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("family", "key", "name"), by_speed(SERVED))
def test_maps_made_afterwards_are_those_that_were_there(family: str, key: str, name: str) -> None:
    model, given = net(family, **{key: CHOICES[name]}), inputs(family)
    axes, table = model.axes(*given.values()), FAMILIES[family].axes
    with torch.inference_mode():
        plain = tensors(model(**given))
        there = look_at(model, "*", lambda: model(**given), table=table, axes=axes)
        made = record_run(model, "*", lambda: model(**given), table=table, axes=axes)
    for part, x in tensors(made.output).items():
        close(x, plain[part])
        assert torch.equal(x, plain[part]) or family == "volo"  # but for its outlookers all are on the fast path
    assert set(made.maps) == set(there.maps)
    for place, wanted in there.maps.items():
        found = made.maps[place]
        close(found.weights, wanted.weights)
        assert (found.kind, found.rows, found.columns) == (wanted.kind, wanted.rows, wanted.columns)
        assert len(made.calls[place]) == len(there.calls[place])


def test_no_map_is_made_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    model, ids = net("gpt"), torch.randint(13, (1, 6))
    kernel: type[Kernel] = type(model.blocks[0].mixer.kernel)
    weights = kernel.weights

    def counted(self: Kernel, q: Tensor, k: Tensor, mask: Mask, bias: object) -> Tensor:
        made.append(1)
        return weights(self, q, k, mask, bias)  # type: ignore[arg-type]

    monkeypatch.setattr(kernel, "weights", counted)
    found = record_run(model, "*", lambda: model(ids), table=FAMILIES["gpt"].axes, axes={})
    assert not made
    first, again = found.maps["blocks.0.mixer"], found.maps["blocks.0.mixer"]
    assert first is again
    assert len(made) == 1
    model(ids)  # and nobody listens any more
    assert len(found.sites["blocks.0.mixer"].records) == 1


def test_sites_stand_in_the_order_in_which_they_ran() -> None:
    model, given = net("transformer"), inputs("transformer")
    found = record_run(model, "*", lambda: model(**given), table=FAMILIES["transformer"].axes, axes={})
    assert list(found.sites)[:1] == ["encoder.0.mixer"]
    assert list(found.sites)[-3:] == ["decoder.0.cross", "decoder.1.mixer", "decoder.1.cross"]
    mixed = net("bert", attention=("softmax", "fourier", "softmax"), depth=3)
    ids = torch.randint(13, (1, 6))
    found = record_run(mixed, "*", lambda: mixed(ids), table=FAMILIES["bert"].axes, axes={})
    assert [(name, site.kind) for name, site in found.sites.items()] == [
        ("blocks.0.mixer", "weights"),
        ("blocks.1.mixer", "influence"),
        ("blocks.2.mixer", "weights"),
    ]


@pytest.mark.parametrize("groups", [HEADS, 1])
def test_a_weight_is_taken_apart(groups: int) -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS, groups=groups)), numbers(1, 5, DIM)
    bias = TensorBias(numbers(HEADS, 5, 5))
    found = of_layer(layer, CAUSAL, x, bias=bias)
    weights, site = found.maps["layer"].weights[0], found.sites["layer"]
    with capture(layer, "mixed") as seen:
        layer(x, mask=CAUSAL, bias=bias)
    for head, row, column in [(0, 0, 0), (1, 3, 2), (HEADS - 1, 4, 4), (1, 2, 4)]:
        cell = site.cell(head, row, column)
        close(cell.weights, weights[head, row])
        close(cell.mixed, seen["mixed"][0][0, head, row])
        assert cell.product == pytest.approx(float(cell.query @ cell.key))
        assert cell.score == pytest.approx(cell.product * cell.scale + cell.bias)
        assert cell.bias == pytest.approx(float(bias.dense(5, 5, x.device)[head, row, column]))
        assert cell.seen == (column <= row)
        assert float(cell.scores[column]) == (pytest.approx(cell.score) if cell.seen else -torch.inf)
    for odd in ((HEADS, 0, 0), (0, 5, 0), (0, 0, -1)):
        with pytest.raises(InputError, match="index out of range"):
            site.cell(*odd)


def test_only_plain_attention_is_taken_apart() -> None:
    model, ids = net("bert", attention="performer"), torch.randint(13, (1, 6))
    found = record_run(model, "*", lambda: model(ids), table=FAMILIES["bert"].axes, axes={})
    site = found.sites["blocks.0.mixer"]
    assert isinstance(site.records[0], Call)
    assert not site.arithmetic
    with pytest.raises(InputError, match="needs plain softmax attention"):
        site.cell(0, 0, 0)


def test_a_token_that_is_crossed_out_is_one_that_a_mask_hides() -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS)), numbers(2, 5, DIM)
    hidden = torch.ones(5, 5, dtype=torch.bool)
    hidden[:, 2] = False
    wanted = of_layer(layer, Mask(pairs=hidden), x)
    found = of_layer(layer, Mask(), x, Token("columns", 2))
    close(found.output, wanted.output)
    close(found.maps["layer"].weights, wanted.maps["layer"].weights)
    alone = of_layer(layer, CAUSAL, x, Token("columns", 0))
    assert not alone.maps["layer"].weights[:, :, 0].any()  # who may look at nothing else looks at nothing
    assert alone.output.isfinite().all()
    close(of_layer(layer, CAUSAL, x, Token("columns", 7)).output, layer(x, mask=CAUSAL))  # not there yet


def test_a_temperature_divides_the_scores() -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS)), numbers(2, 5, DIM)
    found = of_layer(layer, CAUSAL, x, Temperature(2.5))
    layer.kernel.scale = layer.kernel.factor(numbers(1, DIM // HEADS)) / 2.5
    close(found.output, layer(x, mask=CAUSAL))
    close(found.maps["layer"].weights, of_layer(layer, CAUSAL, x).maps["layer"].weights)


def test_a_head_is_scaled_and_the_others_are_not() -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS)), numbers(2, 5, DIM)
    with capture(layer, "mixed") as seen:
        layer(x)
    mixed = seen["mixed"][0].clone()
    mixed[:, 1] *= 0.25
    found = of_layer(layer, Mask(), x, Head("layer", 1, 0.25))
    close(found.output, layer.merge(mixed))
    assert isinstance(found.sites["layer"].records[0], Call)  # its weights are as they were: no map was made
    close(of_layer(layer, Mask(), x, Head("layer", 1, 0.5), Head("layer", 1, 0.5)).output, layer.merge(mixed))


def test_changes_that_change_nothing_are_refused() -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS)), numbers(1, 5, DIM)
    for change, match in (
        (Token("words", 0), "unknown axis"),
        (Head("layers", 0), "no attention of this model matches"),
        (Temperature(2.0, "blocks.*"), "no attention of this model matches"),
        (Head("layer", HEADS), "head index out of range"),
        (Token("columns", -1), "integer of at least 0"),
        (Temperature(0.0), "above 0"),
        (Temperature(float("nan")), "above 0"),
    ):
        with pytest.raises(InputError, match=match):
            of_layer(layer, Mask(), x, change)
    bert, ids = net("bert", attention="fourier"), torch.randint(13, (1, 6))
    with pytest.raises(InputError, match="needs attention weights"):
        with apply_changes(bert, [Token("tokens", 0)], FAMILIES["bert"].axes, {}):
            bert(ids)


def test_nothing_is_left_behind_by_an_error() -> None:
    model, ids = net("gpt"), torch.randint(13, (1, 6))
    plain = model(ids)
    with pytest.raises(RuntimeError, match="stop"):
        record_run(
            model, "*", lambda: stop(model(ids)), table=FAMILIES["gpt"].axes, axes={}, changes=[Temperature(3.0)]
        )
    assert torch.equal(model(ids), plain)
    assert not any(block.mixer.kernel._forward_pre_hooks for block in model.blocks)


def test_two_threads_keep_what_is_theirs() -> None:
    model, table = net("gpt"), FAMILIES["gpt"].axes
    texts, met = [torch.randint(13, (1, 6)) for _ in range(2)], threading.Barrier(2)

    def run(ids: Tensor) -> Tensor:
        met.wait()
        found: Tensor = model(ids)
        met.wait()
        return found

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda ids: record_run(model, "*", lambda: run(ids), table=table, axes={}), texts))
    for ids, found in zip(texts, both, strict=True):
        alone = record_run(model, "*", lambda ids=ids: model(ids), table=table, axes={})  # type: ignore[misc]
        assert all(len(site.records) == 1 for site in found.sites.values())
        for name, wanted in alone.maps.items():
            assert torch.equal(found.maps[name].weights, wanted.weights)


def test_what_is_changed_and_what_is_not_at_once() -> None:
    """Of one net in three threads: each keeps its own calls, on its own path."""
    model, table, ids = net("gpt"), FAMILIES["gpt"].axes, torch.randint(13, (1, 6))
    met = threading.Barrier(3)

    def run() -> Tensor:
        met.wait()
        found: Tensor = model(ids)
        met.wait()
        return found

    several = ([Temperature(3.0)], [Temperature(0.5)], [])
    with ThreadPoolExecutor(3) as pool:
        every = list(pool.map(lambda one: record_run(model, "*", run, table=table, axes={}, changes=one), several))
    for found, kind in zip(every, (Changed, Changed, Call), strict=True):
        assert [type(one) for site in found.sites.values() for one in site.records] == [kind] * len(model.blocks)
    warm, cold, plain = (found.sites["blocks.0.mixer"].records[0] for found in every)
    assert torch.equal(warm.call.q, plain.q)
    most = [float(x[..., -1, :].amax()) for x in (warm.map, plain.weights(), cold.map)]
    assert most == sorted(set(most))


def test_who_else_hears_the_weights_takes_nothing_away() -> None:
    model, ids, table = net("gpt"), torch.randint(13, (1, 6)), FAMILIES["gpt"].axes
    with capture(model, "blocks.0.mixer.weights") as seen:
        found = record_run(model, "*", lambda: model(ids), table=table, axes={})
    assert list(found.sites) == ["blocks.0.mixer", "blocks.1.mixer"]
    assert torch.equal(found.maps["blocks.0.mixer"].weights, seen["blocks.0.mixer.weights"][0])
    close(found.sites["blocks.0.mixer"].cell(1, 3, 2).weights, found.maps["blocks.0.mixer"].weights[0, 1, 3])


@pytest.mark.parametrize("attention", ["softmax", "performer"])
def test_a_changed_step_looks_at_all_that_came_before(attention: str) -> None:
    """Its keys and values are those of the whole text, also of a kernel that keeps sums."""
    model, ids = net("gpt", attention=attention), torch.randint(13, (1, 6))

    def steps() -> None:
        cache = Cache(6)
        for part in (ids[:, :4], ids[:, 4:]):
            model(part, cache=cache)

    change, first = [Temperature(2.0)], "blocks.0.mixer"
    found = record_run(model, "*", steps, table=FAMILIES["gpt"].axes, axes={}, changes=change)
    whole = record_run(model, "*", lambda: model(ids), table=FAMILIES["gpt"].axes, axes={}, changes=change)
    early, late = found.sites[first].records
    (once,) = whole.sites[first].records
    assert (early.shape[-2:], late.shape[-2:]) == ((4, 4), (2, 6))
    close(late.map, once.map[..., 4:, :])
    for part in ("k", "v"):
        close(getattr(late.call, part), getattr(once.call, part))


def stop(_: Tensor) -> None:
    raise RuntimeError("stop")


# Models in use ----------------------------------------------------------------------------------


def test_a_translator_is_asked_what_it_would_write() -> None:
    model = regard.load("tatoeba-en-de")
    found = model.look("Where are my keys?")
    translated = model.translate("Where are my keys?")
    assert found.answer.text == translated.text == found.example.texts[1]
    cross = found.maps["decoder.1.cross"]
    assert cross.rows.labels[-1] == "</s>" or cross.rows.labels[-1].startswith("<")
    assert "".join(cross.rows.labels[:-1]).strip() == translated.text
    assert cross.columns.labels[0].strip() == "Where"
    assert len(found.answer.tokens) == cross.rows.size
    told = model.look("Where are my keys?", found.answer.text)
    close(told.maps["decoder.1.cross"].weights, cross.weights, 1e-5)
    deaf = found.change(*(Token("source", i) for i in range(cross.columns.size - 1)))
    assert deaf.answer.text != found.answer.text
    assert not deaf.maps["decoder.1.cross"].weights[..., :-1].any()


def test_a_model_that_goes_on_tells_the_next_word() -> None:
    model = regard.load("recall")
    found = model.look("Anna sings . Boris paints . Anna")
    assert found.answer.choices[0][0] == "sings"
    assert found.answer.choices[0][1] == pytest.approx(float(found.output[0, -1].softmax(-1).max()))
    blind = found.change(Token("tokens", 1))
    assert dict(blind.answer.choices).get("sings", 0) < 0.5
    assert blind.changes == (Token("tokens", 1),)
    with pytest.raises(InputError, match=r"need a trace from model\.look"):
        Trace(found.output, found.sites, model.net).change(Token("tokens", 1))


def test_axes_of_a_trace_carry_words() -> None:
    axis = regard.load("recall").look("Anna sings").sites["blocks.0.mixer"].columns
    assert axis == Axis("text", 2, ("Anna", "sings"))
