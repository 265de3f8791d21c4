"""What was exported, opened by the other library: whether it reads and writes what the model does here."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.decode.settings import GREEDY
from regard.errors import InputError
from regard.interop import reopening
from regard.model import Model
from regard.models.probing import as_floats, logits_of, random_inputs
from regard.storage.documents import read_json
from regard.zoo import FAMILIES

TEXT = "the dog sees a cat"
TOKENS = 16  # that both write
CLOSE = 1e-3  # of the largest number
SECONDS = 600


@dataclass(frozen=True)
class ExportCheck:
    """How a folder was opened: by which library, what was compared, or why it was not."""

    library: str
    version: str = ""
    compared: tuple[str, ...] = ()
    skipped: str = ""


def check_export(model: Model, folder: Path) -> ExportCheck:
    """Open an exported folder where its library is installed, in a process of its own. What differs is an error."""
    library = library_of(folder)
    if find_spec(library) is None:
        return ExportCheck(library, skipped=f"{library} is not installed")
    request, inputs, named = asked(model, library)
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "request.json").write_text(
            json.dumps({"library": library, "exported": str(folder.absolute())} | request)
        )
        save_file({name: x.contiguous() for name, x in inputs.items()}, home / "inputs.safetensors")
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
        theirs = load_file(home / "answer.safetensors")["logits"]
    with torch.inference_mode():
        ours = logits_of(model.net(**named))
    return compared(ExportCheck(library, answer["version"]), folder, request | answer, ours, theirs)


def asked(model: Model, library: str) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Tensor]]:
    """What both are asked: a text, what the model makes of it, and its net's inputs by name; of a model without words,
    random numbers."""
    row = FAMILIES[model.family]
    drawn = as_floats(random_inputs(row, model.config))
    nothing: dict[str, Any] = {"text": None, "expected_ids": [], "tokens": 0, "expected_written": []}
    if model.processor is None or "text" not in model.processor.media or library == "timm":
        return nothing, drawn, drawn
    try:
        example = model.example([TEXT])
    except InputError:  # a vocabulary of a few words, or a model that reads something else beside the text
        return nothing, drawn, drawn
    named = dict(zip(drawn, example.inputs, strict=False)) | dict(example.named)
    request = {"text": TEXT, "expected_ids": example.inputs[0][0].tolist(), "tokens": 0, "expected_written": []}
    decoding = replace(GREEDY, longest=TOKENS)
    write: dict[str, Callable[..., Any]] = {"translate": model.translate, "generate": model.generate}
    for verb in filter(model.can, write):
        request |= {"tokens": TOKENS, "expected_written": list(write[verb](TEXT, decoding=decoding).nbest[0].ids)}
    return request, named, named


def compared(found: ExportCheck, folder: Path, answer: Mapping[str, Any], ours: Tensor, theirs: Tensor) -> ExportCheck:
    """What is the same; what is not is an error."""
    told, problems = ["numbers"], []
    apart = float((ours - theirs).abs().max()) if ours.shape == theirs.shape else float("nan")
    if not apart <= CLOSE * max(float(ours.abs().max()), 1.0):
        problems.append(f"logits up to {apart:.2g} apart")
    if answer["text"] is not None:
        told.append("token ids")
        if answer["ids"] != answer["expected_ids"]:
            problems.append(f"token ids {answer['ids']} of {answer['text']!r}, here {answer['expected_ids']}")
    if answer["tokens"]:
        told.append("generated text")
        wanted = answer["expected_written"]
        if answer["written"][: len(wanted)] != wanted:
            problems.append(f"it writes {answer['written']}, here {wanted}")
    if problems:
        refuse(folder, found.library, "; ".join(problems))
    return replace(found, compared=tuple(told))


def library_of(folder: Path) -> str:
    """Whose format a folder is in."""
    return "timm" if "architecture" in read_json(folder / "config.json") else "transformers"


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1][:300]


def refuse(folder: Path, library: str, got: str) -> NoReturn:
    raise InputError(
        f"the exported folder does not give the same in {library} as the model does here",
        where=str(folder),
        got=got,
        expected="the same token ids, numbers and text",
        fix=f"do not use this folder; please report it with the version of {library}",
    )
