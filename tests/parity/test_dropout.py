"""Dropout stands where the reference has it.

Random zeros cannot be compared, so for these tests dropout with p multiplies by 1 + p, each place with its own p:
where one is missing, or stands elsewhere, the outputs differ.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
import regard.nn.dropout
from regard.nn.feedforward import FeedForward
from regard.nn.tap import capture
from tests.parity.ours import OURS, assert_close
from tests.parity.references import FAMILIES, bert_config, gpt, marian, redraw, vit_config
from tests.parity.theirs import transformers
from tests.parity.twins import Pair, batch, run_reference, saved

BUILDS = {
    "gpt": lambda: gpt(resid_pdrop=0.1, attn_pdrop=0.2, embd_pdrop=0.3),
    "bert-pretraining": lambda: transformers.BertForPreTraining(
        bert_config(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2)
    ),
    "vit": lambda: transformers.ViTForImageClassification(
        vit_config(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2, num_labels=5)
    ),
    "transformer": lambda: marian(dropout=0.1, attention_dropout=0.2, activation_dropout=0.3),
}


def marked(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return x * (1 + p) if training else x


@pytest.mark.parametrize("case", BUILDS)
def test_every_place(case: str, monkeypatch: pytest.MonkeyPatch, device: torch.device, tmp_path: Path) -> None:
    model = BUILDS[case]().eval()
    model.set_attn_implementation("eager")
    redraw(model, 0)
    pair = Pair(case, model.to(device), regard.load(saved(model, tmp_path)).net.to(device))
    inputs = {name: x.to(device) for name, x in batch(case).items()}
    calm = run_reference(case, pair.theirs, inputs)
    monkeypatch.setattr(torch.nn.functional, "dropout", marked)
    monkeypatch.setattr(regard.nn.dropout, "dropped", marked)
    pair.ours.train()
    pair.theirs.train()
    if FAMILIES[case] == "vit":  # the paper's appendix B.1 drops after the first dense layer too, the reference not
        for module in pair.ours.modules():
            if isinstance(module, FeedForward):
                assert module.dropout.p == 0.1
                module.dropout.p = 0.0
    with capture(pair.ours):  # the fused path would draw its own zeros
        ours = OURS[pair.family](pair.ours, inputs)
    theirs = run_reference(case, pair.theirs, inputs)
    assert_close(ours, theirs.outputs)
    for name, x in calm.outputs.items():  # a test that dropout was on at all
        assert bool(((theirs.outputs[name] - x).abs() > 1e-3).any())
