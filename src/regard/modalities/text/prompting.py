"""Few-shot prompting: a task is told by examples in the text itself, and nothing is learned.

Language Models are Few-Shot Learners (Brown et al., 2020), https://arxiv.org/abs/2005.14165, figure 2.1:
    Translate English to French:
    sea otter => loutre de mer
    cheese =>
With none, one or some examples only the text is another; the weights are not, and their SHA-256 says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.storage.digest import weights_digest

from .generator import Generating

ARROW = " =>"


@dataclass(frozen=True)
class Choice:
    """One of the given choices and its score: the mean log-probability of its tokens; higher is better."""

    text: str
    score: float


@dataclass(frozen=True)
class PromptedAnswer:
    prompt: str
    answer: str  # generated text up to the end of the line, or the best choice
    choices: tuple[Choice, ...]  # best first; empty without choices
    weights: str  # SHA-256 of all weights, equal before and after
    unknown: tuple[str, ...] = ()  # characters of the prompt and the choices that are not in the vocabulary


def few_shot(instruction: str, examples: Sequence[tuple[str, str]], query: str) -> str:
    """The task in a line, the examples, and what is asked for, up to the arrow."""
    shown = [f"{given}{ARROW} {wanted}" for given, wanted in examples]
    return "\n".join([*([instruction] if instruction else []), *shown, f"{query}{ARROW}"])


def answered(
    generating: Generating, prompt: str, choices: Sequence[str], decoding: Decoding, *, calibrated: bool = False
) -> PromptedAnswer:
    """What the model writes up to the end of the line; or the likeliest choice, by the mean log-probability of its
    tokens. ``calibrated``: less what it has without the examples, so that frequent answers have no advantage."""
    if surplus := generating.surplus(prompt):
        raise InputError(
            "the prompt is longer than the model's context",
            got=f"{surplus} tokens too many",
            expected=f"fewer than {generating.length} tokens, including the answer",
            fix="use fewer or shorter examples",
        )
    if not all(text.strip() for text in choices):
        raise InputError("a choice is empty")
    before = weights_digest(generating.net.state_dict())
    found: list[Choice] = []
    if choices:
        last = prompt.rpartition("\n")[2]
        for text in choices:
            score = generating.likelihood(prompt, f" {text}")
            found.append(Choice(text, score - (generating.likelihood(last, f" {text}") if calibrated else 0.0)))
        found.sort(key=lambda choice: -choice.score)
        answer = found[0].text
    else:
        answer = generating.generate([prompt], decoding)[0][0].text.lstrip(" ").partition("\n")[0].rstrip()
    after = weights_digest(generating.net.state_dict())
    if before != after:
        raise RuntimeError("the weights changed during inference")
    return PromptedAnswer(prompt, answer, tuple(found), after, generating.unknown(prompt, *choices))
