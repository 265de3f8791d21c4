"""A model with all that belongs to it, and the ways to get one: by name, from a folder of ours, from one of theirs."""

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar, overload

import torch
from PIL import Image
from torch import Tensor, nn

import regard
from regard.data.captions import KIND as CAPTIONS
from regard.data.captions import Captions, images_from_data
from regard.data.images import Images
from regard.data.text import Text
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.errors import CheckpointError, ConfigError, InputError
from regard.interop import llama2c, pictures
from regard.interop.files import weights_of, widened
from regard.interop.kinds import FORMATS, Found, Read, believable, kind_of, read_foreign, write_foreign
from regard.interop.pickled import read_pickled
from regard.interop.rules import fit
from regard.interop.suspicion import listed
from regard.interop.symbols import NONE, Symbols, read_symbols
from regard.interop.texts import json_bytes, read_bytes, read_json
from regard.interop.tokens import foreign_tokenizer
from regard.interop.writing import save as write_folder
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
from regard.zoo import FAMILIES, bare, config_data, preset, read_config, shipped

FORMAT = 1
KEYS = ("format", "regard", "model", "config", "task", "processor")
OPTIONAL = ("symbols", "labels")

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
            raise InputError(
                "this model does not say how images are prepared for it, or in no way that is known here",
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


def load(model: str | Path) -> Model:
    """A shipped model by its name, or a folder: of ours, of a run that is finished, or with a Hugging Face checkpoint.

    A bare string is a name; a path contains a separator or is a Path. Every tensor is accounted for, or it is an error.
    """
    if isinstance(model, str) and not any(separator in model for separator in "/\\"):
        if model in shipped():
            with as_file(files("regard").joinpath("pretrained", model)) as folder:
                return replace(load(folder), name=model)
        raise InputError(
            "no shipped model has this name",
            got=model,
            expected=", ".join(shipped()),
            fix=f"to load a folder, write a path: ./{model}; to start with random weights, use regard.build",
        )
    folder = Path(model)
    if (folder / "regard.json").exists():
        return load_ours(folder)
    if (folder / "run.toml").is_file():
        if (folder / "model").is_dir():
            return load(folder / "model")
        raise InputError(
            "this run has no model: it is not finished, or its folder model/ is gone",
            where=str(folder),
            fix=f"go on with it: regard resume {quote(str(folder))}",
        )
    if (folder / "config.json").exists():
        weights, said = weights_of(folder), read_json(folder / "config.json")
        return load_theirs(folder, said, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    if folder.is_dir() and any(folder.glob("*.safetensors")):
        weights = weights_of(folder)
        if (told := llama2c.said(weights.metadata)) is not None:
            return load_theirs(folder, told, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    raise InputError(
        "this is no model folder" if folder.is_dir() else "there is no such folder",
        where=str(folder),
        expected="a folder with regard.json, or with config.json and *.safetensors, or of a run",
    )


def load_ours(folder: Path) -> Model:
    """Folder format 1."""
    where = folder / "regard.json"
    data = read_json(where)
    if data.get("format") != FORMAT:
        raise CheckpointError(
            "this folder is of a format that this version cannot read",
            where=str(where),
            got=f"format = {data.get('format')!r}",
            expected=f"{FORMAT}",
            fix="use the version of regard that wrote it, or a newer one",
        )
    if wrong := sorted((data.keys() - set(OPTIONAL)) ^ set(KEYS)):
        raise CheckpointError(
            "keys are missing or unknown", where=str(where), got=", ".join(wrong), expected=", ".join(KEYS)
        )
    family, config = data["model"], data["config"]
    if not isinstance(family, str) or family not in FAMILIES or not isinstance(config, dict):
        expected = f"model: one of {', '.join(FAMILIES)}; config: a table"
        raise CheckpointError("this is no model", where=str(where), got=f"model = {family!r}", expected=expected)
    told = data["processor"]
    kind = told.get("kind") if isinstance(told, dict) else None
    pictured = kind in ("images", CAPTIONS)
    if not isinstance(data["task"], str | None) or (told not in (None, {"kind": "text"}) and not pictured):
        got = f"task = {data['task']!r}, processor = {data['processor']!r}"
        raise CheckpointError("this task or processor is not known", where=str(where), got=got[:200])
    if kind in ("text", CAPTIONS) and not (folder / "tokenizer.json").is_file():
        raise CheckpointError("the tokenizer is missing", where=str(folder), expected="tokenizer.json")
    weights = weights_of(folder)
    settings = read_config(family, config, str(where))
    believable(settings, len(weights.header), str(folder))
    net = bare(family, settings, str(where))
    fit({name: tuple(x.shape) for name, x in net.state_dict().items()}, weights.shapes(), str(folder))
    symbols = read_symbols(data.get("symbols", {}), getattr(settings, "vocab", 0), str(where))
    labels = read_labels(data.get("labels", []), getattr(settings, "classes", 0), str(where))
    images = sized(read_images(told, settings, str(where)), settings, str(where)) if pictured else None
    text = None if kind == "images" else tokenizer_of(folder, settings, "")
    processor: Text | Images | Captions | None = text if images is None else images
    if images is not None and text is not None:
        processor = Captions(images, text)
    found = Found(family, settings, weights.read(torch.float32), symbols, labels)
    return filled(net, found, folder, data["task"], processor)


def read_images(data: Mapping[str, Any], config: Any, where: str) -> Images:
    """How images are prepared, for a net that sees images of as many channels."""
    found = images_from_data(data, where) if data["kind"] == CAPTIONS else Images.from_data(data, where)
    channels = getattr(config, "channels", None)
    if found.channels != channels:
        got = f"images of {found.channels} channels, for a net that takes {channels or 'none'}"
        raise CheckpointError("processor and model do not belong together", where=where, got=got)
    return found


def sized(images: Images, config: Any, where: str) -> Images:
    """For a net that takes images of one size. A plain square is made of any size; where more is told, such as what is
    cut off, nobody can say what was meant."""
    size = getattr(config, "image", None)
    if size is None or images.size is None or (images.size == size and images.fit != "within"):
        return images
    if images.shorter is not None or images.fit == "within":
        raise CheckpointError(
            "the net and the processor of its images differ in size",
            where=where,
            got=f"images of {images.size} ({images.fit}), for a net that takes {size} x {size}",
            fix="set the sizes in this file to that of the net, or take the file away",
        )
    return replace(images, size=size)


def read_labels(data: Any, classes: int, where: str) -> tuple[str, ...]:
    """A name for each class, or none."""
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise CheckpointError(
            "these labels cannot be read", where=where, got=str(data)[:200], expected="a list of names"
        )
    if len(data) not in (0, classes):
        raise CheckpointError(
            "not every class has a name", where=where, got=f"{len(data)} names", expected=f"{classes}"
        )
    return tuple(data)


def load_theirs(folder: Path, data: Mapping[str, Any], header: Mapping[str, tuple[int, ...]], read: Read) -> Model:
    generation = folder / "generation_config.json"
    settings = read_json(generation) if generation.is_file() else {}
    found = read_foreign(data, settings, header, read, folder)
    if hasattr(found.config, "channels"):
        processor: Text | Images | Captions | None = foreign_images(folder, data, found.config)
    else:
        processor = tokenizer_of(folder, found.config, kind_of(data))
    return filled(bare(found.family, found.config), found, folder, None, processor)


def foreign_images(folder: Path, data: Mapping[str, Any], config: Any) -> Images | None:
    """How images are prepared, as timm's config tells it or the file of transformers beside it; None where neither does
    so in words that we have."""
    path = folder / pictures.FILE
    told = pictures.from_timm(data, getattr(config, "image", None))
    if told is None and path.is_file():
        told = pictures.from_transformers(read_json(path), config.channels)
    try:
        found = None if told is None else read_images(told, config, str(path))
    except (CheckpointError, ConfigError):
        return None
    return None if found is None else sized(found, config, str(path))


def filled(
    net: nn.Module, found: Found, folder: Path, task: str | None, processor: Text | Images | Captions | None = None
) -> Model:
    """The net with its weights, ready for inference, and what else the folder holds."""
    if odd := [name for name, x in found.state.items() if not x.is_floating_point()]:
        raise CheckpointError("weights must be real numbers", where=str(folder), got=listed(odd))
    net.load_state_dict(found.state, strict=True, assign=True)
    card = folder / "card.md"
    text = card.read_text("utf-8", errors="replace") if card.is_file() else ""
    return Model(found.family, net.eval(), processor, task, text, found.symbols, found.labels)


def tokenizer_of(folder: Path, config: Any, kind: str) -> Text | None:
    """The folder's tokenizer, whose every id must have a row in the embedding."""
    path = folder / "tokenizer.json"
    if os.path.lexists(path):
        if not path.is_file():
            raise CheckpointError(
                "the tokenizer is no regular file", where=str(path), fix="remove it, or put the file there"
            )
        raw = read_bytes(path)
    elif not kind or (other := foreign_tokenizer(folder, kind)) is None:
        return None
    else:
        raw = other
    text = Text.from_bytes(raw, str(path))
    last = max(text.tokenizer.get_vocab().values(), default=-1)
    if last >= getattr(config, "vocab", 0):
        raise CheckpointError(
            "the tokenizer has ids that the model has no embedding for",
            where=str(path),
            got=f"an id of {last}",
            expected=f"below {getattr(config, 'vocab', 0)}",
        )
    return text


def save(model: Model, folder: str | Path, replace: bool = False) -> None:
    """Write folder format 1, whole or not at all."""
    state = checked_state(model)
    data = {
        "format": FORMAT,
        "regard": regard.__version__,
        "model": model.family,
        "config": config_data(model.config),
        "task": model.task,
        "processor": model.processor.to_data() if isinstance(model.processor, Images | Captions) else None,
    }
    if isinstance(model.processor, Text):
        data["processor"] = {"kind": "text"}
    if model.symbols != NONE:
        data["symbols"] = model.symbols.data()
    if model.labels:
        data["labels"] = list(model.labels)
    write_folder(Path(folder), {"regard.json": json_bytes(data), "model.safetensors": state, **extras(model)}, replace)


def extras(model: Model) -> dict[str, bytes]:
    texts = isinstance(model.processor, Text | Captions)
    tokenizer = {"tokenizer.json": model.text().to_bytes()} if texts else {}
    return tokenizer | ({"card.md": model.card.encode("utf-8")} if model.card else {})


def checked_state(model: Model) -> dict[str, Tensor]:
    """The weights under the names that the family's config gives; a prepared or wrapped net has others."""
    state = model.state_dict()
    wanted = {name: tuple(x.shape) for name, x in bare(model.family, model.config).state_dict().items()}
    fit(wanted, {name: tuple(x.shape) for name, x in state.items()}, "the model to be saved")
    return state


def convert(source: str | Path, out: str | Path) -> list[str]:
    """A foreign folder into one of ours. Only here are .bin and .pt files read, by a reader that cannot run code.

    -> the names of the written tensors that hold a NaN or an infinity, which are converted as they are
    """
    source = Path(source)
    safe = source.is_dir() and any(
        x.name.endswith((".safetensors", ".safetensors.index.json")) for x in source.iterdir()
    )
    if not safe and not (source / "config.json").exists():
        raise InputError(
            "this is no foreign model folder" if source.is_dir() else "there is no such folder",
            where=str(source),
            expected="a folder with config.json and weights, or one of llama2.c, with *.safetensors and tokenizer.bin",
        )
    if safe:
        model = load(source)
    else:
        state = {name: widened(x, torch.float32) for name, x in read_pickled(source).items()}
        header = {name: tuple(x.shape) for name, x in state.items()}
        said = read_json(source / "config.json")
        model = load_theirs(source, said, header, lambda names: {name: x for name, x in state.items() if name in names})
    save(replace(model, card=model.card or foreign_card(source, Path(out))), out)
    return not_finite(model.state_dict())


def foreign_card(source: Path, out: Path) -> str:
    """Of a model that was made elsewhere: where from, and who can say more. One of ours needs none."""
    if (source / "regard.json").exists():
        return ""
    told = source / "config.json"
    kind = kind_of(read_json(told)) if told.exists() else llama2c.KIND
    return (
        f"# {out.name}\n\nConverted by regard {regard.__version__} from the folder `{source}`, of the kind {kind}.\n\n"
        "- Data, licence and limits are those of the source: see what was published with it.\n"
    )


def export(model: Model | str | Path, out: str | Path, to: str = "hf") -> list[str]:
    """A model, or what ``load`` takes, in another library's format: "hf", or "timm" for the folders of that library.
    What transformers does not have goes out in timm's by either word.

    -> the names of the written tensors that hold a NaN or an infinity, which are exported as they are
    """
    if to not in FORMATS:
        raise InputError("this format is not known", got=to, expected=" or ".join(FORMATS))
    loaded = model if isinstance(model, Model) else load(model)
    theirs = write_foreign(loaded.family, loaded.config, checked_state(loaded), loaded.symbols, loaded.labels, to)
    texts = {name: raw for name, raw in extras(loaded).items() if name == "tokenizer.json"}
    if theirs.generation:
        texts["generation_config.json"] = json_bytes(theirs.generation)
    config = theirs.config
    if isinstance(loaded.processor, Images) and "architecture" in config:  # timm's, whose config tells it
        more = pictures.to_timm(loaded.processor.to_data()) or {}
        config = config | {"pretrained_cfg": config["pretrained_cfg"] | more}
    elif isinstance(loaded.processor, Images) and (told := pictures.to_transformers(loaded.processor.to_data())):
        texts[pictures.FILE] = json_bytes(told)
    write_folder(Path(out), {"config.json": json_bytes(config), "model.safetensors": theirs.tensors, **texts})
    return not_finite(theirs.tensors)


def not_finite(state: Mapping[str, Tensor]) -> list[str]:
    return [name for name, x in state.items() if not x.isfinite().all()]


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
