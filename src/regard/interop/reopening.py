"""The child's side of the check of an export: another library opens a folder that was written for it, alone.

It is not a dependency, and is imported here only, in a process of its own, where it is installed. The request is a
folder with ``request.json`` and, of the inputs, ``inputs.safetensors``; the answer stands beside them.
"""

import importlib
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

NAMES = {  # of our inputs
    "ids": "input_ids",
    "source": "input_ids",
    "target": "decoder_input_ids",
    "segments": "token_type_ids",
    "images": "pixel_values",
}
ANSWERS = ("prediction_logits", "seq_relationship_logits", "logits", "pred_boxes")  # of their outputs, in our order

DECLARED: list[torch.library.Library] = []  # while they are kept, what they declare is there


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text())
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    mend_torchvision()
    try:
        library: Any = importlib.import_module(request["library"])
    except Exception as error:  # whatever is wrong with that library, the export is not
        (folder / "answer.json").write_text(json.dumps({"broken": f"{type(error).__name__}: {error}"[:300]}))
        return
    opened = open_timm if request["library"] == "timm" else open_transformers
    with torch.inference_mode():
        answer, numbers = opened(library, request, load_file(folder / "inputs.safetensors"))
    save_file({str(i): x.contiguous() for i, x in enumerate(numbers)}, folder / "answer.safetensors")
    (folder / "answer.json").write_text(json.dumps({"version": library.__version__, **answer}))


def mend_torchvision() -> None:
    """timm itself needs torchvision, but none of its compiled parts. Where these are missing, the two operators that
    its Python names while it is imported are declared, and never called; if that is not enough, it is hidden."""
    if not works("torchvision"):
        library = torch.library.Library("torchvision", "DEF")
        DECLARED.append(library)
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        hide_broken_torchvision()


def hide_broken_torchvision() -> None:
    """timm asks for torchvision, whose published build wants another torch than the CPU one. transformers would import
    it and fail with it; hidden, it is simply not there."""
    if not works("torchvision"):
        sys.modules["torchvision"] = None  # type: ignore[assignment]


def works(name: str) -> bool:
    """Whether a package can be imported; if not, nothing is left of the attempt."""
    try:
        importlib.import_module(name)
    except (ImportError, RuntimeError, OSError):
        for part in [part for part in sys.modules if part.partition(".")[0] == name]:
            del sys.modules[part]
        return False
    return True


def open_timm(timm: Any, request: Any, inputs: dict[str, torch.Tensor]) -> tuple[dict[str, Any], list[torch.Tensor]]:
    net = timm.create_model(f"local-dir:{request['exported']}", pretrained=True).eval()
    return {}, [net(inputs["images"])]


def open_transformers(
    library: Any, request: Any, inputs: dict[str, torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    folder = request["exported"]
    (name,) = library.AutoConfig.from_pretrained(folder).architectures
    net = getattr(library, name).from_pretrained(folder).eval()
    answer: dict[str, Any] = {}
    if request["texts"]:
        tokenizer = library.AutoTokenizer.from_pretrained(folder)
        read = partial(tokenizer, is_split_into_words=request["words"])
        answer["ids"] = [read(*texts).input_ids for texts in request["texts"]]
        if request["tokens"]:
            given = read(*request["texts"][0], return_tensors="pt")
            begun = 1 if "target" in inputs else given.input_ids.shape[1]
            answer["written"] = written(net, given, request["tokens"])[begun:]
    out = net(**{NAMES[name]: x for name, x in inputs.items()})
    if "start_logits" in out:
        return answer, [torch.stack((out["start_logits"], out["end_logits"]), -1)]
    return answer, [out[name] for name in ANSWERS if name in out] or [out["last_hidden_state"]]


def written(net: Any, given: Any, tokens: int) -> list[int]:
    """So many tokens. The end that some models are made to write at their last token, wherever that is, is not asked
    for: here it would stand in the middle of a text."""
    net.generation_config.forced_eos_token_id = None
    found: list[int] = net.generate(**given, num_beams=1, do_sample=False, max_new_tokens=tokens)[0].tolist()
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
