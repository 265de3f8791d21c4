"""Few-shot prompts: what is asked, what is answered, and that nothing is learned by it."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.cli.app import main
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.folders import save
from regard.modalities.text.prompting import few_shot
from regard.modalities.text.runners import Generation, text_generator
from regard.modalities.text.vocabulary import Vocabulary, tokenizer_symbols
from regard.model import Model
from regard.storage.digest import weights_digest


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    text = Vocabulary("characters", 100).learn(["abcdefghijklmnopqrstuvwxyz =>:\nT"])
    made = regard.build("gpt-tiny", vocab=text.tokenizer.get_vocab_size(), length=96, dim=16, heads=2, depth=1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return Model("gpt", made.net.eval(), text, "language", symbols=tokenizer_symbols(text))


def test_the_prompt_is_the_paper_s() -> None:
    pairs = [("sea otter", "loutre de mer"), ("peppermint", "menthe poivrée")]
    head = "Translate English to French:"
    assert few_shot(head, [], "cheese") == "Translate English to French:\ncheese =>"
    assert few_shot(head, pairs[:1], "cheese") == "Translate English to French:\nsea otter => loutre de mer\ncheese =>"
    assert few_shot("", pairs, "cheese").count("\n") == 2


def test_choices_are_ranked_by_their_own_tokens(model: Model) -> None:
    found = model.prompt("ab", examples=[("xy", "yx")], choices=["ba", "ab", "a"])
    prompt = "xy => yx\nab =>"
    scores = {}
    for text in ("ba", "ab", "a"):
        row = torch.tensor([[model.symbols.begin, *model.text().ids([f"{prompt} {text}"])[0]]])
        logp = model.net(row)[0, :-1].log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
        scores[text] = float(logp[len(prompt) :].mean())  # a letter is a token: the space and the answer
    assert [choice.text for choice in found.choices] == sorted(scores, key=lambda text: -scores[text])
    for choice in found.choices:
        assert choice.score == pytest.approx(scores[choice.text], rel=1e-4)
    assert found.answer == found.choices[0].text
    bare = model.prompt("ab", examples=[("xy", "yx")], choices=["ba", "ab", "a"], calibrated=True)
    less = {choice.text: choice.score for choice in model.prompt("ab", choices=["ba", "ab", "a"]).choices}
    for choice in bare.choices:
        assert choice.score == pytest.approx(scores[choice.text] - less[choice.text], rel=1e-3)


def test_an_answer_ends_with_its_line(model: Model) -> None:
    decoding = Decoding(beam=Beam(beams=1), longest=30)
    found = model.prompt("ab", examples=[("xy", "yx")], decoding=decoding)
    whole = model.generate(found.prompt, decoding=decoding)
    assert isinstance(whole, Generation)
    assert found.answer == whole.text.lstrip(" ").split("\n")[0].rstrip()


def test_a_choice_is_judged_by_its_own_tokens_where_it_just_does_not_fit(model: Model) -> None:
    """The prompt alone can be read, with the choice behind it only its end can."""
    prompt = "ab" * 46
    letters = model.text().ids([f"{prompt} a" + "bc" * 4])[0]
    row = torch.tensor([[model.symbols.begin, *letters]])[:, -97:]
    logp = model.net(row[:, :-1])[0].log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
    score = text_generator(model).likelihood(prompt, " a" + "bc" * 4)
    assert score == pytest.approx(float(logp[-10:].mean()), rel=1e-4)


def test_more_examples_than_can_be_read_are_refused(model: Model) -> None:
    with pytest.raises(InputError, match="longer than the model's context") as error:
        model.prompt("ab", examples=[("xy", "yx")] * 12)
    assert "tokens too many" in str(error.value)
    with pytest.raises(InputError, match="a choice is empty"):
        model.prompt("ab", choices=["a", " "])


@pytest.mark.parametrize("table", ["output,input\nba,ab\ndc,cd\n", "ab,ba\ncd,dc\n"])
def test_names_of_columns_are_no_example(model: Model, tmp_path: Path, capsys, table: str) -> None:
    save(model, tmp_path / "m")
    (tmp_path / "x.csv").write_text(table)
    assert main(["generate", str(tmp_path / "m"), "ef", "--examples", str(tmp_path / "x.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prompt"] == "ab => ba\ncd => dc\nef =>"


@pytest.mark.parametrize(("name", "table"), [("x.csv", "ab,ba,1\ncd,dc,2\n"), ("x.tsv", "ab\tba\t1\n")])
def test_of_three_columns_without_names_none_is_taken(model: Model, tmp_path: Path, capsys, name, table: str) -> None:
    save(model, tmp_path / "m")
    (tmp_path / name).write_text(table)
    assert main(["generate", str(tmp_path / "m"), "ef", "--examples", str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert "these columns have no names" in told
    assert "input and output" in told
    (tmp_path / name).write_text(table.replace("ab", "input", 1).replace("ba", "output", 1) + table)
    assert main(["generate", str(tmp_path / "m"), "ef", "--examples", str(tmp_path / name)]) == 0


def test_no_weight_changes(model: Model) -> None:
    before = {name: x.clone() for name, x in model.state_dict().items()}
    found = model.prompt("ab", choices=["a", "b"])
    assert found.weights == weights_digest(before)
    with torch.no_grad():
        model.net.embed.weight[0, 0] += 1e-7  # type: ignore[index, union-attr]
    assert weights_digest(model.state_dict()) != found.weights


def test_on_the_command_line(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(model, tmp_path / "m")
    (tmp_path / "x.tsv").write_text("ab\tba\ncd\tdc\n")
    (tmp_path / "x.jsonl").write_text('{"input": "ab", "output": "ba"}\n{"input": "cd", "output": "dc"}\n')
    ask = [
        "generate",
        str(tmp_path / "m"),
        "ef",
        "--instruction",
        "Turn:",
        "--choice",
        "fe",
        "--choice",
        "ef",
        "--json",
    ]
    for name in ("x.tsv", "x.jsonl"):
        for shots in range(3):
            assert main([*ask, "--examples", str(tmp_path / name), "--shots", str(shots)]) == 0
            told = json.loads(capsys.readouterr().out)
            assert told["prompt"] == few_shot("Turn:", [("ab", "ba"), ("cd", "dc")][:shots], "ef")
            assert {one["text"] for one in told["choices"]} == {"ef", "fe"}
    assert main([*ask, "--examples", str(tmp_path / "x.tsv"), "--shots", "3"]) == 2
    assert main([*ask, "--examples", str(tmp_path / "none.tsv")]) == 2
    assert main(["generate", str(tmp_path / "m"), "ef", "--shots", "2"]) == 2


def test_nothing_to_judge(model: Model) -> None:
    with pytest.raises(InputError, match="no tokens to score"):
        text_generator(model).likelihood("ab", "")
