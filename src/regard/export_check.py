"""What was exported, opened by the other library: whether it reads and writes what the model does here."""

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.decode.settings import GREEDY
from regard.errors import InputError, Notice
from regard.interop import reopening
from regard.look.examples import Example
from regard.modalities.pipelines import check_pipeline, is_pipeline
from regard.model import Model
from regard.models.probing import answers_of, as_floats, random_inputs
from regard.storage.documents import read_json
from regard.zoo import FAMILIES

TEXT = "the dog sees a cat"
OTHER_TEXTS = {
    "capital letters": "The DOG sees a Cat",
    "accents": "naïve café in der Straße",
    "Chinese": "狗 看见 一只猫",
    "an emoji": "a cat 🐈",
}
PLAIN = "a plain text"
SPELLED = "special tokens spelled out"
MOST_SPELLED = 6
TOKENS = 16  # that both write
CLOSE = 1e-3  # of the largest number
SECONDS = 600


@dataclass(frozen=True)
class ExportCheck:
    """How a folder was opened: by which library, what was compared, or why it was not; and which texts are read in
    another way there, as they are by design."""

    library: str
    version: str = ""
    compared: tuple[str, ...] = ()
    skipped: str = ""
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ExportQuestion:
    """What both are asked: the net's inputs by name, random numbers for a model without words; texts, each with what it
    is to try, the words or texts that a tokenizer is given, and the ids that the model reads; and how it goes on."""

    inputs: Mapping[str, Tensor]
    tried: tuple[str, ...] = ()
    texts: tuple[Sequence[Any], ...] = ()
    ids: tuple[list[int], ...] = ()
    tokens: int = 0
    written: tuple[int, ...] = ()


def check_export(model: Model, folder: Path) -> ExportCheck:
    """Open an exported folder where its library is installed, in a process of its own. What differs is an error."""
    library = library_of(folder)
    if library == "diffusers":
        return ExportCheck(library, **check_pipeline(model, folder))
    if find_spec(library) is None:
        return ExportCheck(library, skipped=f"{library} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # some texts are asked because no model has learned them
        question = question_for(model, library)
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        request: dict[str, Any] = {"library": library, "exported": str(folder.absolute())}
        request |= {"texts": question.texts, "words": in_words(model), "tokens": question.tokens}
        (home / "request.json").write_text(json.dumps(request))
        save_file({name: x.contiguous() for name, x in question.inputs.items()}, home / "inputs.safetensors")
        child = [sys.executable, "-P", "-m", reopening.__name__, str(home)]
        try:
            run = subprocess.run(child, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return ExportCheck(library, skipped=f"{library} took more than {SECONDS} s")
        if run.returncode:
            refuse(folder, library, f"it cannot be opened: {last_line(run.stderr)}")
        answer = json.loads((home / "answer.json").read_text())
        if broken := answer.get("broken"):
            return ExportCheck(library, skipped=f"it cannot be imported here: {broken}")
        theirs = load_file(home / "answer.safetensors")
    with torch.inference_mode():
        ours = answers_of(FAMILIES[model.family], model.net(**question.inputs))
    found = ExportCheck(library, answer["version"])
    return compared(found, folder, question, answer, ours, [theirs[str(i)] for i in range(len(theirs))])


def question_for(model: Model, library: str) -> ExportQuestion:
    drawn = as_floats(random_inputs(FAMILIES[model.family], model.config))
    if model.processor is None or "text" not in model.processor.media or library == "timm":
        return ExportQuestion(drawn)
    asked = {PLAIN: TEXT, **OTHER_TEXTS}
    if not in_words(model):
        special = [x.content for x in model.text().tokenizer.get_added_tokens_decoder().values() if x.special]
        asked |= {SPELLED: f"the {' '.join(special[:MOST_SPELLED])} dog"} if special else {}
    read = {name: example for name, text in asked.items() if (example := example_of(model, text)) is not None}
    if PLAIN not in read:  # a vocabulary of a few words, or it reads something else too
        return ExportQuestion(drawn)
    example = read[PLAIN]
    question = ExportQuestion(
        dict(zip(drawn, example.inputs, strict=False)) | dict(example.named),
        tuple(read),
        tuple(given_text(model, one) for one in read.values()),
        tuple(one.inputs[0][0].tolist() for one in read.values()),
    )
    write: dict[str, Callable[..., Any]] = {"translate": model.translate, "generate": model.generate}
    for verb in filter(model.can, write):
        best = write[verb](TEXT, decoding=replace(GREEDY, longest=TOKENS)).nbest[0]
        question = replace(question, tokens=TOKENS, written=tuple(best.ids))
    return question


def example_of(model: Model, text: str) -> Example | None:
    """The text prepared: alone, with itself as its translation, or as a question about itself."""
    several = [[text, text]] if len(model.takes) > 1 else [[text], [text, text]]
    for given in several:
        try:
            return model.example(given)
        except InputError:
            continue
    return None


def given_text(model: Model, example: Example) -> Sequence[Any]:
    """What a tokenizer is given for it."""
    texts = example.texts[:1] if len(model.takes) > 1 else example.texts
    return [text.split() for text in texts] if in_words(model) else texts


def in_words(model: Model) -> bool:
    """Whether it reads texts that are cut into words already."""
    return model.can("tag")


def compared(
    found: ExportCheck,
    folder: Path,
    question: ExportQuestion,
    answer: Mapping[str, Any],
    ours: Mapping[str, Tensor],
    theirs: Sequence[Tensor],
) -> ExportCheck:
    """What is the same; what is not is an error, but for special tokens that a text spells: a vocabulary of another
    library leaves as it came, and is used there as it was."""
    told, problems = ["numbers"], numbers_apart(ours, theirs)
    differs: list[str] = []
    for name, wanted, ids in zip(question.tried, question.ids, answer.get("ids", ()), strict=True):
        if ids != wanted:
            (differs if name == SPELLED else problems).append(f"token ids {ids} of {name}, here {wanted}")
    told += ["token ids"] if question.texts else []
    if question.tokens:
        told.append("generated text")
        if answer["written"][: len(question.written)] != list(question.written):
            problems.append(f"it writes {answer['written']}, here {list(question.written)}")
    if problems:
        refuse(folder, found.library, "; ".join(problems))
    return replace(found, compared=tuple(told), differs=tuple(differs))


def numbers_apart(ours: Mapping[str, Tensor], theirs: Sequence[Tensor]) -> list[str]:
    """What is not the same of the answers, each in words."""
    if len(ours) != len(theirs):
        return [f"{len(theirs)} outputs, here {len(ours)}: {', '.join(ours)}"]
    problems = []
    for (name, own), other in zip(ours.items(), theirs, strict=True):
        what = name or "logits"
        if own.shape != other.shape:
            problems.append(f"{what} of shape {tuple(other.shape)}, here {tuple(own.shape)}")
        elif not torch.allclose(own, other, 0, CLOSE * max(float(own.nan_to_num().abs().max()), 1.0), equal_nan=True):
            problems.append(f"{what} up to {float((own - other).abs().nan_to_num(torch.inf).max()):.2g} apart")
    return problems


def library_of(folder: Path) -> str:
    """Whose format a folder is in."""
    if is_pipeline(folder):
        return "diffusers"
    return "timm" if "architecture" in read_json(folder / "config.json") else "transformers"


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1][:300]


def refuse(folder: Path, library: str, got: str) -> NoReturn:
    raise InputError(
        f"the exported folder does not give the same in {library} as the model does here",
        where=str(folder),
        got=got,
        expected="the same token ids, numbers and text",
        fix=f"please report it with the version of {library}",
    )
