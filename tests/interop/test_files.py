"""Files of tensors are read as they are, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import CheckpointError
from regard.interop.rules import Rule, convert
from regard.interop.tensor_ops import Chunk
from regard.storage import tensors as files
from regard.storage.atomic import save_folder
from regard.storage.tensors import Info, open_weights, weights_in
from tests.interop.filed import quick, refused, same

DTYPES = list(files.DTYPES.values())


def raw_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file by hand, honest or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def sample(dtype: torch.dtype, shape: tuple[int, ...] = (2, 3)) -> Tensor:
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 2).to(dtype)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_equal(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {"x": sample(dtype), "scalar": sample(dtype, ()), "empty": sample(dtype, (0, 3))}
    save_folder(tmp_path / "m", {"model.safetensors": state})
    weights = open_weights(tmp_path / "m")
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
    save_folder(tmp_path / "m", {"model.safetensors": state})
    assert same(load_file(tmp_path / "m" / "model.safetensors"), state)


def test_read_widens_floating_tensors_and_only_those(tmp_path: Path) -> None:
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.bool, torch.complex64)
    state = {str(dtype): sample(dtype) for dtype in kinds}
    save_folder(tmp_path / "m", {"model.safetensors": state})
    found = open_weights(tmp_path / "m").read(dtype=torch.float32)
    for name, tensor in state.items():
        narrow = name in ("torch.float16", "torch.bfloat16")
        assert found[name].dtype == (torch.float32 if narrow else tensor.dtype)
        assert torch.equal(found[name], tensor.to(found[name].dtype))


def test_meta_tensors_check_a_conversion_before_data_is_read(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", {"model.safetensors": {"qkv": torch.randn(6, 2).half()}})
    weights = open_weights(tmp_path / "m")
    ours = convert(weights.meta(), [Rule("qkv", ("q", "k", "v"), Chunk(3))])
    assert ours["k"].is_meta
    assert (ours["k"].shape, ours["k"].dtype) == ((2, 2), torch.float16)
    assert "qkv: Chunk needs" in refused(lambda: convert(weights.meta(), [Rule("qkv", "q", Chunk(4))]))


def test_changing_what_was_read_does_not_change_the_file(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", {"model.safetensors": {"x": torch.ones(3)}})
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    open_weights(tmp_path / "m").read()["x"].zero_()
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
    "header cut short": (raw_file(b'{"a":'), "invalid JSON"),
    "header an array": (raw_file(b"[]"), "does not begin"),
    "header a text": (raw_file(b'"a"'), "does not begin"),
    "header a number": (raw_file(b"1"), "does not begin"),
    "header null": (raw_file(b"null"), "does not begin"),
    "space before the header": (raw_file(b" {}"), "does not begin"),
    "byte order mark": (raw_file(b"\xef\xbb\xbf{}"), "does not begin"),
    "header not UTF-8": (raw_file(b'{"\xff": 1}'), "UTF-8"),
    "header UTF-16": (raw_file("{}".encode("utf-16-le")), "invalid JSON"),
    "half a surrogate pair": (raw_file(b'{"\\ud800": ' + TENSOR.encode() + b"}", DATA), "UTF-8"),
    "bytes after the header's end": (raw_file(b"{} {}"), "invalid JSON"),
    "trailing comma": (raw_file(b'{"__metadata__": {},}'), "invalid JSON"),
    "comment": (raw_file(b"{} // x"), "invalid JSON"),
    "NUL padding": (raw_file(b"{}\0\0"), "invalid JSON"),
    "tensor twice": (raw_file(f'{{"a": {TENSOR}, "a": {TENSOR}}}'.encode(), DATA), "duplicate key 'a'"),
    "tensor twice, escaped": (raw_file(f'{{"a": {TENSOR}, "\\u0061": {TENSOR}}}'.encode(), DATA), "duplicate key 'a'"),
    "field twice": (raw_file(b'{"a": {"dtype": "F32", "dtype": "F32"}}'), "duplicate key 'dtype'"),
    "metadata twice": (raw_file(b'{"__metadata__": {}, "__metadata__": {}}'), "duplicate key"),
    "metadata key twice": (raw_file(b'{"__metadata__": {"k": "a", "k": "b"}}'), "duplicate key 'k'"),
    "metadata a list": (raw_file({"__metadata__": []}), "__metadata__ is not"),
    "metadata null": (raw_file({"__metadata__": None}), "__metadata__ is not"),
    "metadata of numbers": (raw_file({"__metadata__": {"a": 1}}), "__metadata__ is not"),
    "metadata nested": (raw_file({"__metadata__": {"a": {}}}), "__metadata__ is not"),
    "tensor null": (raw_file({"a": None}), "'a' must have exactly"),
    "tensor a list": (raw_file({"a": []}), "'a' must have exactly"),
    "tensor empty": (raw_file({"a": {}}), "'a' must have exactly"),
    "no dtype": (raw_file({"a": {"shape": [2], "data_offsets": [0, 8]}}, DATA), "'a' must have exactly"),
    "no shape": (raw_file({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, DATA), "'a' must have exactly"),
    "no offsets": (raw_file({"a": {"dtype": "F32", "shape": [2]}}, DATA), "'a' must have exactly"),
    "unknown field": (raw_file({"a": entry() | {"strides": [1]}}, DATA), "'a' must have exactly"),
    "unknown dtype": (raw_file({"a": entry("F33")}, DATA), "unknown dtype 'F33'"),
    "dtype in small letters": (raw_file({"a": entry("f32")}, DATA), "unknown dtype"),
    "dtype a number": (raw_file({"a": entry(32)}, DATA), "unknown dtype"),
    "dtype a list": (raw_file({"a": entry(["F32"])}, DATA), "unknown dtype"),
    "dtype null": (raw_file({"a": entry(None)}, DATA), "unknown dtype"),
    "dtype too wide": (raw_file({"a": entry("F64")}, DATA), "'a' needs 16 bytes"),
    "dtype too narrow": (raw_file({"a": entry("F16")}, DATA), "'a' needs 4 bytes"),
    "shape negative": (raw_file({"a": entry(shape=[-2])}, DATA), "invalid shape"),
    "two negative sizes": (raw_file({"a": entry(shape=[-2, -1])}, DATA), "invalid shape"),
    "shape of fractions": (raw_file({"a": entry(shape=[2.0])}, DATA), "invalid shape"),
    "shape of texts": (raw_file({"a": entry(shape=["2"])}, DATA), "invalid shape"),
    "shape of truths": (raw_file({"a": entry(shape=[True, 2])}, DATA), "invalid shape"),
    "shape a number": (raw_file({"a": entry(shape=2)}, DATA), "invalid shape"),
    "shape null": (raw_file({"a": entry(shape=None)}, DATA), "invalid shape"),
    "shape nested": (raw_file({"a": entry(shape=[[2]])}, DATA), "invalid shape"),
    "shape too large": (raw_file({"a": entry(shape=[3])}, DATA), "'a' needs 12 bytes"),
    "shape too small": (raw_file({"a": entry(shape=[1])}, DATA), "'a' needs 4 bytes"),
    "a size of 2**63": (raw_file({"a": entry(shape=[BIG])}, DATA), "invalid shape"),
    "sizes that overflow to the right one": (raw_file({"a": entry(shape=[2**32, 2**32, 2])}, DATA), "impossible shape"),
    "an overflow hidden by zero": (raw_file({"a": entry(shape=[0, 2**62, 2**62], offsets=[0, 0])}), "impossible shape"),
    "a thousand digits": (raw_file({"a": entry(shape=[10**1000])}, DATA), "invalid shape"),
    "five thousand digits": (raw_file(b'{"a": ' + b"1" * 5000 + b"}"), "invalid JSON"),
    "65 axes": (raw_file({"a": entry(shape=[1] * 64 + [2])}, DATA), "invalid shape"),
    "100,000 axes of 2**62": (raw_file({"a": entry(shape=[2**62] * 100_000)}, DATA), "invalid shape"),
    "offsets negative": (raw_file({"a": entry(offsets=[-8, 0])}, DATA), "invalid data_offsets"),
    "offsets backwards": (raw_file({"a": entry(offsets=[8, 0])}, DATA), "its offsets give -8"),
    "one offset": (raw_file({"a": entry(offsets=[0])}, DATA), "invalid data_offsets"),
    "three offsets": (raw_file({"a": entry(offsets=[0, 8, 8])}, DATA), "invalid data_offsets"),
    "offsets of fractions": (raw_file({"a": entry(offsets=[0.0, 8.0])}, DATA), "invalid data_offsets"),
    "offsets of truths": (raw_file({"a": entry("U8", [1], [False, True])}, b"\0"), "invalid data_offsets"),
    "offsets a table": (raw_file({"a": entry(offsets={"0": 0, "8": 8})}, DATA), "invalid data_offsets"),
    "offsets of 2**64": (raw_file({"a": entry(offsets=[2**64, 2**64 + 8])}, DATA), "invalid data_offsets"),
    "offsets beyond the file": (raw_file({"a": entry(offsets=[2**40, 2**40 + 8])}, DATA), "leaves a gap"),
    "a terabyte declared": (
        raw_file({"a": entry(shape=[2**38], offsets=[0, 2**40])}, DATA),
        "need 1099511627776 bytes",
    ),
    "hole at the start": (raw_file({"a": entry(offsets=[4, 12])}, b"\0" * 12), "leaves a gap"),
    "hole between": (raw_file({"a": entry(), "b": entry(offsets=[12, 20])}, b"\0" * 20), "'b' leaves a gap"),
    "bytes left at the end": (raw_file({"a": entry()}, DATA + b"\0"), "need 8 bytes, but the file has 9"),
    "bytes missing at the end": (raw_file({"a": entry()}, DATA[:-1]), "need 8 bytes, but the file has 7"),
    "data without tensors": (raw_file({}, DATA), "need 0 bytes, but the file has 8"),
    "two tensors at one place": (raw_file({"a": entry(), "b": entry()}, DATA), "'b' overlaps another tensor"),
    "overlap by half": (
        raw_file({"a": entry(), "b": entry(offsets=[4, 12])}, b"\0" * 12),
        "'b' overlaps another tensor",
    ),
    "one inside another": (
        raw_file({"a": entry(shape=[4], offsets=[0, 16]), "b": entry(offsets=[4, 12])}, b"\0" * 16),
        "'b' overlaps another tensor",
    ),
    "empty tensor inside another": (
        raw_file({"a": entry(), "b": entry(shape=[0], offsets=[4, 4])}, DATA),
        "'b' overlaps another tensor",
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
    text = refused(lambda: open_weights(folder))
    assert reason in text
    assert text.startswith("model.safetensors: ")
    assert str(folder / "model.safetensors") in text
    assert text.isascii()
    assert len(text) < 2000


def test_there_are_many_kinds_of_malformed_files() -> None:
    assert len(MALFORMED) >= 60


def test_the_malformed_files_differ_from_a_good_one_only_in_their_fault(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(raw_file({"a": entry()}, DATA))
    assert open_weights(folder).read()["a"].tolist() == [0, 0]


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
