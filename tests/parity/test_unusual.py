"""Hundreds of unusual twins: each is read and equal to the reference, or refused by the name of what is not supported.
And of values that make no sense, no traceback."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import InputError
from tests.parity.references import reference
from tests.parity.twins import saved
from tests.parity.unusual import HEADS, TIMM, judged, unusual, unusual_timm

COUNTED = 8  # twins of a kind that the reference itself can read and run; in all there are over 200
MOST = 60  # draws for them


def test_there_are_at_least_two_hundred() -> None:
    assert COUNTED * len([*HEADS, *TIMM]) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("case", [*HEADS, *TIMM])
def test_equal_or_refused_by_name(case: str, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in range(MOST):
        config = (unusual_timm if case in TIMM else unusual)(case, seed)
        answer, _, why = judged(case, config, tmp_path / str(seed), seed).partition(": ")
        found[answer] += 1
        assert answer != "refused" or "got" in why or "position" in why, why
        if found["equal"] + found["refused"] >= COUNTED and found["equal"]:
            break
    assert found["equal"] + found["refused"] >= COUNTED
    assert found["equal"], "not all are refused"


ABSURD: list[Any] = [None, 5, -1, 0, 10**12, 1e308, -0.5, True, "x", [], [5], [1, 2], [[1]], [None], {}, {"a": 1}]
ABSURD += [[10**12] * 4, {"0": {"1": [2]}}, [1] * 200]
MORE = (
    "architectures",
    "model_type",
    "rope_parameters",
    "rope_scaling",
    "id2label",
    "num_labels",
    "layer_types",
    "image_size",
)
MORE += ("head_dim", "down_ops", "label_names", "pretrained_cfg", "model_args", "sliding_window", "backbone_config")
INNER = ("model_args", "pretrained_cfg", "backbone_config")
KINDS = [
    "gpt",
    "gpt-one",
    "gpt-llama",
    "gpt-mistral",
    "gpt-qwen",
    "bert-label",
    "bert-albert",
    "bert-distil",
    "bert-fnet",
]
KINDS += ["t5", "switch", "vit", "vit-timm", "deit", "deit-timm", "cait", "volo", "resnet", "detr", "perceiver-learned"]
KINDS += ["perceiverlm", "mixer-named", "swin", "swin-timm", "swinv2", "swinv2-timm", "levit", "levit-timm"]
KINDS += ["transformer", "reformer"]


@pytest.mark.slow
@pytest.mark.parametrize("case", KINDS)
def test_absurd_values_are_refused_in_words(case: str, tmp_path: Path) -> None:
    """Every key of a config with every value: loaded, or refused with an error of ours."""
    folder = saved(reference(case), tmp_path)
    path = folder / "config.json"
    base, refused = json.loads(path.read_text()), 0
    places = [((), key) for key in dict.fromkeys([*base, *MORE])]
    places += [((name,), key) for name in INNER if isinstance(base.get(name), dict) for key in base[name]]
    for outer, key in places:
        for value in ABSURD:
            data = json.loads(json.dumps(base))
            (data[outer[0]] if outer else data)[key] = value
            path.write_text(json.dumps(data))
            try:
                regard.load(folder)
            except InputError as error:
                refused += bool(error.got)
    assert refused > 100
