"""Two hundred broken model folders: each gives one clear error, soon, and never a traceback."""

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.folders import export

Break = Callable[[Path, random.Random], None]


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def put_header(path: Path, header: Any, data: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def truncated(folder: Path, luck: random.Random) -> None:
    path = weights(folder)
    path.write_bytes(path.read_bytes()[: luck.randrange(path.stat().st_size)])


def appended(folder: Path, luck: random.Random) -> None:
    path = weights(folder)
    path.write_bytes(path.read_bytes() + luck.randbytes(luck.randint(1, 100)))


def wrong_header(folder: Path, luck: random.Random) -> None:
    header, data = header_of(weights(folder))
    text = bytearray(json.dumps(header).encode())
    text[luck.choice([0, len(text) - 1, text.index(b":")])] = luck.randrange(128, 256)
    put_header(weights(folder), bytes(text), data)


def lying_length(folder: Path, luck: random.Random) -> None:
    raw = weights(folder).read_bytes()
    length = luck.choice([0, 1, 7, 1 << 20, 1 << 40, (1 << 64) - 1])
    weights(folder).write_bytes(length.to_bytes(8, "little") + raw[8:])


def overlapping(folder: Path, luck: random.Random) -> None:
    header, data = header_of(weights(folder))
    one, two = luck.sample([name for name in header if name != "__metadata__"], 2)
    header[one]["data_offsets"] = header[two]["data_offsets"]
    put_header(weights(folder), header, data)


def huge_shape(folder: Path, luck: random.Random) -> None:
    header, data = header_of(weights(folder))
    name = luck.choice([name for name in header if name != "__metadata__"])
    header[name]["shape"] = luck.choice([[1 << 62], [1 << 40, 1 << 40], [10**12], [2**63, 2], [-4], [1.5], "4", [True]])
    put_header(weights(folder), header, data)


def wrong_dtype(folder: Path, luck: random.Random) -> None:
    header, data = header_of(weights(folder))
    name = luck.choice([name for name in header if name != "__metadata__"])
    header[name]["dtype"] = luck.choice(["F33", "", None, 5, "I64", "f32"])
    put_header(weights(folder), header, data)


def deep_header(folder: Path, luck: random.Random) -> None:
    _, data = header_of(weights(folder))
    depth = luck.choice([100, 2000, 100_000])
    put_header(weights(folder), b'{"a":' * depth + b"1" + b"}" * depth, data)


def missing_tensor(folder: Path, luck: random.Random) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(weights(folder))
    del state[luck.choice(sorted(state))]
    save_file(state, weights(folder))


def renamed_tensor(folder: Path, luck: random.Random) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(weights(folder))
    name = luck.choice(sorted(state))
    state[luck.choice([name + "x", "extra", "../up", "blocks.99.ffn.up.bias"])] = state.pop(name)
    save_file(state, weights(folder))


def misshapen_tensor(folder: Path, luck: random.Random) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(weights(folder))
    name = luck.choice(sorted(state))
    state[name] = luck.choice([state[name][:-1], state[name][None], state[name][:0]]).contiguous()
    save_file(state, weights(folder))


def no_weights(folder: Path, luck: random.Random) -> None:
    path = weights(folder)
    if luck.random() < 0.5:
        path.rename(folder / "pytorch_model.bin")
    else:
        path.unlink()
        path.mkdir()


def config_value(folder: Path, luck: random.Random) -> None:
    """A size or a setting that is no size or setting, or one that does not belong to the weights."""
    data = json.loads(described(folder).read_text())
    table = data.get("config", data)
    key = luck.choice(
        ["dim", "depth", "heads", "vocab"] if "config" in data else ["n_embd", "n_layer", "n_head", "vocab_size"]
    )
    table[key] = luck.choice([0, -1, 10**9, 10**13, 2**70, 1.5, "64", True, [], {}, 7, 1e300])
    described(folder).write_text(json.dumps(data))


def config_literal(folder: Path, luck: random.Random) -> None:
    """Text that some readers take for a number, or for anything."""
    text = described(folder).read_text()
    key = '"dropout"' if '"dropout"' in text else '"resid_pdrop"'
    literal = luck.choice(
        ["NaN", "Infinity", "-Infinity", "1e999", "[" * 5000, '{"a":' * 3000, "0x10", "'a'", "//", ""]
    )
    described(folder).write_text(text.replace(key, f'{key}: {literal}, "was"', 1))


def unknown_key(folder: Path, luck: random.Random) -> None:
    data = json.loads(described(folder).read_text())
    table = data["config"] if "config" in data and luck.random() < 0.7 else data
    table[luck.choice(["dimm", "auto_map", "_attn_implementation_internal", "trust_remote_code", "", "n_layerz"])] = (
        "evil.module"
    )
    described(folder).write_text(json.dumps(data))


def wrong_family(folder: Path, luck: random.Random) -> None:
    data = json.loads(described(folder).read_text())
    key = "model" if "model" in data else "model_type"
    data[key] = luck.choice(["bert", "os.system", None, 5, ["gpt"], "../gpt", "x" * 10_000])
    described(folder).write_text(json.dumps(data))


def wrong_file(folder: Path, luck: random.Random) -> None:
    raw = luck.choice(
        [b"", b"null", b"[]", b"\xff\xfe{}", b'{"format": 1, "format": 1}', b"{", b'"a"', luck.randbytes(300)]
    )
    described(folder).write_bytes(raw)


def wrong_attention(folder: Path, luck: random.Random) -> None:
    data = json.loads(described(folder).read_text())
    table = data.get("config", data)
    choices = [
        "no-such",
        {"kind": "top-k", "keep": 0},
        {"kind": "softmax", "code": "x"},
        [],
        5,
        {"kind": None},
        "local-p",
    ]
    table["attention"] = luck.choice(choices)
    described(folder).write_text(json.dumps(data))


def wrong_tokenizer(folder: Path, luck: random.Random) -> None:
    path = folder / "tokenizer.json"
    if luck.random() < 0.5:
        raw = luck.choice([b"", b"{}", b"[" * 5000, b"\xff", luck.randbytes(100)])
    else:
        raw = path.read_bytes().replace(b'"Leo":12', b'"Leo":1200')
    path.write_bytes(raw)


BREAKS: list[Break] = [
    truncated,
    appended,
    wrong_header,
    lying_length,
    overlapping,
    huge_shape,
    wrong_dtype,
    deep_header,
    missing_tensor,
    renamed_tensor,
    misshapen_tensor,
    no_weights,
    config_value,
    config_literal,
    unknown_key,
    wrong_family,
    wrong_file,
    wrong_attention,
    wrong_tokenizer,
]


def weights(folder: Path) -> Path:
    return folder / "model.safetensors"


def described(folder: Path) -> Path:
    ours = folder / "regard.json"
    return ours if ours.exists() else folder / "config.json"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One folder of ours and one of theirs, both of which load."""
    base = tmp_path_factory.mktemp("originals")
    shipped = Path(regard.__file__).parent / "pretrained" / "recall"
    shutil.copytree(shipped, base / "ours")
    export(base / "ours", base / "theirs")
    for folder in (base / "ours", base / "theirs"):
        regard.load(folder)
    return [base / "ours", base / "theirs"]


@pytest.mark.parametrize("case", range(209))
def test_a_broken_folder_gives_one_clear_error(
    case: int, originals: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    luck = random.Random(case)
    broken = tmp_path / "broken"
    shutil.copytree(luck.choice(originals), broken)
    wreck = BREAKS[case % len(BREAKS)]
    wreck(broken, luck)
    start = time.process_time()
    with pytest.raises(InputError) as caught:
        regard.load(broken)
    assert time.process_time() - start < 1.0, f"{wreck.__name__} took too long"
    message = str(caught.value)
    assert message.strip()
    assert len(message) < 20_000
    code = main(["export", str(broken), str(tmp_path / "out")])
    printed = capsys.readouterr()
    assert code == 2
    assert "Traceback" not in printed.out + printed.err
    assert printed.err.startswith("regard: ")
    assert not (tmp_path / "out").exists()
