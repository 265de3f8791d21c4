"""A model with all that belongs to it, and what it can be asked."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, overload

import torch
from PIL import Image
from torch import Tensor, nn

from regard.data.captions import Captions
from regard.data.images import Images
from regard.data.text import Text
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.interop.pictures import Unsaid
from regard.interop.symbols import NONE, Symbols
from regard.look.changes import Change, changed
from regard.look.maps import Map, axes_of, look_at, side_by_side
from regard.look.trace import Trace, follow
from regard.models.bert import BERT
from regard.nn.attention import MultiHeadAttention
from regard.nn.axis import Axis
from regard.nn.feedforward import MLP
from regard.nn.folding import fold
from regard.tasks.describing import Describing
from regard.tasks.finding import Finding, Spotted
from regard.tasks.generating import Generating
from regard.tasks.prompting import Prompted, answered, few_shot
from regard.tasks.reading import Answer, Labelled, Reading, Tagged, last_piece, words_of
from regard.tasks.seeing import Picture, Recognised, Seeing
from regard.tasks.shown import (
    Shown,
    image_and_caption,
    image_with_label,
    image_with_things,
    text_and_translation,
    text_that_goes_on,
    text_that_is_read,
)
from regard.tasks.translating import Progress, Translating, clean, silent
from regard.tasks.writing import Said
from regard.zoo import FAMILIES, bare, preset

GREEDY = Decoding(beam=Beam(beams=1))
WRITERS = ("gpt", "switchlm", "recurrent", "reformer")  # families that go on with texts
DETECTORS = ("detr",)  # families that find things in images

Anything = TypeVar("Anything", "Model", nn.Module)


@dataclass(frozen=True, eq=False)
class Model:
    """A net, and what it takes to use it. Calls and the usual methods of a module pass through to the net."""

    family: str
    net: nn.Module
    processor: Text | Images | Captions | None = None
    task: str | None = None
    card: str = ""
    symbols: Symbols = NONE
    labels: tuple[str, ...] = ()  # names of classes or tags, where it tells any
    name: str = ""  # under which it ships, if it does
    unsaid: Unsaid | None = None  # of a folder of others: why it does not know how images are prepared

    @property
    def config(self) -> Any:
        return self.net.config

    def __call__(self, *inputs: Tensor, look: str | None = None, **named: Any) -> Any:
        """The net's output; with ``look``, a name pattern such as "decoder.*.cross", that output and those maps."""
        if look is None:
            return self.net(*inputs, **named)
        axes: Mapping[str, Axis] = self.net.axes(*inputs)  # type: ignore[operator]
        axes = {**axes, **{name: self.labelled(axes[name], x) for name, x in zip(axes, inputs, strict=False)}}
        table = FAMILIES[self.family].axes
        return look_at(self.net, look, lambda: self.net(*inputs, **named), table=table, axes=axes)

    def labelled(self, axis: Axis, ids: Tensor) -> Axis:
        """The words of a single text, on its axis."""
        words = self.processor.text if isinstance(self.processor, Captions) else self.processor
        if axis.kind != "text" or isinstance(words, Images | None) or len(ids) != 1:
            return axis
        return replace(axis, labels=words.labels(ids[0].tolist()))

    def look(self, *given: Picture, pattern: str = "*", changes: Sequence[Change] = ()) -> Trace[Any]:
        """What the model looks at, all of it or what matches the pattern: while it reads a text; while it translates a
        text, or would write the second of two; while it sees an image, whose maps have the grid of its patches on their
        axes. With changes (``look.changes``) a token is crossed out, a head switched off, a temperature moved."""
        table = FAMILIES[self.family].axes
        with changed(self.net, changes, table, {}):
            shown = self.shown(given)
        axes: dict[str, Axis] = dict(self.net.axes(*shown.inputs))  # type: ignore[operator]
        for name, words in shown.words.items():
            axes[name] = replace(axes[name], labels=words) if name in axes else Axis("text", len(words), words)
        with torch.inference_mode():
            found = follow(self.net, pattern, lambda: self.net(*shown.inputs), table=table, axes=axes, changes=changes)
        return replace(
            found,
            shown=shown,
            answer=shown.tell(found.output),
            model=self.name,
            again=lambda other: self.look(*given, pattern=pattern, changes=other),
        )

    def shown(self, given: Sequence[Picture]) -> Shown:
        """As many inputs as the model takes; of a translator and a captioner, what it writes may be left to it."""
        writes = isinstance(self.processor, Captions) or (self.translates() and not self.sees())
        wanted = (1, 2) if writes else (1,)
        if len(given) not in wanted:
            many = " or ".join(map(str, wanted))
            raise InputError(f"a {self.family} is shown {many} at a time", got=f"{len(given)}")
        target = written(given[1]) if len(given) > 1 else None
        if isinstance(self.processor, Captions):
            return image_and_caption(Describing(self.net, self.processor, self.symbols), given[0], target)
        if self.family in DETECTORS:
            return image_with_things(Finding(self.net, self.seeing().images, self.labels), given[0])
        if self.sees():
            return image_with_label(self.seeing(), given[0])
        text = written(given[0])
        if writes:
            return text_and_translation(self.translating(), text, target)
        if self.continues():
            return text_that_goes_on(self.generating(), text)
        return text_that_is_read(self.text(), getattr(self.config, "length", None), self.labels, text)

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        decoding: Decoding | None = None,
        look: str | None = None,
        first: int = 0,
        progress: Progress = silent,
    ) -> "Translated | list[Translated]":
        """Of one text or of many. With ``look``, a name pattern such as "decoder.*.cross", also where it looked while
        it wrote: the search runs at full speed, and one more pass over what it found is looked at. ``first`` is the
        number of the first text where there were others before: chance, if asked for, goes by numbers. ``progress`` is
        told how many sentences are done, and of how many."""
        translating = self.translating()
        several = [clean(text) for text in ([texts] if isinstance(texts, str) else texts)]
        found = translating.translate(several, decoding or Decoding(), first, progress)
        done = [
            Translated(
                source,
                own[0].text if own else "",
                own,
                {} if look is None or not own else self.alignment(translating, source, own[0], look),
            )
            for source, own in zip(several, found, strict=True)
        ]
        return done[0] if isinstance(texts, str) else done

    def alignment(self, translating: Translating, source: str, found: Said, pattern: str) -> dict[str, Map]:
        """The rows are the words that were written, each looking at what it was made from: of a text that was read in
        parts, at its own part alone."""
        sources = [part.text for part in translating.parts(source)] if found.parts else [source]
        wrote = found.parts or (found,)
        maps = [
            self.aligned(translating, text, one, pattern) for text, one in zip(sources, wrote, strict=True) if one.ids
        ]
        return {name: side_by_side([own[name] for own in maps]) for name in (maps[0] if maps else {})}

    def aligned(self, translating: Translating, source: str, found: Said, pattern: str) -> dict[str, Map]:
        """The same of one part."""
        (read,), wrote = translating.encode([source]), [*found.ids, translating.symbols.end[0]]
        given = torch.tensor([[translating.begin, *wrote[:-1]]])
        with torch.inference_mode():
            looked = self(torch.tensor([read]), given, look=pattern)
        return self.by_words(looked.maps, wrote)

    def generate(
        self, prompts: str | Sequence[str], *, decoding: Decoding | None = None
    ) -> "Generated | list[Generated]":
        """What one prompt, or each of many, goes on with: the likeliest tokens, unless asked otherwise."""
        several = [prompts] if isinstance(prompts, str) else list(prompts)
        generating = self.generating()
        found = generating.generate(several, decoding or GREEDY)
        done = [
            Generated(prompt, own[0].text if own else "", own, generating.surplus(prompt), generating.unknown(prompt))
            for prompt, own in zip(several, found, strict=True)
        ]
        return done[0] if isinstance(prompts, str) else done

    def prompt(
        self,
        query: str,
        *,
        examples: Sequence[tuple[str, str]] = (),
        instruction: str = "",
        choices: Sequence[str] = (),
        calibrated: bool = False,
        decoding: Decoding | None = None,
    ) -> Prompted:
        """An answer after examples that are only read: no weight changes, which their SHA-256 shows."""
        text = few_shot(instruction, examples, query)
        return answered(self.generating(), text, choices, decoding or GREEDY, calibrated=calibrated)

    def stream(self, prompt: str, *, decoding: Decoding | None = None) -> Iterator[str]:
        """What a prompt goes on with, or of a translator what a text becomes, piece by piece as it is written: the
        likeliest tokens, unless they shall be drawn."""
        if self.translates():
            return self.translating().stream(clean(prompt), decoding or GREEDY)
        return self.generating().stream(prompt, decoding or GREEDY)

    def translates(self) -> bool:
        return self.task in (None, "translate") and hasattr(self.net, "encode") and not self.sees()

    def translating(self) -> Translating:
        if not self.translates():
            raise InputError(f"this {self.family} does not translate", got=f"its task is {self.task}")
        return Translating(self.net, self.text(), self.symbols)

    def continues(self) -> bool:
        causal = getattr(self.config, "causal", True) and getattr(self.config, "head", "words") == "words"
        return self.family in WRITERS and causal

    def generating(self) -> Generating:
        if not self.continues():
            raise InputError(
                f"this {self.family} does not go on with texts",
                expected=f"one of {', '.join(WRITERS)} that foretells words from those before",
                fix="`regard translate` makes texts from texts" if self.translates() else "",
            )
        return Generating(self.net, self.text(), self.symbols, getattr(self.config, "length", None))

    def embed(self, texts: str | Sequence[str], batch: int = 32) -> Tensor:
        """Sentence embeddings: the mean of the last layer's states, of length 1.  -> (texts, d)"""
        if not isinstance(self.net, BERT):
            raise InputError(f"a {self.family} gives no sentence embeddings", expected="a bert")
        if batch < 1:
            raise InputError("a batch holds at least one text", got=str(batch))
        return self.reading().embed([texts] if isinstance(texts, str) else list(texts), batch)

    @overload
    def classify(self, inputs: Picture) -> Labelled | Recognised: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, inputs: Sequence[Picture | tuple[str, str]]) -> "list[Labelled] | list[Recognised]": ...
    def classify(
        self, inputs: Picture | Sequence[Picture | tuple[str, str]]
    ) -> "Labelled | Recognised | list[Labelled] | list[Recognised]":
        """The label of one text, or of each of many, which may be pairs of texts; of a model that sees images, of one
        image or of each of many, which are files or images in memory."""
        single, several = is_one(inputs), several_of(inputs)
        if self.sees():
            if not getattr(self.config, "classes", 0) or self.family in DETECTORS:
                raise InputError(f"this {self.family} gives images no labels", expected="a model that classifies")
            seen = self.seeing().classify(several)
            return seen[0] if single else seen
        if getattr(self.config, "head", "") != "label":
            raise InputError(f"this {self.family} gives texts no labels", expected="a model with head = 'label'")
        found = self.reading().classify([(written(x),) if is_one(x) else tuple(map(written, x)) for x in several])
        return found[0] if single else found

    @overload
    def detect(self, images: Picture, *, threshold: float = 0.5) -> Spotted: ...  # type: ignore[overload-overlap]
    @overload
    def detect(self, images: Sequence[Picture], *, threshold: float = 0.5) -> list[Spotted]: ...
    def detect(self, images: Picture | Sequence[Picture], *, threshold: float = 0.5) -> Spotted | list[Spotted]:
        """What is surer than the threshold, in one image or in each of many: labels, scores, and boxes in pixels."""
        if self.family not in DETECTORS:
            raise InputError(f"a {self.family} finds no boxes in images", expected=f"one of {', '.join(DETECTORS)}")
        single, seeing, several = is_one(images), self.seeing(), several_of(images)
        found = Finding(self.net, seeing.images, self.labels).detect(several, threshold)
        return found[0] if single else found

    @overload
    def tag(self, texts: str) -> Tagged: ...  # type: ignore[overload-overlap]
    @overload
    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[Tagged]: ...
    def tag(self, texts: str | Sequence[str | Sequence[str]]) -> Tagged | list[Tagged]:
        """A tag for each word of one text, or of each of many, which may be cut into words already."""
        if getattr(self.config, "head", "") != "tags":
            raise InputError(f"this {self.family} gives words no tags", expected="a model with head = 'tags'")
        several = [texts] if isinstance(texts, str) else texts
        words = [words_of(text) if isinstance(text, str) else list(text) for text in several]
        found = self.reading().tag(words, last=last_piece(self.family))
        return found[0] if isinstance(texts, str) else found

    def answer(self, question: str, context: str) -> Answer:
        """The part of the context that answers the question."""
        if getattr(self.config, "head", "") != "span":
            raise InputError(f"this {self.family} answers no questions", expected="a model with head = 'span'")
        return self.reading().answer(question, context)

    def reading(self) -> Reading:
        return Reading(self.net, self.text(), self.labels, getattr(self.config, "length", None))

    def sees(self) -> bool:
        """Whether it is one for images."""
        return hasattr(self.config, "channels")

    def describe(
        self, pictures: Picture | Sequence[Picture], *, decoding: Decoding | None = None, look: str | None = None
    ) -> "Told | list[Told]":
        """A sentence for one image, or for each of many, which are files or images in memory. With ``look``, a name
        pattern such as "decoder.*.cross", also where it looked while it wrote each word."""
        if not isinstance(self.processor, Captions):
            raise InputError(f"this {self.family} describes no images", expected="a captioner")
        describing = Describing(self.net, self.processor, self.symbols)
        several = several_of(pictures)
        found = describing.describe(several, decoding or Decoding())
        done = [
            Told(
                "" if isinstance(picture, Image.Image) else str(picture),
                own[0].text if own else "",
                own,
                {} if look is None or not own else self.seen(describing, picture, own[0], look),
            )
            for picture, own in zip(several, found, strict=True)
        ]
        return done[0] if is_one(pictures) else done

    def seen(self, describing: Describing, picture: Picture, found: Said, pattern: str) -> dict[str, Map]:
        """The rows are the words that were written, and the end."""
        wrote = [*found.ids, self.symbols.end[0]]
        given = torch.tensor([[describing.begin, *wrote[:-1]]])
        with torch.inference_mode():
            looked = self(describing.seeing.take(picture), given, look=pattern)
        return self.by_words(looked.maps, wrote)

    def by_words(self, maps: Mapping[str, Map], wrote: Sequence[int]) -> dict[str, Map]:
        """Maps of a decoder, their rows named by the words that were written there, not by those that were given."""
        written, table = Axis("text", len(wrote), labels=self.text().labels(list(wrote))), FAMILIES[self.family].axes
        return {
            name: replace(one, rows=written) if axes_of(name, table)[0] == "target" else one
            for name, one in maps.items()
        }

    def seeing(self) -> Seeing:
        if not isinstance(self.processor, Images):
            what = "this model does not say how images are prepared for it"
            if self.unsaid is not None:
                raise InputError(what, where=self.unsaid.where, got=self.unsaid.got, fix=self.unsaid.fix)
            raise InputError(
                what,
                fix="save it with a processor: dataclasses.replace(model, processor=regard.data.images.Images(...))",
            )
        return Seeing(self.net, self.processor, self.labels)

    def text(self) -> Text:
        if isinstance(self.processor, Captions):
            return self.processor.text
        if self.sees():
            raise InputError(f"a {self.family} sees images, and reads no texts")
        if not isinstance(self.processor, Text):
            raise InputError(
                "this model has no tokenizer", fix="put its tokenizer.json into the folder it is loaded from"
            )
        return self.processor

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        return self.net.named_modules()

    def parameters(self) -> Iterator[nn.Parameter]:
        return self.net.parameters()

    def state_dict(self) -> dict[str, Tensor]:
        return self.net.state_dict()

    def to(self, where: torch.device | torch.dtype | str) -> "Model":
        self.net.to(where)
        return self

    def eval(self) -> "Model":
        self.net.eval()
        return self

    def train(self, mode: bool = True) -> "Model":
        self.net.train(mode)
        return self


def is_one(given: Any) -> bool:
    return isinstance(given, str | Path | Image.Image)


def several_of(given: Any) -> list[Any]:
    """Those of a list, or the one that is given. An array may be one image or many, up to 255 or to 1: nobody knows."""
    if is_one(given):
        return [given]
    if isinstance(given, Mapping) or hasattr(given, "__array__") or not isinstance(given, Iterable):
        raise InputError(
            "this is neither an image or a text nor a list of them",
            got=type(given).__name__,
            expected="a path, a text, an image of Pillow, or a list of these",
            fix="of an array of pixels, make an image: PIL.Image.fromarray(pixels)",
        )
    return list(given)


def written(given: Picture) -> str:
    """A text, where images may stand too."""
    if not isinstance(given, str):
        raise InputError("this model reads texts, and sees no images", got=type(given).__name__)
    return given


@dataclass(frozen=True, eq=False)
class Translated:
    """A text and what it became."""

    source: str
    text: str
    nbest: list[Said]  # as many as were asked for, the best first; none where what was asked for cannot be
    maps: dict[str, Map]  # where it looked, of the layers that were asked for: (1, heads, target, source)


@dataclass(frozen=True, eq=False)
class Told:
    """An image and what is said of it."""

    image: str  # the file's path; empty for an image in memory
    text: str
    nbest: list[Said]  # as many as were asked for, the best first
    maps: dict[str, Map]  # where it looked, of the layers that were asked for: (1, heads, words, patches)


def build(name: str, **changes: Any) -> Model:
    """A model of a named size with random weights, any key of its config changed: build("gpt-small", dropout=0.0)."""
    family, config = preset(name, changes)
    bare(family, config)  # an attention that this model cannot take is refused before memory is used
    return Model(family, FAMILIES[family].net(config))


@dataclass(frozen=True, eq=False)
class Generated:
    """What a prompt goes on with."""

    prompt: str
    text: str  # without the prompt
    nbest: list[Said]  # as many as were asked for, the best first
    unread: int = 0  # of the prompt's first tokens, that were more than can be read
    unknown: tuple[str, ...] = ()  # letters of the prompt that the model has no token for


def prepare(model: Anything) -> Anything:
    """A frozen copy for inference: batch norms are part of the maps beside them, q, k and v are one product, and
    activations overwrite what they are given. It cannot be trained or saved: keep the original."""
    if isinstance(model, Model):
        return replace(model, net=prepare(model.net))
    twin = copy.deepcopy(model).eval().requires_grad_(False)
    fold(twin)
    for module in twin.modules():
        if isinstance(module, MultiHeadAttention):
            module.fuse()
        elif isinstance(module, MLP):
            module.reuse()
    return twin
