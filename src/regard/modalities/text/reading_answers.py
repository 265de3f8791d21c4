"""What a model that reads a text answers, besides labels: a tag for each word, a span of a text, an embedding."""

from dataclasses import dataclass
from typing import Any

from .text_model import AnswerSpan, TaggedText


@dataclass(frozen=True)
class WordTags:
    found: TaggedText

    def data(self) -> dict[str, Any]:
        rows = zip(self.found.words, self.found.tags, self.found.probabilities, strict=True)
        return {"kind": "tags", "words": [{"word": word, "tag": tag, "probability": p} for word, tag, p in rows]}

    def headline(self) -> str:
        return " ".join(f"{word}/{tag or '?'}" for word, tag in zip(self.found.words, self.found.tags, strict=True))

    def subject(self) -> str:
        return " ".join(tag or "?" for tag in self.found.tags)


@dataclass(frozen=True)
class FoundSpan:
    found: AnswerSpan

    def data(self) -> dict[str, Any]:
        span = self.found
        return {
            "kind": "span",
            "text": span.text,
            "start": span.start,
            "end": span.end,
            "probability": span.probability,
        }

    def headline(self) -> str:
        return f"{self.found.text}, {100 * self.found.probability:.0f} %"

    def subject(self) -> str:
        return self.found.text


@dataclass(frozen=True)
class TextEmbedding:
    """A vector of length 1 and, if there is a second text, the cosine similarity of the two."""

    vector: tuple[float, ...]
    similarity: float | None = None

    def data(self) -> dict[str, Any]:
        return {"kind": "embedding", "vector": list(self.vector), "similarity": self.similarity}

    def headline(self) -> str:
        if self.similarity is None:
            return f"embedding of size {len(self.vector)}"
        return f"cosine similarity {self.similarity:.3f}"

    def subject(self) -> str:
        return "embedding of the text" if self.similarity is None else "similarity of the two texts"
