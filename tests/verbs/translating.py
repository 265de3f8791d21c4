"""Small translators."""

import io
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

import regard
from regard.modalities.text.runners import Translation
from regard.modalities.text.vocabulary import Vocabulary, tokenizer_symbols
from regard.model import Model

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", ".", "!", "?"]


TEXTS = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))]


def translator(family: str = "transformer") -> Model:
    torch.manual_seed(0)
    text = Vocabulary("bpe", 320).learn(TEXTS)
    vocab = text.tokenizer.get_vocab_size()
    if family == "rnn":
        model = regard.build("rnn-bahdanau", vocab=vocab, target_vocab=None, dim=16, hidden=16, align=8, maxout=16)
    else:
        sizes = {"vocab": vocab, "dim": 16, "depth": 2, "heads": 2, "hidden": 24, "norm": "pre", "scaled": False}
        model = regard.build("transformer-small", output_bias=True, **sizes)
    for name, x in model.net.named_parameters():
        if x.ndim > 1:
            torch.nn.init.normal_(x, std=0.3 if "embed" in name else 1.0)
    (model.net.output_bias if family == "transformer" else model.net.output.bias).data[text.id_of("<end>")] = 1.0
    return replace(model.eval(), processor=text, task="translate", symbols=tokenizer_symbols(text))


def several(model: Model, texts: list[str], **how: Any) -> list[Translation]:
    found = model.translate(texts, **how)
    assert isinstance(found, list)
    return found


def piped(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(raw)

        @staticmethod
        def isatty() -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Input)
