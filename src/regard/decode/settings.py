"""Everything that can be asked of the writing of a text."""

from dataclasses import dataclass

from regard.nn.config import not_at_least, not_positive, refuse

from .beam import Beam
from .sampling import Sampling

FOUR = Beam()


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """A beam search, of which one beam is greedy; or with ``sampling``, tokens by chance."""

    beam: Beam = FOUR
    sampling: Sampling | None = None
    nbest: int = 1  # texts for each input, the best first
    shortest: int = 0  # tokens
    longest: int | None = None  # tokens; twice the source and some more, or what is asked for, unless given
    no_repeat: int = 0  # no sequence of so many tokens twice; 0 for any
    prefix: str = ""  # what every text begins with
    phrases: tuple[str, ...] = ()  # what every text must hold, be it within a word

    def __post_init__(self) -> None:
        wrong = not_positive(self, "nbest", "longest") + not_at_least(0, self, "shortest", "no_repeat")
        if self.sampling is None and self.beam is not None and self.nbest is not None and self.nbest > self.beam.beams:
            wrong += [f"nbest = {self.nbest} texts need as many beams, and there are {self.beam.beams}"]
        if self.phrases and not all(phrase.strip() for phrase in self.phrases):
            wrong += ["a phrase has no letters"]
        if self.sampling is not None and self.phrases:
            wrong += ["phrases are found by a beam search, not by sampling"]
        if None not in (self.longest, self.shortest) and self.shortest > (self.longest or 0):
            wrong += [f"shortest = {self.shortest} is above longest = {self.longest}"]
        refuse(wrong)


GREEDY = Decoding(beam=Beam(beams=1))  # the likeliest tokens
