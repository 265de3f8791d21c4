"""The child's side of the check of an exported pipeline: diffusers opens the folder and draws an image, alone.

It is not a dependency, and is imported here only, in a process of its own, where it is installed. The request is a
folder with ``request.json`` and the noise to begin with; the answer stands beside them.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from .reopening import mend_torchvision


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text())
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "DIFFUSERS_VERBOSITY": "error"}
    mend_torchvision()
    try:
        library: Any = importlib.import_module(request["library"])
        opened = library.StableDiffusionPipeline
    except Exception as error:  # whatever is wrong with that library, the export is not
        (folder / "answer.json").write_text(json.dumps({"broken": f"{type(error).__name__}: {error}"[:300]}))
        return
    pipe = opened.from_pretrained(request["exported"], safety_checker=None)
    pipe.set_progress_bar_config(disable=True)
    if request["fixed"]:  # a solver that draws fresh noise would draw another image
        pipe.scheduler = library.DDIMScheduler.from_config(pipe.scheduler.config)
    noise = load_file(folder / "noise.safetensors")["noise"]
    found = pipe(request["text"], latents=noise, output_type="pt", **request["settings"]).images
    ids = pipe.tokenizer(request["text"], padding="max_length", truncation=True).input_ids
    save_file({"image": found.contiguous()}, folder / "answer.safetensors")
    (folder / "answer.json").write_text(json.dumps({"version": library.__version__, "ids": ids}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
