"""All settings of text generation."""

from dataclasses import dataclass

from regard.errors import InputError
from regard.nn.arguments import explain_methods
from regard.nn.config import not_at_least, not_positive, refuse

from .beam import Beam
from .sampling import Sampling

FOUR = Beam()


@explain_methods
@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Settings of text generation: beam search (greedy with one beam), or sampling where ``sampling`` is given."""

    beam: Beam = FOUR
    sampling: Sampling | None = None
    nbest: int = 1  # number of texts for each input, best first
    shortest: int = 0  # minimum number of tokens
    longest: int | None = None  # maximum number of tokens; None: twice the source + 16, or 200 (captions: 64)
    no_repeat: int = 0  # size of n-grams that may not be repeated; 0: no limit
    prefix: str = ""  # text that every output begins with
    phrases: tuple[str, ...] = ()  # phrases that every output must contain, even within a word

    def __post_init__(self) -> None:
        wrong = not_positive(self, "nbest", "longest") + not_at_least(0, self, "shortest", "no_repeat")
        if self.sampling is None and self.beam is not None and self.nbest is not None and self.nbest > self.beam.beams:
            wrong += [f"nbest = {self.nbest} is greater than beams = {self.beam.beams}"]
        if self.phrases and not all(phrase.strip() for phrase in self.phrases):
            wrong += ["a phrase is empty"]
        if self.sampling is not None and self.phrases:
            wrong += ["phrases need beam search and cannot be combined with sampling"]
        if None not in (self.longest, self.shortest) and self.shortest > (self.longest or 0):
            wrong += [f"shortest = {self.shortest} is greater than longest = {self.longest}"]
        refuse(wrong)


GREEDY = Decoding(beam=Beam(beams=1))  # the likeliest tokens


def given_or(decoding: object, usual: Decoding) -> Decoding:
    """The settings that a verb was given, or the usual ones; what is no Decoding is refused."""
    if decoding is None:
        return usual
    if not isinstance(decoding, Decoding):
        raise InputError(
            "decoding is not a Decoding",
            got=type(decoding).__name__,
            expected="a Decoding (of regard.decode.settings), such as Decoding(beam=Beam(beams=4))",
        )
    return decoding
