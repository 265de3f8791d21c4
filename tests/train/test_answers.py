"""Answers to questions: the loss against plain cross-entropy, SQuAD's measures, and runs from end to end."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard.building import build
from regard.cli.app import main
from regard.data.batches import Batches
from regard.data.loader import Maker
from regard.data.order import Order
from regard.modalities.text.framing import AnswerBatch, AnswerMaker
from regard.modalities.text.overlap import exact, f1
from regard.modalities.text.processor import Text
from regard.modalities.text.questions import Question
from regard.modalities.text.tasks.answering import FindAnswer, best_spans
from regard.modalities.text.vocabulary import Vocabulary, with_frame
from regard.model import Model
from regard.run.training import reopen_run
from tests.train.runs import lines, refused, trained, written
from tests.train.test_texts import BERT, TRAIN, WORDS

NAMES = ("anna", "ben", "cleo", "dora", "emil", "finn", "gert", "hanna")
DEEDS = ("sings", "reads", "runs", "cooks")
PLACES = ("new york", "old town", "rome", "bad ems", "oslo")


def facts(count: int, seed: int = 0) -> list[Question]:
    """Who does what and where, in any order: the first word of the question tells which of them is asked for."""
    luck = random.Random(seed)
    rows = []
    for _ in range(count):
        told = {"who": luck.choice(NAMES), "what": luck.choice(DEEDS), "where": luck.choice(PLACES)}
        context = " , ".join(luck.sample([*told.values(), "or so"], 4))
        asked = luck.choice(list(told))
        rows.append(Question(f"{asked} is it ?", context, told[asked], context.index(told[asked])))
    return rows


def words() -> Text:
    return with_frame(Vocabulary("words", 60).learn([f"{row.question} {row.context}" for row in facts(100)]))


def net(text: Text, **changes: Any) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"dim": 16, "heads": 2, "hidden": 32, "depth": 1, "length": 32, "pooler": False}
    made = build(
        "bert-tiny", **{"vocab": text.tokenizer.get_vocab_size(), "head": "span", "dropout": 0.0} | sizes | changes
    ).net
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made.eval()


# ------------------------------------------------------------------------------------------------------------ the loss


def test_the_loss_by_hand() -> None:
    """Of each row by itself, over the tokens of its context alone."""
    text, rows = words(), facts(5)
    rows[2] = rows[2]._replace(context=f"{rows[2].answer} or so", start=0)
    made = net(text)
    task, batch = FindAnswer(made), AnswerMaker(text, 32, whole=False)(rows)
    (loss,) = task.losses(batch, 0)
    term = loss.terms["loss"]
    assert (term.count, term.weight, loss.part) == ("answers", 1.0, "net")
    assert task.counts(batch) == {"answers": 5.0}
    wanted = torch.zeros(())
    for row in rows:
        begin, end = (text.id_of(name) for name in ("<begin>", "<end>"))
        asked, read = text.unframed([row.question, row.context])
        ids = torch.tensor([[begin, *asked, end, *read, end]])
        segments = torch.tensor([[0] * (len(asked) + 2) + [1] * (len(read) + 1)])
        logits = made.spanned(ids, segments=segments)[0, len(asked) + 2 : -1]
        first = len(row.context[: row.start].split())
        last = first + len(row.answer.split()) - 1
        for i, place in enumerate((first, last)):
            wanted = wanted + F.cross_entropy(logits[:, i], torch.tensor(place)) / 2
    torch.testing.assert_close(term.sum, wanted, rtol=1e-5, atol=1e-5)


def test_no_other_token_is_ever_chosen() -> None:
    """Whatever the logits of the question and of the frame are, loss, gradient and answer stay the same."""
    text, rows = words(), facts(4)
    batch = AnswerMaker(text, 32, whole=False)(rows)
    task = FindAnswer(net(text))
    logits = task.logits(batch).detach()
    other = torch.where(batch.context[..., None], logits, 1e4).requires_grad_()
    loss = task.loss(other, batch)
    torch.testing.assert_close(loss, task.loss(logits, batch))
    loss.backward()
    assert other.grad is not None
    assert bool((other.grad[~batch.context] == 0).all())
    assert bool((other.grad[batch.context] != 0).any())
    assert task.said(other, batch) == task.said(logits, batch)


def test_a_row_without_a_place_costs_nothing() -> None:
    """Neither in the count nor in the gradient, even where nothing of its context is left."""
    text = words()
    batch = AnswerMaker(text, 32, whole=False)(facts(3))
    task = FindAnswer(net(text))
    context = batch.context.clone()
    context[1] = False
    starts, ends = batch.starts.clone(), batch.ends.clone()
    starts[1] = ends[1] = -1
    broken = replace(batch, context=context, starts=starts, ends=ends)
    (loss,) = task.losses(broken, 0)
    loss.terms["loss"].sum.backward()
    found = {name: x.grad.clone() for name, x in task.net.named_parameters()}
    assert all(bool(x.isfinite().all()) for x in found.values())
    assert task.counts(broken) == {"answers": 2.0}
    task.net.zero_grad()
    pick = torch.tensor([0, 2])
    few = AnswerBatch(
        batch.ids[pick],
        None if batch.segments is None else batch.segments[pick],
        None if batch.keys is None else batch.keys[pick],
        batch.context[pick],
        batch.starts[pick],
        batch.ends[pick],
        batch.offsets[pick],
        torch.tensor([0, 1]),
        (batch.questions[0], batch.questions[2]),
    )
    (loss,) = task.losses(few, 0)
    loss.terms["loss"].sum.backward()
    for name, x in task.net.named_parameters():
        torch.testing.assert_close(found[name], x.grad, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        logits = task.logits(broken)
        assert best_spans(logits, context).chances[1] == 0.0
        assert task.said(logits, broken)[1] == ""
        assert task.evaluate(broken)["questions"] == 3


class Facts:
    """Rows of uneven lengths, some longer than is read."""

    def __init__(self, rows: list[Question]) -> None:
        self.rows, self.lengths, self.faults = rows, None, ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Question:
        return self.rows[i]

    def where(self, i: int) -> str:
        return str(i)


def uneven(count: int) -> list[Question]:
    luck, rows = random.Random(3), facts(count)
    found = []
    for row in rows:
        more = " , ".join(f"{luck.choice(NAMES)} {luck.choice(DEEDS)}" for _ in range(luck.randrange(12)))
        found.append(row._replace(context=f"{row.context} , {more}".strip(" ,")))
    return found


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("pieces", [2, 3, 12])
def test_any_split_gives_the_same_gradient(pieces: int, whole: bool) -> None:
    text = words()
    task = FindAnswer(net(text).double())
    rows = Facts(uneven(12))
    data = Batches(rows, Order(12, rows=12), AnswerMaker(text, 24, whole=whole))

    def gradient(split: int) -> dict[str, Tensor]:
        batches = [piece.batch for piece in Maker(data, 0, 1, split, 0).pieces(0)]
        total = sum(task.counts(batch)["answers"] for batch in batches)
        assert total == 12
        task.net.zero_grad()
        for batch in batches:
            (loss,) = task.losses(batch, 0)
            (loss.terms["loss"].sum / total).backward()
        return {name: x.grad.clone() for name, x in task.net.named_parameters()}

    one, other = gradient(1), gradient(pieces)
    for name, x in one.items():
        torch.testing.assert_close(other[name], x, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------------------ measures


@pytest.mark.parametrize(
    ("said", "wanted", "same", "shared"),
    [
        ("The Cat!", "cat", 1.0, 1.0),
        ("an  apple,", "a apple", 1.0, 1.0),
        ("theatre", "atre", 0.0, 0.0),
        ("U.S.", "us", 1.0, 1.0),
        ("anna and ben", "anna", 0.0, 0.5),
        ("anna anna", "anna", 0.0, 2 / 3),
        ("", "anna", 0.0, 0.0),
        ("the", "a", 1.0, 1.0),
        ("Zürich", "zürich", 1.0, 1.0),
        ("ben", "anna", 0.0, 0.0),
    ],
)
def test_alike_answers(said: str, wanted: str, same: float, shared: float) -> None:
    assert exact(said, wanted) == exact(wanted, said) == same
    assert f1(said, wanted) == pytest.approx(shared)
    assert f1(wanted, said) == pytest.approx(shared)


def test_measures_are_of_what_a_model_in_use_says() -> None:
    """Long contexts are read in all their parts, so that evaluation and `Model.answer` are one thing; sums add up."""
    text, rows = words(), uneven(30)
    made = net(text)
    model, task = Model("bert", made, text), FindAnswer(made)
    maker = AnswerMaker(text, made.config.length, whole=True)
    batch = maker(rows)
    assert len(batch.ids) > len(rows)
    said = [model.answer(row.question, row.context).text for row in rows]
    assert task.said(task.logits(batch), batch) == said
    with torch.no_grad():
        found = task.metrics(task.evaluate(batch))
        halves = [task.evaluate(maker(some)) for some in (rows[:7], rows[7:])]
    assert found["exact"] == pytest.approx(sum(exact(a, row.answer) for a, row in zip(said, rows, strict=True)) / 30)
    assert found["f1"] == pytest.approx(sum(f1(a, row.answer) for a, row in zip(said, rows, strict=True)) / 30)
    for name, value in task.metrics({name: halves[0][name] + halves[1][name] for name in halves[0]}).items():
        assert value == pytest.approx(found[name], rel=1e-4)
    shown = task.show(batch).splitlines()
    assert shown[:3] == [f"question    {rows[0].question}", f"answer      {rows[0].answer}", f"prediction  {said[0]}"]


# ---------------------------------------------------------------------------------------------------------------- runs


def table(path: Path, rows: list[Question]) -> Path:
    keys = ("question", "context", "answer", "start")
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows))
    else:
        mark = "," if path.suffix == ".csv" else "\t"
        quoted = [[f'"{x}"' if mark == "," else str(x) for x in row] for row in rows]
        path.write_text("\n".join(mark.join(row) for row in [list(keys), *quoted]))
    return path


def answering(form: str = "tsv", model: str = BERT, steps: int = 120, more: str = "") -> str:
    text = f'[task]\nkind = "answer"\n[data]\nkind = "answers"\ntrain = ["facts.{form}"]\nquestion = "question"\n'
    text += f'context = "context"\nanswer = "answer"\nstart = "start"\nbudget = 1000\n{more}\n{WORDS}{model}'
    return text + TRAIN.format(steps=steps).replace("evaluate = 10", "evaluate = 40").replace("save = 5", "save = 50")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_answers_of_any_form_are_learned_alike(place: Path, form: str) -> None:
    """The same rows in the same order: the same losses to the last digit."""
    losses = []
    for kind in ("tsv", form):
        (place / kind).mkdir()
        table(place / kind / f"facts.{kind}", facts(60))
        text = answering(kind, steps=4).replace(f"facts.{kind}", f"{kind}/facts.{kind}")
        run = trained(place / kind, "train.log=1", text=text)
        losses.append([line["loss"] for line in lines(run) if "loss" in line])
    assert len(losses[0]) == 4
    assert losses[0] == losses[1]


def test_answers_are_learned(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(place / "facts.tsv", facts(1000))
    deeper = ("model.depth=2", "model.dim=32", "optimizer.rate=5e-3", "train.evaluate=1000", "train.save=1000")
    run = trained(place, *deeper, text=answering())
    told = lines(run)[-1]["held_out"]
    assert told["exact"] > 0.9
    assert told["f1"] >= told["exact"]
    model = regard.load(run / "model")
    assert (model.task, model.config.head, model.config.pooler) == ("answer", "span", False)
    rows = facts(50, seed=9)
    right = [model.answer(row.question, row.context).start == row.start for row in rows]
    assert sum(right) > 45
    sample = sorted((run / "samples").iterdir())[-1].read_text()
    assert sample.startswith("question    w")
    assert main(["evaluate", str(run)]) == 0
    capsys.readouterr()
    assert main(["answer", str(run), rows[0].question, rows[0].context, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert rows[0].context[found["start"] : found["end"]] == found["text"]


def test_a_run_is_checked_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad rows are told, by file and line; too many of them stop it."""
    table(place / "facts.tsv", facts(60))
    with open(place / "facts.tsv", "a") as file:
        file.write("\nwho is it ?\tanna , sings\tzoe\t0")
    path = written(place, answering())
    told = refused(capsys, "check", str(path))
    assert "facts.tsv:62: the answer 'zoe' is not at position 0" in told
    assert main(["check", str(path), "data.bad=0.1"]) == 0
    out = capsys.readouterr().out
    assert "1 left out" in out
    assert "task        answer" in out


def test_long_contexts_are_learned_from(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In training one part of each is read; to measure, all are, within the budget."""
    table(place / "facts.tsv", [row._replace(context=f"{row.context} " * 6) for row in facts(60)])
    run = trained(place, "data.budget=300", text=answering(steps=3))
    out, err = capsys.readouterr()
    assert "beyond 32 in a row" in out + err
    assert lines(run)[-1]["held_out"]["loss"] > 0
    splits = reopen_run(run).sources.splits
    sizes = {}
    for split, batches in splits.items():
        made = [batches.collate(batches.rows(step).tolist(), step) for step in range(len(batches))]
        assert all(batch.ids.numel() <= 300 for batch in made)
        sizes[split] = sum(len(batch.ids) for batch in made), sum(len(batch.questions) for batch in made)
    assert sizes["train"] == (54, 54)
    assert sizes["held_out"][1] == 6
    assert sizes["held_out"][0] >= 12


def test_the_run_file_that_init_prints(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row[:3] for row in facts(60)]
    (place / "questions.tsv").write_text("\n".join("\t".join(row) for row in rows))
    assert main(["init", "answer"]) == 0
    path = written(place, capsys.readouterr().out, "run.toml")
    small = ["model.dim=16", "model.depth=1", "model.hidden=32", "model.heads=2", "data.vocabulary.size=300"]
    assert main(["check", str(path), *small, "train.threads=1"]) == 0
    assert main(["train", str(path), *small, "train.steps=3", "train.threads=1"]) == 0
    model = regard.load(place / "runs" / "run" / "model")
    assert model.answer("who is it ?", "anna , sings").text


@pytest.mark.parametrize("learn", ["all", "head", "adapters"])
def test_from_earlier_weights(place: Path, learn: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a pooler, which no answer is read from, and which another library's model of this kind lacks."""
    rows = facts(200)
    table(place / "facts.tsv", rows)
    (place / "lines.txt").write_text("\n".join(f"{row.question} {row.context}" for row in rows))
    text = '[task]\nkind = "masked"\n[data]\nkind = "text"\nbudget = 600\n'
    text += f'train = ["{place}/lines.txt"]\n{WORDS}{BERT}' + TRAIN.format(steps=5)
    base = trained(place / "base", text=text)
    before = regard.load(base / "model")
    assert before.config.pooler
    start = f'[start]\nmodel = "{base}"\nlearn = "{learn}"\n'
    run = trained(place, text=answering(model=start, steps=10).replace(WORDS, ""))
    out, err = capsys.readouterr()
    assert "span.weight" in out + err
    after = regard.load(run / "model")
    kept = [name for name, x in after.state_dict().items() if torch.equal(before.state_dict().get(name, x - 1), x)]
    inner = [name for name in after.state_dict() if not name.startswith("span")]
    assert len(kept) < len(inner) if learn == "all" else set(kept) <= set(inner)
    if learn == "head":
        assert kept == inner
    if learn == "adapters":
        assert sorted(set(inner) - set(kept)) == ["blocks.0.mixer.q.weight", "blocks.0.mixer.v.weight"]
        found = regard.adapted(before, run / "adapter")
        assert found.answer("who is it ?", "anna , sings").text == after.answer("who is it ?", "anna , sings").text
    regard.export(after, place / "theirs")
    said = json.loads((place / "theirs" / "config.json").read_text())
    assert said["architectures"] == ["BertForQuestionAnswering"]
    again = regard.load(place / "theirs")
    assert again.config.head == "span"
    assert again.answer("who is it ?", rows[0].context) == after.answer("who is it ?", rows[0].context)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["model.head=label"], ("needs a different head", "span")),
        (["data.answer=anwser"], ("anwser", "did you mean 'answer'")),
        (["data.start=7"], ("column 7 does not exist",)),
        (["data.longest=5"], ("longest = 5 is not 0 or at least 16",)),
        (["task.kind=tag"], ("cannot serve", "tagged")),
        (["model={name='gpt-tiny'}"], ("a gpt cannot answer", "bert")),
        (["data.answer=1"], ("the data has no valid row", "is not at position")),
    ],
)
def test_bad_runs(place: Path, changes: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    table(place / "facts.tsv", facts(30))
    path = written(place, answering())
    told = refused(capsys, "train", str(path), f"folder={place / 'run'}", *changes)
    assert not [word for word in words if word not in told], told
    assert not (place / "run").exists()
