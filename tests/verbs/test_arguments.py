"""Arguments in the field's other words: the error names the one that is meant."""

import inspect
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.decode.beam import Beam
from regard.decode.sampling import Sampling
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.look.analyses import Analysis
from regard.model import Model
from regard.nn.arguments import argument_meant, explain_arguments
from regard.nn.synonyms import ARGUMENT_SYNONYMS
from regard.plugins import REGISTERED, forget

SETTINGS = {"beam": Beam, "sampling": Sampling, "decoding": Decoding}


@pytest.mark.parametrize(
    ("verb", "argument", "meant"),
    [
        ("translate", "num_beams", "decoding=Decoding(beam=Beam(beams=...))"),
        ("translate", "output_attentions", "look=..."),
        ("generate", "temperature", "decoding=Decoding(sampling=Sampling(temperature=...))"),
        ("generate", "max_new_tokens", "decoding=Decoding(longest=...)"),
        ("detect", "conf", "threshold=..."),
        ("embed", "batch_size", "batch=..."),
        ("forecast", "horizon", "steps=..."),
        ("answer", "passage", "context=..."),
        ("look", "layers", "pattern=..."),
    ],
)
def test_a_method_names_the_argument_that_is_meant(verb: str, argument: str, meant: str) -> None:
    model = regard.load("recall")
    with pytest.raises(TypeError) as caught:
        getattr(model, verb)("Anna", **{argument: 1})
    assert str(caught.value) == f"Model.{verb}() has no argument {argument!r}: use {meant}"


PUBLIC = [name for name in regard.__all__ if inspect.isfunction(getattr(regard, name))]


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_function_answers_an_argument_that_it_does_not_have(name: str) -> None:
    function = getattr(regard, name)
    if name == "build":  # whose arguments are keys of a config
        with pytest.raises(InputError, match="unknown key 'num_colours'"):
            regard.build("gpt-tiny", num_colours=1)
        return
    known = ", ".join(inspect.signature(function).parameters)
    with pytest.raises(TypeError) as caught:
        function(num_colours=1)
    assert str(caught.value) == f"{name}() has no argument 'num_colours': its arguments are {known}"


@pytest.mark.parametrize(
    ("name", "argument", "answer"),
    [
        ("swapped", "attn", "use attention=..."),
        ("swapped", "random_state", "use seed=..."),
        ("capture", "layers", "use pattern=..."),
        ("listen", "callback", "use hear=..."),
        ("compare", "attentions", "use attention=..."),
        ("compare", "num_steps", "use steps=..."),
        ("compare", "seq_lengths", "use lengths=..."),
        ("compare", "n_repeats", "use rounds=..."),
        ("compare", "batch_size", "the number of rows of a training step follows from the length"),
        ("adapted", "adapter", "use folder=..."),
        ("adapted", "r", "rank and alpha are read from the adapter"),
        ("load", "pretrained_model_name_or_path", "use model=..."),
        ("load", "device", "a model is made on the CPU: move it with .to(device)"),
        ("load", "torch_dtype", "a model is made in float32: change it with .to(dtype)"),
        ("save", "overwrite", "use replace=..."),
        ("save", "path", "use folder=..."),
        ("export", "format", "use to=..."),
        ("export", "output_dir", "use out=..."),
        ("convert", "checkpoint", "use source=..."),
        ("catalog", "filter", "use pattern=..."),
    ],
)
def test_a_public_function_names_the_argument_that_is_meant(name: str, argument: str, answer: str) -> None:
    with pytest.raises(TypeError) as caught:
        getattr(regard, name)(**{argument: 1})
    assert str(caught.value) == f"{name}() has no argument {argument!r}: {answer}"


def test_a_row_is_recorded_with_the_file_that_registered_it() -> None:
    """Not with the one that explains arguments."""
    name = "recorded-by-file"
    regard.register(Analysis("0", "none", lambda found, asked: {}), name=name)
    try:
        assert next(one for one in REGISTERED if one.name == name).source.name == Path(__file__).name
    finally:
        forget(Path(__file__).name)


def test_settings_name_their_own() -> None:
    with pytest.raises(TypeError, match=r"has no argument 'num_beams': use beams=\.\.\.$"):
        Beam(num_beams=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"has no argument 'top_p': use sampling=Sampling\(top_p=\.\.\.\)$"):
        Decoding(top_p=0.9)  # type: ignore[call-arg]


def test_every_unknown_argument_is_named() -> None:
    with pytest.raises(TypeError) as caught:
        regard.load("recall").generate("Anna", temperature=1, top_k=3, colour=2)  # type: ignore[call-arg]
    assert [line.rpartition(": ")[0] for line in str(caught.value).splitlines()] == [
        f"Model.generate() has no argument {word!r}" for word in ("temperature", "top_k", "colour")
    ]


def test_another_word_is_answered_by_all_arguments() -> None:
    with pytest.raises(TypeError, match=r"has no argument 'colour': its arguments are texts, batch$"):
        regard.load("recall").embed("Anna", colour=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("path", ARGUMENT_SYNONYMS)
def test_each_argument_of_the_table_exists(path: str) -> None:
    *objects, name = path.split(".")
    if objects:
        assert name in inspect.signature(SETTINGS[objects[-1]]).parameters
    else:
        methods = [one for _, one in inspect.getmembers(Model, inspect.isfunction)]
        methods += [getattr(regard, name) for name in PUBLIC]
        assert any(name in inspect.signature(one).parameters for one in methods)
    for word in ARGUMENT_SYNONYMS[path]:
        assert argument_meant(word, [path.split(".")[0]]), word


def test_what_takes_any_argument_is_left_alone() -> None:
    def free(**named: Any) -> Any:
        return named

    assert explain_arguments(free) is free
    assert regard.load("recall").generate.__doc__ == inspect.unwrap(Model.generate).__doc__
    assert list(inspect.signature(Model.embed).parameters) == ["self", "texts", "batch"]
