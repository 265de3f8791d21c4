"""Recurrent networks that read or write texts: PyTorch's own are the reference."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.decode.incremental import CausalDecoder, IncrementalDecoder
from regard.decode.sampling import greedy_tokens
from regard.decode.steps import stream_tokens
from regard.models.recurrent import Config, RecurrentReader
from regard.nn.cache import Cache

KINDS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
CONFIG: dict[str, Any] = {"vocab": 13, "dim": 6, "hidden": 5, "depth": 2, "dropout": 0.0, "classes": 4}


def reader(**changes: Any) -> RecurrentReader:
    torch.manual_seed(0)
    return RecurrentReader(Config(**CONFIG | changes)).double().eval()


def reference(ours: RecurrentReader) -> nn.Module:
    """PyTorch's module with the same weights."""
    config = ours.config
    theirs = KINDS[config.cell](
        config.dim, config.hidden, config.depth, batch_first=True, bidirectional=config.bidirectional
    ).double()
    sides = ["", "_reverse"][: 1 + config.bidirectional]
    state = {}
    for layer in range(config.depth):
        for side, cells in zip(sides, (ours.layers.ahead, ours.layers.back), strict=False):
            cell = cells[layer]
            state |= {
                f"weight_ih_l{layer}{side}": cell.input.weight,
                f"weight_hh_l{layer}{side}": cell.recurrent.weight,
                f"bias_ih_l{layer}{side}": cell.input.bias,
                f"bias_hh_l{layer}{side}": cell.recurrent.bias,
            }
    theirs.load_state_dict(state)
    return theirs


def padded_on(side: str, ids: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor]:
    places = torch.arange(ids.shape[1])
    lengths_ = torch.tensor(lengths)[:, None]
    keys = places < lengths_ if side == "right" else places >= ids.shape[1] - lengths_
    return ids, keys


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", KINDS)
def test_tags_are_those_of_pytorch(cell: str, bidirectional: bool) -> None:
    ours = reader(cell=cell, head="tags", bidirectional=bidirectional)
    ids = torch.randint(13, (3, 7))
    outputs, _ = reference(ours)(F.embedding(ids, ours.embed.weight))
    torch.testing.assert_close(ours(ids), F.linear(outputs, ours.head.weight, ours.head.bias))
    assert ours.tagged(ids).shape == (3, 7, 4)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_label_is_read_at_the_true_last_token(cell: str, bidirectional: bool, side: str) -> None:
    """Trap of 1.9 d: not at padding, whichever side it is on; and going back it is the first token's state."""
    ours = reader(cell=cell, head="label", bidirectional=bidirectional)
    theirs, lengths = reference(ours), [7, 4, 1]
    ids, keys = padded_on(side, torch.randint(13, (3, 7)), lengths)
    found = ours.labelled(ids, keys=keys)
    for row, length in enumerate(lengths):
        alone = ids[row : row + 1][keys[row : row + 1]][None]
        assert alone.shape == (1, length)
        outputs, _ = theirs(F.embedding(alone, ours.embed.weight))
        ahead, back = outputs[0, -1, :5], outputs[0, 0, 5:]
        state = torch.cat([ahead, back]) if bidirectional else ahead
        torch.testing.assert_close(found[row], F.linear(state, ours.head.weight, ours.head.bias))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("head", ["words", "tags", "label"])
def test_padding_changes_nothing(side: str, head: str) -> None:
    ours = reader(head=head)
    ids, keys = padded_on(side, torch.randint(13, (3, 7)), [7, 4, 1])
    other = torch.where(keys, ids, torch.randint(13, ids.shape))
    found, wanted = ours(ids, keys=keys), ours(other, keys=keys)
    if head == "label":
        assert torch.equal(found, wanted)
    else:
        assert torch.equal(found[keys], wanted[keys])
        alone = ours(ids[1:2][:, keys[1]])
        torch.testing.assert_close(found[1][keys[1]], alone[0])


@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("steps", [(2, 3, 1), (1,) * 6])
def test_cached_is_full(cell: str, steps: tuple[int, ...]) -> None:
    ours, cache = reader(cell=cell), Cache()
    ids, keys = padded_on("left", torch.randint(13, (3, 6)), [6, 4, 2])
    full, parts, start = ours(ids, keys=keys), [], 0
    for n in steps:
        part = slice(start, start + n)
        parts.append(ours(ids[:, part], keys=keys[:, part], cache=cache))
        start += n
    torch.testing.assert_close(torch.cat(parts, 1)[keys], full[keys])


def test_it_writes_what_a_loop_without_a_cache_writes() -> None:
    ours = reader(tied=True, dim=6, hidden=6)
    with torch.inference_mode():
        found = [
            step[0].id
            for step in stream_tokens(
                IncrementalDecoder(CausalDecoder(ours), torch.tensor([[2, 5]]), room=9), greedy_tokens, (), longest=9
            )
        ]
        row = [2, 5]
        for _ in range(9):
            row.append(int(ours(torch.tensor([row]))[0, -1].argmax()))
    assert found == row[2:]


def test_a_condition_is_the_first_state_and_nothing_else() -> None:
    """1.9 c: it enters once; what follows depends on it through the state alone."""
    ours = reader(condition=3)
    ids, condition = torch.randint(13, (2, 4)), torch.randn(2, 3, dtype=torch.float64)
    first = ours.first(condition)
    assert first is not None
    assert {name: tuple(x.shape) for name, x in first.items()} == {"h": (2, 2, 5), "c": (2, 2, 5)}
    by_hand = ours.layers(ours.embed(ids), state=first).outputs
    torch.testing.assert_close(ours(ids, condition=condition), F.linear(by_hand, ours.head.weight, ours.head.bias))
    assert not torch.allclose(ours(ids, condition=condition), ours(ids, condition=-condition))
    with pytest.raises(ValueError, match="condition, the input of the initial state"):
        ours(ids)
    with pytest.raises(ValueError, match="must be none"):
        reader()(ids, condition=condition)


def test_no_word_is_foretold_by_itself() -> None:
    with pytest.raises(ValueError, match="bidirectional"):
        Config(bidirectional=True)
    ours = reader()
    ids = torch.randint(13, (1, 6))
    changed = ids.clone()
    changed[0, 4] = (changed[0, 4] + 1) % 13
    found, other = ours(ids), ours(changed)
    assert torch.equal(found[:, :4], other[:, :4])
    assert not torch.allclose(found[:, 4:], other[:, 4:])


def test_score_is_the_cross_entropy_of_the_logits() -> None:
    ours = reader()
    ids, wanted = torch.randint(13, (2, 5)), torch.randint(13, (2, 5))
    found = ours.score(ours.read(ids), wanted)
    torch.testing.assert_close(found.sum, F.cross_entropy(ours(ids).flatten(0, 1), wanted.flatten(), reduction="sum"))
