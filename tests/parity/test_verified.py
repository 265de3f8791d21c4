"""How closely each family agrees with its reference: a committed file, which a fresh measurement may not contradict.

`pytest tests/parity --write-verified` measures anew and writes the file.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.interop import gpt2
from regard.interop.rules import convert
from regard.model import Model
from regard.models import gpt, mlp, recurrent, rnn, switchlm, workspace
from regard.models.recurrent import RecurrentReader
from regard.models.rnn import RNNTranslator
from regard.models.switchlm import SwitchLM
from regard.models.transformer import Config, Transformer
from regard.zoo import FAMILIES as ZOO
from regard.zoo import catalog
from tests.parity.diffusers_twins import measure_autoencoder
from tests.parity.forecasting import measure_forecaster, measure_linear_forecasts, measure_recurrent_forecasts
from tests.parity.ours import Run, difference, run
from tests.parity.references import CASES, DIM, FAMILIES, HEADS, VOCAB, redraw
from tests.parity.stock import all_weights, copy_to_ours, run_stock, stock
from tests.parity.theirs import transformers
from tests.parity.twins import batch, paired, run_reference
from tests.parity.unrolled import KINDS, Unrolled, layer_weights, torch_layers

FILE = Path(regard.__file__).parent / "verified.json"
FLOOR = 1e-7  # of a number near 1 in float32 the last bit is 6e-8
QUANTITIES = ("logits", "gradients", "maps")


@dataclass(frozen=True)
class Claim:
    """What the models of a family with these settings were compared with."""

    package: str
    reference: str
    where: dict[str, Any]


CLAIMS = {
    "transformer": Claim("transformers", "MarianMTModel", {"norm": "post", "attention": "softmax"}),
    "transformer-pre": Claim("torch", "nn.Transformer, norm_first", {"norm": "pre", "attention": "softmax"}),
    "transformer-admin": Claim(
        "torch", "nn.Transformer, Admin's omega on its skips", {"norm": "admin", "attention": "softmax"}
    ),
    "rnn": Claim("torch", "nn.LSTM and nn.GRU, the papers' equations around them", {}),
    "recurrent": Claim("torch", "nn.RNN, nn.GRU and nn.LSTM", {}),
    "gpt": Claim("transformers", "GPT2LMHeadModel", {"norm": "pre", "rotary": None, "attention": "softmax"}),
    "gpt-one": Claim("transformers", "OpenAIGPTLMHeadModel", {"norm": "post"}),
    "gpt-llama": Claim("transformers", "LlamaForCausalLM", {"norm": "pre", "normed": "rms", "gated": True}),
    "bert": Claim("transformers", "BertForPreTraining", {"shared": False, "segments": 2}),
    "bert-albert": Claim("transformers", "AlbertForPreTraining", {"shared": True}),
    "bert-distil": Claim("transformers", "DistilBertForMaskedLM", {"segments": 0, "attention": "softmax"}),
    "bert-fnet": Claim("transformers", "FNetForPreTraining", {"attention": "fourier"}),
    "t5": Claim("transformers", "T5ForConditionalGeneration", {}),
    "switch": Claim("transformers", "SwitchTransformersForConditionalGeneration", {}),
    "switchlm": Claim("transformers", "GPT2LMHeadModel, SwitchTransformersSparseMLP in it", {}),
    "reformer": Claim(
        "transformers",
        "ReformerModelWithLMHead, with a fault of it mended: of several rounds of hashes float32 loses a part there",
        {},
    ),
    "vit": Claim("transformers", "ViTForImageClassification", {"pool": "class"}),
    "vit-timm": Claim("timm", "VisionTransformer", {"pool": "mean"}),
    "cliptext": Claim("transformers", "CLIPTextModelWithProjection", {}),
    "clip": Claim("transformers", "CLIPModel", {}),
    "deit": Claim("transformers", "DeiTForImageClassificationWithTeacher", {}),
    "cait": Claim("timm", "Cait", {"attention": "talking", "scaled": True}),
    "volo": Claim("timm", "VOLO", {"attention": "softmax"}),
    "swin": Claim("transformers", "SwinForImageClassification, and timm's", {"attention": "softmax"}),
    "swinv2": Claim("transformers", "Swinv2ForImageClassification, and timm's", {"attention": "cosine", "every": None}),
    "levit": Claim("transformers", "LevitForImageClassificationWithTeacher, and timm's", {"attention": "softmax"}),
    "mixer": Claim("timm", "MlpMixer", {}),
    "resnet": Claim("transformers", "ResNetForImageClassification", {"stem": "large"}),
    "detr": Claim("transformers", "DetrForObjectDetection", {"stem": "large", "backbone_norm": "frozen"}),
    "autoencoder": Claim("diffusers", "AutoencoderKL", {"attention": "softmax"}),
    "perceiver": Claim("transformers", "PerceiverForImageClassification", {"looks": 1, "pool": "query"}),
    "perceiverlm": Claim("transformers", "PerceiverForMaskedLM", {}),
    "workspace": Claim("torch", "nn.MultiheadAttention, the paper's equations around it", {"keep": None}),
    "mlp": Claim("torch", "nn.Sequential of nn.Linear and nn.ReLU", {"activation": "relu"}),
    "forecaster": Claim("torch", "nn.Transformer, norm_first, nn.Conv1d and nn.Linear", {"attention": "softmax"}),
    "seriesrnn": Claim("torch", "nn.RNN, nn.GRU and nn.LSTM, and nn.Linear", {}),
    "serieslinear": Claim("torch", "nn.Linear", {}),
}


def measure(name: str, folder: Path) -> dict[str, float]:
    """The largest differences over some variants, in float32, each relative to the largest number."""
    by_name = {
        "autoencoder": measure_autoencoder,
        "rnn": measure_unrolled,
        "recurrent": measure_readers,
        "switchlm": measure_switches,
        "workspace": measure_slots,
        "mlp": measure_layers,
        "forecaster": measure_forecaster,
        "seriesrnn": measure_recurrent_forecasts,
        "serieslinear": measure_linear_forecasts,
    }
    if name in by_name:
        return by_name[name]()
    if CLAIMS[name].package == "torch":
        return measure_stock(CLAIMS[name].where["norm"])
    return measure_twins(name, folder)


def measure_stock(norm: str) -> dict[str, float]:
    sizes = Config(vocab=VOCAB, dim=DIM, depth=2, decoder_depth=3, heads=HEADS, hidden=28, dropout=0.0, norm=norm)
    ours, theirs, inputs = Transformer(sizes), stock(sizes), batch("transformer", padding="right")
    redraw(ours, 0)
    redraw(theirs, 1)
    pairs = all_weights(theirs, ours)
    copy_to_ours(pairs)
    wanted, found = run_stock(theirs, ours, inputs), run("transformer", ours, inputs)
    del found.outputs["memory"]
    wanted.backward()  # what our embedding learns by it is not compared
    found.backward()
    parts = [(their.grad.chunk(len(own)), own) for their, *own in pairs]
    theirs_by_place = {f"{i}.{j}": x for i, (some, _) in enumerate(parts) for j, x in enumerate(some)}
    ours_by_place = {f"{i}.{j}": x.grad for i, (_, own) in enumerate(parts) for j, x in enumerate(own)}
    return {
        "logits": difference(found.outputs, wanted.outputs),
        "maps": difference(found.maps, wanted.maps),
        "gradients": difference(ours_by_place, theirs_by_place),
    }


def measure_unrolled() -> dict[str, float]:
    worst, inputs = dict.fromkeys(QUANTITIES, 0.0), batch("transformer")
    for changes in KINDS.values():
        ours = RNNTranslator(rnn.Config(**{"vocab": VOCAB, "dim": DIM, "hidden": 24, "align": 20} | changes))
        redraw(ours, 0)
        theirs, given = Unrolled(ours), (inputs["source"], inputs["target"])
        wanted, maps = theirs.run(*given), {}
        if wanted.maps:
            looked = Model("rnn", ours)(*given, look="*")
            maps = {name: one.weights for name, one in looked.maps.items()}
        found = Run({"logits": ours(*given)}, maps, [])
        wanted.backward()
        found.backward()
        slopes = {str(i): (one.grad, two.grad) for i, (one, two) in enumerate(theirs.weights())}
        new = {
            "logits": difference(found.outputs, wanted.outputs),
            "gradients": difference(*({key: pair[i] for key, pair in slopes.items()} for i in (1, 0))),
            "maps": difference(found.maps, wanted.maps) if wanted.maps else 0.0,
        }
        worst = {key: max(worst[key], new[key]) for key in QUANTITIES}
    return worst


def measure_readers() -> dict[str, float]:
    worst, ids = dict.fromkeys(QUANTITIES, 0.0), batch("transformer")["source"]
    sizes = {"vocab": VOCAB, "dim": DIM, "hidden": 24, "depth": 2, "dropout": 0.0}
    for cell, head in product(("rnn", "gru", "lstm"), ("words", "tags")):
        ours = RecurrentReader(recurrent.Config(**sizes, cell=cell, head=head, bidirectional=head == "tags"))
        redraw(ours, 0)
        layers = torch_layers(ours.layers)
        wanted = Run({"logits": F.linear(layers(ours.embed(ids))[0], *ours.words())}, {}, [])
        found = Run({"logits": ours(ids)}, {}, [])
        wanted.backward()
        found.backward()
        slopes = {str(i): (one.grad, two.grad) for i, (one, two) in enumerate(layer_weights(layers, ours.layers))}
        new = {
            "logits": difference(found.outputs, wanted.outputs),
            "gradients": difference(*({key: pair[i] for key, pair in slopes.items()} for i in (1, 0))),
            "maps": 0.0,
        }
        worst = {key: max(worst[key], new[key]) for key in QUANTITIES}
    return worst


def measure_switches() -> dict[str, float]:
    """The reference has no such model, but both its parts: some of the texts' tokens find no place."""
    routing = {"d_model": DIM, "d_ff": 28, "num_experts": 3, "expert_capacity": 2}
    settings = transformers.SwitchTransformersConfig(**routing, dropout_rate=0.0)
    switches = transformers.models.switch_transformers.modeling_switch_transformers
    theirs = CASES["gpt"]()
    theirs.set_attn_implementation("eager")
    for block in theirs.transformer.h:
        block.mlp = switches.SwitchTransformersSparseMLP(settings)
    theirs.eval()
    redraw(theirs, 0)
    sizes = {"vocab": VOCAB, "length": 12, "dim": DIM, "depth": 2, "heads": HEADS, "hidden": 28, "activation": "relu"}
    ours = SwitchLM(switchlm.Config(**sizes, every=1, experts=3, room=2)).eval()
    inputs = batch("gpt")
    ours.load_state_dict(under_our_names(theirs.state_dict()))
    found, wanted = run("switchlm", ours, inputs), run_reference("gpt", theirs, inputs)
    assert int(ours(inputs["ids"]).dropped) > 0
    wanted.backward()
    found.backward()
    slopes = under_our_names(
        {name: torch.zeros_like(x) if x.grad is None else x.grad for name, x in theirs.named_parameters()}
    )
    return {
        "logits": difference(found.outputs, wanted.outputs),
        "maps": difference(found.maps, wanted.maps),
        "gradients": difference({name: x.grad for name, x in ours.named_parameters()}, slopes),
    }


def under_our_names(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Theirs, by the rules of GPT-2 but for what is in each feed-forward."""
    inner = {name: x for name, x in theirs.items() if ".mlp." in name}
    rest = {name: x for name, x in theirs.items() if name not in inner and name != "lm_head.weight"}
    rules = [rule for rule in gpt2.rules(gpt.Config(), None) if "mlp" not in str(rule)]
    found = convert(rest, rules)
    for layer in {name.split(".mlp.")[0] for name in inner}:
        place = f"blocks.{layer.rpartition('.')[2]}.ffn"
        found[f"{place}.router.weight"] = inner[f"{layer}.mlp.router.classifier.weight"]
        for mine, name in {"up": "wi", "down": "wo"}.items():
            each = [inner[f"{layer}.mlp.experts.expert_{i}.{name}.weight"] for i in range(3)]
            found[f"{place}.experts.{mine}.weight"] = torch.stack(each)
    return found


def measure_layers() -> dict[str, float]:
    """It has no maps."""
    ours = mlp.MLP(mlp.Config(image=6, hidden=20, classes=5, depth=3))
    redraw(ours, 0)
    widths = [36, 20, 20, 5]
    theirs = nn.Sequential(nn.Flatten())
    for i in range(3):
        theirs.extend([*([nn.ReLU()] if i else []), nn.Linear(widths[i], widths[i + 1])])
    with torch.no_grad():
        for one, two in zip(theirs.parameters(), ours.parameters(), strict=True):
            one.copy_(two)
    images = torch.randn(4, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    wanted, found = (Run({"logits": net(images)}, {}, []) for net in (theirs, ours))
    wanted.backward()
    found.backward()
    slopes = [{str(i): x.grad for i, x in enumerate(net.parameters())} for net in (ours, theirs)]
    return {
        "logits": difference(found.outputs, wanted.outputs),
        "gradients": difference(*slopes),
        "maps": 0.0,
    }


def measure_slots() -> dict[str, float]:
    """Write, gate, broadcast with torch's own attention; all other weights are those of a copy."""
    sizes = {"image": 8, "patch": 4, "classes": 5, "dim": DIM, "depth": 3, "heads": HEADS, "hidden": 28, "slots": 3}
    ours = workspace.WorkspaceNet(workspace.Config(**sizes)).eval()
    redraw(ours, 0)
    theirs, both = copy.deepcopy(ours), ("write", "broadcast")
    stock = {part: nn.MultiheadAttention(DIM, HEADS, batch_first=True).eval() for part in both}
    with torch.no_grad():
        for part, their in stock.items():
            own = getattr(ours.mixer, part)
            their.in_proj_weight.copy_(torch.cat([own.q.weight, own.k.weight, own.v.weight]))
            their.in_proj_bias.copy_(torch.cat([own.q.bias, own.k.bias, own.v.bias]))
            their.out_proj.load_state_dict(own.out.state_dict())
    images = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    layer, maps = theirs.mixer, {}
    x = theirs.patch.projection(images).flatten(2).mT
    x = torch.cat((theirs.class_token.expand(4, -1, -1), x), 1) + theirs.positions
    slots = layer.slots.expand(4, -1, -1)
    for i in range(3):
        y = theirs.mixer_norm(x)
        new, maps[f"write {i}"] = stock["write"](slots, y, y, average_attn_weights=False)
        new = torch.tanh(new + layer.ffn.down(F.gelu(layer.ffn.up(layer.norm(new)))))
        seen, held = y.mean(1, keepdim=True), slots.tanh()
        into = torch.sigmoid(layer.input.of_input(seen) + layer.input.of_slots(held))
        kept = torch.sigmoid(layer.forget.of_input(seen) + layer.forget.of_slots(held) + 1)
        slots = into * new + kept * slots
        heard, maps[f"broadcast {i}"] = stock["broadcast"](y, slots, slots, average_attn_weights=False)
        x = x + heard
        x = x + theirs.ffn.down(F.gelu(theirs.ffn.up(theirs.ffn_norm(x))))
    wanted = Run({"logits": theirs.head(theirs.norm(x)[:, 0])}, maps, [])
    calls = Model("workspace", ours)(images, look="mixer.*").calls
    seen_maps = {f"{part} {i}": one.weights for part in both for i, one in enumerate(calls[f"mixer.{part}"])}
    found = Run({"logits": ours(images)}, seen_maps, [])
    wanted.backward()
    found.backward()
    slopes = {name: x.grad for name, x in theirs.named_parameters()}
    for part, their in stock.items():
        for name in ("weight", "bias"):
            parts = getattr(their, f"in_proj_{name}").grad.chunk(3)
            slopes |= {f"mixer.{part}.{key}.{name}": grad for key, grad in zip("qkv", parts, strict=True)}
            slopes[f"mixer.{part}.out.{name}"] = getattr(their.out_proj, name).grad
    return {
        "logits": difference(found.outputs, wanted.outputs),
        "gradients": difference({name: x.grad for name, x in ours.named_parameters()}, slopes),
        "maps": difference(found.maps, wanted.maps),
    }


def claim_of(case: str) -> str:
    """The closest: a twin of Llama says nothing of GPT-2."""
    return max((name for name in CLAIMS if f"{case}-".startswith(f"{name}-")), key=len)


def measure_twins(name: str, folder: Path) -> dict[str, float]:
    worst = dict.fromkeys(QUANTITIES, 0.0)
    for case in [case for case in CASES if claim_of(case) == name][:4]:
        pair, inputs = paired(case, folder / case), batch(case)
        ours, theirs = pair.run_ours(inputs), pair.run_theirs(inputs)
        found = {
            "logits": difference(ours.outputs, theirs.outputs),
            "maps": difference(ours.maps, theirs.maps),
            "gradients": difference(*pair.gradients(inputs, folder / f"{case}-gradients")),
        }
        worst = {key: max(worst[key], found[key]) for key in QUANTITIES}
    return worst


@pytest.fixture(scope="module")
def verified(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if request.config.getoption("--write-verified"):
        rows = {}
        for name, claim in CLAIMS.items():
            found = measure(name, tmp_path_factory.mktemp(name))
            rows[name] = told(claim) | {key: float(f"{found[key]:.1e}") for key in QUANTITIES}
        new = FILE.with_suffix(".new")
        new.write_text(json.dumps(rows, indent=2) + "\n")
        new.replace(FILE)
    return json.loads(FILE.read_text())


def told(claim: Claim) -> dict[str, Any]:
    reference = f"{claim.package} {claim.reference}"
    return {"reference": reference, "version": version(claim.package).split("+")[0], "where": claim.where}


DRAWING = ("stable-diffusion", "diffusion", "transgan", "convgan")


def test_every_family_has_a_row(verified: dict[str, Any]) -> None:
    assert list(verified) == list(CLAIMS)
    # Whose parts are compared each for itself (tests/models/test_captioner.py, test_stable_diffusion.py), and
    # those of which no reference is there.
    alone = {"captioner", "diffusion", "transgan", "convgan"}
    assert {name.split("-")[0] for name in verified} == set(ZOO) - alone
    assert set(FAMILIES.values()) <= set(ZOO)


@pytest.mark.parametrize("name", CLAIMS)
def test_it_is_of_the_installed_reference(name: str, verified: dict[str, Any]) -> None:
    row = dict(verified[name])
    for key in QUANTITIES:
        row.pop(key)
    assert row == told(CLAIMS[name])


def test_what_is_committed_is_close(verified: dict[str, Any]) -> None:
    """A bad measurement cannot be made good by committing it."""
    assert all(0 <= row[key] < 2e-6 for row in verified.values() for key in QUANTITIES)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_fresh_measurement(name: str, verified: dict[str, Any], tmp_path: Path) -> None:
    allowed = {key: 10 * max(verified[name][key], FLOOR) for key in QUANTITIES}
    found = measure(name, tmp_path)
    assert {key: value for key, value in found.items() if not value <= allowed[key]} == {}


def test_the_catalog_tells(verified: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each model what it was compared with itself, not a relative of it. Their weights need not be counted."""
    monkeypatch.setattr("regard.zoo.empty_net", lambda family, config: nn.Identity())
    rows = {row.name: row.verified_against for row in catalog()}
    names = {"transformer-base-pre": "transformer-pre", "transformer-base-admin": "transformer-admin", "recall": "gpt"}
    names |= {"gpt1": "gpt-one", "llama": "gpt-llama", "llama2": "gpt-llama", "tatoeba": "transformer-pre"}
    names |= dict.fromkeys(("elman", "gru", "lstm", "bilstm"), "recurrent")
    names |= {"albert": "bert-albert", "distilbert": "bert-distil", "fnet": "bert-fnet", "switch-lm-tiny": "switchlm"}
    assert rows.pop("perceiver-imagenet") is None  # nor have several looks
    assert rows.pop("perceiver-mnist") is None
    assert rows.pop("workspace-hard") is None  # nor has a competition
    for name in ("resnet-20", "cnn-small", "detr-small"):
        assert rows.pop(name) is None  # nor has a stem for small images, nor a backbone that learns its norms
    assert rows.pop("shakespeare") is None  # nor have rotary positions among GPT-2's norms
    assert rows.pop("swinv2-huge") is None  # nor have more norms
    assert rows.pop("swinv2-giant") is None
    names |= {"series-lstm": "seriesrnn", "series-gru": "seriesrnn", "series-linear": "serieslinear"}
    names |= {"perceiver-io-language": "perceiverlm", "vit-cifar": "vit-timm", "digits": "vit-timm"}
    for name, row in rows.items():
        if name.startswith(("gpt3", "fnet-hybrid", "linformer", "performer", "synthesizer", "captioner", *DRAWING)):
            assert (
                row is None
            )  # there is none with bands, none that looks in some layers, and of four there is none at all
            continue
        wanted = verified[names.get(name, names.get(name.split("-")[0], name.split("-")[0]))]
        assert row == {key: x for key, x in wanted.items() if key != "where"} | {
            "difference": max(wanted[key] for key in QUANTITIES)
        }
