"""What was exported, opened by diffusers: whether it draws what the model draws here."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors.torch import load_file, save_file

from regard.errors import InputError
from regard.interop import reopened_pipeline
from regard.modalities.inputs import ModelView
from regard.sample.noise import ImageNoise

from .prompt_drawer import PromptDrawer
from .prompted import Prompted
from .settings import Drawing

LIBRARY = "diffusers"
TEXT = "the dog sees a cat"
STEPS, GUIDANCE = 2, 3.0
CLOSE = 1e-3  # of shares of white
SECONDS = 600


@dataclass(frozen=True)
class PipelineCheck:
    """By which version it was opened and what was compared, or why it was not."""

    version: str = ""
    compared: tuple[str, ...] = ()
    skipped: str = ""


def drawn_there(model: ModelView, folder: Path) -> PipelineCheck:
    """The same noise, made an image here and there, in a process of its own. What differs is an error."""
    if find_spec(LIBRARY) is None:
        return PipelineCheck(skipped=f"{LIBRARY} is not installed")
    net: Any = model.net
    if net.config.given != "noise" or not isinstance(model.processor, Prompted):
        return PipelineCheck(skipped="a pipeline that draws parts anew begins with a random sample of the image")
    drawer, told = PromptDrawer(net, model.processor), net.config.told_sampling
    fixed = told.solver == "ddpm"
    settings = replace(told, steps=STEPS, guidance=GUIDANCE, reference=True)
    settings = replace(settings, solver="ddim", variance="small") if fixed else settings
    try:
        ids = drawer.tokens(text := TEXT).ids
    except InputError:  # a vocabulary of a few words
        ids = drawer.tokens(text := "").ids
    asked = {"num_inference_steps": STEPS, "guidance_scale": GUIDANCE}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        request = {
            "library": LIBRARY,
            "exported": str(folder.absolute()),
            "text": text,
            "fixed": fixed,
            "settings": asked,
        }
        (home / "request.json").write_text(json.dumps(request))
        save_file({"noise": ImageNoise(0, [0], net.config.shape).start().contiguous()}, home / "noise.safetensors")
        child = [sys.executable, "-P", "-m", reopened_pipeline.__name__, str(home)]
        try:
            run = subprocess.run(child, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return PipelineCheck(skipped=f"{LIBRARY} took more than {SECONDS} s")
        if run.returncode:
            refuse_drawn(
                folder, f"it cannot be opened: {(run.stderr.strip().splitlines() or ['no message'])[-1][:300]}"
            )
        answer = json.loads((home / "answer.json").read_text())
        if broken := answer.get("broken"):
            return PipelineCheck(skipped=f"it cannot be imported here: {broken}")
        theirs = load_file(home / "answer.safetensors")["image"]
    *_, last = drawer.steps(text, Drawing(denoising=settings), 0)
    with torch.no_grad():
        ours = (net.expand(last.state) / 2 + 0.5).clamp(0, 1)
    if answer["ids"] != list(ids):
        refuse_drawn(folder, f"token ids {answer['ids']} of {text!r}, here {list(ids)}")
    apart = float((ours - theirs).abs().max()) if ours.shape == theirs.shape else float("nan")
    if not apart <= CLOSE:
        refuse_drawn(folder, f"images up to {apart:.2g} apart, where white is 1")
    return PipelineCheck(answer["version"], ("token ids", "image"))


def refuse_drawn(folder: Path, got: str) -> NoReturn:
    raise InputError(
        f"the exported folder does not give the same in {LIBRARY} as the model does here",
        where=str(folder),
        got=got,
        expected="the same token ids and the same image",
        fix=f"do not use this folder; please report it with the version of {LIBRARY}",
    )
