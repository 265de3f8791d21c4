"""Attention along one axis for each position of another: rows and columns of an alignment have maps of their own."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.look.changes import Token
from regard.look.document import About, document_data, explain_weight, map_weights, thumbnails
from regard.look.examples import Example, TimeAxis
from regard.look.maps import look_at
from regard.look.trace import Trace, record_run
from regard.nn.attention import MultiHeadAttention
from regard.nn.axis import Axis, AxisCut
from regard.nn.mask import Mask, TensorBias

BATCH, SEQUENCES, RESIDUES, DIM, HEADS = 2, 3, 5, 8, 2
TABLE = {"row": ("residues", "residues"), "column": ("sequences", "sequences")}
NAMES = ("query", "mouse", "yeast")


class Alignment(nn.Module):
    """(b, s, n, d) -> (b, s, n, d): along the residues of each sequence, then along the sequences at each residue."""

    def __init__(self) -> None:
        super().__init__()
        self.row = MultiHeadAttention(DIM, HEADS)
        self.column = MultiHeadAttention(DIM, HEADS)

    def forward(self, x: Tensor, keys: Tensor, pair: Tensor) -> Tensor:
        b, s, n, _ = x.shape
        bias = TensorBias(pair.repeat_interleave(s, 0))  # (b * s, h, n, n)
        y = self.row(x.flatten(0, 1), mask=Mask(keys=keys.flatten(0, 1)), bias=bias).unflatten(0, (b, s))
        z = self.column(y.transpose(1, 2).flatten(0, 1), mask=Mask(keys=keys.transpose(1, 2).flatten(0, 1)))
        return z.unflatten(0, (b, n)).transpose(1, 2)


@pytest.fixture
def net() -> Alignment:
    torch.manual_seed(0)
    return Alignment().eval()


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    keys = torch.ones(BATCH, SEQUENCES, RESIDUES, dtype=torch.bool)
    keys[1, 2, 3:] = False
    pair = torch.randn(BATCH, HEADS, RESIDUES, RESIDUES, generator=draw)
    return torch.randn(BATCH, SEQUENCES, RESIDUES, DIM, generator=draw), keys, pair


def axes() -> dict[str, Axis]:
    residues, sequences = Axis("residue", RESIDUES, tuple("MKVLA")), Axis("sequence", SEQUENCES, NAMES)
    return {
        "residues": Axis(residues.kind, residues.size, residues.labels, cut=AxisCut(sequences)),
        "sequences": Axis(sequences.kind, sequences.size, sequences.labels, cut=AxisCut(residues)),
    }


def explicit(net: Alignment) -> tuple[Tensor, Tensor]:
    """(b, s, h, n, n) and (b, n, h, s, s), by the definition."""
    x, keys, pair = inputs()
    x = x.masked_fill(~keys[..., None], 0.0)  # as the library has it: nothing enters at padding

    def weights(attention: MultiHeadAttention, x: Tensor, keys: Tensor, bias: Tensor | float) -> Tensor:
        q, k = (f(x).unflatten(-1, (HEADS, -1)).transpose(-3, -2) for f in (attention.q, attention.k))
        scores = q @ k.mT * (DIM // HEADS) ** -0.5 + bias
        return scores.masked_fill(~keys[..., None, None, :], -torch.inf).softmax(-1)

    row = weights(net.row, x, keys, pair[:, None])
    y = net.row(
        x.flatten(0, 1), mask=Mask(keys=keys.flatten(0, 1)), bias=TensorBias(pair.repeat_interleave(SEQUENCES, 0))
    ).unflatten(0, (BATCH, SEQUENCES))
    y = y.masked_fill(~keys[..., None], 0.0)
    return row, weights(net.column, y.transpose(1, 2), keys.transpose(1, 2), 0.0).nan_to_num(0.0)


def traced(net: Alignment, *changes: Token) -> Trace[Tensor]:
    with torch.inference_mode():
        return record_run(net, "*", lambda: net(*inputs()), table=TABLE, axes=axes(), changes=changes)


def test_each_sequence_has_its_own_map(net: Alignment) -> None:
    found = traced(net)
    row, column = explicit(net)
    calls = found.calls
    assert [len(calls[name]) for name in ("row", "column")] == [SEQUENCES, RESIDUES]
    for i in range(SEQUENCES):
        torch.testing.assert_close(calls["row"][i].weights, row[:, i], rtol=0, atol=1e-6)
        assert calls["row"][i].columns.labels == tuple("MKVLA")
    for i in range(RESIDUES):
        torch.testing.assert_close(calls["column"][i].weights, column[:, i], rtol=0, atol=1e-6)
    assert found.sites["row"].over == Axis("sequence", SEQUENCES, NAMES)


def test_recorded_maps_are_the_same(net: Alignment) -> None:
    calls = look_at(net, "*", lambda: net(*inputs()), table=TABLE, axes=axes()).calls
    for name, maps in traced(net).calls.items():
        assert len(calls[name]) == len(maps)
        for one, other in zip(calls[name], maps, strict=True):
            torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=1e-6)
            assert (one.rows, one.columns) == (other.rows, other.columns)


def test_one_row_and_one_weight_are_those_of_their_sequence(net: Alignment) -> None:
    found, (row, _) = traced(net), explicit(net)
    torch.testing.assert_close(map_weights(found, "row@1"), row[0, 1], rtol=0, atol=1e-6)
    tile = found.sites["row"].records[1].tile(slice(2, 4))
    torch.testing.assert_close(tile, row[:, 1, :, 2:4], rtol=0, atol=1e-6)
    cell = explain_weight(found, "row@2", 1, 3, 0)
    assert cell["weight"] == pytest.approx(float(row[0, 2, 1, 3, 0]), abs=1e-6)
    assert cell["score"] == pytest.approx(cell["product"] * cell["scale"] + cell["bias"], abs=1e-5)
    assert cell["bias"] == pytest.approx(float(inputs()[2][0, 1, 3, 0]), abs=1e-6)


def test_a_document_names_the_position_of_each_map(net: Alignment) -> None:
    found = traced(net)
    example = Example((), lambda output: None, ("text",), lambda: {"kind": "text"}, time=TimeAxis("recycling", 1))
    found = replace(found, example=example)
    data = document_data(found, About("alignment", "alignment", None, 1, "text"))
    rows = [site for site in data["sites"] if site["name"].startswith("row")]
    assert [site["over"] for site in rows] == [
        {"kind": "sequence", "number": i, "label": name} for i, name in enumerate(NAMES)
    ]
    assert [site["name"] for site in rows] == ["row@0", "row@1", "row@2"]
    assert {site["time"] for site in data["sites"]} == {0}, "they are all of one moment"
    assert len(thumbnails(found)) == HEADS * (SEQUENCES * RESIDUES**2 + RESIDUES * SEQUENCES**2)


def test_a_crossed_out_residue_is_unseen_in_every_sequence(net: Alignment) -> None:
    found = traced(net, Token("residues", 1))
    for one in found.calls["row"]:
        assert float(one.weights[..., 1].abs().max()) == 0
    assert float(found.calls["column"][0].weights.sum()) > 0
