"""Pickled checkpoints are read without running them."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.interop.pickles import ARMED, HEARD, everything, refused, same, through

# Whatever starts a program, runs code, opens a connection or resolves a pickled name is noted while ``armed``.
WATCHED = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "pickle.find_class",
    "exec",
    "compile",
)


def listen(event: str, _: tuple[Any, ...]) -> None:
    if ARMED[0] and (event in WATCHED or event.startswith("socket.")):
        HEARD.append(event)


sys.addaudithook(listen)


for codec in ("ascii", "cp437", "raw_unicode_escape", "unicode_escape", "latin-1"):
    "".encode(codec)  # a codec is a module, and the first use of one would be heard as an exec


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_that_a_state_dict_can_hold_comes_back_equal(tmp_path: Path, protocol: int) -> None:
    torch.save(everything(), tmp_path / "x.pt", pickle_protocol=protocol)
    assert same(through(tmp_path / "x.pt"), {name: x.detach() for name, x in everything().items()})


def test_the_state_dict_of_a_module_with_its_metadata(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Embedding(5, 2))
    torch.save(net.state_dict(), tmp_path / "x.bin")
    assert same(through(tmp_path / "x.bin"), dict(net.state_dict()))


def test_a_plain_dict_and_names_of_any_script(tmp_path: Path) -> None:
    state = {"größe.重み": torch.ones(2), "a b": torch.zeros(1)}
    torch.save(state, tmp_path / "x.pt")
    assert same(through(tmp_path / "x.pt"), state)


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_a_nested_state_dict_is_found_among_other_things(tmp_path: Path, key: str) -> None:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    others = {
        "epoch": 3,
        "best": 0.5,
        "done": False,
        "note": None,
        "history": [1, (2, "x")],
        "optimizer": optimizer.state_dict(),
    }
    torch.save({**others, key: net.state_dict()}, tmp_path / "x.pt")
    assert same(through(tmp_path / "x.pt"), dict(net.state_dict()))


def test_a_state_dict_that_is_not_alone_or_not_one_is_refused_with_its_keys(tmp_path: Path) -> None:
    path, one = tmp_path / "x.pt", {"w": torch.ones(1)}
    for value, wanted in (
        (
            {"state_dict": one, "model": one},
            ("has two under", "'state_dict': a dict of 1 entries", "'model': a dict of 1"),
        ),
        ({"weights": one, "epoch": 3}, ("has none under", "'weights': a dict of 1 entries", "'epoch': int")),
        ({"w": torch.ones(1), "epoch": 3}, ("'w': a tensor", "'epoch': int")),
        ({"model": {"w": torch.ones(1), "n": 1}}, ("'model': a dict of 2 entries",)),
        ({"model": {"deeper": one}}, ("'model': a dict of 1 entries",)),
        ({"model": {}}, ("'model': a dict of 0 entries",)),
        ({}, ("no keys",)),
        ([torch.ones(1)], ("contains a list",)),
        (torch.ones(1), ("contains a View",)),
        ({1: torch.ones(1)}, ("is not a valid tensor name",)),
        ({"": torch.ones(1)}, ("is not a valid tensor name",)),
        ({"__metadata__": torch.ones(1)}, ("'__metadata__' is not a valid tensor name",)),
        ({"\x1b[2J": torch.ones(1)}, ("'\\x1b[2J' is not a valid tensor name",)),
        ({"\ud800": torch.ones(1)}, ("'\\ud800' is not a valid tensor name",)),
        ({"n" * 1001: torch.ones(1)}, ("is not a valid tensor name",)),
    ):
        torch.save(value, path)
        text = refused(lambda: through(path))
        assert all(x in text for x in wanted), text


shapes = st.lists(st.integers(0, 4), max_size=4)


dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_views_of_any_storages_come_back_equal(tmp_path: Path, data: st.DataObject) -> None:
    state: dict[str, Tensor] = {}
    for i in range(data.draw(st.integers(1, 4))):
        shape = data.draw(shapes)
        base = (torch.randn(shape) * 3).to(data.draw(dtypes))
        for j in range(data.draw(st.integers(1, 3))):
            view = base.permute(data.draw(st.permutations(range(base.ndim))))
            for axis in range(view.ndim):
                start = data.draw(st.integers(0, view.shape[axis]))
                step = data.draw(st.integers(1, 3))
                view = view[(slice(None),) * axis + (slice(start, None, step),)]
            state[f"{i}.{j}"] = view
    torch.save(state, tmp_path / "x.pt")
    assert same(through(tmp_path / "x.pt"), state)
