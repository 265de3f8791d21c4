"""The field's other words for keys of configs, attentions, and arguments in Python. They are no aliases: an error names
what is meant. A word may mean several keys: the error names the first that this config has."""

from collections.abc import Collection

MODEL_WORDS = {
    "dim": "hidden_size d_model n_embd embed_dim embedding_dim model_dim width encoder_embed_dim hidden_dim units",
    "decoder_depth": "decoder_layers num_decoder_layers d_layers n_decoder_layers",
    "depth": (
        "num_layers num_hidden_layers n_layer n_layers layers num_blocks n_blocks encoder_layers num_encoder_layers "
        "e_layers num_decoder_layers"
    ),
    "heads": (
        "num_heads num_attention_heads n_head n_heads nhead encoder_attention_heads attention_heads num_attn_heads"
    ),
    "decoder_heads": "decoder_attention_heads",
    "groups": "num_key_value_heads kv_heads num_kv_heads n_kv_heads n_kv_head num_query_groups",
    "head_dim": "head_size d_k d_kv d_head attention_head_size",
    "hidden": (
        "intermediate_size d_ff ff_dim ffn_dim n_inner mlp_dim dim_feedforward feedforward ffn_hidden_size mlp_ratio "
        "mlp_hidden_dim encoder_ffn_dim decoder_ffn_dim encoder_ffn_embed_dim decoder_ffn_embed_dim expansion_factor"
    ),
    "length": (
        "max_position_embeddings n_positions context_length block_size max_length seq_len max_seq_len max_seq_length "
        "n_ctx max_len maxlen sequence_length max_source_positions max_target_positions"
    ),
    "vocab": "vocab_size n_vocab vocabulary_size num_embeddings n_tokens",
    "classes": "num_labels num_classes n_classes num_class",
    "image": "image_size img_size input_size",
    "patch": "patch_size",
    "window": "window_size",
    "channels": "num_channels in_chans in_channels",
    "pool": "global_pool pool_type",
    "representation": "representation_size",
    "kernel": "kernel_size",
    "activation": "hidden_act act activation_function activation_fn",
    "dropout": "dropout_rate hidden_dropout_prob resid_pdrop drop_rate drop dropout_p",
    "attention_dropout": "attention_probs_dropout_prob attn_pdrop attn_drop_rate attn_dropout",
    "embedding_dropout": "embd_pdrop embed_dropout pos_drop_rate",
    "norm": "pre_norm norm_first normalize_before pre_layer_norm",
    "normed": "norm_type norm_layer rms_norm rmsnorm",
    "eps": "layer_norm_eps layer_norm_epsilon rms_norm_eps norm_eps layernorm_epsilon",
    "rotary": "rope_theta rope_base rope rotary_base",
    "tied": "tie_word_embeddings tie_embeddings tie_weights weight_tying share_embeddings share_all_embeddings",
    "biases": "bias use_bias attention_bias mlp_bias",
    "attention": "attn attention_type attn_implementation attention_mechanism",
    "drop_path": "drop_path_rate stochastic_depth",
    "experts": "num_experts n_experts num_local_experts",
    "queries": "num_queries",
    "buckets": "relative_attention_num_buckets",
    "farthest": "relative_attention_max_distance",
}
MODEL_SYNONYMS = {key: tuple(words.split()) for key, words in MODEL_WORDS.items()}
MODEL_REMARKS = dict.fromkeys(("mlp_ratio", "expansion_factor"), " (a number of units)")
ACTIVATION_SYNONYMS = {
    "gelu_tanh": ("gelu_new", "gelu_fast", "gelu_pytorch_tanh"),
    "silu": ("swish",),
}
ATTENTION_SYNONYMS = {
    "softmax": (
        *("flash", "flash_attention", "flash_attention_2", "flash_attn", "sdpa", "full", "vanilla", "standard"),
        *("scaled_dot_product", "scaled-dot-product", "scaled_dot_product_attention"),
    ),
}
ARGUMENT_SYNONYMS = {  # of Python; a dot leads into an object of settings, such as decoding=Decoding(longest=...)
    "decoding.beam.beams": ("num_beams", "beam_size", "beam_width", "n_beams"),
    "decoding.beam.penalty": ("length_penalty",),
    "decoding.beam.groups": ("num_beam_groups",),
    "decoding.beam.diversity": ("diversity_penalty",),
    "decoding.sampling.temperature": ("temp",),
    "decoding.sampling.top_k": ("topk",),
    "decoding.sampling.top_p": ("topp", "nucleus"),
    "decoding.sampling.typical": ("typical_p",),
    "decoding.sampling.seed": ("random_seed", "manual_seed"),
    "decoding.sampling": ("do_sample", "sample"),
    "decoding.nbest": ("num_return_sequences", "n_best", "num_hypotheses"),
    "decoding.shortest": ("min_length", "min_new_tokens", "min_tokens", "min_decoding_length"),
    "decoding.longest": ("max_length", "max_new_tokens", "max_tokens", "max_decoding_length"),
    "decoding.no_repeat": ("no_repeat_ngram_size",),
    "decoding.prefix": ("target_prefix", "forced_prefix"),
    "decoding.phrases": ("force_words", "force_words_ids", "constraints"),
    "attention": ("attn", "attentions", "attention_type", "mechanism", "mechanisms"),
    "look": ("output_attentions", "return_attention", "return_attentions"),
    "pattern": ("layer", "layers", "layer_name", "layer_names", "filter"),
    "changes": ("interventions", "hooks", "ablate", "ablations"),
    "batch": ("batch_size",),
    "threshold": ("score_threshold", "confidence", "confidence_threshold", "conf"),
    "steps": ("horizon", "prediction_length", "forecast_horizon", "num_steps", "max_steps", "n_steps"),
    "lengths": ("seq_lengths", "sequence_lengths", "seq_lens", "seq_len", "context_lengths"),
    "rounds": ("repeats", "n_repeats", "num_repeats", "num_runs"),
    "minutes": ("timeout", "time_limit", "max_time"),
    "threads": ("num_threads", "n_threads", "n_jobs"),
    "seed": ("random_state", "random_seed", "manual_seed"),
    "hear": ("callback", "hook", "fn"),
    "grad": ("requires_grad", "gradients"),
    "replace": ("overwrite", "force", "exist_ok"),
    "to": ("format", "library", "framework"),
    "out": ("output_dir", "output", "destination", "save_directory"),
    "folder": ("path", "directory", "save_directory", "output_dir", "adapter", "adapter_path"),
    "source": ("checkpoint", "path", "input_dir"),
    "data": ("text", "file", "dataset"),
    "model": (
        "pretrained_model_name_or_path",
        "model_name_or_path",
        "model_name",
        "checkpoint",
        "path",
        "net",
        "module",
    ),
    "base": ("base_model",),
    "context": ("passage", "document"),
}


IN_FLOAT32 = "a model is made in float32: change it with .to(dtype)"
ON_CPU = "a model is made on the CPU: move it with .to(device)"
TRAINED_RANK = "rank and alpha are read from the adapter"
NEEDLESS_ARGUMENTS = {  # of a function: words that none of its arguments has to say, and why
    "adapted": dict.fromkeys(("r", "rank", "alpha", "lora_rank", "lora_alpha", "target_modules"), TRAINED_RANK),
    "compare": dict.fromkeys(("batch", "batch_size"), "the number of rows of a training step follows from the length"),
    "load": dict.fromkeys(("dtype", "torch_dtype"), IN_FLOAT32)
    | dict.fromkeys(("device", "device_map", "map_location"), ON_CPU),
}


def meant_by_attention(word: object) -> str:
    """The attention that another name means, in words; empty where it means none of these."""
    names = [name for name, words in ATTENTION_SYNONYMS.items() if isinstance(word, str) and word.lower() in words]
    return f"; use {names[0]} instead, which already uses the fused (flash) kernel" if names else ""


def meant_by_activation(word: object) -> str:
    names = [name for name, words in ACTIVATION_SYNONYMS.items() if isinstance(word, str) and word.lower() in words]
    return f"; use {names[0]!r} instead" if names else ""


def meant_in_model(word: str, known: Collection[str]) -> str:
    """The key of a model's config that a word means, in words; empty where it means none of these."""
    keys = [key for key, words in MODEL_SYNONYMS.items() if key in known and word.lower() in words]
    return f"; use {keys[0]} instead{MODEL_REMARKS.get(word.lower(), '')}" if keys else ""
