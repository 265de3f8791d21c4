"""Keys of foreign configs that change no number a model computes: in any case, or while they have a harmless value."""

from .defaults import generation_keys

# Bookkeeping, training settings, special tokens, names of classes.
IRRELEVANT = frozenset(
    {
        "architectures",
        "transformers_version",
        "_name_or_path",
        "_commit_hash",
        "_from_auto",
        "_from_model_config",
        "torch_dtype",
        "dtype",
        "return_dict",
        "name_or_path",
        "output_attentions",
        "output_hidden_states",
        "output_past",
        "initializer_range",
        "initializer_factor",
        "init_std",
        "gradient_checkpointing",
        "bos_token_id",
        "eos_token_id",
        "eos_token_ids",
        "pad_token_id",
        "decoder_start_token_id",
        "sep_token_id",
        "mask_token_id",
        "unk_token_id",
        "cls_token_id",
        "image_token_id",
        "is_encoder_decoder",
        "problem_type",
        "task_specific_params",
        "id2label",
        "label2id",
        "finetuning_task",
        "chunk_size_feed_forward",
        "n_ctx",
        "torchscript",
        "tokenizer_class",
        "prefix",
        "use_bfloat16",
        "model_type",
        "classifier_dropout",
        "num_labels",
        "_num_labels",
        "attn_implementation",
        "_attn_implementation",
        "_attn_implementation_autoset",
        "predict_special_tokens",
        "tf_legacy_loss",
        "xla_device",
        "keys_to_ignore_at_inference",
        "unsloth_version",
        "unsloth_fixed",
    }
)
# No kind that is read here has them any more; older files write them all the same.
HARMLESS: dict[str, tuple[object, ...]] = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "tie_encoder_decoder": (False,),
    "tie_weights_": (True,),
    "tie_word_embeddings": (True,),
    "pruned_heads": ({}, None),
    "is_composition": (False,),
    "position_embedding_type": ("absolute",),
    "layer_norm_elementwise_affine": (True,),
    "quantization_config": (None,),
    "rope_scaling": (None,),
    "partial_rotary_factor": (None, 1, 1.0),
    "use_mrope": (False,),
    "is_llama_config": (True, False),
    "rope_interleaved": (False,),
    "pretraining_tp": (None, 1),
    "layer_types": (None,),
    "use_sliding_window": (False,),
    "sliding_window": (None,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "n_special": (0,),
    "_flash_attn_2_enabled": (True, False),
}


def is_harmless(key: str, value: object) -> bool:
    """Whether a key that no reader knows can be passed over."""
    return key in IRRELEVANT or key in generation_keys() or any(equals(value, x) for x in HARMLESS.get(key, ()))


def equals(value: object, other: object) -> bool:
    """Numbers of both kinds may be equal; true is no number."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return value == other
