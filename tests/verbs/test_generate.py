"""Texts that go on: whole or piece by piece, one prompt or many, within what a model can read."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

import regard
from regard.cli.app import main
from regard.decode.beam import Beam
from regard.decode.sampling import Sampling
from regard.decode.settings import Decoding
from regard.decode.symbols import Symbols
from regard.errors import InputError
from regard.modalities.text.processor import Text
from regard.modalities.text.runners import Generation, text_generator
from regard.modalities.text.vocabulary import Vocabulary, tokenizer_symbols
from regard.modalities.text.writing import stable_text
from regard.model import Model
from regard.zoo import FAMILIES

LENGTH = 24
WAYS = {
    "greedy": Decoding(beam=Beam(beams=1), longest=9),
    "beam": Decoding(beam=Beam(beams=3), nbest=3, longest=9),
    "drawn": Decoding(sampling=Sampling(temperature=1.3, seed=5), nbest=2, longest=9),
    "rules": Decoding(beam=Beam(beams=1), longest=9, shortest=4, no_repeat=2),
}


@pytest.fixture(scope="module")
def model() -> Model:
    """Untrained, so that it says anything, half characters too."""
    torch.manual_seed(1)
    text = Vocabulary("bpe", 300).learn(["a bird sings", "größer 🙂 naïve"] * 9)
    family = FAMILIES["gpt"]
    config = family.config(vocab=300, length=LENGTH, dim=16, depth=2, heads=2)
    net = family.net(config).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(std=0.5)
    return Model("gpt", net, text, "language", "", tokenizer_symbols(text))


def one(found: Generation | list[Generation]) -> Generation:
    assert isinstance(found, Generation)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_is_its_prompts_one_by_one(model: Model, way: str) -> None:
    prompts = ["a bird", "", "größer 🙂", "a", "sings sings"]
    together = model.generate(prompts, decoding=WAYS[way])
    assert isinstance(together, list)
    alone = [one(model.generate(prompt, decoding=WAYS[way])) for prompt in prompts]
    if way == "drawn":  # each text of a batch has random numbers of its own
        alone, together = alone[:1], together[:1]
    assert [x.text for x in together] == [x.text for x in alone]
    assert [[y.ids for y in x.nbest] for x in together] == [[y.ids for y in x.nbest] for x in alone]
    assert [len(x.nbest) for x in alone] == [WAYS[way].nbest] * len(alone)


@pytest.mark.parametrize("way", ["greedy", "drawn", "rules"])
@pytest.mark.parametrize("prompt", ["a bird", "größer 🙂", ""])
def test_pieces_are_the_whole(model: Model, way: str, prompt: str) -> None:
    decoding = Decoding(beam=Beam(beams=1), sampling=WAYS[way].sampling, longest=18, no_repeat=WAYS[way].no_repeat)
    pieces = list(model.stream(prompt, decoding=decoding))
    assert "".join(pieces) == one(model.generate(prompt, decoding=decoding)).text


@given(st.text(max_size=12))
def test_what_was_told_is_never_taken_back(text: str) -> None:
    """However the bytes of a character are spread over tokens."""
    raw = text.encode("utf-8")
    told = [stable_text(raw[:i].decode("utf-8", "replace")) for i in range(len(raw) + 1)]
    assert all(after.startswith(before) for before, after in pairwise(told))
    assert all(text.startswith(one) for one in told)


def test_cached_is_uncached(model: Model) -> None:
    found = one(model.generate("a bird", decoding=WAYS["greedy"])).nbest[0]
    begin = model.symbols.begin
    ids = [begin, *model.text().ids(["a bird"])[0]]
    for token in found.ids:
        with torch.no_grad():
            logits = model.net(torch.tensor([ids]))[0, -1]
        logits[[i for i in (model.symbols.begin, model.symbols.pad) if i is not None]] = -torch.inf
        assert int(logits.argmax()) == token
        ids.append(token)


def test_a_text_may_be_longer_than_what_can_be_read(model: Model) -> None:
    """Where no place is left, the last half is read again; a prompt that is too long counts with its end."""
    for prompt in ("a", "a bird sings " * 30):
        found = one(
            model.generate(prompt, decoding=Decoding(beam=Beam(beams=1), longest=3 * LENGTH, shortest=3 * LENGTH))
        )
        ids = found.nbest[0].ids
        assert len(ids) == 3 * LENGTH
        window = text_generator(model).encode(prompt)
        for token in ids[: 2 * LENGTH]:
            with torch.no_grad():
                logits = model.net(torch.tensor([window]))[0, -1]
            never = [model.symbols.begin, model.symbols.pad, *model.symbols.end]
            logits[[i for i in never if i is not None]] = -torch.inf
            assert int(logits.argmax()) == token
            window.append(token)
            if len(window) > LENGTH:
                window = window[-(LENGTH // 2) :]


@pytest.mark.parametrize("way", ["beam", "drawn"])
def test_a_long_batch_is_its_prompts_one_by_one(model: Model, way: str) -> None:
    decoding = replace(WAYS[way], longest=2 * LENGTH, shortest=2 * LENGTH - 1)
    together = model.generate(["a bird", "sings", ""], decoding=decoding)
    assert isinstance(together, list)
    for number, prompt in enumerate(["a bird", "sings", ""]):
        if way == "beam" or number == 0:
            alone = one(model.generate(prompt, decoding=decoding))
            assert [x.ids for x in alone.nbest] == [x.ids for x in together[number].nbest]


@pytest.mark.parametrize(
    ("symbols", "prompt", "first"),
    [
        (Symbols(begin=2, end=(3,)), "a", 2),
        (Symbols(begin=3, end=(3,)), "a", None),
        (Symbols(begin=3, end=(3,)), "", 3),
        (Symbols(end=(3,)), "a", None),
    ],
)
def test_how_a_text_begins(model: Model, symbols: Symbols, prompt: str, first: int | None) -> None:
    row = text_generator(Model("gpt", model.net, model.text(), None, "", symbols)).encode(prompt)
    assert row == [*([] if first is None else [first]), *model.text().ids([prompt])[0]]


def test_nothing_to_begin_with(model: Model) -> None:
    with pytest.raises(InputError, match="the prompt is empty"):
        Model("gpt", model.net, model.text(), None, "", Symbols(end=(3,))).generate("")


def test_only_a_decoder_goes_on() -> None:
    with pytest.raises(InputError, match="this bert cannot generate text"):
        regard.build("bert-tiny").generate("a")


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> str:
    regard.save(model, tmp_path / "model")
    return str(tmp_path / "model")


def test_the_verb(folder: str, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", folder, "a bird", "--temperature", "0", "--tokens", "9"]) == 0
    assert capsys.readouterr().out == "a bird" + one(model.generate("a bird", decoding=WAYS["greedy"])).text + "\n"
    assert main(["generate", folder, "a", "--seed", "3", "--tokens", "9", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["prompt"] == "a"
    assert main(["generate", folder, "a", "--seed", "4", "--tokens", "9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] != first["text"]
    assert main(["generate", folder, "a", "--beam", "3", "--nbest", "2", "--tokens", "9"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 2


def test_a_beam_or_a_temperature_of_nothing_is_not_asked_for(folder: str) -> None:
    assert main(["generate", folder, "a", "--tokens", "3", "--temperature", "0", "--beam", "2", "--groups", "2"]) == 0
    assert main(["generate", folder, "a", "--tokens", "3", "--beam", "0", "--top-k", "2", "--seed", "1"]) == 0


def test_lines_of_a_pipe_are_prompts(folder: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    for words in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a bird\nsings\n")))
        assert main(["generate", folder, *words, "--tokens", "3", "--json"]) == 0
        told = [json.loads(line)["prompt"] for line in capsys.readouterr().out.splitlines()]
        assert told == ["a bird", "sings"]


def test_what_is_not_read_of_a_prompt_is_told(folder: str, capsys) -> None:
    assert main(["generate", folder, "a bird sings " * 30, "--tokens", "2"]) == 0
    assert "tokens are ignored" in capsys.readouterr().err


def test_how_much_is_not_read_is_told_to_machines(folder: str, model: Model, capsys) -> None:
    assert main(["generate", folder, "a", "a bird sings " * 30, "--tokens", "2", "--json"]) == 0
    short, long = map(json.loads, capsys.readouterr().out.splitlines())
    assert (short["unread"], long["unread"]) == (0, text_generator(model).surplus("a bird sings " * 30))
    assert long["unread"] == one(model.generate("a bird sings " * 30, decoding=WAYS["greedy"])).unread > 0


def test_letters_that_a_model_has_no_token_for_are_told(tmp_path: Path, capsys) -> None:
    """Of a model of letters, each letter once; not of one whose tokens are bytes."""
    odd = "héllo 😀 日本"
    assert main(["generate", "shakespeare", odd, "é 7", "hello", "--tokens", "2"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "regard: 4 characters are not in the model's vocabulary: 'é', '😀', '日', '本'",
        "regard: 1 character is not in the model's vocabulary: '7'",
    ]
    assert main(["generate", "shakespeare", odd, "hello", "--tokens", "2", "--json"]) == 0
    told = [json.loads(line)["unknown"] for line in capsys.readouterr().out.splitlines()]
    assert told == [["é", "😀", "日", "本"], []]
    (tmp_path / "x.tsv").write_text("ä\tö\n")
    few = ["generate", "shakespeare", "a", "--examples", str(tmp_path / "x.tsv"), "--choice", "ü", "--choice", "o"]
    assert main([*few, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["unknown"] == ["ä", "=", ">", "ö", "ü"]
    assert said.err == "regard: 5 characters are not in the model's vocabulary: 'ä', '=', '>', 'ö', 'ü'\n"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "words"])
def test_nothing_is_told_of_words_and_pieces(kind: Any) -> None:
    assert Vocabulary(kind, 300).learn(["a bird sings"] * 9).unknown("größer 🙂") == ()


def test_who_makes_texts_from_texts_does_not_go_on_with_them(capsys) -> None:
    """Nor is anything printed before that is known."""
    assert main(["generate", "tatoeba-en-de", "Hello"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "regard translate" in said.err


def test_phrases_of_a_tokenizer_that_frames_its_texts(model: Model) -> None:
    """The tokens that it puts around a text are no part of a phrase."""
    begin = model.symbols.begin
    assert begin is not None
    framing = Text.from_bytes(model.text().to_bytes(), "a twin")
    name = framing.tokenizer.id_to_token(begin)
    framing.tokenizer.post_processor = TemplateProcessing(single=f"{name} $A", special_tokens=[(name, begin)])
    twin = Model("gpt", model.net, framing, "language", "", model.symbols)
    decoding = Decoding(beam=Beam(beams=4), longest=12, phrases=("sings",))
    assert "sings" in one(twin.generate("a bird", decoding=decoding)).text


def test_a_prompt_is_read_once_for_all_draws(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    logits = model.net.read

    def spy(ids: torch.Tensor, **how: object) -> torch.Tensor:
        read.append(tuple(ids.shape))
        return logits(ids, **how)

    monkeypatch.setattr(model.net, "read", spy)
    model.generate("a bird", decoding=Decoding(sampling=Sampling(), nbest=3, longest=4))
    assert [shape for shape in read if shape[1] > 1] == [(1, len(text_generator(model).encode("a bird")))]


REFUSED: dict[str, Callable[[str], list[str]]] = {
    "--nbest 4 is greater than --beam 2": lambda folder: [folder, "a", "--beam", "2", "--nbest", "4"],
    "--top-p 2.0 is greater than 1": lambda folder: [folder, "a", "--top-p", "2"],
    "unknown model": lambda folder: ["nowhere", "a"],
    "phrases": lambda folder: [folder, "a", "--phrase", "x"],
    "remove --beam, or --temperature": lambda folder: [folder, "a", "--beam", "2", "--temperature", "1"],
    "remove --beam, or --top-k": lambda folder: [folder, "a", "--beam", "2", "--top-k", "4"],
    "remove --beam, or --seed": lambda folder: [folder, "a", "--beam", "2", "--seed", "0"],
    "sampling options require sampling": lambda folder: [folder, "a", "--temperature", "0", "--seed", "4"],
    "--tokens 0 must be at least 1": lambda folder: [folder, "a", "--tokens", "0"],
    "--tokens 0 must be at least 1\n    --shortest 3 is greater than --tokens 0": lambda folder: [
        *(folder, "a", "--tokens", "0", "--shortest", "3")
    ],
    "--beam -1 must be at least 1": lambda folder: [folder, "a", "--beam", "-1"],
    "got: --choice --beam\n": lambda folder: [folder, "a", "--choice", "b", "--beam", "2"],
    "got: --choice --temperature --tokens\n": lambda folder: [
        *(folder, "a", "--choice", "b", "--temperature", "0.5", "--tokens", "9")
    ],
    "set --beam above 0": lambda folder: [folder, "a", "--groups", "2"],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_asked(words: str, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", *REFUSED[words](folder)]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told


def test_a_published_model_writes_its_published_story(shared_data: Path) -> None:
    folder = shared_data / "weights_stories15M"
    if not folder.is_dir():
        pytest.skip(f"needs the published weights of stories15M, and there is no folder {folder} (docs/data.md)")
    golden = json.loads((folder / "golden_greedy.json").read_text())
    decoding = Decoding(beam=Beam(beams=1), longest=len(golden["greedy_ids_from_bos"]) - 1)
    found = one(regard.prepare(regard.load(folder)).generate("", decoding=decoding))
    assert list(found.nbest[0].ids) == golden["greedy_ids_from_bos"][1:]
    assert found.text.strip() == golden["text"].strip()
