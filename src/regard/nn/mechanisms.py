"""One table: the word that picks an attention, its settings, and how it is built for a place in a model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from .attention import Mixer, Softmax
from .config import OF_PLUGIN, closest_name, not_above_zero, not_finite, parse, refuse, show_value
from .kernels import chunked, linformer, lsh, performer, rfa, sparse, synthesizer
from .kernels.additive import Additive
from .kernels.cosine import Cosine
from .kernels.local import Local
from .kernels.luong import Concat, General, LocalP
from .kernels.pairwise import MeanConcat, MeanDot
from .kernels.talking import TalkingHeads
from .kernels.topk import TopK
from .mixers import fourier, tokens, workspace
from .site import DropoutError, Site
from .synonyms import meant_by_attention

Choice = str | Mapping[str, Any] | tuple[Any, ...]  # a name, a table with ``kind``, or several that take turns


@dataclass(frozen=True)
class Traits:
    """Properties of the attention weights of a mechanism, which the contracts test."""

    sums: Literal["one", "less", "free"] = "one"  # of a row: 1; at most 1, as some keys are left out; anything
    placed: bool = False  # queries stand among the keys, or know their places: padding before them moves them


@dataclass(frozen=True)
class Mechanism:
    settings: type
    build: Callable[[Any, Site], Mixer]
    idea: str
    traits: Traits = Traits()
    span: str = ""  # its setting that says among how many tokens a query looks; empty if that is not limited


class Mechanisms(dict[str, Mechanism]):
    """The table of attention mechanisms. ``elsewhere`` is called before a name is reported as unknown: it may load
    plug-ins."""

    elsewhere: Callable[[], None] | None = None

    def __contains__(self, name: object) -> bool:
        if not super().__contains__(name) and self.elsewhere is not None:
            self.elsewhere()
        return super().__contains__(name)

    def add(self, name: str, row: Mechanism) -> None:
        """Add a mechanism. An existing name is never replaced."""
        if name in self:
            raise ValueError(f"an attention named {name!r} already exists; choose another name")
        self[name] = row


@dataclass(frozen=True, kw_only=True)
class Plain:
    """No settings."""


@dataclass(frozen=True, kw_only=True)
class Scaled:
    scale: float | None = None  # 1/sqrt(width of a head) unless given

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "scale"), not_finite(self, "scale"))


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    window: int = 10  # keys on either side


@dataclass(frozen=True, kw_only=True)
class BandSettings:
    window: int = 256  # keys, the query's own among them


@dataclass(frozen=True, kw_only=True)
class Keep:
    keep: int = 8  # keys for each query


def local_p(settings: WindowSettings, site: Site) -> Mixer:
    if site.causal:
        raise ValueError("local-p attention predicts a position anywhere in the sequence, so it cannot be causal")
    return site.attention(LocalP(site.heads, site.width, settings.window, site.dropout))


def local(settings: BandSettings, site: Site) -> Mixer:
    if site.cross:
        raise ValueError(
            "local attention compares positions within one sequence, so it does not support cross-attention "
            "to a context"
        )
    return site.attention(Local(settings.window, site.dropout))


NEAR = Traits("less", placed=True)  # all that a mask allows may be outside of a window or in another bucket
FADING = Traits("less")  # what is far from a place counts less
FREE = Traits("free")  # a weight may be negative, or come from another head
SEATED = Traits(placed=True)  # scores know the place of a query


MECHANISMS = Mechanisms(
    {
        "softmax": Mechanism(
            Scaled, lambda c, s: s.attention(Softmax(s.dropout, c.scale)), "softmax(q.k / sqrt e), fused (Vaswani 2017)"
        ),
        "dot": Mechanism(Plain, lambda c, s: s.attention(Softmax(s.dropout, 1.0)), "q.k, not scaled (Luong 2015)"),
        "general": Mechanism(
            Plain, lambda c, s: s.attention(General(s.heads, s.width, s.dropout)), "q.Wk (Luong 2015)"
        ),
        "additive": Mechanism(
            Plain, lambda c, s: s.attention(Additive(s.heads, s.width, s.dropout)), "v.tanh(q + k) (Bahdanau 2015)"
        ),
        "concat": Mechanism(
            Plain, lambda c, s: s.attention(Concat(s.heads, s.width, s.dropout)), "v.tanh(W[q; k]) (Luong 2015)"
        ),
        "mean-dot": Mechanism(
            Plain, lambda c, s: s.attention(MeanDot(s.dropout)), "q.k / n, no softmax (Wang 2018)", FREE
        ),
        "mean-concat": Mechanism(
            Plain,
            lambda c, s: s.attention(MeanConcat(s.heads, s.width, s.dropout)),
            "relu(w.[q; k]) / n, no softmax (Wang 2018)",
            FREE,
        ),
        "local": Mechanism(BandSettings, local, "keys within a window (Child 2019)", NEAR, "window"),
        "strided": Mechanism(
            sparse.StridedSettings, sparse.strided, "nearby keys and every l-th key (Child 2019)", NEAR, "stride"
        ),
        "fixed": Mechanism(
            sparse.FixedSettings, sparse.fixed, "own block and the ends of all blocks (Child 2019)", NEAR, "block"
        ),
        "linformer": Mechanism(
            linformer.Settings, linformer.build, "keys and values projected to few (Wang 2020)", FREE
        ),
        "synthesizer": Mechanism(
            synthesizer.MixtureSettings,
            synthesizer.mixture,
            "mix of learned and dot-product scores (Tay 2021)",
            SEATED,
        ),
        "synthesizer-dense": Mechanism(
            synthesizer.DenseSettings, synthesizer.dense, "scores predicted from the query alone (Tay 2021)"
        ),
        "synthesizer-random": Mechanism(
            synthesizer.RandomSettings, synthesizer.random, "learned scores, the same for all inputs (Tay 2021)", SEATED
        ),
        "local-p": Mechanism(
            WindowSettings, local_p, "window around a predicted position (Luong 2015)", FADING, "window"
        ),
        "cosine": Mechanism(Plain, lambda c, s: s.attention(Cosine(s.heads, s.dropout)), "cos(q, k) / tau (Swin v2)"),
        "top-k": Mechanism(
            Keep, lambda c, s: s.attention(TopK(c.keep, s.dropout)), "the k highest-scoring keys (Zhao 2019)"
        ),
        "performer": Mechanism(performer.Settings, performer.build, "positive random features (Choromanski 2021)"),
        "random-features": Mechanism(rfa.Settings, rfa.build, "random sines and cosines (Peng 2021)", FREE),
        "chunked": Mechanism(
            chunked.Settings, chunked.build, "keys of the same and the previous chunk (Kitaev 2020)", NEAR, "chunk"
        ),
        "lsh": Mechanism(lsh.Settings, lsh.build, "keys in the same LSH bucket (Kitaev 2020)", NEAR, "chunk"),
        "talking": Mechanism(
            Plain,
            lambda c, s: s.attention(TalkingHeads(s.heads, s.dropout)),
            "scores mixed across heads (Shazeer 2020, CaiT)",
            FREE,
        ),
        "fourier": Mechanism(fourier.Settings, fourier.build, "Re(fft2), no parameters (FNet 2022)"),
        "token-mlp": Mechanism(tokens.Settings, tokens.build, "an MLP over the positions (MLP-Mixer 2021)"),
        "workspace": Mechanism(
            workspace.Settings, workspace.build, "tokens write to and read from a few slots (Goyal 2022)"
        ),
    }
)


@dataclass(frozen=True)
class PickedMechanism:
    kind: str
    settings: Any


def pick_mechanism(choice: Choice) -> PickedMechanism:
    """The mechanism of one choice, with its settings; raises a ValueError for an unknown name or setting."""
    table = {"kind": choice} if isinstance(choice, str) else dict(choice) if isinstance(choice, Mapping) else {}
    kind = table.pop("kind", None)
    if not isinstance(kind, str) or kind not in MECHANISMS:
        hint = meant_by_attention(kind) or closest_name(kind, MECHANISMS)
        valid = f"; valid names are {', '.join(MECHANISMS)}"
        of_plugin = OF_PLUGIN if isinstance(kind, str) and not hint else ""
        raise ValueError(f"unknown attention {show_value(choice)}{hint}{valid}{of_plugin}")
    try:
        return PickedMechanism(kind, parse(MECHANISMS[kind].settings, table))
    except ValueError as error:
        raise ValueError(f"attention {kind!r}: {'; '.join(str(error).splitlines())}") from None


def simplest_choice(choice: Choice) -> Choice:
    """The shortest equivalent choice: equal choices become one, and a table with default settings becomes its name."""
    first, *others = map(pick_mechanism, choice if isinstance(choice, list | tuple) else [choice])
    plain = first.settings == MECHANISMS[first.kind].settings()
    return first.kind if plain and all(other == first for other in others) else choice


def build_mixer(choice: Choice, site: Site) -> Mixer:
    """Build the chosen attention for a site; raises a ValueError if it is unknown or not supported at this site."""
    picked = pick_mechanism(choice)
    try:
        return MECHANISMS[picked.kind].build(picked.settings, site)
    except ValueError as error:
        raise ValueError(f"attention {picked.kind!r}: {error}") from error


def can_drop(choice: Choice) -> bool:
    """Whether the chosen attention supports attention dropout. Unknown names are reported elsewhere."""
    for one in choice if isinstance(choice, list | tuple) else [choice]:
        try:
            with torch.device("meta"):
                build_mixer(one, Site(dim=4, heads=1, length=4, dropout=0.5))
        except ValueError as error:
            if isinstance(error.__cause__, DropoutError):
                return False
    return True


def unknown_choices(config: object, *names: str) -> list[str]:
    """For a config: the problems of its attention choices. What is not supported at a site is reported when it is
    built."""
    problems = []
    for name in names:
        choice = getattr(config, name)
        turns = choice if isinstance(choice, list | tuple) else [choice]
        if not turns:
            problems.append(f"{name} is an empty list; it needs at least one name")
        for one in turns if choice is not None else []:
            try:
                pick_mechanism(one)
            except ValueError as error:
                problems.append(f"{name}: {error}")
    return list(dict.fromkeys(problems))


def layer_choices(choice: Choice, depth: int) -> list[Choice]:
    """One choice for each layer: several choices alternate (as the dense and banded layers of GPT-3)."""
    turns = list(choice) if isinstance(choice, list | tuple) else [choice]
    if not turns:
        raise ValueError("attention is an empty list; it needs at least one name")
    return [turns[i % len(turns)] for i in range(depth)]
