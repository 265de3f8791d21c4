"""Every name of timm's that is read stands for the sizes that it has there: the tensors of a whole model, unfilled."""

import pytest
import torch

from regard.interop import levit, timm_swin
from regard.interop.foreign import ForeignConfig
from regard.interop.formats import CHECKPOINT_FORMATS, checkpoint_kind
from regard.interop.rules import needed, spare
from regard.nn.uninitialized import SkipInitialization
from regard.zoo import empty_net

NAMES = [list(timm_swin.NAMES), list(timm_swin.SECOND_NAMES), list(levit.NAMES)]
QUICK = {name for names in NAMES for name in (names[0], names[-1])}  # the others are for the slow tests


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x in QUICK else pytest.mark.slow) for names in NAMES for x in names],
)
def test_the_sizes_of_a_name(name: str) -> None:
    timm = pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    with torch.device("meta"), SkipInitialization():
        model = timm.create_model(name)
    theirs = {key: tuple(x.shape) for key, x in model.state_dict().items()}
    size, fixed = list(model.pretrained_cfg["input_size"]), model.pretrained_cfg["fixed_input_size"]
    data = {"architecture": name, "num_classes": model.num_classes}
    data |= {"pretrained_cfg": {"input_size": size, "fixed_input_size": fixed}}
    kind, foreign = CHECKPOINT_FORMATS[checkpoint_kind(data)], ForeignConfig(data)
    config = kind.complete(kind.config(foreign), theirs)
    assert foreign.finish() == []
    rules = kind.rules(config, theirs)
    ours = {key: tuple(x.shape) for key, x in empty_net(kind.family, config).state_dict().items()}
    assert needed(ours, rules) == {key: x for key, x in theirs.items() if key not in spare(theirs, rules)}
    assert kind.export_config(config)["architecture"] == name
    assert "model_args" not in kind.export_config(config)
