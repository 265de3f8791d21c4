"""The process that reads a pickled file, and folders of them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.interop import pickled
from regard.interop.pickled import read_pickled
from regard.storage.tensors import weights_in
from tests.interop.pickles import SIX, everything, programs, refused, same, tensor, text, through, zipped


def test_a_file_is_read_through_the_child(tmp_path: Path) -> None:
    torch.save(everything(), tmp_path / "x.pt")
    found = read_pickled(tmp_path / "x.pt")
    assert same(found, {name: x.detach() for name, x in everything().items()})
    found["plain"].zero_()  # its own memory


def test_a_hostile_file_is_refused_through_the_child_with_its_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    canary = tmp_path / "canary"
    zipped(tmp_path / "x.pt", programs("os", "system", text(f"touch {canary}"))["reduce"])
    message = refused(lambda: read_pickled(tmp_path / "x.pt"))
    assert "x.pt: the pickle program imports 'os.system'" in message
    assert f"where: {tmp_path / 'x.pt'}" in message
    assert "\n  fix: " in message
    assert not canary.exists()
    assert capfd.readouterr() == ("", "")


def test_modules_beside_the_file_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = tmp_path / "canary"
    for name in ("zipfile", "numpy", "pickletools", "regard", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(canary)!r}, 'w')\n")
    torch.save({"w": torch.ones(1)}, tmp_path / "x.pt")
    monkeypatch.chdir(tmp_path)
    assert read_pickled(Path("x.pt"))["w"].tolist() == [1]
    assert not canary.exists()


def test_the_child_needs_no_torch(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "x.pt")
    code = (
        "import sys; from regard.interop.pickled import main; "
        f"code = main([{str(tmp_path / 'x.pt')!r}, {str(tmp_path / 'y')!r}, {str(tmp_path / 'z')!r}]); "
        "import resource; limits = [resource.getrlimit(x)[0] for x in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]; "
        "print(code, 'torch' in sys.modules, max(limits) < 2**32)"
    )
    root = str(Path(pickled.__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert out.split() == ["0", "False", "True"]
    assert weights_in(tmp_path / "y").read()["w"].tolist() == [1]


class Ended:
    """What a child leaves that died without a word."""

    returncode = -9


def test_a_child_that_dies_hangs_or_cannot_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "x.pt")

    def outcome(value: Any) -> str:
        def run(command: list[str], **options: Any) -> Any:
            assert options["stdout"] == options["stderr"] == subprocess.DEVNULL
            assert "-P" in command  # nor may the working folder be a place to import from
            assert Path(options["cwd"]) not in (tmp_path, Path.cwd())
            if isinstance(value, Exception):
                raise value
            return value

        monkeypatch.setattr(subprocess, "run", run)
        return refused(lambda: read_pickled(tmp_path / "x.pt"))

    assert "code -9" in outcome(Ended())
    assert "longer than 120 seconds" in outcome(subprocess.TimeoutExpired("x", 1))
    assert "could not be started" in outcome(OSError(12, "Cannot allocate memory"))


def test_the_childs_own_failures_become_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, target, report = (tmp_path / x for x in ("x.pt", "out", "report"))
    zipped(path, tensor(), SIX)
    monkeypatch.setattr(pickled, "confine", lambda size: None)

    def outcome() -> str:
        target.unlink(missing_ok=True)
        assert pickled.main([str(path), str(target), str(report)]) == 1
        parts = json.loads(report.read_text())
        assert "where" not in parts
        return str(parts["what"])

    def fail(error: Exception) -> Callable[..., Any]:
        def call(*_: Any) -> Any:
            raise error

        return call

    monkeypatch.setattr(pickled, "gather", fail(MemoryError()))
    assert "more memory" in outcome()
    monkeypatch.setattr(pickled, "gather", fail(OSError(28, "No space left on device")))
    assert "the tensors could not be written: No space left on device" in outcome()
    assert "24 bytes free" in report.read_text()
    path.unlink()
    assert "x.pt: cannot be read: No such file" in outcome()


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are found the same way without the child, and faster."""
    monkeypatch.setattr(pickled, "read_one", through)


@pytest.mark.usefixtures("near")
def test_a_folder_is_searched_for_its_weights(tmp_path: Path) -> None:
    assert "no PyTorch weights" in refused(lambda: read_pickled(tmp_path))
    assert "not found" in refused(lambda: read_pickled(tmp_path / "missing"))
    torch.save({"a": torch.ones(1)}, tmp_path / "model.pt")
    assert read_pickled(tmp_path).keys() == {"a"}
    torch.save({"b": torch.ones(1)}, tmp_path / "optimizer.pt")
    message = refused(lambda: read_pickled(tmp_path))
    assert "'model.pt', 'optimizer.pt'" in message
    assert "pass the path of the file" in message
    torch.save({"c": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    assert read_pickled(tmp_path).keys() == {"c"}


@pytest.mark.usefixtures("near")
def test_shards_are_read_by_their_index(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1), "b": torch.ones(2)}, tmp_path / "one.bin")
    torch.save({"c": torch.ones(3)}, tmp_path / "two.bin")
    index = tmp_path / "pytorch_model.bin.index.json"

    def write(weight_map: dict[str, str]) -> None:
        index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

    write({"a": "one.bin", "c": "two.bin", "b": "one.bin"})
    found = read_pickled(tmp_path)
    assert [(name, len(x)) for name, x in found.items()] == [("a", 1), ("c", 3), ("b", 2)]
    write({"a": "one.bin", "c": "two.bin", "d": "two.bin"})
    message = refused(lambda: read_pickled(tmp_path))
    assert "'b': in one.bin, but not in the index" in message
    assert "'d': missing from two.bin" in message
    for name in ("../two.bin", "/two.bin", "two.safetensors", "three.bin"):
        write({"a": "one.bin", "b": "one.bin", "c": name})
        assert f"the shard '{name}'" in refused(lambda: read_pickled(tmp_path))
