"""Models of the reference libraries, tiny ones, by the names of their cases."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.nn.positions import sinusoid
from tests.parity.ours import Tensors
from tests.parity.theirs import transformers

VOCAB, LENGTH, DIM, HEADS = 37, 12, 20, 2


def gpt(**changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "n_positions": LENGTH, "n_embd": DIM, "n_layer": 2, "n_head": HEADS}
    ids = {"bos_token_id": 2, "eos_token_id": 3}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | ids | changes))


def gpt1(**changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "n_positions": LENGTH, "n_embd": DIM, "n_layer": 2, "n_head": HEADS}
    return transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**sizes | changes))


def llama(kind: str = "Llama", **changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "hidden_size": DIM, "intermediate_size": 28}
    depth = {"num_hidden_layers": 2, "num_attention_heads": HEADS, "bos_token_id": 2, "eos_token_id": 3}
    config = getattr(transformers, f"{kind}Config")(**sizes | depth | changes)
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def starcoder2(**changes: Any) -> nn.Module:
    return llama("Starcoder2", **{"num_key_value_heads": HEADS} | changes)


def t5_as_made(**changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "d_model": DIM, "d_kv": 6, "d_ff": 28, "num_layers": 2, "num_heads": HEADS}
    near = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "decoder_start_token_id": 0}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes | near | changes))


def t5(**changes: Any) -> nn.Module:
    model = t5_as_made(**changes)
    if not model.config.scale_decoder_outputs:  # as published; made anew, the two would be one
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
        model.config.tie_word_embeddings = False
    return model


def switch(**changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "d_model": DIM, "d_kv": 6, "d_ff": 28, "num_layers": 2, "num_heads": HEADS}
    sizes |= {"num_decoder_layers": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "num_experts": 3}
    near = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "decoder_start_token_id": 0}
    config = transformers.SwitchTransformersConfig(**sizes | near | changes)
    return transformers.SwitchTransformersForConditionalGeneration(config)


def bert_config(**changes: Any) -> Any:
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "hidden_size": DIM, "intermediate_size": 28}
    depth = {"num_hidden_layers": 2, "num_attention_heads": HEADS}
    return transformers.BertConfig(**sizes | depth | changes)


def albert(kind: str, **changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "hidden_size": DIM, "intermediate_size": 28}
    depth = {"num_hidden_layers": 3, "num_attention_heads": HEADS, "embedding_size": 12}
    return getattr(transformers, f"AlbertFor{kind}")(transformers.AlbertConfig(**sizes | depth | changes))


def distilbert(kind: str, **changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "dim": DIM, "hidden_dim": 28}
    depth = {"n_layers": 2, "n_heads": HEADS}
    return getattr(transformers, f"DistilBertFor{kind}")(transformers.DistilBertConfig(**sizes | depth | changes))


def fnet(kind: str, **changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "hidden_size": DIM, "intermediate_size": 28}
    return getattr(transformers, kind)(
        transformers.FNetConfig(**sizes | {"num_hidden_layers": 2, "pad_token_id": 0} | changes)
    )


def vit_config(**changes: Any) -> Any:
    sizes = {"image_size": 12, "patch_size": 4, "hidden_size": DIM, "intermediate_size": 28}
    depth = {"num_hidden_layers": 2, "num_attention_heads": HEADS}
    return transformers.ViTConfig(**sizes | depth | changes)


def resnet_config(**changes: Any) -> Any:
    sizes = {"embedding_size": 4, "hidden_sizes": [8, 12], "depths": [1, 2], "out_features": ["stage2"]}
    return transformers.ResNetConfig(**sizes | changes)


def detr(within: dict[str, Any] | None = None, **changes: Any) -> nn.Module:
    """It freezes the convolutions, too; all shall have gradients here."""
    sizes = {"d_model": 16, "num_queries": 5, "num_labels": 4, "encoder_layers": 1, "decoder_layers": 2}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_attention_heads": HEADS, f"{side}_ffn_dim": 12}
    own = {"use_timm_backbone": False, "backbone_config": resnet_config(**within or {})}
    own = {} if "backbone" in changes else own
    return transformers.DetrForObjectDetection(transformers.DetrConfig(**own | sizes | changes)).requires_grad_()


def perceiver(kind: str, **changes: Any) -> nn.Module:
    """Their decoder of words has 8 heads, so a token is a multiple of that."""
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "d_model": 16, "num_latents": 5}
    sizes |= {"d_latents": DIM, "num_self_attends_per_block": 2, "num_blocks": 2, "image_size": 6}
    heads = {"num_self_attention_heads": HEADS, "num_cross_attention_heads": HEADS}
    return getattr(transformers, f"PerceiverFor{kind}")(transformers.PerceiverConfig(**sizes | heads | changes))


def mixer(**changes: Any) -> nn.Module:
    """timm's, of sizes that have no name there."""
    pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    from timm.models.mlp_mixer import MlpMixer

    sizes = {"img_size": 12, "patch_size": 4, "embed_dim": DIM, "num_blocks": 2} | changes
    model = MlpMixer(**{"num_classes": 5} | sizes)
    model.pretrained_cfg = {"architecture": "mixer_s32_224", "input_size": (3, 12, 12), "fixed_input_size": True}
    model.args = {key: value for key, value in sizes.items() if key != "num_classes"}
    return model


def named_mixer(**changes: Any) -> nn.Module:
    """Of a size that has a name; what they let one choose makes it as small as it can be."""
    timm = pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    small = {"img_size": 64, "mlp_ratio": (0.02, 0.03)} | changes
    model = timm.create_model("mixer_s32_224", **small)
    model.args = {key: value for key, value in small.items() if key != "num_classes"}
    return model


def deit(kind: str = "ForImageClassificationWithTeacher", **changes: Any) -> nn.Module:
    sizes = {"image_size": 12, "patch_size": 4, "hidden_size": DIM, "intermediate_size": 28}
    depth = {"num_hidden_layers": 2, "num_attention_heads": HEADS}
    return getattr(transformers, f"DeiT{kind}")(transformers.DeiTConfig(**sizes | depth | {"num_labels": 5} | changes))


def of_timm(architecture: str, **changes: Any) -> nn.Module:
    """One of timm's by its name, with what makes it small in its ``model_args``."""
    timm = pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    model = timm.create_model(architecture, **{"num_classes": 5} | changes)
    model.args = {key: value for key, value in changes.items() if key != "num_classes"}
    return model


def timm_vit(architecture: str, **changes: Any) -> nn.Module:
    sizes = {"img_size": 12, "patch_size": 4, "embed_dim": DIM, "depth": 2, "num_heads": HEADS}
    return of_timm(architecture, **sizes | changes)


def volo(**changes: Any) -> nn.Module:
    """timm's, of sizes that have no name there."""
    pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    from timm.models.volo import VOLO

    sizes = {"layers": (2, 1, 2, 1), "embed_dims": (8, 12, 12, 12), "num_heads": (2, 3, 3, 3), "mlp_ratio": 1.5}
    sizes |= {"img_size": 16, "patch_size": 4, "stem_hidden_dim": 6} | changes
    model = VOLO(**{"num_classes": 5} | sizes)
    model.pretrained_cfg = {"architecture": "volo_d1_224", "input_size": (3, 16, 16), "fixed_input_size": True}
    model.args = {key: value for key, value in sizes.items() if key != "num_classes"}
    return model


def swin(kind: str, **changes: Any) -> nn.Module:
    """Four windows, shifted in the second block, then one."""
    sizes = {"image_size": 12, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 3}
    family = kind.partition("For")[0].removesuffix("Model")
    before = {"pretrained_window_sizes": [0, 0]} if family == "Swinv2" else {}
    return getattr(transformers, kind)(getattr(transformers, f"{family}Config")(**before | sizes | changes))


def levit(kind: str, **changes: Any) -> nn.Module:
    sizes = {"image_size": 64, "hidden_sizes": [8, 12, 16], "num_attention_heads": [2, 3, 2], "depths": [2, 1, 1]}
    return getattr(transformers, f"Levit{kind}")(transformers.LevitConfig(**sizes | {"key_dim": [4] * 3} | changes))


def timm_swin(name: str = "swin_tiny_patch4_window7_224", **changes: Any) -> nn.Module:
    sizes = {"img_size": 12, "patch_size": 2, "embed_dim": 8, "depths": (2, 1), "num_heads": (2, 4), "window_size": 3}
    return of_timm(name, **sizes | changes)


def timm_levit(**changes: Any) -> nn.Module:
    sizes = {"img_size": 64, "embed_dim": (8, 12, 16), "num_heads": (2, 3, 2), "depth": (2, 1, 1), "key_dim": 4}
    return of_timm("levit_128s", **sizes | changes)


def marian(**changes: Any) -> nn.Module:
    sizes = {"vocab_size": VOCAB, "d_model": DIM, "max_position_embeddings": LENGTH}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": HEADS, f"{side}_ffn_dim": 28}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 5, "forced_eos_token_id": 1}
    return transformers.MarianMTModel(transformers.MarianConfig(**sizes | ids | changes))


def blenderbot(**changes: Any) -> nn.Module:
    """Its table of positions can be learned; ours are sinusoids, so the twin has those and keeps them."""
    sizes = {"vocab_size": VOCAB, "d_model": DIM, "max_position_embeddings": 1024, "encoder_no_repeat_ngram_size": 0}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": HEADS, f"{side}_ffn_dim": 28}
    ids = {"pad_token_id": 0, "bos_token_id": 5, "eos_token_id": 1, "decoder_start_token_id": 5}
    ids |= {"forced_eos_token_id": 1}
    model = transformers.BlenderbotForConditionalGeneration(transformers.BlenderbotConfig(**sizes | ids | changes))
    for stack in (model.model.encoder, model.model.decoder):
        table = sinusoid(torch.arange(1024), DIM, "halves")
        stack.embed_positions.weight.requires_grad_(False).copy_(table)
    return model


def reformer(kind: str = "ReformerModelWithLMHead", **changes: Any) -> nn.Module:
    """Its gradients are there in training alone, and then of texts as long as its grid of positions."""
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "hidden_size": DIM, "feed_forward_size": 28}
    heads = {"num_attention_heads": HEADS, "attention_head_size": 6, "attn_layers": ["local", "lsh"]}
    grid = {"axial_pos_shape": [3, 4], "axial_pos_embds_dim": [8, 12], "is_decoder": kind.endswith("LMHead")}
    hashes = {"lsh_attn_chunk_length": 4, "local_attn_chunk_length": 4, "num_buckets": 4, "hash_seed": 3}
    quiet = {"hidden_dropout_prob": 0.0, "local_attention_probs_dropout_prob": 0.0, "num_hashes": 2}
    config = transformers.ReformerConfig(**sizes | heads | grid | hashes | quiet | changes)
    return getattr(transformers, kind)(config)


def clip_towers(end: int = 3, **changes: Any) -> dict[str, Any]:
    """The configs of both, of widths that differ."""
    text = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "hidden_size": 12, "intermediate_size": 18}
    vision = {"image_size": 12, "patch_size": 4, "hidden_size": DIM, "intermediate_size": 28}
    both = {"num_hidden_layers": 2, "num_attention_heads": HEADS} | changes
    ids = {"eos_token_id": end, "bos_token_id": 2, "pad_token_id": 0}
    return {"text_config": text | both | ids, "vision_config": vision | both, "projection_dim": 8}


def clip(end: int = 3, **changes: Any) -> nn.Module:
    return transformers.CLIPModel(transformers.CLIPConfig(**clip_towers(end, **changes)))


def cliptext(kind: str = "CLIPTextModel", end: int = 3, **changes: Any) -> nn.Module:
    sizes = clip_towers(end, **changes)["text_config"] | {"projection_dim": 8}
    return getattr(transformers, kind)(transformers.CLIPTextConfig(**sizes))


CASES: dict[str, Callable[[], nn.Module]] = {
    "gpt": gpt,
    "gpt-untied": lambda: gpt(tie_word_embeddings=False),
    "gpt-inner": lambda: gpt(n_inner=36, n_layer=3, layer_norm_epsilon=1e-3),
    "gpt-relu": lambda: gpt(activation_function="relu", n_head=1),
    "gpt-gelu": lambda: gpt(activation_function="gelu"),
    "gpt-silu": lambda: gpt(activation_function="silu"),
    "gpt-one": gpt1,
    "gpt-one-relu": lambda: gpt1(afn="relu", n_head=1, layer_norm_epsilon=1e-3),
    "gpt-llama": lambda: llama(num_key_value_heads=HEADS),
    "gpt-starcoder": starcoder2,
    "gpt-starcoder-groups": lambda: starcoder2(
        num_attention_heads=5, num_key_value_heads=1, sliding_window=3, use_bias=False
    ),
    "gpt-llama-groups": lambda: llama(num_attention_heads=5, num_key_value_heads=1, tie_word_embeddings=True),
    "gpt-llama-biases": lambda: llama(attention_bias=True, mlp_bias=True, num_key_value_heads=1, head_dim=6),
    "gpt-llama-base": lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 50.0}, hidden_act="gelu"),
    "gpt-mistral": lambda: llama("Mistral", num_key_value_heads=1, sliding_window=3),
    "gpt-qwen": lambda: llama("Qwen2", num_key_value_heads=1),
    "bert": lambda: transformers.BertModel(bert_config()),
    "bert-bare": lambda: transformers.BertModel(bert_config(), add_pooling_layer=False),
    "bert-words": lambda: transformers.BertForMaskedLM(bert_config(type_vocab_size=3)),
    "bert-pretraining": lambda: transformers.BertForPreTraining(bert_config()),
    "bert-follows": lambda: transformers.BertForNextSentencePrediction(bert_config()),
    "bert-relu": lambda: transformers.BertForMaskedLM(bert_config(hidden_act="relu", layer_norm_eps=1e-3)),
    "bert-silu": lambda: transformers.BertForPreTraining(bert_config(hidden_act="silu", num_attention_heads=1)),
    "bert-tanh-gelu": lambda: transformers.BertForMaskedLM(bert_config(hidden_act="gelu_new")),
    "bert-label": lambda: transformers.BertForSequenceClassification(bert_config(num_labels=3)),
    "bert-tags": lambda: transformers.BertForTokenClassification(bert_config(num_labels=5)),
    "bert-span": lambda: transformers.BertForQuestionAnswering(bert_config()),
    "bert-albert": lambda: albert("PreTraining"),
    "bert-albert-words": lambda: albert("MaskedLM", hidden_act="relu", layer_norm_eps=1e-3),
    "bert-albert-label": lambda: albert("SequenceClassification", num_labels=4),
    "bert-albert-span": lambda: albert("QuestionAnswering", embedding_size=DIM - 4),
    "bert-distil": lambda: distilbert("MaskedLM"),
    "bert-distil-label": lambda: distilbert("SequenceClassification", num_labels=3),
    "bert-distil-tags": lambda: distilbert("TokenClassification", num_labels=3, activation="relu"),
    "bert-distil-span": lambda: distilbert("QuestionAnswering"),
    "bert-fnet": lambda: fnet("FNetForPreTraining"),
    "bert-fnet-none": lambda: fnet("FNetModel", type_vocab_size=2),
    "bert-fnet-bare": lambda: transformers.FNetModel(fnet("FNetModel").config, add_pooling_layer=False),
    "bert-fnet-words": lambda: fnet("FNetForMaskedLM", hidden_act="relu", layer_norm_eps=1e-3, hidden_size=DIM - 1),
    "bert-fnet-follows": lambda: fnet("FNetForNextSentencePrediction"),
    "bert-fnet-label": lambda: fnet("FNetForSequenceClassification", num_labels=3),
    "bert-fnet-tags": lambda: fnet("FNetForTokenClassification", num_labels=3),
    "bert-fnet-span": lambda: fnet("FNetForQuestionAnswering"),
    "t5": t5,
    "t5-v11": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "t5-v11-tied": lambda: t5_as_made(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "t5-deep-decoder": lambda: t5(num_decoder_layers=3, num_layers=1, num_heads=3, layer_norm_epsilon=1e-3),
    "switch": switch,
    "switch-full": lambda: switch(expert_capacity=2),  # more than two want the same expert
    "switch-gelu": lambda: switch(num_experts=5, dense_act_fn="gelu_new", num_sparse_encoder_layers=2),
    "switch-deep-decoder": lambda: switch(
        num_layers=1, num_decoder_layers=4, num_sparse_decoder_layers=2, num_heads=3, expert_capacity=1
    ),
    "vit": lambda: transformers.ViTForImageClassification(vit_config(num_labels=5)),
    "vit-two-classes": lambda: transformers.ViTForImageClassification(vit_config()),
    "vit-one-channel": lambda: transformers.ViTForImageClassification(vit_config(num_labels=1, num_channels=1)),
    "vit-no-qkv-bias": lambda: transformers.ViTForImageClassification(vit_config(num_labels=3, qkv_bias=False)),
    "vit-relu": lambda: transformers.ViTForImageClassification(vit_config(num_labels=3, hidden_act="relu")),
    "vit-pooled": lambda: transformers.ViTModel(vit_config(layer_norm_eps=1e-3)),
    "vit-bare": lambda: transformers.ViTModel(vit_config(num_attention_heads=1), add_pooling_layer=False),
    "vit-timm": lambda: timm_vit("vit_tiny_patch16_224", mlp_ratio=1.4),
    "vit-timm-one-channel": lambda: timm_vit("vit_base_patch16_224_miil", in_chans=1, num_classes=3, num_heads=1),
    "vit-timm-mean": lambda: timm_vit("vit_large_patch32_384", global_pool="avg", class_token=False, fc_norm=False),
    "vit-timm-none": lambda: timm_vit("deit_small_patch16_224", num_classes=0, proj_drop_rate=0.1, pos_drop_rate=0.1),
    "deit": deit,
    "deit-one-head": lambda: deit("ForImageClassification", num_labels=2, layer_norm_eps=1e-3, hidden_act="relu"),
    "deit-bare": lambda: transformers.DeiTModel(deit(qkv_bias=False, num_labels=2).config, add_pooling_layer=False),
    "deit-timm": lambda: timm_vit("deit_tiny_distilled_patch16_224", mlp_ratio=1.4),
    "deit-timm-none": lambda: timm_vit("deit_base_distilled_patch16_384", num_classes=0, qkv_bias=False),
    "cait": lambda: timm_vit("cait_xxs24_224", mlp_ratio=1.4, mlp_ratio_token_only=1.4),
    "cait-looks": lambda: timm_vit("cait_s36_384", depth_token_only=3, depth=1, qkv_bias=False),
    "cait-bare": lambda: timm_vit("cait_m48_448", num_classes=0, in_chans=1, num_heads=5),
    "volo": volo,
    "volo-wide": lambda: volo(embed_dims=(6, 8, 8, 8), num_heads=(3, 2, 2, 2), qkv_bias=True, in_chans=1, img_size=24),
    "volo-one-head": lambda: volo(use_aux_head=False, layers=(1, 2, 1, 2), patch_size=8, img_size=48),
    "volo-bare": lambda: volo(num_classes=0, mlp_ratio=3),
    "resnet": lambda: transformers.ResNetForImageClassification(resnet_config(num_labels=5)),
    "resnet-basic": lambda: transformers.ResNetForImageClassification(
        resnet_config(layer_type="basic", num_channels=1)
    ),
    "resnet-first": lambda: transformers.ResNetForImageClassification(resnet_config(downsample_in_bottleneck=True)),
    "resnet-bare": lambda: transformers.ResNetModel(resnet_config(depths=[2, 1], hidden_sizes=[4, 4])),
    "detr": detr,
    "detr-basic": lambda: detr({"layer_type": "basic", "depths": [1, 1]}, encoder_layers=2, decoder_layers=1),
    "detr-gelu": lambda: detr({"downsample_in_bottleneck": True}, activation_function="gelu", num_queries=1),
    "perceiver": lambda: perceiver("ImageClassificationFourier", num_labels=5, qk_channels=8, v_channels=DIM),
    "perceiver-learned": lambda: perceiver("ImageClassificationLearned", num_labels=4),
    "perceiver-fourier": lambda: perceiver(
        "ImageClassificationFourier", num_labels=3, num_cross_attention_heads=1, self_attention_widening_factor=2
    ),
    "perceiver-relu": lambda: perceiver("ImageClassificationFourier", hidden_act="relu", num_cross_attention_heads=1),
    "perceiverlm": lambda: perceiver("MaskedLM"),
    "perceiverlm-keys": lambda: perceiver(
        "MaskedLM", qk_channels=8, v_channels=DIM, cross_attention_widening_factor=2, num_blocks=1
    ),
    "mixer": mixer,
    "mixer-one-channel": lambda: mixer(in_chans=1, num_classes=1, num_blocks=3, img_size=8),
    "mixer-widths": lambda: mixer(mlp_ratio=(1.35, 0.7)),
    "mixer-bare": lambda: mixer(num_classes=0),
    "mixer-named": named_mixer,
    "mixer-named-bare": lambda: named_mixer(num_classes=0, in_chans=1, proj_drop_rate=0.1),
    "swin": lambda: swin("SwinForImageClassification", num_labels=5),
    "swin-timm": timm_swin,
    "swin-bare": lambda: swin("SwinModel", hidden_act="relu", mlp_ratio=1.5, drop_path_rate=0.0),
    "swin-timm-bare": lambda: timm_swin(num_classes=0, in_chans=1, qkv_bias=False, window_size=6, drop_path_rate=0.2),
    "swin-wide": lambda: swin(
        "SwinForImageClassification",
        window_size=2,
        depths=[1, 2, 2],
        num_heads=[1, 2, 2],
        image_size=16,
        qkv_bias=False,
    ),
    "swinv2": lambda: swin("Swinv2ForImageClassification", num_labels=5),
    "swinv2-timm": lambda: timm_swin("swinv2_tiny_window8_256"),
    "swinv2-bare": lambda: swin("Swinv2Model", window_size=6, mlp_ratio=2.0),
    "swinv2-timm-bare": lambda: timm_swin("swinv2_tiny_window8_256", num_classes=0, in_chans=1),
    "swinv2-grown": lambda: swin("Swinv2ForImageClassification", pretrained_window_sizes=[2, 2]),
    "swinv2-timm-grown": lambda: timm_swin(
        "swinv2_tiny_window8_256", pretrained_window_sizes=(2, 2), qkv_bias=False, mlp_ratio=1.25
    ),
    "levit": lambda: levit("ForImageClassificationWithTeacher", num_labels=5),
    "levit-timm": timm_levit,
    "levit-one-channel": lambda: levit(
        "ForImageClassification", num_channels=1, image_size=32, num_labels=3, depths=[1, 1, 1]
    ),
    "levit-timm-alone": lambda: timm_levit(distilled=False, num_classes=3, in_chans=1),
    "levit-bare": lambda: levit(
        "Model", mlp_ratio=[3, 1, 2], down_ops=[["Subsample", 4, 2, 4, 1, 2], ["Subsample", 4, 3, 4, 2, 2]]
    ),
    "levit-timm-bare": lambda: timm_levit(num_classes=0),
    "transformer": lambda: marian(activation_function="swish", scale_embedding=True),
    "transformer-unscaled": lambda: marian(activation_function="relu", scale_embedding=False),
    "transformer-blenderbot": lambda: blenderbot(activation_function="gelu"),
    "transformer-blenderbot-deep": lambda: blenderbot(activation_function="relu", decoder_layers=3),
    "transformer-deep-encoder": lambda: marian(encoder_layers=3, decoder_layers=1),
    "reformer": reformer,
    "reformer-rounds": lambda: reformer(num_hashes=3, num_buckets=[2, 4], attn_layers=["lsh", "lsh", "local"]),
    "reformer-both": lambda: reformer("ReformerForMaskedLM", local_num_chunks_after=1, hash_seed=0, num_hashes=1),
    "reformer-learned": lambda: reformer(
        "ReformerModel", axial_pos_embds=False, axial_pos_shape=[64, 64], axial_pos_embds_dim=[64, 192], is_decoder=True
    ),
    "cliptext": lambda: cliptext("CLIPTextModelWithProjection"),
    "cliptext-bare": cliptext,
    "cliptext-highest": lambda: cliptext(end=2, hidden_act="gelu", layer_norm_eps=1e-3, num_attention_heads=1),
    "clip": clip,
    "clip-highest": lambda: clip(end=2, num_hidden_layers=1, hidden_act="gelu"),
    "transformer-deep-decoder": lambda: marian(
        encoder_layers=1, decoder_layers=3, encoder_attention_heads=1, decoder_attention_heads=1
    ),
}
FAMILIES = {case: case.split("-")[0] for case in CASES}
TIMM = [case for case in CASES if FAMILIES[case] in ("mixer", "cait", "volo") or "-timm" in case]
FIXED = ("mixer", "perceiver", "perceiverlm", "resnet")  # there is but one way to compute them
UNNAMED = [case for case in CASES if FAMILIES[case] in ("mixer", "volo") and "named" not in case]  # there
GRIDS = ("swin", "swinv2", "levit")
TRANSLATORS = ("transformer", "t5", "switch")


def reference(case: str, seed: int = 0) -> nn.Module:
    """One of the cases with all its weights drawn anew: norms around 1, all else around 0."""
    model = CASES[case]().train(FAMILIES[case] == "reformer")
    explicit(model)
    if "fnet" not in case and FAMILIES[case] not in FIXED and case not in TIMM:
        model.set_attn_implementation("eager")  # the one that gives its attention maps
    redraw(model, seed)
    if case.startswith("reformer") and hasattr(model, "lm_head"):
        nn.init.zeros_(model.lm_head.bias)  # which this version does not read
    return model


def explicit(model: nn.Module) -> nn.Module:
    """timm's attentions by the path that has maps."""
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    return model


@torch.no_grad()
def redraw(model: nn.Module, seed: int, size: float = 0.2) -> None:
    draw = torch.Generator().manual_seed(seed)
    for name, x in free(model).items():
        centre = 1.0 if x.ndim == 1 and name.endswith("weight") else 0.0
        x.copy_(centre + size * torch.randn(x.shape, generator=draw))
    for module in (module for module in model.modules() if "BatchNorm" in type(module).__name__):
        for name, x in module.named_buffers():  # what was measured, and in a frozen one all that it has
            if x.is_floating_point():
                centre = 0.0 if name in ("bias", "running_mean", "mean") else 1.0
                x.copy_((centre + size * torch.randn(x.shape, generator=draw)).clamp(min=centre - 0.5))


def free(model: nn.Module) -> Tensors:
    """What can be learned. Marian's sinusoids are fixed; its output bias is a buffer there and a parameter of ours."""
    found = {name: x for name, x in model.named_parameters() if x.requires_grad}
    return found | {name: x for name, x in model.named_buffers() if name == "final_logits_bias"}
