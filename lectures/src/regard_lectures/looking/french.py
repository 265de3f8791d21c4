"""A little English that becomes a little French, word by word, but that an adjective follows its noun.

Everything is in the plural, where the form of none of these words depends on another: it is known from which English
word each French one is made.
"""

from dataclasses import dataclass, replace
from random import Random

from regard.building import build
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.modalities.text.processor import Text
from regard.modalities.text.runners import Translation
from regard.modalities.text.tasks.translation import Translate
from regard.modalities.text.vocabulary import tokenizer_symbols
from regard.model import Model
from regard_lectures.figure import seeded
from regard_lectures.learning.lessons import batched, lesson, words_of
from regard_lectures.toys import fit


def dictionary(english: str, french: str) -> dict[str, str]:
    return dict(zip(english.split(), french.split(), strict=True))


DETERMINERS = dictionary(
    "the some my these our your their two three four", "les des mes ces nos vos leurs deux trois quatre"
)
ADJECTIVES = dictionary(
    "red yellow sad quick calm strange useful famous honest wise",
    "rouges jaunes tristes rapides calmes bizarres utiles célèbres honnêtes sages",
)
NOUNS = dictionary(
    "cats dogs birds children girls horses houses cars flowers trees books boats teachers doctors",
    "chats chiens oiseaux enfants filles chevaux maisons voitures fleurs arbres livres bateaux professeurs médecins",
)
VERBS = dictionary(
    "see like hear follow draw find watch know paint",
    "voient aiment entendent suivent dessinent trouvent regardent connaissent peignent",
)
LINKS = dictionary("and or with without behind under before among", "et ou avec sans derrière sous devant parmi")
FRENCH = DETERMINERS | ADJECTIVES | NOUNS | VERBS | LINKS
STRAIGHT = "my cats follow the birds under some trees"
SWAPPED = "these wise doctors like two strange books"


@dataclass(frozen=True)
class Sentence:
    english: str
    french: str
    sources: tuple[int, ...]  # of each French word, the place of the English one


def translated(english: str) -> Sentence:
    words, order = english.split(), []
    for i, word in enumerate(words):
        if word in ADJECTIVES:
            order += [i + 1, i]  # the noun first
        elif not (i and words[i - 1] in ADJECTIVES):
            order.append(i)
    return Sentence(english, " ".join(FRENCH[words[i]] for i in order), tuple(order))


def sentences(count: int, seed: int) -> list[Sentence]:
    """Drawn by chance; the two that are shown are never among them."""
    chance = Random(seed)
    found: list[Sentence] = []
    while len(found) < count:
        words = [*thing(chance), chance.choice(list(VERBS)), *thing(chance)]
        if chance.random() < 0.25:
            words += [chance.choice(list(LINKS)), *thing(chance)]
        if (english := " ".join(words)) not in (STRAIGHT, SWAPPED):
            found.append(translated(english))
    return found


def thing(chance: Random) -> list[str]:
    some = [chance.choice(list(ADJECTIVES))] if chance.random() < 0.5 else []
    return [chance.choice(list(DETERMINERS)), *some, chance.choice(list(NOUNS))]


def text() -> Text:
    return words_of(list(FRENCH.items()))


def taught(model: Model, *, seed: int, steps: int, rate: float, size: int = 32) -> Model:
    """Each sentence is seen once."""
    pairs = [(one.english, one.french) for one in sentences(steps * size, seed)]
    task = Translate(model.net, model.text(), 0.0)
    with seeded(seed):
        fit(model.parameters(), lesson(task, batched(model.text(), pairs, size)), steps=steps, rate=rate)
    return model.eval()


def untaught(name: str, seed: int, sizes: dict[str, object]) -> Model:
    own = text()
    with seeded(seed):
        model = build(name, vocab=own.tokenizer.get_vocab_size(), **sizes)
    return replace(model, processor=own, task="translate", symbols=tokenizer_symbols(own))


def looked(model: Model, english: list[str], pattern: str) -> list[Translation]:
    """Each word the likeliest one; the maps are those of what was written."""
    found = model.translate(english, decoding=Decoding(beam=Beam(beams=1)), look=pattern)
    assert isinstance(found, list)
    return found
