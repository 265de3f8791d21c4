"""The shell around the verbs: `regard VERB ...`, its help, and how it fails.

Exit codes: 0 success, 2 bad input, 130 interrupted, 1 anything else. Bad input never shows a traceback.
"""

import codecs
import errno
import importlib
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

import regard
from regard.errors import ElsewhereError, InputError, Notice
from regard.modalities.verb_table import VERBS
from regard.plugins import load_file, load_installed

# Each verb of the library itself is `run` in the file of its name; those that models are asked by are rows of a table.
# Summaries stand here and there, so that help need not load the files.
BEFORE = {
    "demo": "Run shipped models: complete a story, translate a sentence, write verse, and draw attention maps.",
    "init": "Print a run file for a task, with every default value and an explanation of every key.",
    "check": "Check a run before training: read the data, try a few steps, report bad rows, shapes, memory and time.",
    "train": "Train a model from a run file; write metrics, curves, samples and checkpoints to the run folder.",
    "resume": "Resume an interrupted run from its last checkpoint; the result is the same as without the interruption.",
    "evaluate": "Evaluate a run's model on one split of its data, with the metrics of its task (BLEU, AP, MASE ...).",
    "doctor": "Check this installation: versions, threads, GPU, memory, disk, extras, and a short self-test.",
}
AFTER = {
    "complete": "Complete words as you type, with a character n-gram model of your own text.",
    "look": "Show a model's answer and the attention map of each head in each layer.",
    "serve": "Serve the web page for inspecting models, and its HTTP API; local connections only by default.",
    "compare": "Compare attention mechanisms in one model: cost, training loss, and error against exact attention.",
    "fid": "Compare two sets of images by the features that a network sees in them: FID, KID and Inception Score.",
    "models": "List the available models with their sizes, papers and reference implementations.",
    "convert": "Convert a published checkpoint to a regard model folder.",
    "export": "Export a model to another library's format.",
    "figure": "Draw a figure from the lectures, or check the claim of a paper that it reproduces.",
    "contract": "Test what a plug-in file or package registers against the library's contracts, and report failures.",
}


def commands() -> dict[str, tuple[str, str]]:
    """The summary of each verb, and where it stands; those of plug-ins are among them once they are loaded."""
    own = {name: (summary, f"regard.cli.{name}:run") for name, summary in (BEFORE | AFTER).items()}
    rows = {name: (row.summary, row.command) for name, row in VERBS.items()}
    order = [*BEFORE, *rows, *AFTER]
    return {name: (own | rows)[name] for name in order}


FILE_NAME = re.compile(r"\S+\.(pdf|eps|ps|htm|jpe?g|gif|webp|bmp|tiff?|npz|json)|.+\.(png|svg|html)", re.IGNORECASE)
NO_MEMORY = ("can't allocate memory", "out of memory", "Unable to allocate")  # torch and numpy, in their words
TRAINING = ("check", "train", "resume", "evaluate", "compare")  # verbs whose memory is what a run file asks for
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # nothing more can be written

ABOUT = """Train, use and inspect models of the transformer family.

Example: regard models "gpt*"

Run regard COMMAND --help for the arguments and options of a command."""


def program() -> NoReturn:
    """`regard`, as a process of its own."""
    leave(main())


def leave(code: int) -> NoReturn:
    """End this process. Under torchrun at once: torch's threads that talk to other processes outlive their group, and
    may still want the interpreter when it is gone, which would abort a run that is done."""
    if several():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, full, or none at all
                stream.flush()
        os._exit(code)
    sys.exit(code)


def several() -> bool:
    """Whether torchrun has started this process, and others."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    machine = "--json" in words
    if sys.stdout is None:
        return complain(InputError("standard output is not available"), machine=False, code=2)
    show_what_can_be(machine)
    try:
        with one_voice(), notices():
            code = call(words)
        sys.stdout.flush()  # a reader who has left is noticed here, not at exit
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        mute()
        return 1
    except ElsewhereError:
        return 2
    except InputError as error:
        return complain(error, machine, code=2)
    except typer.TyperException as error:  # an unknown verb or option, a missing argument
        known = words[:1] if words and words[0] in commands() else []
        fix = f"see {' '.join(['regard', *known, '--help'])}"
        return complain(InputError(error.format_message(), fix=fix), machine, code=2)
    except (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        where = "" if error.filename is None else str(error.filename)
        return complain(InputError(error.strerror or str(error), where=where), machine, code=2)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:  # stdout, most likely
            mute()
            return complain(InputError(f"cannot write the output: {error.strerror}"), machine=False, code=1)
        if os.environ.get("REGARD_DEBUG") == "1":
            raise
        if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
            smaller = "use a smaller model or smaller batches (data.budget, train.split)"
            fix = (
                f"{smaller if words and words[0] in TRAINING else 'process less input at a time'}, or free some memory"
            )
            got = str(error).splitlines()[0][:200] if str(error) else ""
            return complain(InputError("out of memory", got=got, fix=fix), machine, code=2)
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        fix = "this is a bug in regard: run it with REGARD_DEBUG=1 and report the output and `regard --version`"
        return complain(InputError(what, fix=fix), machine, code=1)


def show_what_can_be(machine: bool) -> None:
    """Letters that the output has no bytes for: a question mark for people, an escape for machines."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        codecs.register_error("regard-json", escaped)
        sys.stdout.reconfigure(errors="regard-json" if machine else "replace")


def escaped(error: UnicodeError) -> tuple[str, int]:
    """As JSON writes letters: they stand within its strings, wherever they are."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


@contextmanager
def one_voice() -> Iterator[None]:
    """Of all processes that torchrun has started, the first speaks. Before they have joined, all fail alike; from then
    on, an error has a note in the one process that is to tell it."""
    if not several() or os.environ.get("RANK", "0") == "0":
        yield
        return
    try:
        with redirect_stdout(io.StringIO()):
            yield
    except Exception as error:
        if hasattr(error, "__notes__"):
            raise
        raise ElsewhereError("the first process reports the error") from error


@contextmanager
def notices() -> Iterator[None]:
    """What Python tells as warnings of ours is told here in the form of errors, once."""
    told = set[str]()

    def show(message: Warning | str, category: type[Warning], file: str, line: int, *more: Any) -> None:
        if not issubclass(category, Notice):
            plain(message, category, file, line, *more)
        elif str(message) not in told:
            told.add(str(message))
            print(f"regard: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        plain: Callable[..., None] = warnings.showwarning
        warnings.simplefilter("always", Notice)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def call(words: list[str]) -> int:
    """Hand the words to the verb that they name. A verb that fails without an error (a check that does not hold) exits
    by `typer.Exit`."""
    files, words = plugins_of(words)
    for file in files:
        load_file(file)
    if not {"-h", "--help", "--version"} & set(words):
        for line in load_installed():
            print(f"regard: {line}", file=sys.stderr)
    verb = next((word for word in words if not word.startswith("-")), "")
    words = looking(words)
    result = get_command(application(verb)).main(args=words, prog_name="regard", standalone_mode=False)
    return result if isinstance(result, int) else 0


def plugins_of(words: list[str]) -> tuple[list[str], list[str]]:
    """The files that --plugin names, wherever it stands before a lone --, and all other words."""
    files, others = list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        if word == "--plugin":
            file = next(rest, "")
            if not file:
                raise InputError("--plugin requires a file name", fix="regard --plugin my.py VERB ...")
            files.append(file)
        elif word.startswith("--plugin="):
            files.append(word.partition("=")[2])
        else:
            others.append(word)
            if word == "--":
                others += rest
    return files, others


def looking(words: list[str]) -> list[str]:
    """`--look` alone means the terminal; with the name of a file after it, that file, which may be no picture."""
    found = []
    for word, after in zip(words, [*words[1:], ""], strict=False):
        found += [word, "-"] if word == "--look" and not FILE_NAME.fullmatch(after) else [word]
    return found


def application(called: str) -> typer.Typer:
    """All verbs with their summaries, the called one with its arguments too."""
    app = typer.Typer(
        help=ABOUT,
        rich_markup_mode=None,  # rich would double the time of --help
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(shell)
    for verb, (summary, place) in commands().items():
        app.command(verb, short_help=summary)(function_at(place) if verb == called else not_called)
    return app


def function_at(place: str) -> Callable[..., None]:
    module, name = place.split(":")
    run: Callable[..., None] = getattr(importlib.import_module(module), name)
    return run


def not_called() -> None:
    """Stands for a verb that is listed in the help but not run."""


def shell(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Load this Python plug-in file first; may be given anywhere and repeated."),
    ] = None,
) -> None:
    if version:
        print(f"regard {regard.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)  # nothing was asked for, so nothing was done


def mute() -> None:
    """What is printed from here on, or still waits to go out, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(error: InputError, machine: bool, code: int) -> int:
    """The one form of every error: JSON on stdout for machines, lines on stderr for people."""
    if machine:
        print(json.dumps({"error": error.as_dict()}))  # one line: it may follow lines of a run
    else:
        print(f"regard: {error}", file=sys.stderr)
    return code
