"""No rows, or rows of no tokens: sensible shapes, or one error that says what was got."""

import pytest
import torch
from torch import Tensor

from regard.nn.cache import Cache
from regard.nn.pool import pool_mean
from regard.nn.tap import capture
from regard.zoo import FAMILIES
from tests.contracts.families import ATTENDING, PADDED, SERVED, by_speed, inputs, net, tensors, words
from tests.contracts.tools import CHOICES

READERS = ("transformer", "t5", "switch")  # of words, which may be none


def ids(rows: int, tokens: int) -> Tensor:
    return torch.zeros(rows, tokens, dtype=torch.long)


def real(rows: int, tokens: int) -> Tensor:
    return torch.ones(rows, tokens, dtype=torch.bool)


@pytest.mark.parametrize(("family", "key", "name"), by_speed(SERVED))
def test_an_empty_batch(family: str, key: str, name: str) -> None:
    """Every output has no rows and is otherwise as ever; gradients are zero, not missing."""
    model = net(family, **{key: CHOICES[name]})
    wanted = tensors(model(**inputs(family)))
    found = tensors(model(**inputs(family, batch=0)))
    assert {part: tuple(x.shape) for part, x in found.items()} == {
        part: (0, *x.shape[1:]) for part, x in wanted.items()
    }
    sum(x.sum() for x in found.values()).backward()
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert grads
    assert all(not grad.any() for grad in grads)


@pytest.mark.parametrize("family", PADDED)
def test_an_empty_batch_with_padding_and_a_listener(family: str) -> None:
    given = inputs(family, batch=0)
    last = list(given)[-1]
    keys = {"keys" if part == last else f"{part}_keys": x.bool() for part, x in words(given).items()}
    model = net(family)
    with capture(model, "*.weights" if family in ATTENDING else "*") as seen:
        model(**given, **keys)
    assert seen
    assert all(x.shape[0] == 0 and x.shape[-1] > 0 for records in seen.values() for x in records)


@pytest.mark.parametrize(
    ("family", "name"),
    by_speed([(family, name) for family, _, name in SERVED if family in ("gpt", "switchlm", "reformer")]),
)
def test_a_decoder_reads_no_tokens(family: str, name: str) -> None:
    model = net(family, attention=CHOICES[name])

    def run(ids: Tensor, keys: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        return next(iter(tensors(model(ids, keys=keys, cache=cache)).values()))

    for rows in (0, 2):
        for keys in (None, real(rows, 0)):
            assert run(ids(rows, 0), keys).shape == (rows, 0, 13)
    cache = Cache()
    words = torch.randint(13, (2, 4))
    assert run(words[:, :0], cache=cache).shape == (2, 0, 13)  # no new tokens, before any and after some
    run(words[:, :3], cache=cache)
    assert run(words[:, :0], cache=cache).shape == (2, 0, 13)
    torch.testing.assert_close(run(words[:, 3:], cache=cache), run(words)[:, 3:])


@pytest.mark.parametrize(
    ("family", "name"),
    by_speed([(family, name) for family, key, name in SERVED if key == "cross" and family in READERS]),
)
@pytest.mark.parametrize(("source", "target"), [(0, 3), (3, 0), (0, 0)])
def test_a_translator_reads_or_writes_no_words(family: str, name: str, source: int, target: int) -> None:
    """Without a source there is nothing to look at, and so the source cannot matter."""
    model = net(family, cross=CHOICES[name])
    for keys in ({}, {"source_keys": real(2, source), "keys": real(2, target)}):
        (found,) = tensors(model(ids(2, source), ids(2, target), **keys)).values()
        assert found.shape == (2, target, 13)
        assert found.isfinite().all()
    if not source:
        (padded,) = tensors(model(ids(2, 4), ids(2, target), source_keys=~real(2, 4))).values()
        torch.testing.assert_close(found, padded)


def test_bert_reads_no_tokens_but_cannot_pool_them() -> None:
    model = net("bert", head="words", pooler=False)
    for rows in (0, 2):
        for keys in (None, real(rows, 0)):
            found = model(ids(rows, 0), keys=keys)
            assert found.states.shape == (rows, 0, 16)
            assert found.words.shape == (rows, 0, 13)
    for head in ("none", "words", "pretraining"):
        model = net("bert", head=head)
        assert model(ids(0, 0)).pooled.shape == (0, 16)
        assert model(ids(0, 0), keys=real(0, 0)).pooled.shape == (0, 16)
        for keys in (None, real(2, 0)):
            with pytest.raises(
                ValueError, match="first token of each row: got 2 rows of 0 tokens, expected at least 1"
            ):
                model(ids(2, 0), keys=keys)


def test_the_mean_of_no_tokens_is_zero() -> None:
    """As it is for a row of padding."""
    for keys in (None, real(2, 0)):
        assert torch.equal(pool_mean(torch.ones(2, 0, 3), keys), torch.zeros(2, 3))
    assert torch.equal(pool_mean(torch.ones(2, 4, 3), ~real(2, 4)), torch.zeros(2, 3))


@pytest.mark.parametrize("pool", ["class", "mean"])
@pytest.mark.parametrize(("height", "width"), [(0, 8), (8, 0), (0, 0)])
def test_an_image_without_pixels(pool: str, height: int, width: int) -> None:
    for rows in (0, 2):
        with pytest.raises(ValueError, match=f"{height} x {width} cannot be divided into patches of 4 x 4"):
            net("vit", pool=pool)(torch.zeros(rows, 2, height, width, dtype=torch.float64))
        small = [net("workspace", pool=pool), net("deit", pool=pool), *(net(x) for x in ("cait", "swin", "swinv2"))]
        for model in small:
            with pytest.raises(ValueError, match=f"{height} x {width} cannot be divided into patches of 4 x 4"):
                model(torch.zeros(rows, 2, height, width, dtype=torch.float64))
        with pytest.raises(ValueError, match=f"{height} x {width} cannot be divided into patches of 8 x 8"):
            net("volo")(torch.zeros(rows, 2, height, width, dtype=torch.float64))
        for family in ("perceiver", "resnet", "detr"):
            with pytest.raises(ValueError, match=f"an image of 2 x {height} x {width} is not supported"):
                net(family)(torch.zeros(rows, 2, height, width, dtype=torch.float64))
        with pytest.raises(ValueError, match=f"an image of {height} x {width} has no pixels"):
            net("levit")(torch.zeros(rows, 2, height, width, dtype=torch.float64))
        for family in ("mlp", "mixer"):
            with pytest.raises(ValueError, match=f"images of 2 x 8 x 8, got an image of 2 x {height} x {width}"):
                net(family)(torch.zeros(rows, 2, height, width, dtype=torch.float64))


def test_no_images() -> None:
    nothing = torch.zeros(0, 2, 8, 8, dtype=torch.float64)
    assert net("resnet")(nothing).shape == (0, 5)
    for sizes in (None, torch.zeros(0, 2, dtype=torch.long)):
        found = net("detr")(nothing, sizes)
        assert (found.logits.shape, found.boxes.shape) == ((0, 5, 6), (0, 5, 4))


@pytest.mark.parametrize("decoder", ["sutskever", "cho", "bahdanau", "luong"])
@pytest.mark.parametrize(("source", "target"), [(0, 3), (3, 0)])
def test_a_recurrent_network_reads_a_word_at_least(decoder: str, source: int, target: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        net("rnn", decoder=decoder)(ids(2, source), ids(2, target))


@pytest.mark.parametrize("family", ["forecaster", "seriesrnn", "serieslinear"])
def test_a_window_without_values(family: str) -> None:
    assert net(family)(torch.zeros(0, 3, dtype=torch.float64)).shape == (0, 4, 3)
    for rows in (0, 2):
        with pytest.raises(ValueError, match=f"at least 1 value, got {rows} windows of 0"):
            net(family)(torch.zeros(rows, 0, dtype=torch.float64), keys=real(rows, 0))


@pytest.mark.parametrize("family", ["cliptext", "clip"])
def test_a_text_without_tokens_has_no_end(family: str) -> None:
    given = inputs(family, batch=2)
    with pytest.raises(ValueError, match="at least 1 token"):
        net(family)(**given | {name: x[:, :0] for name, x in words(given).items()})


def test_a_prompt_without_tokens_says_nothing() -> None:
    given = inputs("diffusion", batch=2)
    found = net("diffusion")(**given | {"ids": given["ids"][:, :0]})
    assert found.shape == given["noisy"].shape
    assert found.isfinite().all()


def test_every_family_is_here() -> None:
    here = {
        "rnn",
        "recurrent",
        "transformer",
        "t5",
        "gpt",
        "bert",
        "vit",
        "deit",
        "captioner",
        "cait",
        "volo",
        "swin",
        "swinv2",
        "levit",
        "mixer",
        "perceiver",
        "perceiverlm",
        "workspace",
        "mlp",
        "switch",
        "switchlm",
        "reformer",
        "resnet",
        "detr",
        "forecaster",
        "seriesrnn",
        "serieslinear",
        "cliptext",
        "clip",
        "autoencoder",
        "transgan",
        "convgan",
        "diffusion",
    }
    assert set(FAMILIES) == here, "say what a new family makes of no tokens"
