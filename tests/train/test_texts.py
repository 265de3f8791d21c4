"""Runs on texts from end to end: labels, tags, hidden words, missing spans, partners; new or from earlier weights."""

import json
import random
from pathlib import Path

import pytest
import torch

import regard
from regard.cli.app import main
from regard.errors import CheckpointError
from regard.modalities.text.runners import Generation
from regard.storage.digest import weights_digest
from tests.train.runs import fingerprint, lines, refused, trained, written

GOOD, BAD = ("good", "fine", "lovely", "great"), ("bad", "poor", "awful", "sad")
THINGS = ("film", "book", "song", "play", "meal")
TRAIN = """
[train]
steps = {steps}
log = 5
evaluate = 10
save = 5
threads = 1
[optimizer]
kind = "adam"
rate = 1e-2
[schedule]
kind = "constant"
"""
BERT = """[model]
name = "bert-tiny"
dim = 16
heads = 2
hidden = 32
depth = 1
length = 32
dropout = 0.0
attention_dropout = 0.0
"""
LSTM = '[model]\nname = "bilstm"\ndim = 16\nhidden = 16\n'
RARELY = ("train.evaluate=60", "train.save=1000")  # where only the end counts
WORDS = '[data.vocabulary]\nkind = "words"\nsize = 60\n'


def reviews(path: Path, count: int = 200) -> Path:
    """One word tells; the others do not."""
    luck = random.Random(0)
    rows = [("text", "mood")]
    for _ in range(count):
        good = luck.random() < 0.5
        word = luck.choice(GOOD if good else BAD)
        rows.append((f"the {luck.choice(THINGS)} is {word} , said the {luck.choice(THINGS)}", "up" if good else "down"))
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(rows[0], row, strict=True))) for row in rows[1:]))
    elif path.suffix == ".csv":
        path.write_text("\n".join(f'"{text}",{mood}' for text, mood in rows))
    else:
        path.write_text("\n".join("\t".join(row) for row in rows))
    return path


def labelled(form: str = "tsv", model: str = BERT, steps: int = 60, more: str = "") -> str:
    data = f'[task]\nkind = "classify"\n[data]\nkind = "labelled"\ntrain = ["reviews.{form}"]\ntext = ["text"]\n'
    return data + f'label = "mood"\nbudget = 400\n{more}\n{WORDS}{model}' + TRAIN.format(steps=steps)


@pytest.mark.parametrize(("form", "model"), [("tsv", BERT), ("csv", BERT), ("jsonl", LSTM + 'head = "label"\n')])
def test_classify(place: Path, form: str, model: str) -> None:
    reviews(place / f"reviews.{form}")
    run = trained(place, "optimizer.rate=5e-3", *RARELY, text=labelled(form, model, 120))
    assert lines(run)[-1]["held_out"]["accuracy"] > 0.95
    found = regard.load(run / "model")
    assert found.labels == ("down", "up")
    assert found.task == "classify"


def test_classify_is_the_same_after_a_stop(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reviews(place / "reviews.tsv")
    whole = trained(place / "one", "train.steps=20", text=labelled().replace('"reviews.tsv"', f'"{place}/reviews.tsv"'))
    text = labelled().replace('"reviews.tsv"', f'"{place}/reviews.tsv"')
    path = written(place / "two", text)
    from regard.train.engine import Engine

    update = Engine.update

    def stop(self: Engine, *given: object) -> object:
        if self.state.step == 13:
            raise KeyboardInterrupt
        return update(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "update", stop)
    assert main(["train", str(path), f"folder={place / 'two' / 'run'}", "train.steps=20"]) == 130
    monkeypatch.setattr(Engine, "update", update)
    assert main(["resume", str(place / "two" / "run")]) == 0
    assert fingerprint(place / "two" / "run") == fingerprint(whole)


def test_pairs_of_texts(place: Path) -> None:
    """Whether both say the same thing: neither text tells by itself."""
    luck = random.Random(1)
    rows = []
    for _ in range(400):
        one, two = luck.choice(THINGS), luck.choice(THINGS)
        two = one if luck.random() < 0.5 else two
        rows.append(f"a {one}\tthe {two}\t{'same' if one == two else 'other'}")
    (place / "reviews.tsv").write_text("\n".join(rows))
    text = labelled(steps=150).replace('text = ["text"]', "text = [1, 2]").replace('label = "mood"', "label = 3")
    run = trained(place, "model.depth=2", "optimizer.rate=5e-3", *RARELY, text=text)
    assert lines(run)[-1]["held_out"]["accuracy"] > 0.9


SENTENCES = [("the dog barks", "DET NOUN VERB"), ("a cat runs fast", "DET NOUN VERB ADV"), ("birds sing", "NOUN VERB")]


def conllu(path: Path, count: int = 60) -> None:
    told = []
    for i in range(count):
        words, tags = (x.split() for x in SENTENCES[i % 3])
        told += [f"{j + 1}\t{a}\t_\t{b}\t_\t_\t_\t_\t_\t_" for j, (a, b) in enumerate(zip(words, tags, strict=True))]
        told.append("")
    path.write_text("\n".join(told) + "\n")


@pytest.mark.parametrize("model", [BERT, LSTM])
def test_tag(place: Path, model: str) -> None:
    conllu(place / "tags.conllu")
    text = '[task]\nkind = "tag"\n[data]\nkind = "tagged"\ntrain = ["tags.conllu"]\nbudget = 300\n'
    text += '[data.vocabulary]\nkind = "bpe"\nsize = 300\n' + model + TRAIN.format(steps=30)
    run = trained(place, text=text)
    assert lines(run)[-1]["held_out"]["accuracy"] > 0.95
    assert regard.load(run / "model").labels == ("ADV", "DET", "NOUN", "VERB")


def masked(follows: str = "false", steps: int = 60) -> str:
    text = f'[task]\nkind = "masked"\nfollows = {follows}\nchosen = 0.3\n[data]\nkind = "text"\ntrain = ["lines.txt"]\n'
    return text + f"budget = 600\n{WORDS}{BERT}" + TRAIN.format(steps=steps)


def test_masked(place: Path) -> None:
    """Each line is one of three, so what is hidden can be told from what is not."""
    (place / "lines.txt").write_text("\n".join(SENTENCES[i % 3][0] for i in range(300)))
    run = trained(place, text=masked())
    told = [line["held_out"] for line in lines(run) if "held_out" in line]
    assert told[-1]["accuracy"] > 0.7 > told[0]["accuracy"]
    assert "follows" not in told[0]


def test_whether_a_line_follows(place: Path) -> None:
    """Forty lines in a row are about one thing: the next is about it too, any other mostly is not."""
    (place / "lines.txt").write_text("\n".join(f"the {THINGS[i // 40 % 5]} {THINGS[i // 40 % 5]}" for i in range(800)))
    changes = ("data.share=0.1", "optimizer.rate=5e-3", "model.depth=2", "task.chosen=0.05", *RARELY)
    run = trained(place, *changes, text=masked("true", 120))
    told = [line["held_out"] for line in lines(run) if "held_out" in line]
    assert told[-1]["follows"] > 0.7


def test_missing_spans(place: Path) -> None:
    (place / "song.txt").write_text("one two three four five six seven eight nine ten\n" * 200)
    text = '[task]\nkind = "spans"\n[data]\nkind = "text"\nunit = "text"\nlongest = 24\nbudget = 400\n'
    text += 'train = ["song.txt"]\n'
    text += '[data.vocabulary]\nkind = "bpe"\nsize = 300\n'
    text += '[model]\nname = "t5-small"\ndim = 32\nheads = 2\nhead_dim = 16\nhidden = 64\ndepth = 1\ndropout = 0.0\n'
    run = trained(place, text=text + TRAIN.format(steps=60))
    told = [line["held_out"]["loss"] for line in lines(run) if "held_out" in line]
    assert told[-1] < 0.6 * told[0]


def test_similar(place: Path) -> None:
    rows = [(a, b) for a in "abcdefghijkl" for b in "mnopqrstuvwx"]
    random.Random(2).shuffle(rows)
    (place / "pairs.tsv").write_text("\n".join(f"the {a} {b}\t{b} of {a}" for a, b in rows))
    text = '[task]\nkind = "similar"\n[data]\nkind = "pairs"\ntrain = ["pairs.tsv"]\nshare = 0.1\nbudget = 600\n'
    text += WORDS.replace("60", "300") + BERT + TRAIN.format(steps=80)
    run = trained(place, text=text)
    told = [line["held_out"]["recall"] for line in lines(run) if "held_out" in line]
    assert told[-1] > 0.9


@pytest.mark.parametrize("name", ["gpt-tiny", "lstm"])
def test_a_text_through_a_window(place: Path, name: str) -> None:
    (place / "song.txt").write_text("one two three four five six seven eight nine ten\n" * 100)
    sizes = "length = 32\ndim = 16\nheads = 2\ndepth = 1\n" if name != "lstm" else "dim = 16\nhidden = 32\n"
    text = '[task]\nkind = "language"\n[data]\nkind = "text"\nunit = "text"\nshare = 0.1\ntrain = ["song.txt"]\n'
    text += f'budget = 256\n[data.vocabulary]\nkind = "characters"\nsize = 60\n[model]\nname = "{name}"\n{sizes}'
    run = trained(place, *RARELY, text=text + TRAIN.format(steps=80 if name == "lstm" else 160))
    told = lines(run)[-1]["held_out"]
    assert told["bits_per_byte"] < 1.0
    assert told["bits_per_byte"] == pytest.approx(told["loss"] / 0.6931471805599453, rel=1e-6)
    model = regard.load(run / "model")
    found = model.generate("six seven ei", decoding=None)
    assert isinstance(found, Generation)
    assert found.text.startswith("ght nine ten\none")


@pytest.mark.parametrize("task", ["classify-text", "fine-tune", "tag", "masked", "spans", "similar"])
def test_the_run_file_that_init_prints(place: Path, task: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the user's file under the name that stands there, it trains."""
    rows = [line.split("\t") for line in reviews(place / "reviews.tsv").read_text().splitlines()[1:]]
    (place / "texts.tsv").write_text("\n".join("\t".join(row) for row in rows))
    (place / "pairs.tsv").write_text("\n".join(f"{row[0]}\t{row[0]} {i}" for i, row in enumerate(rows)))
    (place / "text.txt").write_text("\n".join(row[0] for row in rows))
    conllu(place / "words.conllu")
    small = ["model.dim=16", "model.depth=1", "model.hidden=32"]
    if task == "fine-tune":
        made = trained(place / "base", text=masked(steps=5).replace('"lines.txt"', f'"{place}/text.txt"'))
        (made / "model").rename(place / "model")
        small = []
    elif task != "tag":
        small.append("model.heads=2")
    capsys.readouterr()
    assert main(["init", task]) == 0
    path = written(place, capsys.readouterr().out, "run.toml")
    more = [] if task == "fine-tune" else ["data.vocabulary.size=300"]
    assert main(["train", str(path), *small, *more, "train.steps=3", "train.threads=1", "data.share=0.1"]) == 0
    assert regard.load(place / "runs" / "run" / "model")


# ------------------------------------------------------------------------------------------------------- from a teacher


def test_a_student_of_labels(place: Path) -> None:
    """It learns from what the teacher finds likely: without any label of its own it comes to say the same."""
    reviews(place / "reviews.tsv", 300)
    text = labelled(steps=90).replace('"reviews.tsv"', f'"{place}/reviews.tsv"')
    teacher = trained(place / "teacher", "optimizer.rate=5e-3", *RARELY, text=text)
    changes = [f"task.teacher={teacher}", "task.share=1.0", f"data.vocabulary.file={teacher / 'tokenizer.json'}"]
    student = trained(place / "student", "optimizer.rate=5e-3", *changes, *RARELY, text=text)
    told = lines(student)
    assert told[-1]["held_out"]["accuracy"] > 0.95
    assert {"loss", "teacher"} <= told[0].keys()
    one, two = (regard.load(run / "model").classify(["the film is poor"])[0] for run in (teacher, student))
    assert one.label == two.label == "down"


def test_a_student_of_hidden_words(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "lines.txt").write_text("\n".join(SENTENCES[i % 3][0] for i in range(300)))
    text = masked().replace('"lines.txt"', f'"{place}/lines.txt"')
    teacher = trained(place / "teacher", *RARELY, text=text)
    assert WORDS in text
    text = text.replace(WORDS, "")  # words, though what is learned by default are pieces
    student = trained(place / "student", f"task.teacher={teacher}", "task.share=1.0", *RARELY, text=text)
    read, learned = (json.loads((run / "tokenizer.json").read_text()) for run in (student, teacher))
    assert read == learned  # unless it asks for a vocabulary of its own, it reads that of its teacher
    assert lines(student)[-1]["held_out"]["accuracy"] > 0.7
    path = written(place / "other", text)
    other = (f"task.teacher={teacher}", "data.vocabulary.kind=characters", f"folder={place}/x")
    told = refused(capsys, "train", str(path), *other)
    assert "different tokenizers" in told


def test_one_label_is_nothing_to_learn(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(place, labelled())
    (place / "reviews.tsv").write_text("text\tmood\n" + "a film\tgood\n" * 40)
    assert "the same label" in refused(capsys, "check", str(path))


def test_a_teacher_of_something_else(place: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(place, labelled())
    same = f"data.vocabulary.file={base / 'tokenizer.json'}"
    told = refused(capsys, "train", str(path), f"task.teacher={base}", same, f"folder={place / 'run'}")
    assert "the head or the labels of the teacher differ" in told


# ------------------------------------------------------------------------------------------------ from earlier weights


@pytest.fixture
def base(place: Path) -> Path:
    """A small BERT that has guessed hidden words of reviews."""
    reviews(place / "reviews.tsv")
    rows = (place / "reviews.tsv").read_text().splitlines()[1:]
    (place / "lines.txt").write_text("\n".join(row.split("\t")[0] for row in rows))
    return trained(place / "base", text=masked(steps=20).replace('"lines.txt"', f'"{place}/lines.txt"'))


def start(base: Path, learn: str, more: str = "") -> str:
    model = f'[start]\nmodel = "{base}"\nlearn = "{learn}"\n{more}'
    return labelled(model=model, steps=60).replace(WORDS, "").replace("save = 5", "save = 10")


@pytest.mark.parametrize("learn", ["all", "head", "adapters"])
def test_fine_tuning(place: Path, base: Path, learn: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = regard.load(base / "model")
    run = trained(place, text=start(base, learn, "rank = 4\n" if learn == "adapters" else ""))
    told = capsys.readouterr()
    assert "label.weight" in told.out + told.err
    after, last = regard.load(run / "model"), lines(run)[-1]["held_out"]
    assert after.text().to_bytes() == before.text().to_bytes()
    kept = [name for name, x in before.state_dict().items() if torch.equal(after.state_dict().get(name, x * 0 - 1), x)]
    inner = [name for name in before.state_dict() if not name.startswith("words")]
    if learn == "head":
        assert sorted(kept) == sorted(inner)
    if learn == "adapters":
        moved = sorted(set(inner) - set(kept))
        assert moved == ["blocks.0.mixer.q.weight", "blocks.0.mixer.v.weight"]
    if learn != "head":
        assert last["accuracy"] > 0.9
    assert (run / "adapter").exists() == (learn == "adapters")
    assert main(["evaluate", str(run)]) == 0


def test_an_adapter_fits_its_base_alone(place: Path, base: Path) -> None:
    run = trained(place, "train.steps=10", text=start(base, "adapters", "rank = 2\n"))
    before = regard.load(base / "model")
    digest = weights_digest(before.state_dict())
    found, whole = regard.adapted(before, run / "adapter"), regard.load(run / "model")
    for name, x in whole.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], x)
    assert (found.labels, found.task) == (whole.labels, whole.task)
    assert weights_digest(before.state_dict()) == digest  # the base stays as it is
    size = sum(x.stat().st_size for x in (run / "adapter").iterdir())
    assert size < 0.5 * (run / "model" / "model.safetensors").stat().st_size
    other = regard.load(base / "model")
    with torch.no_grad():
        next(iter(other.parameters()))[0, 0] += 1e-6
    with pytest.raises(CheckpointError, match="trained on a different base model"):
        regard.adapted(other, run / "adapter")
    data = json.loads((run / "adapter" / "adapter.json").read_text())
    (run / "adapter" / "adapter.json").write_text(json.dumps(data | {"rank": 3}))
    with pytest.raises(CheckpointError):
        regard.adapted(before, run / "adapter")


def test_a_run_with_adapters_goes_on_as_if_it_had_never_stopped(place: Path, base: Path) -> None:
    text = start(base, "adapters", "rank = 2\n")
    whole = trained(place / "one", text=text.replace('"reviews.tsv"', f'"{place}/reviews.tsv"'))
    part = trained(place / "two", "train.steps=20", text=text.replace('"reviews.tsv"', f'"{place}/reviews.tsv"'))
    run = part / "run.toml"
    run.write_text(run.read_text().replace("steps = 20", "steps = 60"))
    assert main(["resume", str(part)]) == 0
    assert fingerprint(part, 60) == fingerprint(whole, 60)
    files = [folder / "adapter" / "adapter.safetensors" for folder in (whole, part)]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[start]\nmodel = "nowhere"\n', ("unknown model", "nowhere", "tatoeba-en-de")),
        ('[start]\nmodel = "BASE"\n[model]\nname = "bert-tiny"\n', ("not allowed with [start]",)),
        (
            '[start]\nmodel = "BASE"\n[model]\ndim = 24\n',
            ("do not fit", "embed.weight", "Only the head, settings without weights"),
        ),
        ('[start]\nmodel = "BASE"\n[model]\ndimm = 24\n', ("dimm",)),
        ('[start]\nmodel = "BASE"\nlearn = "adapters"\nwhere = ["*.mixer.qq"]\n', ("mixer.qq", "no linear layer")),
        ('[start]\nmodel = "BASE"\nlearn = "adapters"\nrank = 99\n', ("LoRA rank must be", "got 99")),
        ('[data.vocabulary]\nsize = 300\n[start]\nmodel = "BASE"\n', ("data.vocabulary: not allowed with [start]",)),
        (
            '[start]\nmodel = "recall"\n',
            ("a gpt model cannot be trained to classify", "a recurrent or bert or cliptext model"),
        ),
        (
            '[model]\nname = "gpt-tiny"\n',
            ("a gpt model cannot be trained to classify; expected a recurrent or bert or cliptext model",),
        ),
    ],
)
def test_bad_starts(
    place: Path, base: Path, more: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    text = labelled(model=more.replace("BASE", str(base))).replace(WORDS, "")
    path = written(place, text)
    told = refused(capsys, "train", str(path), f"folder={place / 'run'}")
    assert not [word for word in words if word not in told], told
    assert not (place / "run").exists()


@pytest.mark.parametrize("wrong", ['learn = "adapterz"', "rank = 0", "depth = 2", "model = 3"])
def test_what_is_wrong_in_a_start_is_told_alone(place: Path, wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """That a model has no name is no fault where [start] stands in the file, readable or not."""
    more = f"[start]\n{wrong}\n" + ('model = "recall"\n' if "model" not in wrong else "")
    path = written(place, labelled(model=more).replace(WORDS, ""))
    told = refused(capsys, "train", str(path), f"folder={place / 'run'}")
    assert "1 problem" in told, told
    assert wrong.split()[0] in told.splitlines()[1]
    assert "has no name" not in told


def test_a_model_that_is_nowhere_is_looked_for_in_places_that_can_be_read(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(place / "data"))
    path = written(place / "some", labelled(model='[start]\nmodel = "../nomini"\n').replace(WORDS, ""))
    told = refused(capsys, "train", str(path))
    lines = told.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  expected: a shipped model"))
    assert lines[start + 1] == f"    {(place / 'nomini').resolve()}"
    assert ".." not in "".join(lines[start:]), told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["model.head=tags"], ("needs a different head", "label")),
        (["data.label=moood"], ("moood",)),
        (["data.text=[1,2,3]"], ("must name one or two columns",)),
        (["model.classes=1"], ("classes is too small", "at least 2")),
        (["model.classes=3"], ("3 classes, 2 labels: down, up", "remove model.classes")),
        (["task.kind=tag"], ("cannot be used for the task", "tagged")),
    ],
)
def test_bad_runs(place: Path, changes: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    reviews(place / "reviews.tsv")
    path = written(place, labelled())
    told = refused(capsys, "train", str(path), f"folder={place / 'run'}", *changes)
    assert not [word for word in words if word not in told], told


def test_unknown_labels_are_bad_rows(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reviews(place / "reviews.tsv")
    (place / "test.tsv").write_text("text\tmood\nthe book is good\tup\nthe book is odd\tsideways\n")
    path = written(place, labelled(more='test = ["test.tsv"]'))
    told = refused(capsys, "check", str(path))
    for word in ("sideways", "does not occur in the training data", "test.tsv:3"):
        assert word in told
    assert main(["train", str(path), f"folder={place / 'run'}", "data.bad=0.6", "train.steps=5"]) == 0
    assert main(["evaluate", str(place / "run"), "--split", "test"]) == 0
