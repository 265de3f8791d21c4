"""Readers of texts with random weights."""

from typing import Any

import torch

import regard
from regard.modalities.text.vocabulary import Vocabulary, with_frame
from regard.model import Model

WORDS = [f"w{i}" for i in range(40)]
TEXTS = ["w1 w2 w3", "w4", " ".join(WORDS[5:20]), "w7 w8"]
SIZES: dict[str, Any] = {"dim": 16, "heads": 2, "hidden": 32, "depth": 1, "length": 24, "classes": 3}


def model(head: str, name: str = "bert-tiny", **changes: Any) -> Model:
    torch.manual_seed(0)
    text = with_frame(Vocabulary("words", 60).learn([" ".join(WORDS)]))
    sizes = SIZES if name == "bert-tiny" else {"dim": 8, "hidden": 8, "classes": 3}
    made = regard.build(name, **{"vocab": text.tokenizer.get_vocab_size(), "head": head} | sizes | changes)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    task = {"label": "classify", "tags": "tag"}.get(head)
    labels = ("red", "green", "blue") if task else ()
    return Model(made.family, made.net.eval(), text, task, labels=labels)
