"""`regard doctor`: it finds what is wrong, says what to do, and breaks nothing."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import torch
import typer

import regard
from regard.cli import doctor
from regard.cli.doctor import Check, Requirement, examine, folder, meets, requirements, run
from regard.comparison import machine


def named(checks: list[Check], name: str) -> list[Check]:
    return [check for check in checks if check.name == name]


@pytest.fixture(scope="module")
def healthy() -> list[Check]:
    return list(examine())


def test_all_that_is_promised_is_looked_at(healthy: list[Check]) -> None:
    names = [check.name for check in healthy]
    expected = [
        "python",
        "regard",
        "packages",
        "[serve]",
        "[notebook]",
        "[vision]",
        "memory",
        "folder",
        "cache",
        "torch",
    ]
    expected += ["threads", "BLAS", "CPU", "GPU", "torchrun", "gloo", "compiler", "learning", "storing", "speed"]
    assert [name for name in expected if name not in names] == []
    assert not {"[dev]", "[parity]", "[bench]"} & set(names)
    assert all(check.found for check in healthy)


def test_where_the_tests_run_all_is_well(healthy: list[Check]) -> None:
    assert [check for check in healthy if check.state == "wrong"] == []
    assert named(healthy, "torch")[0].found.startswith(f"{torch.__version__}, built for")
    assert f"numpy {metadata.version('numpy')}" in named(healthy, "packages")[0].found
    assert regard.__version__ in named(healthy, "regard")[0].found


def some_checks(*states: doctor.State) -> Iterator[Check]:
    yield from (
        Check(f"c{i}", state, "found it", f"fix {i}" if state != "ok" else "") for i, state in enumerate(states)
    )


@pytest.mark.parametrize(
    ("states", "code", "last"),
    [
        (("ok", "ok"), 0, "All checks passed."),
        (("ok", "warning"), 0, "regard works, with 1 warning."),
        (("warning", "warning"), 0, "regard works, with 2 warnings."),
        (("ok", "wrong", "warning"), 1, "1 of 3 checks failed: regard will not work until this is fixed."),
    ],
)
def test_the_exit_code_and_the_last_line(
    states: tuple[doctor.State, ...],
    code: int,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: some_checks(*states))

    def call(as_json: bool) -> int:
        try:
            run(as_json)
        except typer.Exit as error:
            return error.exit_code
        return 0

    assert call(False) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == last
    assert [line.split()[0] for line in lines[:-2] if not line.startswith(" ")] == list(states)
    assert [line.strip() for line in lines if line.strip().startswith("fix: ")] == [
        f"fix: fix {i}" for i, state in enumerate(states) if state != "ok"
    ]
    assert call(True) == code
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (code == 0)
    assert [check["state"] for check in told["checks"]] == list(states)
    assert told["checks"][0].keys() == {"name", "state", "found", "fix"}


def test_colours_on_a_terminal_unless_unwanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: some_checks("ok"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    run()
    assert capsys.readouterr().out.startswith("\x1b[32mok      \x1b[0m c0")
    monkeypatch.setenv("NO_COLOR", "1")
    run()
    assert "\x1b" not in capsys.readouterr().out


def test_one_broken_check_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Check]:
        raise RuntimeError("boom\nmore")

    quiet = {name: lambda: iter(()) for name in ("extras", "room", "folders", "threads", "learning", "storing")}
    for name, nothing in quiet.items():
        monkeypatch.setattr(doctor, name, nothing)
    broken.__name__ = "packages"
    monkeypatch.setattr(doctor, "packages", broken)
    checks = list(examine())
    assert named(checks, "packages") == [
        Check("packages", "wrong", "RuntimeError: boom", "report this, with the full output of regard doctor")
    ]
    assert named(checks, "speed")


def test_a_torch_that_cannot_be_imported_is_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise OSError("libtorch.so: cannot open shared object file\nmore")

    monkeypatch.setattr(importlib, "import_module", broken)
    checks = list(examine())
    assert checks[-1].name == "torch"
    assert checks[-1].state == "wrong"
    assert checks[-1].found == "cannot be imported: libtorch.so: cannot open shared object file"
    assert "pip install" in checks[-1].fix
    assert named(checks, "python")


def test_torch_is_loaded_only_when_its_turn_comes() -> None:
    program = (
        "import sys\nfrom regard.cli.doctor import examine\n"
        "names = []\nfor check in examine():\n"
        "    names.append(check.name)\n    if check.name == 'cache': break\n"
        "sys.exit('torch' in sys.modules or len(names) < 5)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# Versions


@pytest.mark.parametrize(
    ("version", "wanted", "good"),
    [
        ("2.13.0+cpu", ">=2.6,<3", True),
        ("2.5.1", ">=2.6,<3", False),
        ("3.0", "<3,>=2.6", False),
        ("3.0.0rc1", "<3", False),
        ("10.0", ">=9.3", True),
        ("5.22.2", "==5.22.2", True),
        ("5.22.3", "==5.22.2", False),
        ("1.0", ">=1.0.0", True),
        ("1.0", "", True),
        ("2.0", ">2.0", False),
        ("2.0", "<=2", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, good: bool) -> None:
    assert meets(version, wanted) is good


def test_requirements_are_read_from_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["torch<3,>=2.6", 'fastapi[all] (>=0.115); extra == "serve"', "ale-py>=0.10 ; extra == 'rl'", "plain"]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    assert requirements() == [
        Requirement("torch", "<3,>=2.6", ""),
        Requirement("fastapi", "(>=0.115)", "serve"),
        Requirement("ale-py", ">=0.10", "rl"),
        Requirement("plain", "", ""),
    ]


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A world in which these packages are installed, and regard needs some."""
    versions = {"torch": "2.7", "fastapi": "0.120"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    needed = ["torch>=2.6", 'fastapi>=0.115; extra == "serve"', 'uvicorn>=0.30; extra == "serve"', 'x; extra == "dev"']
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    monkeypatch.setattr(metadata, "version", version)
    return versions


def test_missing_and_old_packages_are_wrong(packaged: dict[str, str]) -> None:
    assert [(x.state, x.found) for x in doctor.packages()] == [("ok", "torch 2.7")]
    packaged["torch"] = "2.5"
    assert [(x.state, x.found) for x in doctor.packages()] == [("wrong", "torch is 2.5, not >=2.6")]
    del packaged["torch"]
    assert [(x.state, x.found) for x in doctor.packages()] == [("wrong", "torch is missing")]


def test_extras_are_there_or_not_or_half(packaged: dict[str, str]) -> None:
    (half,) = doctor.extras()
    assert (half.name, half.state, half.found) == ("[serve]", "warning", "uvicorn is missing")
    assert half.fix == "pip install fastapi uvicorn"
    packaged["uvicorn"] = "0.31"
    assert [(x.state, x.found) for x in doctor.extras()] == [("ok", "fastapi 0.120, uvicorn 0.31")]
    del packaged["uvicorn"], packaged["fastapi"]
    (absent,) = doctor.extras()
    assert absent.state == "ok"
    assert absent.found.startswith("not installed")


def test_a_source_tree_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", nothing)
    assert [check.state for check in doctor.packages()] == ["warning"]


# The machine


def test_a_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    check = folder("cache", tmp_path / "not" / "yet", "fix it")
    assert check.state == "ok"
    assert check.found.startswith(str(tmp_path / "not" / "yet"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(prefix: str, dir: Path) -> tuple[int, str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "mkstemp", refused)
    assert folder("folder", tmp_path, "go elsewhere") == Check(
        "folder", "wrong", f"{tmp_path} is not writable: Permission denied", "go elsewhere"
    )


def test_a_disk_that_fills_up_is_wrong_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, raw: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert folder("folder", tmp_path, "fix").state == "wrong"
    assert list(tmp_path.iterdir()) == []


def test_little_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 5_000_000}))
    check = folder("folder", tmp_path, "fix")
    assert check.state == "warning"
    assert "5 MB" in check.found


def test_the_cache_is_the_one_that_readers_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "mine"))
    assert str(tmp_path / "mine") in named(list(doctor.folders()), "cache")[0].found


def test_more_threads_than_cores_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 10_000)
    (check,) = doctor.threads()
    assert check.state == "warning"
    assert "set OMP_NUM_THREADS=" in check.fix


def test_the_limit_of_a_container_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"cpu.max": [100_000, 100_000], "memory.max": [1_500_000_000]}
    monkeypatch.setattr(machine, "limit_of", limits.__getitem__)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert [(check.state, check.fix) for check in doctor.threads()] == [("warning", "set OMP_NUM_THREADS=1")]
    (check,) = doctor.room()
    assert check.state == "warning"
    assert "1.5 GB available" in check.found


# The self-test can fail


def test_a_machine_that_learns_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: None)
    (check,) = doctor.learning()
    assert check.state == "wrong"
    assert check.fix


def test_a_bit_that_flips_on_the_way_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [check.state for check in doctor.storing()] == ["ok"]
    real = regard.load

    def load(path: Path) -> regard.Model:
        model = real(path)
        with torch.no_grad():
            next(model.parameters()).view(torch.int32).flatten()[0] ^= 1
        return model

    monkeypatch.setattr(regard, "load", load)
    assert [check.state for check in doctor.storing()] == ["wrong"]


def test_the_self_test_leaves_the_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    list(doctor.learning())
    list(doctor.storing())
    list(doctor.speed())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_slow_machine_takes_fewer_steps() -> None:
    assert len(doctor.learn(doctor.tiny().net, torch.device("cpu"), seconds=0.0)) == 12


def test_a_network_that_fails_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*words: object, **more: object) -> None:
        raise RuntimeError("gloo: the host name does not resolve\nmore")

    monkeypatch.setattr(torch.distributed, "init_process_group", unreachable)
    check = named(list(doctor.distribution()), "gloo")[0]
    assert check.state == "warning"
    assert check.found == "gloo: the host name does not resolve"
    assert "GLOO_SOCKET_IFNAME" in check.fix
