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
LAYERS = [
    "plugins",
    "tables",
    "nn",
    "models",
    "zoo",
    "decode",
    "storage",
    "interop",
    "data",
    "tasks",
    "style",
    "train",
    "look",
]
LAYERS += ["modalities", "model", "building", "provenance", "folders", "adapting"]
LAYERS += ["swapping", "run", "comparison", "figures", "serve", "contracts", "cli", "__main__"]
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
    ("model.py", "__call__"): "a call passes through to the net, whose arguments differ from model to model",
}
MAY_SHARE_A_NAME = {
    ("interop", "rules"): "each table of a foreign checkpoint is rules(config), made of what rules.py defines",
}
MAY_USE: dict[tuple[str, str], str] = {}

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
    if path.name != "__init__.py" or path.parent == SOURCE:
        return []
    body = getattr(tree, "body", [])
    return [
        f"line {node.lineno}"
        for node in body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]


RULES = [wrong_direction, foreign_in_nn, undeclared, unsafe, network, kwargs, named_like_a_module, re_exports]


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

    modules = {path.stem for path in SOURCE.iterdir()}
    assert not modules & set(regard.HOMES)


def test_all_data_that_is_read_is_documented() -> None:
    """Its licence and where it is used, by the folder in every path of a figure or recipe."""
    written = [path.read_text("utf-8") for path in (*LECTURES.rglob("*.py"), *SOURCE.glob("recipes/*.toml"))]
    folders = {name for text in written for name in re.findall(r'"([a-z0-9_]+)/[^" ]+\.(?:gz|xz)"', text)}
    known = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "data.md").read_text("utf-8"), re.MULTILINE))
    assert folders
    assert not folders - known
