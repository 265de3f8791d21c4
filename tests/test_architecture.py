"""The house rules, read off the syntax trees: who may import whom, and what appears nowhere."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE, LECTURES = ROOT / "src" / "regard", ROOT / "lectures" / "src" / "regard_lectures"

# Imports point only up this list. `errors` and `deprecation` may be imported by all but nn.
LAYERS = ["plugins", "tables", "nn", "sample", "models", "zoo", "decode", "storage", "interop", "data", "tasks"]
LAYERS += ["style", "glyphs", "train", "look"]
LAYERS += ["modalities", "model", "building", "provenance", "descriptions", "unfinished", "pipelines", "folders"]
LAYERS += ["export_check", "adapting", "swapping", "run", "comparison", "api", "figures", "serve", "contracts"]
LAYERS += ["cli", "__main__"]
# A distribution beside the library sees of it what stands above this layer; the library sees nothing of it.
BESIDE = {"regard_lectures": "comparison"}
# Also for TYPE_CHECKING: what a type needs, a reader needs. Only the package's own lazy names are free.
FREE = {"regard"}

# Exceptions, each (file or folder, name) with its reason.
MAY_TAKE_KWARGS = {
    (
        "building.py",
        "build",
    ): 'config keys: build("gpt-small", attention="lsh"); unknown ones are refused by name',
    ("nn/arguments.py", "called"): "it stands for a function, whose own arguments it passes on, and refuses others",
    ("train/__init__.py", "__call__"): "the package is also the function of its name, whose arguments it passes on",
    ("model.py", "__call__"): "a call passes through to the net, whose arguments differ from model to model",
}
MAY_SHARE_A_NAME = {
    ("interop", "rules"): "each table of a foreign checkpoint is rules(config), made of what rules.py defines",
}
MAY_USE: dict[tuple[str, str], str] = {}
MAY_PROBE = {"os", "library", "error", "stop", "_thread"}  # what Python or the system has or lacks, and no row tells
MAY_NAME = {
    ("export_check.py", "text"): "a library with tokenizers is asked a text, any other random numbers",
    ("export_check.py", "tag"): "that library has to be told that a text is cut into words already",
}
COMMANDS_OF_ONE_MODALITY = {"demo", "complete", "fid"}  # beside the verbs: commands of texts, and one of images

FOR_DEVELOPERS = {"parity", "bench", "dev"}
UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "torch.load",
    "yaml.load",
    "yaml.unsafe_load",
}
NETWORK = {
    "urllib.request",
    "requests",
    "http.client",
    "http.server",
    "socket",
    "socketserver",
    "ssl",
    "ftplib",
    "smtplib",
}
NETWORK |= {
    "httpx",
    "aiohttp",
    "urllib3",
    "huggingface_hub",
    "fsspec",
    "websockets",
    "xmlrpc",
    "telnetlib",
    "torch.hub",
}


def files() -> list[Path]:
    return sorted([*SOURCE.rglob("*.py"), *LECTURES.rglob("*.py")])


def home(path: Path) -> Path:
    """The package that a file is in."""
    return LECTURES if path.is_relative_to(LECTURES) else SOURCE


def name_of(path: Path) -> str:
    """src/regard/nn/mask.py -> regard.nn.mask"""
    parts = [home(path).name, *path.relative_to(home(path)).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str:
    """regard.nn.mask -> nn; the package itself -> regard; regard_lectures.table -> comparison, whose rights it has"""
    parts = module.split(".")
    if parts[0] in BESIDE:
        return BESIDE[parts[0]]
    return parts[1] if len(parts) > 1 else "regard"


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """Walked once for all rules."""
    return list(ast.walk(tree))


@cache
def imports(tree: ast.AST, path: Path) -> list[str]:
    """Every module that a file imports, wherever in the file, by its full name."""
    return list(imported(tree, path))


def imported(tree: ast.AST, path: Path) -> Iterator[str]:
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            # `from regard import nn` imports regard.nn; `from regard.nn import mask` may import regard.nn.mask
            yield from ({f"{base}.{alias.name}" for alias in node.names} if base.startswith("regard") else {base})
            yield from ({f"{base}.{alias.name}" for alias in node.names} & NETWORK)  # from urllib import request
        elif isinstance(node, ast.Call) and dotted(node.func) in ("importlib.import_module", "import_module"):
            argument = node.args[0] if node.args else None
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value


def dotted(node: ast.AST) -> str:
    """os.path.join as a string; "" for what is no plain name"""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def within(module: str, names: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


def wrong_direction(tree: ast.AST, path: Path) -> list[str]:
    here = layer_of(name_of(path))
    found = []
    for module in imports(tree, path):
        if here in FREE or not within(module, {"regard"}):
            continue
        there = layer_of(module)
        allowed = here != "nn" if there in ("errors", "deprecation", "__version__", "regard") else False
        if there in LAYERS and here in LAYERS:
            allowed = LAYERS.index(there) <= LAYERS.index(here)
        if not allowed:
            found.append(f"{here} may not import {module}")
    return found


def foreign_in_nn(tree: ast.AST, path: Path) -> list[str]:
    if layer_of(name_of(path)) != "nn":
        return []
    own = {"torch", "regard.nn", *sys.stdlib_module_names}
    return [f"nn may not import {module}" for module in imports(tree, path) if not within(module, own)]


@cache
def dependencies(package: Path) -> set[str]:
    """What may be imported: ourselves, the standard library, and what the package's pyproject.toml states for users."""
    project = tomllib.loads((package.parent.parent / "pyproject.toml").read_text())["project"]
    stated = project.get("optional-dependencies", {})
    extras = {name: lines for name, lines in stated.items() if name not in FOR_DEVELOPERS}
    stated = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    names = {re.split(r"[<>=!~\[; ]", line)[0].lower().replace("-", "_") for line in stated}
    return {package.name, *sys.stdlib_module_names, *({"pillow": "PIL"}.get(name, name) for name in names)}


def undeclared(tree: ast.AST, path: Path) -> list[str]:
    """A reference for tests, or a package that happens to be installed, is no dependency."""
    known = dependencies(home(path))
    return [f"{module} is no dependency" for module in imports(tree, path) if module.split(".")[0] not in known]


def unsafe(tree: ast.AST, path: Path) -> list[str]:
    found = [f"import {module}" for module in imports(tree, path) if within(module, UNSAFE_MODULES)]
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            flags = {
                word.arg
                for word in node.keywords
                if not (isinstance(word.value, ast.Constant) and not word.value.value)
            }
            found += [f"{name}()"] if name in UNSAFE_CALLS else []
            found += [f"{word}= in {name}()" for word in ("shell", "allow_pickle") if word in flags]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found += [f"from import {name}" for name in sorted(names & UNSAFE_CALLS)]
    return [fault for fault in found if (str(path.relative_to(home(path))), fault) not in MAY_USE]


def network(tree: ast.AST, path: Path) -> list[str]:
    if layer_of(name_of(path)) == "serve":
        return []
    return [f"import {module}" for module in imports(tree, path) if within(module, NETWORK)]


def kwargs(tree: ast.AST, path: Path) -> list[str]:
    found = []
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node.args.kwarg:
            name = getattr(node, "name", "lambda")
            if (str(path.relative_to(home(path))), name) not in MAY_TAKE_KWARGS:
                found.append(f"{name}(**{node.args.kwarg.arg})")
    return found


@cache
def modules_in(folder: Path) -> set[str]:
    return {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}


def named_like_a_module(tree: ast.AST, path: Path) -> list[str]:
    """A function beside a module of its name: `package.name` would be one or the other by the order of imports."""
    siblings = modules_in(path.parent)
    names = {
        node.name for node in getattr(tree, "body", []) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    folder = str(path.parent.relative_to(home(path)))
    shared = sorted(name for name in names & siblings if (folder, name) not in MAY_SHARE_A_NAME)
    return [f"{name}() is also a module" for name in shared]


def re_exports(tree: ast.AST, path: Path) -> list[str]:
    """The __init__ of every package but the first is a docstring and no more: a name has one home."""
    if path.name != "__init__.py" or path.parent in (SOURCE, SOURCE / "train"):  # the latter can be called
        return []
    body = getattr(tree, "body", [])
    return [
        f"line {node.lineno}"
        for node in body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]


@cache
def known_by_name() -> set[str]:
    """Families, media, processors and tasks: the keys of the tables."""
    from regard.modalities.goals import GOALS
    from regard.modalities.media import MEDIA
    from regard.modalities.processors import PROCESSORS
    from regard.zoo import FAMILIES

    return {*FAMILIES.rows, *MEDIA.rows, *PROCESSORS.rows, *GOALS.rows}


def of_one_verb(path: Path) -> bool:
    """The typed methods of Model, and the commands: each names the verb whose it is."""
    from regard.modalities.verb_table import VERBS

    commands = {SOURCE / "cli" / f"{name}.py" for name in {*VERBS.rows, *COMMANDS_OF_ONE_MODALITY}}
    return path in {SOURCE / "model.py", *commands}


def above_modalities(path: Path) -> bool:
    layer = layer_of(name_of(path))
    return home(path) == SOURCE and layer in LAYERS and LAYERS.index(layer) > LAYERS.index("modalities")


def probes(tree: ast.AST, path: Path) -> list[str]:
    """Rows tell what there is: `hasattr(config, "vocab")` asks an object instead."""
    if not above_modalities(path):
        return []
    asked = [node for node in nodes(tree) if isinstance(node, ast.Call) and dotted(node.func) in ("hasattr", "getattr")]
    kept = [node for node in asked if dotted(node.func) == "hasattr" or len(node.args) == 3]
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in kept
        if dotted(node.args[0]) not in MAY_PROBE and probed(node)
    ]


def probed(node: ast.Call) -> bool:
    """By a name that is not one of Python itself, such as __dict__."""
    name = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
    return not str(name).startswith("__") and (dotted(node.func) == "hasattr" or name is not None)


def names_a_row(tree: ast.AST, path: Path) -> list[str]:
    """A family, a medium or a task by name, unless as a key of a config or of JSON."""
    if not above_modalities(path) or of_one_verb(path):
        return []
    keys = {id(key) for node in nodes(tree) if isinstance(node, ast.Dict) for key in node.keys}
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("has", "get"):
            keys |= {id(argument) for argument in node.args}
        elif isinstance(node, ast.Subscript) and not dotted(node.value).isupper():  # FAMILIES["gpt"] is the table's row
            keys.add(id(node.slice))
    said = [node for node in nodes(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    kept = [node for node in said if node.value in known_by_name() and id(node) not in keys]
    here = str(path.relative_to(home(path)))
    return [f"line {node.lineno}: {node.value!r}" for node in kept if (here, node.value) not in MAY_NAME]


def one_modality(tree: ast.AST, path: Path) -> list[str]:
    """The code of one modality, or of one family, which the rows lead to."""
    if not above_modalities(path) or of_one_verb(path):
        return []
    folders = {one.parent.name for one in (SOURCE / "modalities").glob("*/__init__.py")}
    own = {f"regard.modalities.{name}" for name in folders} | {f"regard.models.{name}" for name in known_by_name()}
    return [f"import {module}" for module in imports(tree, path) if within(module, own)]


RULES = [wrong_direction, foreign_in_nn, undeclared, unsafe, network, kwargs, named_like_a_module, re_exports]
RULES += [probes, names_a_row, one_modality]


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """Of all files, parsed once for all rules."""
    return {path: ast.parse(path.read_text(), str(path)) for path in files()}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_keeps(rule, trees: dict[Path, ast.Module]) -> None:
    assert len(trees) > 5
    faults = [f"{path.relative_to(ROOT)}: {fault}" for path, tree in trees.items() for fault in rule(tree, path)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        (wrong_direction, "nn/mask.py", "from regard.errors import InputError"),
        (wrong_direction, "nn/mask.py", "import regard.zoo"),
        (wrong_direction, "nn/mask.py", "from ..models import gpt2"),
        (wrong_direction, "models/gpt2.py", "def f():\n    from regard import zoo"),
        (wrong_direction, "zoo.py", "from .interop.rules import Rule"),
        (wrong_direction, "zoo.py", "from . import model"),
        (wrong_direction, "decode/__init__.py", "from ..tasks import text"),
        (wrong_direction, "figures.py", "importlib.import_module('regard.cli.app')"),
        (wrong_direction, LECTURES / "table.py", "importlib.import_module('regard.cli.app')"),
        (wrong_direction, LECTURES / "table.py", "from regard.serve import gallery"),
        (wrong_direction, "unknown.py", "from regard.nn.mask import Mask"),
        (foreign_in_nn, "nn/mask.py", "import numpy"),
        (foreign_in_nn, "nn/kernels/lsh.py", "from safetensors.torch import load_file"),
        (undeclared, "interop/gpt2.py", "from transformers import GPT2Model"),
        (undeclared, "look/plots.py", "import einops"),
        (undeclared, "figures.py", "from regard_lectures.table import rows"),
        (undeclared, LECTURES / "table.py", "import sacrebleu"),
        (unsafe, "interop/gpt2.py", "import pickle as safe"),
        (unsafe, "interop/gpt2.py", "torch.load(path, weights_only=True)"),
        (unsafe, "interop/gpt2.py", "from torch import load"),
        (unsafe, "run.py", "eval('1')"),
        (unsafe, "run.py", "subprocess.run(words, shell=True)"),
        (unsafe, "run.py", "os.system('true')"),
        (unsafe, "run.py", "yaml.load(text)"),
        (unsafe, "run.py", "numpy.load(path, allow_pickle=yes)"),
        (network, "interop/gpt2.py", "from urllib import request"),
        (network, "interop/gpt2.py", "import urllib.request"),
        (network, "cli/demo.py", "import socket"),
        (network, "zoo.py", "from huggingface_hub import snapshot_download"),
        (kwargs, "nn/block.py", "class A:\n    def forward(self, **kwargs): ..."),
        (named_like_a_module, "zoo.py", "def nn(): ..."),
        (named_like_a_module, "zoo.py", "def errors(): ..."),
        (named_like_a_module, "nn/tap.py", "def tap(): ..."),
        (re_exports, "nn/__init__.py", "from .mask import Mask"),
        (probes, "contracts/reach.py", 'hasattr(processor, "size")'),
        (probes, "comparison/comparing.py", 'getattr(config, "vocab", None)'),
        (probes, "cli/evaluate.py", "hasattr(config, name)"),
        (names_a_row, "contracts/reach.py", 'row.takes == ("text",)'),
        (names_a_row, "comparison/nets.py", 'FAMILIES["gpt"]'),
        (names_a_row, "cli/evaluate.py", 'model.task == "translate"'),
        (one_modality, "cli/evaluate.py", "def f():\n    from regard.modalities.text.measuring import measure_files"),
        (one_modality, "contracts/mixers.py", "from regard.models.gpt import GPT"),
        (one_modality, "run/job.py", "import regard.modalities.images"),
    ],
)
def test_each_rule_finds_its_fault(rule, file: str | Path, text: str) -> None:
    assert rule(ast.parse(text), SOURCE / file)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cli/models.py", "from regard.zoo import catalog"),
        (
            "nn/block.py",
            "import math\nimport torch.nn.functional as F\nfrom .mask import Mask\nfrom regard.nn import tap",
        ),
        ("nn/kernels/lsh.py", "from ..attention import Kernel"),
        ("models/gpt2.py", "from regard.errors import ConfigError"),
        (
            "interop/gpt2.py",
            "from regard.models.gpt2 import Config\nfrom .rules import Rule\nfrom regard import __version__",
        ),
        ("serve/server.py", "import socket\nimport fastapi"),
        ("look/plots.py", "from PIL import Image"),
        (LECTURES / "table.py", "from regard_lectures.figure import Check\nfrom regard.run.training import train_run"),
        ("contracts/reach.py", 'row.has("image")\n{"text": text}\ngetattr(model, verb, None)\nhasattr(x, "__dict__")'),
        ("cli/classify.py", 'from regard.modalities.text.text_model import TextModel\nrun_verb(model, "classify")'),
        ("modalities/text/verbs.py", 'hasattr(config, "vocab")'),
        ("run.py", "model.eval()\nre.compile('a')\nsubprocess.run(words, shell=False)\nlist_of(*words)"),
    ],
)
def test_no_rule_forbids_what_is_right(file: str | Path, text: str) -> None:
    assert [fault for rule in RULES for fault in rule(ast.parse(text), SOURCE / file)] == []


SAME_IN_EVERY_FILE = {"Config", "Settings"}  # of the model, or of the mechanism, whose file it is


def several_meanings(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Classes of one name, and functions of one name that other packages import: their files."""
    homes: dict[str, set[str]] = {}
    inside = {path: ".".join(("regard", *path.relative_to(SOURCE).with_suffix("").parts)) for path in trees}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name not in SAME_IN_EVERY_FILE:
                homes.setdefault(node.name, set()).add(inside[path])
    functions = {
        (inside[path], node.name)
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and package(node.module) != package(inside[path]):
                for name in (alias.name for alias in node.names if (node.module, alias.name) in functions):
                    homes.setdefault(name, set()).add(node.module)
    return {name: sorted(files) for name, files in homes.items() if len(files) > 1}


def package(module: str) -> tuple[str, ...]:
    """regard.look.trace -> look; regard.modalities.text.runners -> modalities, text"""
    parts = module.split(".")[1:]
    return tuple(parts[: 2 if parts[:1] == ["modalities"] else 1])


def test_a_name_has_one_meaning(trees: dict[Path, ast.Module]) -> None:
    assert several_meanings({path: tree for path, tree in trees.items() if SOURCE in path.parents}) == {}


def test_a_name_with_two_meanings_is_found() -> None:
    texts = {
        "look/a.py": "class Site: ...\ndef draw(): ...",
        "nn/b.py": "class Site: ...\ndef draw(): ...",
        "serve/c.py": "from regard.look.a import draw\ndef only_here(): ...",
        "run/d.py": "from regard.nn.b import draw\ndef only_here(): ...",
    }
    found = several_meanings({SOURCE / path: ast.parse(text) for path, text in texts.items()})
    assert found == {"Site": ["regard.look.a", "regard.nn.b"], "draw": ["regard.look.a", "regard.nn.b"]}


def test_every_folder_of_code_is_a_package() -> None:
    """Else it would be missing from the wheel."""
    assert [str(path) for path in files() if not (path.parent / "__init__.py").exists()] == []


def test_both_distributions_have_one_version() -> None:
    import regard

    project = tomllib.loads((LECTURES.parent.parent / "pyproject.toml").read_text())["project"]
    assert project["version"] == regard.__version__
    assert f"regard=={regard.__version__}" in project["dependencies"]


def test_public_names_are_no_modules() -> None:
    import regard

    modules = {path.stem for path in SOURCE.iterdir()} - {"train"}  # a package that can be called, see there
    assert not modules & set(regard.HOMES)


def test_all_data_that_is_read_is_documented() -> None:
    """Its licence and where it is used, by the folder in every path of a figure or recipe."""
    written = [path.read_text("utf-8") for path in (*LECTURES.rglob("*.py"), *SOURCE.glob("recipes/*.toml"))]
    folders = {name for text in written for name in re.findall(r'"([a-z0-9_]+)/[^" ]+\.(?:gz|xz)"', text)}
    known = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "data.md").read_text("utf-8"), re.MULTILINE))
    assert folders
    assert not folders - known
