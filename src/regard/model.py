"""A model with all that belongs to it, and what it can be asked: each verb is a row of ``modalities.verbs``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn

from regard.decode.settings import GREEDY, Decoding, given_or
from regard.decode.symbols import NO_SYMBOLS, Symbols
from regard.look.changes import Change
from regard.look.examples import Example
from regard.look.short_repr import BriefRepr
from regard.look.trace import Trace
from regard.modalities.inputs import Picture
from regard.modalities.labels.told import with_labels
from regard.modalities.looking import output_and_maps, trace_inputs
from regard.modalities.processor import MissingProcessor, Processor
from regard.modalities.verbs import example_maker, require_verb, run_verb
from regard.nn.arguments import explain_methods
from regard.zoo import FAMILIES

if TYPE_CHECKING:
    from regard.modalities.boxes.detector import Detections
    from regard.modalities.captions.runners import ImageDescription
    from regard.modalities.drawing.drawer import DrawnImage
    from regard.modalities.drawing.settings import Drawing
    from regard.modalities.images.classifier import ImageClassification
    from regard.modalities.series.forecaster import SeriesForecast
    from regard.modalities.text.processor import Text
    from regard.modalities.text.prompting import PromptedAnswer
    from regard.modalities.text.runners import Generation, Translation
    from regard.modalities.text.text_model import AnswerSpan, TaggedText, TextClassification
    from regard.modalities.text.translator import Progress


@explain_methods
@dataclass(frozen=True, eq=False, repr=False)
class Model(BriefRepr):
    """A network with its config, processor, task and labels; calls are forwarded to the network."""

    family: str
    net: nn.Module
    processor: Processor | None = None
    task: str | None = None
    card: str = ""
    symbols: Symbols = NO_SYMBOLS
    labels: tuple[str, ...] = ()  # names of classes or tags
    name: str = ""  # of a shipped model
    unprepared: MissingProcessor | None = None  # why a model of another library has no processor

    @property
    def config(self) -> Any:
        return self.net.config

    @property
    def takes(self) -> tuple[str, ...]:
        """Input modalities in order, such as "text" or "image"."""
        return FAMILIES[self.family].takes

    @property
    def length(self) -> int | None:
        """Maximum sequence length in tokens; None if it is unlimited."""
        return self.get("length")

    def get(self, key: str) -> Any:
        """Value of a config key, or None if this config does not have the key."""
        return FAMILIES[self.family].get(self.config, key)

    def verbs(self) -> tuple[str, ...]:
        """Verbs that the model supports, such as "translate"."""
        return FAMILIES[self.family].verbs(self.config, self.task)

    def can(self, verb: str) -> bool:
        return verb in self.verbs()

    def __call__(self, *inputs: Tensor, look: str | None = None, **named: Any) -> Any:
        """Run the network. With ``look``, a pattern such as "decoder.*.cross", also return these attention maps."""
        if look is None:
            return self.net(*inputs, **named)
        return output_and_maps(self, look, inputs, named)

    def look(self, *given: Picture, pattern: str = "*", changes: Sequence[Change] = ()) -> Trace[Any]:
        """Trace the attention maps of an input. ``pattern`` selects layers, ``changes`` mask tokens or ablate heads."""
        return trace_inputs(self, given, pattern, changes, self.name)

    def example(self, given: Sequence[Picture]) -> Example:
        """Prepare one example. Translation and captioning models generate the output text if it is omitted."""
        return example_maker(self)(self, given)

    def text(self) -> "Text":
        """Tokenizer of a model that reads or writes text."""
        from regard.modalities.text.runners import text_processor

        return text_processor(self)

    def translate(
        self, texts: str | Sequence[str], *, decoding: Decoding | None = None, look: str | None = None, first: int = 0,
        progress: "Progress | None" = None,
    ) -> "Translation | list[Translation]":  # fmt: skip
        """Translate one text or several; ``look`` adds attention maps, ``first`` is the first text's sampling index."""
        return run_verb(self, "translate", texts, given_or(decoding, Decoding()), look, first, progress)

    def generate(
        self, prompts: str | Sequence[str], *, decoding: Decoding | None = None
    ) -> "Generation | list[Generation]":
        """Generate a continuation of one prompt or several; greedy decoding by default."""
        return run_verb(self, "generate", prompts, given_or(decoding, GREEDY))

    def stream(self, prompt: str, *, decoding: Decoding | None = None) -> Iterator[str]:
        """Yield a continuation (or translation) piece by piece as it is generated; greedy decoding by default."""
        from regard.modalities.text.runners import stream_text

        require_verb(self, "translate" if self.can("translate") else "generate")
        return stream_text(self, prompt, given_or(decoding, GREEDY))

    def prompt(
        self, query: str, *, examples: Sequence[tuple[str, str]] = (), instruction: str = "",
        choices: Sequence[str] = (), calibrated: bool = False, decoding: Decoding | None = None,
    ) -> "PromptedAnswer":  # fmt: skip
        """Answer a query by few-shot prompting. No weights change; the result has their SHA-256 as evidence."""
        from regard.modalities.text.runners import answer_prompt

        require_verb(self, "generate")
        return answer_prompt(self, query, examples, instruction, choices, calibrated, given_or(decoding, GREEDY))

    @overload
    def classify(  # type: ignore[overload-overlap]
        self, inputs: Picture, *, labels: Sequence[str] | None = None
    ) -> "TextClassification | ImageClassification": ...
    @overload
    def classify(
        self, inputs: Sequence[Picture | tuple[str, str]], *, labels: Sequence[str] | None = None
    ) -> "list[TextClassification] | list[ImageClassification]": ...
    def classify(self, inputs: Any, *, labels: Sequence[str] | None = None) -> Any:
        """Classify one text, pair of texts or image (a file, a PIL image or an array of uint8), or several; clip takes
        its ``labels`` here."""
        return run_verb(with_labels(self, labels), "classify", inputs)

    @overload
    def detect(self, images: Picture, *, threshold: float = 0.5) -> "Detections": ...  # type: ignore[overload-overlap]
    @overload
    def detect(self, images: Sequence[Picture], *, threshold: float = 0.5) -> "list[Detections]": ...
    def detect(self, images: Any, *, threshold: float = 0.5) -> Any:
        """Detect objects in one image or several: labels, bounding boxes in pixels, and scores above the threshold."""
        return run_verb(self, "detect", images, threshold)

    @overload
    def tag(self, texts: str) -> "TaggedText": ...  # type: ignore[overload-overlap]
    @overload
    def tag(self, texts: Sequence[str | Sequence[str]]) -> "list[TaggedText]": ...
    def tag(self, texts: Any) -> Any:
        """Tag each word of one text or several; texts may be given as lists of words."""
        return run_verb(self, "tag", texts)

    def answer(self, question: str, context: str) -> "AnswerSpan":
        """Extract the span of the context that answers the question."""
        return run_verb(self, "answer", question, context)

    def embed(self, texts: str | Sequence[str], batch: int = 32) -> Tensor:
        """Compute sentence embeddings: mean-pooled states of the last layer, normalized to length 1.  -> (texts, d)"""
        return run_verb(self, "embed", texts, batch)

    def describe(
        self, pictures: Picture | Sequence[Picture], *, decoding: Decoding | None = None, look: str | None = None
    ) -> "ImageDescription | list[ImageDescription]":
        """Caption one image or several; ``look``, a layer name pattern, adds the attention map of each word."""
        return run_verb(self, "describe", pictures, given_or(decoding, Decoding()), look)

    def forecast(self, series: Any, *, steps: int | None = None) -> "list[SeriesForecast]":
        """Forecast the time series in a CSV file, or a list of values: quantiles for ``steps`` time steps ahead."""
        return run_verb(self, "forecast", series, steps)

    def draw(self, given: Any = None, *, how: "Drawing | None" = None) -> "list[DrawnImage]":
        """Draw images of a text, or of noise by a seed; ``how`` says how many and in which way."""
        return run_verb(self, "draw", given, how)

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
