"""Answers to questions as transformers learns and finds them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import regard
from regard.building import build
from regard.modalities.text.framing import AnswerBatch, AnswerMaker
from regard.modalities.text.questions import Question
from regard.modalities.text.tasks.answering import FindAnswer
from regard.modalities.text.vocabulary import Vocabulary, with_frame
from regard.model import Model
from tests.parity.theirs import transformers

WORDS = [f"w{i}" for i in range(30)]
ROWS = [
    Question("w1 w2", "w3 w4 w5", "w4 w5", 3),
    Question("w9", "w8 w7 w6 w5", "w8", 0),
    Question("w9 w1 w3 w7", "w12", "w12", 0),
]  # as long as each other: what stands at padding they compute otherwise


def both(folder: Path) -> tuple[Model, Any, AnswerBatch]:
    """A model of ours, the same in their hands, and a batch."""
    torch.manual_seed(0)
    text = with_frame(Vocabulary("words", 60).learn([" ".join(WORDS)]))
    sizes: dict[str, Any] = {"dim": 16, "heads": 2, "hidden": 32, "depth": 2, "length": 24, "dropout": 0.0}
    made = build("bert-tiny", vocab=text.tokenizer.get_vocab_size(), head="span", pooler=False, **sizes)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    ours = Model("bert", made.net.eval(), text)
    regard.export(ours, folder)
    theirs, said = transformers.BertForQuestionAnswering.from_pretrained(folder, output_loading_info=True)
    assert not said["missing_keys"]
    assert not said["unexpected_keys"]
    return ours, theirs.eval(), AnswerMaker(text, 24, whole=False)(ROWS)


def test_the_loss_and_its_gradient(tmp_path: Path) -> None:
    """Theirs may choose any token: let ours."""
    ours, theirs, batch = both(tmp_path / "theirs")
    task = FindAnswer(ours.net)
    (loss,) = task.losses(replace(batch, context=torch.ones_like(batch.context)), 0)
    found = loss.terms["loss"].sum / task.counts(batch)["answers"]
    said = theirs(batch.ids, token_type_ids=batch.segments, start_positions=batch.starts, end_positions=batch.ends)
    assert batch.keys is None
    torch.testing.assert_close(found, said.loss, rtol=1e-4, atol=1e-5)
    found.backward()
    said.loss.backward()
    gradient = ours.net.get_parameter("span.weight").grad
    torch.testing.assert_close(gradient, theirs.qa_outputs.weight.grad, rtol=1e-4, atol=1e-5)


def test_the_answer_is_theirs(tmp_path: Path) -> None:
    """The likeliest span of the context by their logits."""
    ours, theirs, _ = both(tmp_path / "theirs")
    for row in ROWS:
        batch = AnswerMaker(ours.text(), 24, whole=False)([row])
        with torch.no_grad():
            said = theirs(batch.ids, token_type_ids=batch.segments)
        own = batch.context[0]
        first, last = said.start_logits[0][own].softmax(-1), said.end_logits[0][own].softmax(-1)
        joint = (first[:, None] * last).triu()
        i, j = divmod(int(joint.argmax()), len(last))
        found = ours.answer(row.question, row.context)
        assert found.text == " ".join(row.context.split()[i : j + 1])
        torch.testing.assert_close(found.probability, float(joint.max()), rtol=1e-4, atol=1e-6)
