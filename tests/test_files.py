"""Folders of tensors: what is good comes back equal, what lies is a CheckpointError, what fails leaves no trace."""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import CheckpointError, InputError
from regard.interop import files, writing
from regard.interop.files import Info, weights_in, weights_of
from regard.interop.ops import Chunk
from regard.interop.rules import Rule, convert
from regard.interop.texts import json_bytes, read_json
from regard.interop.writing import save

DTYPES = list(files.DTYPES.values())


def raw_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file by hand, honest or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def sample(dtype: torch.dtype, shape: tuple[int, ...] = (2, 3)) -> Tensor:
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 2).to(dtype)


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    alike = one.keys() == two.keys() and all(one[name].dtype == two[name].dtype for name in one)
    return alike and all(torch.equal(one[name].to(torch.complex128), two[name].to(torch.complex128)) for name in one)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(CheckpointError) as caught:
        call()
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


# ---------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_equal(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {"x": sample(dtype), "scalar": sample(dtype, ()), "empty": sample(dtype, (0, 3))}
    save(tmp_path / "m", {"model.safetensors": state})
    weights = weights_of(tmp_path / "m")
    assert weights.header["x"] == Info(dtype, (2, 3))
    assert weights.shapes() == {"x": (2, 3), "scalar": (), "empty": (0, 3)}
    assert weights.metadata == {"format": "pt"}
    assert same(weights.read(), state)


def test_files_of_the_safetensors_library_are_read(tmp_path: Path) -> None:
    state = {"b": torch.randn(3, 2), "a": torch.randn(4).half(), "c": torch.tensor(True)}
    save_file(state, tmp_path / "x.safetensors", metadata={"who": "me"})
    weights = weights_in(tmp_path / "x.safetensors")
    assert weights.metadata == {"who": "me"}
    assert same(weights.read(), state)


def test_files_of_ours_are_read_by_the_safetensors_library(tmp_path: Path) -> None:
    state = {"b": torch.randn(3, 2), "a": torch.randn(4).half()}
    save(tmp_path / "m", {"model.safetensors": state})
    assert same(load_file(tmp_path / "m" / "model.safetensors"), state)


def test_read_widens_floating_tensors_and_only_those(tmp_path: Path) -> None:
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.bool, torch.complex64)
    state = {str(dtype): sample(dtype) for dtype in kinds}
    save(tmp_path / "m", {"model.safetensors": state})
    found = weights_of(tmp_path / "m").read(dtype=torch.float32)
    for name, tensor in state.items():
        narrow = name in ("torch.float16", "torch.bfloat16")
        assert found[name].dtype == (torch.float32 if narrow else tensor.dtype)
        assert torch.equal(found[name], tensor.to(found[name].dtype))


def test_meta_tensors_check_a_conversion_before_data_is_read(tmp_path: Path) -> None:
    save(tmp_path / "m", {"model.safetensors": {"qkv": torch.randn(6, 2).half()}})
    weights = weights_of(tmp_path / "m")
    ours = convert(weights.meta(), [Rule("qkv", ("q", "k", "v"), Chunk(3))])
    assert ours["k"].is_meta
    assert (ours["k"].shape, ours["k"].dtype) == ((2, 2), torch.float16)
    assert "qkv: Chunk needs" in refused(lambda: convert(weights.meta(), [Rule("qkv", "q", Chunk(4))]))


def test_changing_what_was_read_does_not_change_the_file(tmp_path: Path) -> None:
    save(tmp_path / "m", {"model.safetensors": {"x": torch.ones(3)}})
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    weights_of(tmp_path / "m").read()["x"].zero_()
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before


def test_a_file_that_changes_between_check_and_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.ones(3)}, path)
    weights = weights_in(path)
    save_file({"x": torch.ones(4)}, path)
    assert "tensor 'x' changed" in refused(weights.read)
    path.write_bytes(b"junk")
    assert "cannot be read" in refused(weights.read)
    path.unlink()
    assert str(path) in refused(weights.read)


def test_an_empty_header_and_padding_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(raw_file(b"{}      "))
    assert weights_in(path).read() == {}


def test_tensors_may_stand_in_any_order_in_the_header(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    header = {"b": entry(offsets=(8, 16)), "z": entry(shape=(0,), offsets=(8, 8)), "a": entry()}
    path.write_bytes(raw_file(header, torch.arange(4.0).numpy().tobytes()))
    found = weights_in(path).read()
    assert list(found) == ["b", "z", "a"]
    assert found["a"].tolist() == [0, 1]
    assert found["b"].tolist() == [2, 3]


# -------------------------------------------------------------------------------------------------------- malformed

BIG, DATA = 2**63, b"\0" * 8
TENSOR = json.dumps(entry())
MALFORMED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "0 bytes, too few"),
    "seven bytes": (b"\0" * 7, "7 bytes, too few"),
    "header of no bytes": (b"\0" * 8, "does not begin"),
    "header longer than the file": (raw_file(b"{}", length=3), "claims 3 bytes"),
    "header of 2**64 - 1 bytes": (raw_file(b"{}", length=2**64 - 1), "claims 18446744073709551615"),
    "header of 2**63 bytes": (raw_file(b"{}", length=BIG), "claims"),
    "header over the limit": (raw_file(b"{}", length=100_000_001), "claims 100000001"),
    "header cut short": (raw_file(b'{"a":'), "not valid"),
    "header an array": (raw_file(b"[]"), "does not begin"),
    "header a text": (raw_file(b'"a"'), "does not begin"),
    "header a number": (raw_file(b"1"), "does not begin"),
    "header null": (raw_file(b"null"), "does not begin"),
    "space before the header": (raw_file(b" {}"), "does not begin"),
    "byte order mark": (raw_file(b"\xef\xbb\xbf{}"), "does not begin"),
    "header not UTF-8": (raw_file(b'{"\xff": 1}'), "UTF-8"),
    "header UTF-16": (raw_file("{}".encode("utf-16-le")), "not valid"),
    "half a surrogate pair": (raw_file(b'{"\\ud800": ' + TENSOR.encode() + b"}", DATA), "UTF-8"),
    "bytes after the header's end": (raw_file(b"{} {}"), "not valid"),
    "trailing comma": (raw_file(b'{"__metadata__": {},}'), "not valid"),
    "comment": (raw_file(b"{} // x"), "not valid"),
    "NUL padding": (raw_file(b"{}\0\0"), "not valid"),
    "tensor twice": (raw_file(f'{{"a": {TENSOR}, "a": {TENSOR}}}'.encode(), DATA), "'a' stands twice"),
    "tensor twice, escaped": (raw_file(f'{{"a": {TENSOR}, "\\u0061": {TENSOR}}}'.encode(), DATA), "'a' stands twice"),
    "field twice": (raw_file(b'{"a": {"dtype": "F32", "dtype": "F32"}}'), "'dtype' stands twice"),
    "metadata twice": (raw_file(b'{"__metadata__": {}, "__metadata__": {}}'), "stands twice"),
    "metadata key twice": (raw_file(b'{"__metadata__": {"k": "a", "k": "b"}}'), "'k' stands twice"),
    "metadata a list": (raw_file({"__metadata__": []}), "__metadata__ is not"),
    "metadata null": (raw_file({"__metadata__": None}), "__metadata__ is not"),
    "metadata of numbers": (raw_file({"__metadata__": {"a": 1}}), "__metadata__ is not"),
    "metadata nested": (raw_file({"__metadata__": {"a": {}}}), "__metadata__ is not"),
    "tensor null": (raw_file({"a": None}), "'a' needs exactly"),
    "tensor a list": (raw_file({"a": []}), "'a' needs exactly"),
    "tensor empty": (raw_file({"a": {}}), "'a' needs exactly"),
    "no dtype": (raw_file({"a": {"shape": [2], "data_offsets": [0, 8]}}, DATA), "'a' needs exactly"),
    "no shape": (raw_file({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, DATA), "'a' needs exactly"),
    "no offsets": (raw_file({"a": {"dtype": "F32", "shape": [2]}}, DATA), "'a' needs exactly"),
    "unknown field": (raw_file({"a": entry() | {"strides": [1]}}, DATA), "'a' needs exactly"),
    "unknown dtype": (raw_file({"a": entry("F33")}, DATA), "unknown dtype 'F33'"),
    "dtype in small letters": (raw_file({"a": entry("f32")}, DATA), "unknown dtype"),
    "dtype a number": (raw_file({"a": entry(32)}, DATA), "unknown dtype"),
    "dtype a list": (raw_file({"a": entry(["F32"])}, DATA), "unknown dtype"),
    "dtype null": (raw_file({"a": entry(None)}, DATA), "unknown dtype"),
    "dtype too wide": (raw_file({"a": entry("F64")}, DATA), "'a' needs 16 bytes"),
    "dtype too narrow": (raw_file({"a": entry("F16")}, DATA), "'a' needs 4 bytes"),
    "shape negative": (raw_file({"a": entry(shape=[-2])}, DATA), "no valid shape"),
    "two negative sizes": (raw_file({"a": entry(shape=[-2, -1])}, DATA), "no valid shape"),
    "shape of fractions": (raw_file({"a": entry(shape=[2.0])}, DATA), "no valid shape"),
    "shape of texts": (raw_file({"a": entry(shape=["2"])}, DATA), "no valid shape"),
    "shape of truths": (raw_file({"a": entry(shape=[True, 2])}, DATA), "no valid shape"),
    "shape a number": (raw_file({"a": entry(shape=2)}, DATA), "no valid shape"),
    "shape null": (raw_file({"a": entry(shape=None)}, DATA), "no valid shape"),
    "shape nested": (raw_file({"a": entry(shape=[[2]])}, DATA), "no valid shape"),
    "shape too large": (raw_file({"a": entry(shape=[3])}, DATA), "'a' needs 12 bytes"),
    "shape too small": (raw_file({"a": entry(shape=[1])}, DATA), "'a' needs 4 bytes"),
    "a size of 2**63": (raw_file({"a": entry(shape=[BIG])}, DATA), "no valid shape"),
    "sizes that overflow to the right one": (raw_file({"a": entry(shape=[2**32, 2**32, 2])}, DATA), "impossible shape"),
    "an overflow hidden by zero": (raw_file({"a": entry(shape=[0, 2**62, 2**62], offsets=[0, 0])}), "impossible shape"),
    "a thousand digits": (raw_file({"a": entry(shape=[10**1000])}, DATA), "no valid shape"),
    "five thousand digits": (raw_file(b'{"a": ' + b"1" * 5000 + b"}"), "not valid"),
    "65 axes": (raw_file({"a": entry(shape=[1] * 64 + [2])}, DATA), "no valid shape"),
    "100,000 axes of 2**62": (raw_file({"a": entry(shape=[2**62] * 100_000)}, DATA), "no valid shape"),
    "offsets negative": (raw_file({"a": entry(offsets=[-8, 0])}, DATA), "no valid data_offsets"),
    "offsets backwards": (raw_file({"a": entry(offsets=[8, 0])}, DATA), "its offsets give -8"),
    "one offset": (raw_file({"a": entry(offsets=[0])}, DATA), "no valid data_offsets"),
    "three offsets": (raw_file({"a": entry(offsets=[0, 8, 8])}, DATA), "no valid data_offsets"),
    "offsets of fractions": (raw_file({"a": entry(offsets=[0.0, 8.0])}, DATA), "no valid data_offsets"),
    "offsets of truths": (raw_file({"a": entry("U8", [1], [False, True])}, b"\0"), "no valid data_offsets"),
    "offsets a table": (raw_file({"a": entry(offsets={"0": 0, "8": 8})}, DATA), "no valid data_offsets"),
    "offsets of 2**64": (raw_file({"a": entry(offsets=[2**64, 2**64 + 8])}, DATA), "no valid data_offsets"),
    "offsets beyond the file": (raw_file({"a": entry(offsets=[2**40, 2**40 + 8])}, DATA), "leaves a hole"),
    "a terabyte declared": (
        raw_file({"a": entry(shape=[2**38], offsets=[0, 2**40])}, DATA),
        "take 1099511627776 bytes",
    ),
    "hole at the start": (raw_file({"a": entry(offsets=[4, 12])}, b"\0" * 12), "leaves a hole"),
    "hole between": (raw_file({"a": entry(), "b": entry(offsets=[12, 20])}, b"\0" * 20), "'b' leaves a hole"),
    "bytes left at the end": (raw_file({"a": entry()}, DATA + b"\0"), "take 8 bytes, the file has 9"),
    "bytes missing at the end": (raw_file({"a": entry()}, DATA[:-1]), "take 8 bytes, the file has 7"),
    "data without tensors": (raw_file({}, DATA), "take 0 bytes, the file has 8"),
    "two tensors at one place": (raw_file({"a": entry(), "b": entry()}, DATA), "'b' overlaps another"),
    "overlap by half": (raw_file({"a": entry(), "b": entry(offsets=[4, 12])}, b"\0" * 12), "'b' overlaps another"),
    "one inside another": (
        raw_file({"a": entry(shape=[4], offsets=[0, 16]), "b": entry(offsets=[4, 12])}, b"\0" * 16),
        "'b' overlaps another",
    ),
    "empty tensor inside another": (
        raw_file({"a": entry(), "b": entry(shape=[0], offsets=[4, 4])}, DATA),
        "'b' overlaps another",
    ),
    "NaN": (raw_file(b'{"a": NaN}'), "NaN is not"),
    "Infinity": (raw_file(b'{"a": -Infinity}'), "-Infinity is not"),
    "1e999": (raw_file(b'{"a": 1e999}'), "too large"),
    "a name with an escape": (raw_file({"\x1b[2J": entry()}, DATA), "cannot be a tensor's name"),
    "a name of two lines": (raw_file({"a\nb": entry()}, DATA), "cannot be a tensor's name"),
    "a name without end": (raw_file({"a" * 2000: entry()}, DATA), "cannot be a tensor's name"),
    "100,000 arrays deep": (raw_file(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested deeper"),
    "100,000 objects deep": (raw_file(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "nested deeper"),
    "100 arrays deep": (raw_file(b'{"a":' + b"[" * 100 + b"]" * 100 + b"}"), "nested deeper"),
    "millions of values": (raw_file(b'{"a":[' + b"1," * 2_100_000 + b"1]}"), "more than 2000000 values"),
    "a zip file": (b"PK\x03\x04" + b"\0" * 60, "claims"),
    "a pickle": (b"\x80\x02}q\x00." + b"\0" * 60, "claims"),
    "a web page": (b"<!DOCTYPE html><html><body>404</body></html>", "claims"),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "claims"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused_by_name_and_reason(folder: Path, name: str) -> None:
    data, reason = MALFORMED[name]
    (folder / "model.safetensors").write_bytes(data)
    text = refused(lambda: weights_of(folder))
    assert reason in text
    assert text.startswith("model.safetensors: ")
    assert str(folder / "model.safetensors") in text
    assert text.isascii()
    assert len(text) < 2000


def test_there_are_many_kinds_of_malformed_files() -> None:
    assert len(MALFORMED) >= 60


def test_the_malformed_files_differ_from_a_good_one_only_in_their_fault(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(raw_file({"a": entry()}, DATA))
    assert weights_of(folder).read()["a"].tolist() == [0, 0]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "x.safetensors"
    save_file({"a.weight": torch.randn(2, 3), "b": torch.ones(3).half(), "c": torch.arange(2)}, path, {"format": "pt"})
    return path.read_bytes()


def read_whatever(path: Path, data: bytes) -> None:
    """A changed file is either refused as it should be, or is consistent, and then every tensor is as it says."""
    path.write_bytes(data)
    try:
        weights = weights_in(path)
        found = weights.read()
    except CheckpointError:
        return
    assert {name: Info(x.dtype, tuple(x.shape)) for name, x in found.items()} == weights.header
    assert sum(x.nbytes for x in found.values()) < len(data)


def test_every_truncation_is_refused(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "x.safetensors"
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(CheckpointError):
            weights_in(path)


def test_every_flip_of_one_bit_is_refused_or_harmless(tmp_path: Path, good: bytes) -> None:
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= 1 << place % 8
        read_whatever(tmp_path / "x.safetensors", bytes(changed))


quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=4))
def test_random_changes_are_refused_or_harmless(
    tmp_path: Path, good: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    data = good
    for place, removed, added in edits:
        data = data[:place] + added + data[place + removed :]
    read_whatever(tmp_path / "x.safetensors", data)


number = st.integers(-2, 20) | st.sampled_from([2**31, 2**32, 2**62, 2**63, 2**64])
junk = st.recursive(
    st.none() | st.booleans() | number | st.text(max_size=3), lambda x: st.lists(x, max_size=3), max_leaves=5
)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*files.DTYPES, "F4"]) | junk,
        "shape": st.lists(number, max_size=3) | junk,
        "data_offsets": st.lists(number, min_size=2, max_size=2) | junk,
    }
)


@quick
@given(
    st.dictionaries(st.text(max_size=3) | st.just("__metadata__"), entries | junk, max_size=3), st.binary(max_size=20)
)
def test_random_headers_are_refused_or_harmless(tmp_path: Path, header: dict[str, Any], data: bytes) -> None:
    read_whatever(tmp_path / "x.safetensors", raw_file(header, data))


# ---------------------------------------------------------------------------------------------------------- folders


def test_the_one_safetensors_file_of_another_name_is_found(folder: Path) -> None:
    save_file({"x": torch.ones(1)}, folder / "diffusion.safetensors")
    assert weights_of(folder).header.keys() == {"x"}
    save_file({"y": torch.ones(1)}, folder / "adapter.safetensors")
    text = refused(lambda: weights_of(folder))
    assert "'adapter.safetensors', 'diffusion.safetensors'" in text
    assert "rename" in text
    save_file({"z": torch.ones(1)}, folder / "model.safetensors")
    assert weights_of(folder).header.keys() == {"z"}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt", "tf_model.h5"])
def test_a_folder_of_pickles_is_never_read_silently(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")
    text = refused(lambda: weights_of(folder))
    assert "never read silently" in text
    assert f"'{name}'" in text
    assert f"regard convert {folder} OUT" in text


def test_a_folder_without_weights_or_no_folder_at_all(folder: Path) -> None:
    assert "no weights" in refused(lambda: weights_of(folder))
    assert "No such file" in refused(lambda: weights_of(folder / "missing"))
    (folder / "file").write_text("x")
    assert "Not a directory" in refused(lambda: weights_of(folder / "file"))
    (folder / "model.safetensors").mkdir()
    assert "not a regular file" in refused(lambda: weights_of(folder))


def test_a_pipe_is_refused_and_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "model.safetensors")
    assert "not a regular file" in refused(lambda: weights_of(folder))
    assert "not a regular file" in refused(lambda: read_json(folder / "model.safetensors"))


A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
STATE = {"a": torch.ones(2), "b": torch.zeros(3), "c": torch.arange(4)}


@pytest.fixture
def sharded(folder: Path) -> Path:
    save_file({"a": STATE["a"], "b": STATE["b"]}, folder / A, {"format": "pt", "part": "1"})
    save_file({"c": STATE["c"]}, folder / B, {"format": "pt", "part": "2"})
    write_index(folder, {"a": A, "b": A, "c": B})
    return folder


def write_index(folder: Path, weight_map: Any) -> None:
    index = {"metadata": {"total_size": 52}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_shards_are_read_as_one(sharded: Path) -> None:
    weights = weights_of(sharded)
    assert same(weights.read(), STATE)
    assert weights.header["c"] == Info(torch.int64, (4,))
    assert weights.metadata == {"format": "pt"}
    assert list(weights.header) == ["a", "b", "c"]


def test_all_disagreements_of_an_index_come_in_one_error(sharded: Path) -> None:
    save_file({"a": STATE["a"], "c": STATE["c"], "extra": STATE["b"]}, sharded / B)
    text = refused(lambda: weights_of(sharded))
    assert f"'a': in {B}, but the index puts it into {A}" in text
    assert f"'extra': in {B}, but not in the index" in text
    write_index(sharded, {"a": B, "b": A, "c": B, "extra": A, "d": A})
    text = refused(lambda: weights_of(sharded))
    assert f"'extra': missing from {A}" in text
    assert f"'d': missing from {A}" in text
    assert f"'a': in {A}, but the index puts it into {B}" in text
    assert "4 problems" in text


@pytest.mark.parametrize(
    "name",
    [
        "../secret.safetensors",
        "sub/x.safetensors",
        "sub\\x.safetensors",
        "..\\secret.safetensors",
        "/etc/passwd",
        "/etc/x.safetensors",
        "C:x.safetensors",
        "\\\\host\\x.safetensors",
        "file:///x.safetensors",
        "..",
        ".",
        "",
        "x\0.safetensors",
        "x\n.safetensors",
        "model.bin",
        "config.json",
        "missing.safetensors",
        "folder.safetensors",
        "out.safetensors",
        "loop.safetensors",
        "broken.safetensors",
        "up.safetensors",
        "x" * 300 + ".safetensors",
        ".." + "/.." * 20 + "/etc/x.safetensors",
        "%2e%2e%2fsecret.safetensors",
    ],
)
def test_a_shard_outside_the_folder_or_of_no_plain_name_is_refused(sharded: Path, name: str) -> None:
    save_file({"c": STATE["c"]}, sharded.parent / "secret.safetensors")
    (sharded / "sub").mkdir()
    save_file({"c": STATE["c"]}, sharded / "sub" / "x.safetensors")
    save_file({"c": STATE["c"]}, sharded / "sub\\x.safetensors")
    (sharded / "folder.safetensors").mkdir()
    (sharded / "out.safetensors").symlink_to(sharded.parent / "secret.safetensors")
    (sharded / "up.safetensors").symlink_to("../secret.safetensors")
    (sharded / "loop.safetensors").symlink_to("loop.safetensors")
    (sharded / "broken.safetensors").symlink_to("nowhere.safetensors")
    write_index(sharded, {"a": A, "b": A, "c": name})
    text = refused(lambda: weights_of(sharded))
    assert "the shard" in text
    assert "index.json" in text


def test_a_link_inside_the_folder_is_fine(sharded: Path) -> None:
    (sharded / "link.safetensors").symlink_to(B)
    write_index(sharded, {"a": A, "b": A, "c": "link.safetensors"})
    assert same(weights_of(sharded).read(), STATE)


@pytest.mark.parametrize("weight_map", [None, [], {}, "x", 1, {"a": 1}, {"a": None}, {"a": ["x"]}, {"a": {}}], ids=str)
def test_an_index_of_another_form_is_refused(sharded: Path, weight_map: Any) -> None:
    write_index(sharded, weight_map)
    assert "weight_map" in refused(lambda: weights_of(sharded))


def test_a_damaged_shard_is_named(sharded: Path) -> None:
    (sharded / B).write_bytes((sharded / B).read_bytes()[:-1])
    assert refused(lambda: weights_of(sharded)).startswith(B)


# ------------------------------------------------------------------------------------------------------------- JSON

BAD_JSON: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not valid"),
    "space": (b"  \n", "not valid"),
    "array": (b"[1]", "not an object"),
    "text": (b'"x"', "not an object"),
    "null": (b"null", "not an object"),
    "number": (b"3", "not an object"),
    "two objects": (b"{}{}", "not valid"),
    "cut": (b'{"a": "b', "not valid"),
    "single quotes": (b"{'a': 1}", "not valid"),
    "NaN": (b'{"a": NaN}', "NaN"),
    "Infinity": (b'{"a": [Infinity]}', "Infinity"),
    "minus Infinity": (b'{"a": -Infinity}', "-Infinity"),
    "too large": (b'{"a": 1e400}', "too large"),
    "too small": (b'{"a": -1e400}', "too large"),
    "digits": (b'{"a": ' + b"9" * 10_000 + b"}", "not valid"),
    "key twice": (b'{"a": 1, "a": 1}', "'a' stands twice"),
    "key twice below": (b'{"x": [{"b": {"a": 1, "a": 2}}]}', "'a' stands twice"),
    "latin-1": (b'{"a": "\xe9"}', "UTF-8"),
    "overlong": (b'{"a": "\xc0\xaf"}', "UTF-8"),
    "surrogate bytes": (b'{"a": "\xed\xa0\x80"}', "UTF-8"),
    "surrogate escape": (b'{"a": "\\udfff"}', "UTF-8"),
    "surrogate key": (b'{"\\ud834": 1}', "UTF-8"),
    "mark": (b"\xef\xbb\xbf{}", "not valid"),
    "UTF-16": ("{}".encode("utf-16"), "UTF-8"),
    "UTF-32": ("{}".encode("utf-32-be"), "not valid"),
    "control": (b'{"a": "\x01"}', "not valid"),
    "deep list": (b'{"a":' + b"[" * 500_000, "nested deeper"),
    "deep object": (b'{"a":' * 500_000, "nested deeper"),
    "deep, closed": (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested deeper"),
    "many": (b'{"a":[' + b"[]," * 1_500_000 + b"[]]}", "values"),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_is_refused(tmp_path: Path, name: str) -> None:
    data, reason = BAD_JSON[name]
    path = tmp_path / "config.json"
    path.write_bytes(data)
    text = refused(lambda: read_json(path))
    assert reason in text
    assert str(path) in text


def test_json_has_a_limit_that_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a": 1}')
    assert read_json(path, limit=8) == {"a": 1}
    assert "more than 7 bytes" in refused(lambda: read_json(path, limit=7))
    with open(path, "wb") as file:
        file.truncate(20_000_000)  # sparse
    assert "more than 16000000 bytes" in refused(lambda: read_json(path))
    assert "No such file" in refused(lambda: read_json(tmp_path / "missing.json"))


def test_json_as_deep_as_people_write_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a":' + b"[" * 50 + b"]" * 50 + b"}")
    assert "a" in read_json(path)


plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | plain_text
values = st.recursive(
    scalars, lambda x: st.lists(x, max_size=4) | st.dictionaries(plain_text, x, max_size=4), max_leaves=20
)


@quick
@given(st.dictionaries(plain_text, values, max_size=5))
def test_json_written_is_json_read(tmp_path: Path, value: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(json_bytes(value))
    found = read_json(path)
    assert found == value
    assert list(found) == list(value)


@quick
@given(st.binary(max_size=40) | st.text(st.sampled_from('{}[]",:ae1.-\\u0 '), max_size=40).map(str.encode))
def test_random_bytes_are_json_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with suppress(CheckpointError):
        assert isinstance(read_json(path), dict)


def test_json_keeps_order_and_ends_with_a_newline() -> None:
    assert json_bytes({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}\n'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, torch.ones(1), b"x", "\ud800"], ids=repr)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="JSON"):
        json_bytes({"a": value})


# ---------------------------------------------------------------------------------------------------------- writing

CONTENT: dict[str, Any] = {
    "model.safetensors": {"x": torch.ones(5)},
    "regard.json": b'{"format": 1}\n',
    "card.md": b"hi",
}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(x.relative_to(folder)): x.read_bytes() for x in sorted(folder.rglob("*")) if x.is_file()}


def test_a_folder_is_written_whole(tmp_path: Path) -> None:
    save(tmp_path / "deep" / "er" / "m", CONTENT)
    assert sorted(x.name for x in (tmp_path / "deep" / "er").iterdir()) == ["m"]
    assert sorted(tree(tmp_path / "deep" / "er" / "m")) == ["card.md", "model.safetensors", "regard.json"]
    assert read_json(tmp_path / "deep" / "er" / "m" / "regard.json") == {"format": 1}


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    state = {"b": torch.arange(3.0), "a": torch.arange(4)}
    save(tmp_path / "one", {"model.safetensors": state})
    save(tmp_path / "two", {"model.safetensors": dict(reversed(state.items()))})
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save(tmp_path / "m", CONTENT)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(x.stat().st_mode) for x in (tmp_path / "m").iterdir()}
    assert modes == {0o644}
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o755


def test_views_and_tied_tensors_are_written_in_full(tmp_path: Path) -> None:
    x = torch.arange(24.0).reshape(4, 6)
    q, k, v = x.chunk(3, 1)
    top, bottom = x.chunk(2)
    state = {"x": x, "tied": x, "T": x.T, "q": q, "k": k, "v": v, "top": top, "bottom": bottom, "last": x[3, 5]}
    state |= {"wide": torch.ones(1).expand(3, 2), "parameter": torch.nn.Parameter(torch.ones(2))}
    state |= {"conjugate": torch.tensor([1 + 2j]).conj(), "none": torch.empty(0), "none again": torch.empty(0)}
    save(tmp_path / "m", {"model.safetensors": state})
    found = weights_of(tmp_path / "m").read()
    assert same(found, {name: tensor.detach() for name, tensor in state.items()})


@pytest.mark.parametrize(
    "tensors",
    [
        {"x": torch.empty(2, device="meta")},
        {"x": torch.eye(2).to_sparse()},
        {"x": torch.ones(2, dtype=torch.complex128)},
        {"__metadata__": torch.ones(1)},
        {"": torch.ones(1)},
    ],
    ids=["meta", "sparse", "dtype", "metadata", "no name"],
)
def test_what_the_format_cannot_hold_is_refused_before_writing(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    with pytest.raises(InputError, match="tensor"):
        save(tmp_path / "m", {"model.safetensors": tensors})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\\b", "a\0b", "/x"])
def test_a_file_is_written_only_inside_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="plain file name"):
        save(tmp_path / "m", {name: b""})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    save(tmp_path / "m", CONTENT)  # an empty folder is a fine place
    before = tree(tmp_path)
    text = refused(lambda: save(tmp_path / "m", CONTENT))
    assert "not empty" in text
    assert "'card.md'" in text
    assert tree(tmp_path) == before
    (tmp_path / "file").write_bytes(b"x")
    assert str(tmp_path / "file") in refused(lambda: save(tmp_path / "file", CONTENT))
    assert (tmp_path / "file").read_bytes() == b"x"


def test_replace_swaps_the_whole_folder_and_loses_no_other_file(tmp_path: Path) -> None:
    save(tmp_path / "m", CONTENT)
    save(tmp_path / "m", CONTENT | {"card.md": b"new", "more.txt": b""}, replace=True)
    assert tree(tmp_path / "m")["card.md"] == b"new"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["m"]
    before = tree(tmp_path)
    assert "'more.txt'" in refused(lambda: save(tmp_path / "m", CONTENT, replace=True))
    (tmp_path / "m" / "card.md").unlink()
    (tmp_path / "m" / "card.md").mkdir()
    assert "'card.md'" in refused(lambda: save(tmp_path / "m", CONTENT | {"more.txt": b""}, replace=True))
    (tmp_path / "m" / "card.md").rmdir()
    assert tree(tmp_path) == {name: data for name, data in before.items() if name != "m/card.md"}


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    save(tmp_path / "link", CONTENT)
    save(tmp_path / "link", CONTENT | {"card.md": b"new"}, replace=True)
    assert (tmp_path / "link").is_symlink()
    assert tree(tmp_path / "real")["card.md"] == b"new"


def failing(call: Callable[..., Any], at: int, error: BaseException) -> Callable[..., Any]:
    """The same call, but the ``at``-th one fails."""
    count = iter(range(1000))

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if next(count) == at:
            raise error
        return call(*arguments, **options)

    return wrapped


FULL = OSError(errno.ENOSPC, "No space left on device")


def points() -> Iterator[tuple[str, int]]:
    yield from (("fsync", at) for at in range(4))  # three files and the folder
    yield from (("chmod", 0), ("mkdtemp", 0), ("save_file", 0), ("open", 0), ("open", 2), ("rename", 0))


@pytest.mark.parametrize("replace", [False, True], ids=["new", "replace"])
@pytest.mark.parametrize(("what", "at"), list(points()))
def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, at: int, replace: bool
) -> None:
    (tmp_path / "other").write_bytes(b"x")
    if replace:
        save(tmp_path / "m", CONTENT)
    before = tree(tmp_path)
    places = {
        "fsync": (os, "fsync"),
        "chmod": (os, "chmod"),
        "mkdtemp": (writing.tempfile, "mkdtemp"),
        "save_file": (writing, "save_file"),
        "open": (os, "open"),
        "rename": (writing, "exchange") if replace else (os, "replace"),
    }
    home, name = places[what]
    with monkeypatch.context() as patch:
        patch.setattr(home, name, failing(getattr(home, name), at, FULL))
        text = refused(lambda: save(tmp_path / "m", CONTENT | {"card.md": b"new"}, replace=replace))
    assert "No space left on device" in text
    assert str(tmp_path / "m") in text
    assert f"{20 + 14 + 3} bytes" in text
    assert tree(tmp_path) == before
    assert sorted(x.name for x in tmp_path.iterdir()) == (["m", "other"] if replace else ["other"])
    save(tmp_path / "m", CONTENT | {"card.md": b"new"}, replace=replace)  # and the next attempt succeeds
    assert tree(tmp_path / "m")["card.md"] == b"new"


def test_an_error_of_the_safetensors_library_is_reported_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = writing.SafetensorError("I/O error: No space left on device (os error 28)")
    monkeypatch.setattr(writing, "save_file", failing(writing.save_file, 0, error))
    assert "No space left on device" in refused(lambda: save(tmp_path / "m", CONTENT))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_trace_and_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, 1, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / "m", CONTENT)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_sync_of_the_parent_comes_too_late_to_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, 4, FULL))
    save(tmp_path / "m", CONTENT)
    assert same(weights_of(tmp_path / "m").read(), CONTENT["model.safetensors"])


def test_every_file_is_synced_before_the_folder_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name), fsync(fd))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), rename(a, b)))
    save(tmp_path / "m", CONTENT)
    assert sorted(events[:3]) == ["card.md", "model.safetensors", "regard.json"]
    assert events[3:] == ["new", "rename", tmp_path.name]


def test_a_system_that_cannot_swap_folders_refuses_to_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "m", CONTENT)
    before = tree(tmp_path)
    monkeypatch.setattr(writing.sys, "platform", "other")
    assert "in one step" in refused(lambda: save(tmp_path / "m", CONTENT | {"card.md": b"new"}, replace=True))
    assert tree(tmp_path) == before
