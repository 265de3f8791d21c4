"""A model with all that belongs to it, and what it can be asked: each verb is a row of ``modalities.verbs``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn

from regard.decode.settings import GREEDY, Decoding
from regard.decode.symbols import NO_SYMBOLS, Symbols
from regard.look.changes import Change
from regard.look.examples import Example
from regard.look.trace import Trace
from regard.modalities.inputs import Picture
from regard.modalities.looking import output_and_maps, trace_inputs
from regard.modalities.processor import MissingProcessor, Processor
from regard.modalities.verbs import example_maker, require_verb, run_verb
from regard.zoo import FAMILIES

if TYPE_CHECKING:
    from regard.modalities.boxes.detector import Detections
    from regard.modalities.captions.runners import ImageDescription
    from regard.modalities.images.classifier import ImageClassification
    from regard.modalities.series.forecaster import SeriesForecast
    from regard.modalities.text.processor import Text
    from regard.modalities.text.prompting import PromptedAnswer
    from regard.modalities.text.runners import Generation, Translation
    from regard.modalities.text.text_model import AnswerSpan, TaggedText, TextClassification
    from regard.modalities.text.translator import Progress


@dataclass(frozen=True, eq=False)
class Model:
    """A net, and what it takes to use it. Calls and the usual methods of a module pass through to the net."""

    family: str
    net: nn.Module
    processor: Processor | None = None
    task: str | None = None
    card: str = ""
    symbols: Symbols = NO_SYMBOLS
    labels: tuple[str, ...] = ()  # names of classes or tags, where it tells any
    name: str = ""  # under which it ships, if it does
    unprepared: MissingProcessor | None = None  # of another library's folder: why it has no processor

    @property
    def config(self) -> Any:
        return self.net.config

    @property
    def takes(self) -> tuple[str, ...]:
        """The media of the net's inputs, in order: "text", "image"."""
        return FAMILIES[self.family].takes

    @property
    def length(self) -> int | None:
        """How many tokens it reads, if that is limited."""
        limit: int | None = self.get("length")
        return limit

    def get(self, key: str) -> Any:
        """A value of its config that not every config has, or None."""
        return FAMILIES[self.family].get(self.config, key)

    def verbs(self) -> tuple[str, ...]:
        """What it can be asked to do."""
        return FAMILIES[self.family].verbs(self.config, self.task)

    def can(self, verb: str) -> bool:
        return verb in self.verbs()

    def __call__(self, *inputs: Tensor, look: str | None = None, **named: Any) -> Any:
        """The net's output; with ``look``, a name pattern such as "decoder.*.cross", that output and those maps."""
        if look is None:
            return self.net(*inputs, **named)
        return output_and_maps(self, look, inputs, named)

    def look(self, *given: Picture, pattern: str = "*", changes: Sequence[Change] = ()) -> Trace[Any]:
        """What it looks at in a text, in two, in an image or a series, where ``pattern`` matches, after ``changes``."""
        return trace_inputs(self, given, pattern, changes, self.name)

    def example(self, given: Sequence[Picture]) -> Example:
        """As many inputs as the model takes; of a translator and a captioner, what it writes may be left to it."""
        found: Example = example_maker(self)(self, given)
        return found

    def text(self) -> "Text":
        """The tokenizer of a model that reads or writes text."""
        from regard.modalities.text.runners import text_processor

        return text_processor(self)

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        decoding: Decoding | None = None,
        look: str | None = None,
        first: int = 0,
        progress: "Progress | None" = None,
    ) -> "Translation | list[Translation]":
        """Of one text or many; with ``look``, a name pattern, also where it looked. Chance counts from ``first`` on."""
        return run_verb(self, "translate", texts, decoding or Decoding(), look, first, progress)

    def generate(
        self, prompts: str | Sequence[str], *, decoding: Decoding | None = None
    ) -> "Generation | list[Generation]":
        """What one prompt, or each of many, goes on with: the likeliest tokens, unless asked otherwise."""
        return run_verb(self, "generate", prompts, decoding or GREEDY)

    def stream(self, prompt: str, *, decoding: Decoding | None = None) -> Iterator[str]:
        """What a prompt goes on with, or of a translator what a text becomes, piece by piece as it is written: the
        likeliest tokens, unless they shall be drawn."""
        from regard.modalities.text.runners import stream_text

        require_verb(self, "translate" if self.can("translate") else "generate")
        return stream_text(self, prompt, decoding or GREEDY)

    def prompt(
        self,
        query: str,
        *,
        examples: Sequence[tuple[str, str]] = (),
        instruction: str = "",
        choices: Sequence[str] = (),
        calibrated: bool = False,
        decoding: Decoding | None = None,
    ) -> "PromptedAnswer":
        """An answer after examples that are only read: no weight changes, which their SHA-256 shows."""
        from regard.modalities.text.runners import answer_prompt

        require_verb(self, "generate")
        return answer_prompt(self, query, examples, instruction, choices, calibrated, decoding or GREEDY)

    @overload
    def classify(self, inputs: Picture) -> "TextClassification | ImageClassification": ...  # type: ignore[overload-overlap]
    @overload
    def classify(
        self, inputs: Sequence[Picture | tuple[str, str]]
    ) -> "list[TextClassification] | list[ImageClassification]": ...
    def classify(self, inputs: Any) -> Any:
        """The label of one text, or of each of many, which may be pairs of texts; of a model that sees images, of one
        image or of each of many, which are files or images in memory."""
        return run_verb(self, "classify", inputs)

    @overload
    def detect(self, images: Picture, *, threshold: float = 0.5) -> "Detections": ...  # type: ignore[overload-overlap]
    @overload
    def detect(self, images: Sequence[Picture], *, threshold: float = 0.5) -> "list[Detections]": ...
    def detect(self, images: Any, *, threshold: float = 0.5) -> Any:
        """What is surer than the threshold, in one image or in each of many: labels, scores, and boxes in pixels."""
        return run_verb(self, "detect", images, threshold)

    @overload
    def tag(self, texts: str) -> "TaggedText": ...  # type: ignore[overload-overlap]
    @overload
    def tag(self, texts: Sequence[str | Sequence[str]]) -> "list[TaggedText]": ...
    def tag(self, texts: Any) -> Any:
        """A tag for each word of one text, or of each of many, which may be cut into words already."""
        return run_verb(self, "tag", texts)

    def answer(self, question: str, context: str) -> "AnswerSpan":
        """The part of the context that answers the question."""
        return run_verb(self, "answer", question, context)

    def embed(self, texts: str | Sequence[str], batch: int = 32) -> Tensor:
        """Sentence embeddings: the mean of the last layer's states, of length 1.  -> (texts, d)"""
        return run_verb(self, "embed", texts, batch)

    def describe(
        self, pictures: Picture | Sequence[Picture], *, decoding: Decoding | None = None, look: str | None = None
    ) -> "ImageDescription | list[ImageDescription]":
        """A sentence for one image, or for each of many, which are files or images in memory. With ``look``, a name
        pattern such as "decoder.*.cross", also where it looked while it wrote each word."""
        return run_verb(self, "describe", pictures, decoding or Decoding(), look)

    def forecast(self, series: Any, *, steps: int | None = None) -> "list[SeriesForecast]":
        """What comes after each series of a csv file, or after a list of values: quantiles of so many steps ahead."""
        return run_verb(self, "forecast", series, steps)

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
