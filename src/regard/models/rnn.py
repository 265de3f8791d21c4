"""Recurrent translators: one vector for the whole sentence, or a look at every word of it.

sutskever  Sutskever, Vinyals and Le (2014), https://arxiv.org/abs/1409.3215: the decoder starts from the encoder's last
           state, and knows nothing else of the source.
cho        Cho et al. (2014), https://arxiv.org/abs/1406.1078: the last state is also there at every step.
bahdanau   Bahdanau, Cho and Bengio (2015), https://arxiv.org/abs/1409.0473: before each word, the decoder's state looks
           at the states of all source words.
luong      Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025: it looks after each step, and what it found
           is fed into the next one.
The encoder runs once, and a decoding step keeps its state in the cache, as in every model here.

Differs from the papers: one table of word vectors may serve both languages; any cell, depth and attention fits any of
the four; the last states of an encoder that reads from both ends are mapped to the width of the decoder's.

Shapes: b batch, m source words, n target words, d width of a word, e of a state, l layers, w of what the encoder says
of a word (e, or 2e when it reads from both ends), v vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.models.family import Family, translator_verbs
from regard.nn.attention import Kernel, Mixer, MultiHeadAttention, split_heads
from regard.nn.cache import Cache, decoder_mask
from regard.nn.config import not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.encdec import EncoderDecoder
from regard.nn.feedforward import Maxout
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.recurrent import CELLS, Recurrent, State, cell_kind, keep_state, recall_state
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 30000
    target_vocab: int | None = None  # one table of words serves both languages, unless the target has its own
    dim: int = 620
    hidden: int = 1000
    depth: int = 1
    cell: str = "gru"
    bidirectional: bool = True
    backwards: bool = False  # the source is read from its last word to its first (Sutskever)
    decoder: Literal["sutskever", "cho", "bahdanau", "luong"] = "bahdanau"
    attention: Choice = "additive"  # of bahdanau and luong
    align: int = 1000  # width in which states are compared; luong compares them as they are, if they are as wide
    maxout: int = 500  # of cho and bahdanau
    feeding: bool = True  # of luong
    dropout: float = 0.0

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "vocab", "target_vocab", "dim", "hidden", "depth", "align", "maxout"),
            not_shares(self, "dropout"),
            not_one_of(CELLS, self, "cell"),
            unknown_choices(self, "attention"),
        )


PRESETS = {
    "rnn-sutskever": Config(
        vocab=160000,
        target_vocab=80000,
        dim=1000,
        depth=4,
        cell="lstm",
        bidirectional=False,
        backwards=True,
        decoder="sutskever",
    ),
    "rnn-cho": Config(vocab=15000, dim=100, cell="gru_before", bidirectional=False, decoder="cho"),
    "rnn-bahdanau": Config(target_vocab=30000, cell="gru_before"),
    "rnn-luong": Config(
        vocab=50000,
        target_vocab=50000,
        dim=1000,
        depth=4,
        cell="lstm",
        bidirectional=False,
        decoder="luong",
        attention="general",
        dropout=0.2,
    ),
}

PAPERS = {
    "rnn-sutskever": (
        "Sutskever, Vinyals and Le 2014, Sequence to Sequence Learning with Neural Networks",
        "https://arxiv.org/abs/1409.3215",
    ),
    "rnn-cho": (
        "Cho et al. 2014, Learning Phrase Representations using RNN Encoder-Decoder",
        "https://arxiv.org/abs/1406.1078",
    ),
    "rnn-luong": (
        "Luong, Pham and Manning 2015, Effective Approaches to Attention-based Neural Machine Translation",
        "https://arxiv.org/abs/1508.04025",
    ),
}

AXES = {"decoder.cross": ("target", "source")}


@dataclass(frozen=True, eq=False)
class EncoderStates:
    """Output of the encoder: a state for each token, and the final state of every layer."""

    states: Tensor  # (b, m, w)
    last: State  # each (b, l, w)

    def index_select(self, axis: int, rows: Tensor) -> "EncoderStates":
        last = {name: x.index_select(axis, rows) for name, x in self.last.items()}
        return EncoderStates(self.states.index_select(axis, rows), last)


class Aligned(MultiHeadAttention):
    """One head whose values are the encoder's states themselves: c_i = sum_j alpha_ij h_j.

    Without a width, states are compared as they are.
    """

    def __init__(self, dim: int, context_dim: int, kernel: Kernel, width: int | None) -> None:
        super().__init__(dim, 1, kernel=kernel, context_dim=context_dim, head_dim=width or dim, biases="")
        self.v, self.out = None, nn.Identity()  # type: ignore[assignment]
        if width is None:
            self.q = self.k = nn.Identity()  # type: ignore[assignment]

    def project_context(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """(b, m, w) -> (b, 1, m, align), (b, 1, m, w)"""
        assert self.k is not None
        return split_heads(self.k(keys), 1), split_heads(values, 1)

    def fuse(self) -> None:
        """Nothing here is one product."""


class RNNDecoder(nn.Module):
    """Decoder of one of the four variants; ``forward`` returns the input of the output layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        dim, hidden = config.dim, config.hidden
        wide = 2 * hidden if config.bidirectional else hidden
        self.kind, self.feeding = config.decoder, config.decoder == "luong" and config.feeding
        self.cross = self.looking(config, wide) if self.kind in ("bahdanau", "luong") else None
        seen = wide if self.cross is None or isinstance(self.cross, Aligned) else hidden
        beside = {"sutskever": 0, "cho": wide, "bahdanau": seen, "luong": hidden if self.feeding else 0}[self.kind]
        self.rnn = Recurrent(cell_kind(config.cell), dim + beside, hidden, config.depth, dropout=config.dropout)
        ends = hidden if self.kind == "bahdanau" else wide
        mapped = self.kind in ("cho", "bahdanau") or config.bidirectional
        self.start = nn.Linear(ends, hidden) if mapped else None
        self.readout = Maxout(hidden + dim + seen, config.maxout) if self.kind in ("cho", "bahdanau") else None
        self.join = nn.Linear(seen + hidden, hidden, bias=False) if self.kind == "luong" else None
        self.width = config.maxout if self.readout is not None else hidden

    def looking(self, config: Config, wide: int) -> Mixer:
        width = None if self.kind == "luong" and wide == config.hidden else config.align
        site = Site(dim=config.hidden, heads=1, cross=True, context_dim=wide, head_dim=width or config.hidden)
        mixer = build_mixer(layer_choices(config.attention, 1)[0], site)
        kernel = mixer.kernel if isinstance(mixer, MultiHeadAttention) else None
        return mixer if kernel is None else Aligned(config.hidden, wide, kernel, width)

    def forward(self, words: Tensor, memory: EncoderStates, mask: Mask, beyond: Mask, cache: Cache) -> Tensor:
        """(b, n, d) -> (b, n, r)"""
        if not words.shape[1]:
            raise ValueError("the decoder of a recurrent network needs at least 1 token, got 0")
        state = recall_state(cache, self) or self.begin(memory)
        run = {"sutskever": self.sutskever, "cho": self.cho, "bahdanau": self.bahdanau, "luong": self.luong}
        y, state = run[self.kind](words, memory, state, mask, beyond, cache)
        keep_state(cache, self, state)
        return y

    def begin(self, memory: EncoderStates) -> State:
        """Before the first word. Bahdanau starts from where the way back ended: at the first word of the source."""
        if self.kind in ("cho", "bahdanau"):
            assert self.start is not None
            seen = memory.last["h"][:, -1, -self.start.in_features :]  # of both directions, the one back stands last
            first = self.start(seen).tanh()[:, None].expand(-1, len(self.rnn.ahead), -1)
            state = {name: first if name == "h" else torch.zeros_like(first) for name in self.rnn.cells()[0].names}
        else:
            state = {name: x if self.start is None else self.start(x).tanh() for name, x in memory.last.items()}
        if self.kind == "cho":
            state["context"] = memory.last["h"][:, -1:]
        if self.feeding:
            state["fed"] = torch.zeros_like(state["h"][:, -1:])
        return state

    def advance(self, x: Tensor, state: State, keys: Tensor | None) -> tuple[Tensor, State]:
        """The cells alone: (b, n, d) -> (b, n, e)"""
        own = {name: state[name] for name in self.rnn.cells()[0].names}
        found = self.rnn(x, keys=keys, state=own)
        return found.outputs, state | found.state

    def sutskever(
        self, words: Tensor, memory: EncoderStates, state: State, mask: Mask, beyond: Mask, cache: Cache
    ) -> tuple[Tensor, State]:
        return self.advance(words, state, new_keys(mask, words))

    def cho(
        self, words: Tensor, memory: EncoderStates, state: State, mask: Mask, beyond: Mask, cache: Cache
    ) -> tuple[Tensor, State]:
        assert self.readout is not None
        context = state["context"].expand(-1, words.shape[1], -1)
        said, state = self.advance(torch.cat((words, context), -1), state, new_keys(mask, words))
        return self.readout(torch.cat((said, words, context), -1)), state

    def bahdanau(
        self, words: Tensor, memory: EncoderStates, state: State, mask: Mask, beyond: Mask, cache: Cache
    ) -> tuple[Tensor, State]:
        """Bahdanau's decoder: the previous state attends; the context and the previous token give the output and the
        next state."""
        assert self.cross is not None
        assert self.readout is not None
        keys, before, contexts = new_keys(mask, words), [], []
        for i, word in enumerate(words.split(1, 1)):
            s = state["h"][:, -1:]
            context = self.cross(s, memory.states, mask=beyond, cache=cache)
            _, state = self.advance(torch.cat((word, context), -1), state, None if keys is None else keys[:, i : i + 1])
            before.append(s)
            contexts.append(context)
        return self.readout(torch.cat((torch.cat(before, 1), words, torch.cat(contexts, 1)), -1)), state

    def luong(
        self, words: Tensor, memory: EncoderStates, state: State, mask: Mask, beyond: Mask, cache: Cache
    ) -> tuple[Tensor, State]:
        """Luong's decoder: the new state attends; the attentional state goes to the softmax, and into the next step
        with input feeding."""
        assert self.cross is not None
        assert self.join is not None
        keys = new_keys(mask, words)
        if not self.feeding:
            said, state = self.advance(words, state, keys)
            seen = self.cross(said, memory.states, mask=beyond, cache=cache)
            return self.join(torch.cat((seen, said), -1)).tanh(), state
        found = []
        for i, word in enumerate(words.split(1, 1)):
            real = None if keys is None else keys[:, i : i + 1]
            said, state = self.advance(torch.cat((word, state["fed"]), -1), state, real)
            seen = self.cross(said, memory.states, mask=beyond, cache=cache)
            new = self.join(torch.cat((seen, said), -1)).tanh()
            state["fed"] = new if real is None else torch.where(real[..., None], new, state["fed"])
            found.append(new)
        return torch.cat(found, 1), state


def new_keys(mask: Mask, words: Tensor) -> Tensor | None:
    """False at padding, of the new words alone."""
    return None if mask.keys is None else mask.keys[:, -words.shape[1] :]


class RNNTranslator(EncoderDecoder):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.target_embed = None if config.target_vocab is None else Lookup(config.target_vocab, config.dim)
        self.dropout = Dropout(config.dropout)
        self.encoder = Recurrent(
            cell_kind(config.cell),
            config.dim,
            config.hidden,
            config.depth,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.decoder = RNNDecoder(config)
        self.output = nn.Linear(self.decoder.width, config.target_vocab or config.vocab)
        for table in (self.embed, self.target_embed):
            if table is not None:
                nn.init.normal_(table.weight, std=0.1)

    def encode(self, source: Tensor, keys: Tensor | None = None) -> EncoderStates:
        """(b, m); keys is False at padding"""
        words, keys = self.dropout(self.embed(source)), fitted_keys(keys, source)
        if not self.config.backwards:
            found = self.encoder(words, keys=keys)
            return EncoderStates(found.outputs, found.state)
        found = self.encoder(words.flip(1), keys=None if keys is None else keys.flip(1))
        return EncoderStates(found.outputs.flip(1), found.state)  # each state at its word again

    def read(
        self,
        target: Tensor,
        memory: EncoderStates,
        *,
        source_keys: Tensor | None = None,
        keys: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(b, n) -> (b, n, r): the hidden states of the decoder, before the output matrix"""
        cache = Cache() if cache is None else cache  # also within one pass: what is made of the source is made once
        mask, beyond = decoder_mask(target, keys, cache), Mask(keys=fitted_keys(source_keys, memory.states))
        words = self.dropout((self.embed if self.target_embed is None else self.target_embed)(target))
        return self.dropout(self.decoder(words, memory, mask, beyond, cache))

    def words(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias


FAMILY = Family(
    config=Config,
    net=RNNTranslator,
    presets=PRESETS,
    axes=AXES,
    paper="Bahdanau, Cho and Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
    link="https://arxiv.org/abs/1409.0473",
    takes=("text", "text"),
    tasks=("translate",),
    verbs=translator_verbs,
    example=lambda: Config(vocab=13, dim=16, hidden=24, depth=2, align=8, maxout=6),
    papers=PAPERS,
    offered={"rnn-bahdanau": 65_571_000},
    compared="regard.modalities.text.compared:pairing",
)
