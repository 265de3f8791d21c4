"""Configs off the beaten path, drawn at random: keys of a small twin with other values, taken away, or added."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

import regard
from regard.errors import CheckpointError, InputError
from regard.interop.defaults import architecture_defaults, kind_defaults
from regard.interop.retired import HARMLESS, IRRELEVANT
from tests.parity.ours import run
from tests.parity.references import CASES, FAMILIES, FIXED, explicit, redraw
from tests.parity.theirs import transformers
from tests.parity.told import Said, assert_close, said
from tests.parity.twins import batch, run_reference

# Twins of transformers, each with the classes that it may be saved from.
HEADS: dict[str, str] = {
    "gpt": "GPT2LMHeadModel",
    "gpt-one": "OpenAIGPTLMHeadModel",
    "gpt-llama": "LlamaForCausalLM",
    "gpt-mistral": "MistralForCausalLM",
    "gpt-qwen": "Qwen2ForCausalLM",
    "gpt-starcoder": "Starcoder2ForCausalLM",
    "bert": "BertModel BertForMaskedLM BertForPreTraining BertForNextSentencePrediction BertForQuestionAnswering "
    "BertForSequenceClassification BertForTokenClassification",
    "bert-albert": "AlbertModel AlbertForMaskedLM AlbertForPreTraining AlbertForSequenceClassification "
    "AlbertForTokenClassification AlbertForQuestionAnswering",
    "bert-distil": "DistilBertModel DistilBertForMaskedLM DistilBertForSequenceClassification "
    "DistilBertForTokenClassification DistilBertForQuestionAnswering",
    "bert-fnet": "FNetModel FNetForMaskedLM FNetForPreTraining FNetForSequenceClassification",
    "t5": "T5ForConditionalGeneration",
    "switch": "SwitchTransformersForConditionalGeneration",
    "vit": "ViTForImageClassification ViTModel",
    "deit": "DeiTForImageClassificationWithTeacher DeiTForImageClassification DeiTModel",
    "resnet": "ResNetForImageClassification ResNetModel",
    "detr": "DetrForObjectDetection",
    "perceiver": "PerceiverForImageClassificationFourier PerceiverForImageClassificationLearned",
    "perceiverlm": "PerceiverForMaskedLM",
    "swin": "SwinForImageClassification SwinModel",
    "swinv2": "Swinv2ForImageClassification Swinv2Model",
    "levit": "LevitForImageClassificationWithTeacher LevitForImageClassification LevitModel",
    "transformer": "MarianMTModel",
    "reformer": "ReformerModelWithLMHead ReformerForMaskedLM ReformerModel",
}
TIMM = {
    "vit-timm": "vit_tiny_patch16_224",
    "deit-timm": "deit_tiny_distilled_patch16_224",
    "cait": "cait_xxs24_224",
    "swin-timm": "swin_tiny_patch4_window7_224",
    "swinv2-timm": "swinv2_tiny_window8_256",
    "levit-timm": "levit_128s",
    "mixer-named": "mixer_s32_224",
}
ACTIVATIONS = ("gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "gelu_accurate", "relu", "silu")
ACTIVATIONS += ("swish", "tanh", "quick_gelu", "relu6", "sigmoid", "mish", "linear", "leaky_relu", "relu2", "gelu_10")
FIXED_KEYS = ("vocab_size", "num_labels", "hash_seed", "model_type", "architectures")  # what the inputs hang on
MOST_WEIGHTS = 2_000_000
WORDS = ("absolute", "relative_key", "relative_key_query", "sine", "learned", "kv", "q", "basic", "bottleneck", "token")
WORDS += ("avg", "", "map", "rope", "subsample", "s8", "gated-gelu", "gated-relu", "gated-silu", "gelu", "relu")
MORE: Said = {"rope_theta": 50.0, "rope_scaling": {"type": "linear", "factor": 2.0}, "head_dim": 8, "layer_types": None}
MORE |= {"hidden_act": "relu", "num_key_value_heads": 1, "sliding_window": 2, "attention_bias": True, "n_ctx": 5}
MORE |= {"rope_parameters": {"rope_type": "default"}, "partial_rotary_factor": 0.5, "dense_act_fn": "silu"}
MORE |= {"is_gated_act": True, "feed_forward_proj": "gated-gelu", "scale_decoder_outputs": False}
MORE |= {"tie_word_embeddings": False, "is_decoder": True, "num_hidden_layers": 3, "hidden_size": 24}
MORE |= {"num_attention_heads": 1, "logit_scale": 2.0, "layer_norm_eps": 0.1, "out_indices": [1], "dilation": True}


def another(draw: random.Random, key: str, value: Any) -> Any:
    """Another value of the same kind, plausible or not."""
    if "act" in key.split("_") or key in ("activation_function", "activation", "afn", "hidden_act", "dense_act_fn"):
        return draw.choice(ACTIVATIONS)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([value, value + 1, 2 * value, max(value - 1, 0), 1, 3, 8])
    if isinstance(value, float):
        return draw.choice([value, 2 * value, 0.0, 0.5, 1e-3, 1.0])
    if isinstance(value, str):
        return draw.choice([*WORDS, value])
    if isinstance(value, list) and value:
        i = draw.randrange(len(value))
        changed = [another(draw, key, x) if j == i else x for j, x in enumerate(value)]
        return draw.choice([changed, changed, value[:-1], [*value, value[-1]]])
    return draw.choice([None, 1, 2, 8, True, 0.5])


def unusual(case: str, seed: int) -> Said:
    """A config of a kind of transformers."""
    draw = random.Random(f"{case} {seed}")
    found = said(case)
    usual = kind_defaults(found["model_type"]).keys
    found["architectures"] = [draw.choice(HEADS[case].split())]
    keys = [key for key in usual if key not in IRRELEVANT and key not in FIXED_KEYS]
    for key in draw.sample(keys, draw.randint(1, 4)):
        found[key] = another(draw, key, found.get(key, usual[key]))
    for key in draw.sample(list(found), draw.choice([0, 0, 1])):
        if key not in FIXED_KEYS:
            del found[key]
    if draw.random() < 0.3:
        key = draw.choice(list(MORE))
        found[key] = MORE[key]
    if draw.random() < 0.3:
        key = draw.choice(list(HARMLESS))
        found[key] = draw.choice([*HARMLESS[key], True, 2, None])
    if draw.random() < 0.15 and "id2label" not in found:
        found["id2label"] = {str(i): f"name {i}" for i in range(draw.choice([1, 2, 5]))}
    return found


def built(case: str, config: Said, folder: Path, seed: int, most: int = MOST_WEIGHTS) -> nn.Module | None:
    """The reference of a config with weights of its own, in a folder with that very config; None where it has none."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    kind = getattr(transformers, config["architectures"][0])
    try:
        told = kind.config_class.from_pretrained(folder)
        with torch.device("meta"):
            if sum(x.numel() for x in kind(told).parameters()) > most:
                return None
        model = kind(told)
        if config.get("tie_word_embeddings") is False and case.startswith("t5"):  # made anew, the two would be one
            model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
            model.config.tie_word_embeddings = False
        redraw(model, seed)
        if case == "reformer" and hasattr(model, "lm_head"):
            nn.init.zeros_(model.lm_head.bias)  # which this version does not read
        model.save_pretrained(folder / "saved")
        (folder / "saved" / "model.safetensors").rename(folder / "model.safetensors")
        shutil.rmtree(folder / "saved")
        eager = "fnet" not in case and FAMILIES[case] not in FIXED
        how: Said = {"attn_implementation": "eager"} if eager else {}
        found: nn.Module = kind.from_pretrained(folder, dtype=torch.float32, **how)
    except Exception:  # it raises anything for what it does not support
        return None
    return found.eval()


def unusual_timm(case: str, seed: int) -> Said:
    """A config of timm's."""
    draw = random.Random(f"{case} {seed}")
    model = CASES[case]()
    usual = architecture_defaults(TIMM[case]).keys
    args = dict(json.loads(json.dumps(getattr(model, "args", {}))))
    keys = [key for key in usual if key not in ("num_classes", "device", "dtype", "in_chans")]
    for key in draw.sample(keys, draw.randint(1, 4)):
        args[key] = another(draw, key, args.get(key, usual[key]))
    size = [3, *[args.get("img_size", 224)] * 2]
    pretrained = {"input_size": size, "fixed_input_size": draw.random() < 0.8}
    return {"architecture": TIMM[case], "num_classes": 5, "model_args": args, "pretrained_cfg": pretrained}


def built_timm(case: str, config: Said, folder: Path, seed: int) -> nn.Module | None:
    import timm
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    try:
        model = timm.create_model(f"local-dir:{folder}")
        if sum(x.numel() for x in model.parameters()) > MOST_WEIGHTS:
            return None
        redraw(model, seed)
        state = {name: x.detach().clone().contiguous() for name, x in model.state_dict().items()}
        save_file(state, folder / "model.safetensors", {"format": "pt"})
    except Exception:  # as above
        return None
    return explicit(model).eval()


@torch.no_grad()
def judged(case: str, config: Said, folder: Path, seed: int) -> str:
    """ "equal", or "refused: " and why, or "no reference". Other numbers, and errors that are none of ours, fail."""
    theirs = (built_timm if case in TIMM else built)(case, config, folder, seed)
    if theirs is None:
        return "no reference"
    try:
        ours = regard.load(folder)
    except (CheckpointError, InputError) as error:
        return f"refused: {error}"
    inputs = batch(case)
    if case in TIMM or FAMILIES[case] in ("vit", "deit", "swin", "swinv2", "levit", "perceiver", "resnet", "detr"):
        side, channels = getattr(ours.config, "image", None), ours.config.channels
        draw = torch.Generator().manual_seed(seed)
        shape = (2, channels, side, side) if side and side <= 64 else (2, channels, 20, 28)
        inputs = {"images": torch.randn(shape, generator=draw)}
    try:
        wanted = run_reference(case, theirs, inputs)
    except Exception:  # as above
        return "no reference"
    try:
        found = run(ours.family, ours.net, inputs)
    except ValueError as error:  # such as a text that is longer than the positions
        return f"refused: {error}"
    assert_close(found, wanted)
    return "equal"
