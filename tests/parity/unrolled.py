"""The recurrent translators by their papers' equations, written out step by step around PyTorch's own layers."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.models.rnn import RNNTranslator
from regard.nn.recurrent import GRUCell, LSTMCell, Recurrent, RNNCell
from tests.parity.ours import Run

ONE_WAY = {"bidirectional": False}
LUONG = {"decoder": "luong", "bidirectional": False, "cell": "lstm", "depth": 2}
KINDS: dict[str, dict[str, Any]] = {
    "sutskever": {"decoder": "sutskever", "cell": "lstm", **ONE_WAY},
    "sutskever-deep": {"decoder": "sutskever", "cell": "lstm", "depth": 3, **ONE_WAY},
    "cho": {"decoder": "cho", **ONE_WAY},
    "bahdanau": {},
    **{f"luong-{kind}": LUONG | {"attention": kind} for kind in ("dot", "general", "concat")},
    "luong-not-fed": LUONG | {"attention": "general", "feeding": False},
}


def torch_layers(rnn: Recurrent) -> Any:
    """PyTorch's own stack with these weights, gradients included."""
    cells = rnn.cells()
    kind = {LSTMCell: nn.LSTM, GRUCell: nn.GRU, RNNCell: nn.RNN}[type(cells[0])]
    layers = kind(rnn.dim, rnn.width // rnn.sides, len(rnn.ahead), batch_first=True, bidirectional=rnn.sides == 2)
    layers = layers.to(cells[0].input.weight.dtype)
    with torch.no_grad():
        for theirs, ours in layer_weights(layers, rnn):
            theirs.copy_(ours)
    return layers


def layer_weights(layers: nn.Module, rnn: Recurrent) -> list[tuple[Tensor, Tensor]]:
    pairs = []
    for i, cell in enumerate(rnn.cells()):
        place = f"l{i // rnn.sides}" + ("_reverse" if i % rnn.sides else "")
        for name, part in (("ih", cell.input), ("hh", cell.recurrent)):
            pairs.append((getattr(layers, f"weight_{name}_{place}"), part.weight))
            pairs.append((getattr(layers, f"bias_{name}_{place}"), part.bias))
    return pairs


class Unrolled:
    """The same net, its recurrent layers PyTorch's, its attention a formula."""

    def __init__(self, net: RNNTranslator) -> None:
        self.net = net
        self.encoder, self.decoder = torch_layers(net.encoder), torch_layers(net.decoder.rnn)

    def weights(self) -> list[tuple[Tensor, Tensor]]:
        """(theirs, ours) of the layers; all others are shared."""
        found = layer_weights(self.encoder, self.net.encoder)
        return found + layer_weights(self.decoder, self.net.decoder.rnn)

    def run(self, source: Tensor, target: Tensor) -> Run:
        states, last = self.encoder(self.net.embed(source))
        words = self.net.embed(target)
        logits, maps = getattr(self, self.net.config.decoder)(states, last, words)
        return Run({"logits": logits}, maps, [])

    def sutskever(self, states: Tensor, last: Any, words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """All layers of the decoder start from the encoder's, an LSTM from both of its states."""
        said, _ = self.decoder(words, last)
        return self.net.output(said), {}

    def cho(self, states: Tensor, last: Any, words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        c = last[-1]
        beside = c[:, None].expand(-1, words.shape[1], -1)
        said, _ = self.decoder(torch.cat((words, beside), -1), self.net.decoder.start(c).tanh()[None])
        return self.net.output(self.net.decoder.readout(torch.cat((said, words, beside), -1))), {}

    def bahdanau(self, states: Tensor, last: Any, words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """v . tanh(W s_(i-1) + U h_j), the state before the word; the readout reads that state too."""
        own, hidden = self.net.decoder, self.net.config.hidden
        s = own.start(states[:, 0, hidden:]).tanh()  # the way back ends at the first word
        found, maps = [], []
        for y in words.unbind(1):
            pairs = [own.cross.q(s) + own.cross.k(states[:, j]) for j in range(states.shape[1])]
            alpha = torch.stack([pair.tanh() @ own.cross.kernel.score[0, :, 0] for pair in pairs], 1).softmax(1)
            c = torch.einsum("bj,bjd->bd", alpha, states)
            found.append(self.net.output(own.readout(torch.cat((s, y, c), -1))))
            maps.append(alpha)
            s = self.decoder(torch.cat((y, c), -1)[:, None], s[None])[1][0]
        return torch.stack(found, 1), {"decoder.cross": torch.stack(maps, 1)[:, None].detach()}

    def luong(self, states: Tensor, last: Any, words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The state after the word looks, as it is; tanh(W [c; h]) goes to the softmax, and into the next step."""
        own = self.net.decoder
        fed, found, maps = torch.zeros_like(states[:, 0]), [], []
        for y in words.unbind(1):
            x = torch.cat((y, fed), -1) if self.net.config.feeding else y
            said, last = self.decoder(x[:, None], last)
            alpha = self.luong_scores(said[:, 0], states).softmax(1)
            c = torch.einsum("bj,bjd->bd", alpha, states)
            fed = own.join(torch.cat((c, said[:, 0]), -1)).tanh()
            found.append(self.net.output(fed))
            maps.append(alpha)
        return torch.stack(found, 1), {"decoder.cross": torch.stack(maps, 1)[:, None].detach()}

    def luong_scores(self, h: Tensor, states: Tensor) -> Tensor:
        kernel, kind = self.net.decoder.cross.kernel, self.net.config.attention
        if kind == "dot":
            return torch.einsum("bd,bjd->bj", h, states)
        if kind == "general":
            return torch.einsum("bd,de,bje->bj", h, kernel.matrix[0], states)
        both = h[:, None] @ kernel.queries[0] + states @ kernel.keys[0]
        return both.tanh() @ kernel.score[0, :, 0]
