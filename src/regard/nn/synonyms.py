"""The field's other words for our keys. They are no aliases: an error names the key that is meant.

A word may mean several keys: the error names the first that this config or run file has. A word with a dot counts in
that table only: "optimizer.type".
"""

from collections.abc import Collection

MODEL = {
    "dim": ("hidden_size", "d_model", "n_embd", "embed_dim", "embedding_dim", "model_dim", "width"),
    "depth": ("num_layers", "num_hidden_layers", "n_layer", "n_layers", "layers", "num_blocks"),
    "heads": ("num_heads", "num_attention_heads", "n_head", "n_heads", "nhead"),
    "hidden": ("intermediate_size", "d_ff", "ffn_dim", "n_inner", "mlp_dim", "dim_feedforward", "feedforward"),
    "length": ("max_position_embeddings", "n_positions", "context_length", "block_size", "max_length", "seq_len"),
    "vocab": ("vocab_size", "n_vocab", "vocabulary_size"),
    "classes": ("num_labels", "num_classes", "n_classes"),
    "image": ("image_size", "img_size", "input_size"),
    "patch": ("patch_size",),
    "channels": ("num_channels", "in_chans", "in_channels"),
    "activation": ("hidden_act", "act", "activation_function"),
    "dropout": ("dropout_rate", "hidden_dropout_prob", "resid_pdrop", "drop_rate"),
    "attention_dropout": ("attention_probs_dropout_prob", "attn_pdrop", "attn_drop_rate"),
    "eps": ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps"),
    "attention": ("attn", "attention_type", "attn_implementation", "attention_mechanism"),
    "drop_path": ("drop_path_rate", "stochastic_depth"),
    "experts": ("num_experts", "n_experts"),
    "queries": ("num_queries",),
}
RUN = {
    "optimizer.rate": ("lr", "learning_rate", "base_lr", "max_lr"),
    "optimizer.decay": ("weight_decay", "wd", "l2"),
    "optimizer": ("optim",),
    "optimizer.kind": ("optimizer_type", "optimizer_name", "optimizer.type", "optimizer.name"),
    "optimizer.betas": ("adam_beta1", "adam_beta2", "beta1", "beta2"),
    "schedule.warmup": ("warmup", "warmup_steps", "num_warmup_steps", "lr_warmup", "warmup_ratio"),
    "schedule": ("lr_scheduler", "scheduler", "lr_schedule", "lr_decay", "gamma"),
    "schedule.kind": ("lr_scheduler_type", "scheduler_type", "schedule.type", "schedule.name"),
    "schedule.floor": ("min_lr", "min_learning_rate"),
    "train.epochs": ("epochs", "num_epochs", "num_train_epochs", "max_epochs", "n_epochs"),
    "train.steps": (
        "max_steps",
        "num_steps",
        "total_steps",
        "num_training_steps",
        "iterations",
        "max_iters",
        "updates",
    ),
    "train.split": (
        *("gradient_accumulation", "gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum"),
        *("accumulation_steps", "micro_batches"),
    ),
    "train.clip": (
        "max_grad_norm",
        "gradient_clip_val",
        "gradient_clipping",
        "grad_clip",
        "clip_grad_norm",
        "clip_norm",
    ),
    "train.patience": ("early_stopping", "early_stopping_patience"),
    "train.moving": ("ema", "ema_decay", "ema_rate", "exponential_moving_average"),
    "train.average": ("checkpoint_averaging", "swa"),
    "train.evaluate": ("eval_steps", "eval_every", "eval_interval", "evaluation_strategy", "val_check_interval"),
    "train.save": ("save_steps", "save_every", "checkpoint_every", "checkpoint_interval", "save_interval"),
    "train.log": ("logging_steps", "log_every", "log_interval", "log_every_n_steps"),
    "train.keep": ("save_total_limit", "keep_checkpoints", "save_top_k"),
    "train.precision": ("fp16", "bf16", "mixed_precision", "amp", "dtype"),
    "train.recompute": ("gradient_checkpointing", "activation_checkpointing", "grad_checkpointing"),
    "train.compiled": ("torch_compile", "compile"),
    "train.distribution": ("strategy", "fsdp", "ddp"),
    "train.device": ("accelerator",),
    "train.workers": ("num_workers", "dataloader_num_workers"),
    "data.batch": ("batch_size", "per_device_train_batch_size", "train_batch_size", "global_batch_size"),
    "data.budget": (
        *("batch_size", "per_device_train_batch_size", "train_batch_size", "global_batch_size"),
        *("max_tokens", "tokens_per_batch"),
    ),
    "data.window": (
        *("lookback", "lookback_window", "context_length", "input_length", "input_size", "input_chunk_length"),
        *("seq_len", "max_length"),
    ),
    "data.horizon": ("prediction_length", "forecast_horizon", "forecast_length", "pred_len", "output_chunk_length"),
    "data.period": ("freq", "frequency", "seasonality", "season_length", "seasonal_period", "seasonal_periods"),
    "data.longest": (
        *("max_seq_length", "max_seq_len", "max_source_length", "max_target_length", "model_max_length"),
        *("max_length", "seq_len"),
    ),
    "data.size": ("data.image_size", "data.img_size", "data.input_size"),
    "data.share": ("validation_split", "val_split", "val_fraction", "test_size"),
    "data.held_out": ("validation", "val", "valid", "dev", "validation_file", "eval_file"),
    "data.train": ("train_file", "train_data", "dataset", "data_path", "path"),
    "data.augment": ("augmentation", "transforms", "data_augmentation"),
    "data.vocabulary": ("tokenizer", "tokenizer_name"),
    "data.vocabulary.size": ("vocab_size",),
    "data.kind": ("data.type", "data.format"),
    "task.kind": ("task.type", "task.name"),
    "task.smoothing": ("label_smoothing", "label_smoothing_factor"),
    "task.teacher": ("teacher_model", "distill_from"),
    "start.model": ("pretrained", "from_pretrained", "checkpoint", "model_name_or_path", "init_from", "resume_from"),
    "start.learn": ("freeze", "trainable", "finetune", "lora", "peft"),
    "start.rank": ("lora_rank", "lora_r"),
    "start.alpha": ("lora_alpha",),
    "start.where": ("target_modules", "lora_target_modules"),
    "model.name": ("model_type", "architecture", "arch", "model.type", "model.kind"),
    "folder": ("output_dir", "run_dir", "save_dir", "log_dir", "workdir"),
    "seed": ("random_seed", "manual_seed"),
}


ATTENTION = {
    "softmax": (
        *("flash", "flash_attention", "flash_attention_2", "flash_attn", "sdpa", "full", "vanilla", "standard"),
        *("scaled_dot_product", "scaled-dot-product", "scaled_dot_product_attention"),
    ),
}
REMARKS = {  # where the value is another one too
    "warmup_ratio": " (in steps)",
    "lora": ' ("adapters" trains LoRA adapters)',
    "peft": ' ("adapters" trains LoRA adapters)',
}
NEEDLESS = {"shuffle": "the training data is always shuffled"}  # words that no key has to say


def meant_by_attention(word: object) -> str:
    """The attention that another name means, in words; empty where it means none of these."""
    names = [name for name, words in ATTENTION.items() if isinstance(word, str) and word.lower() in words]
    return f"; use {names[0]} instead, which already uses the fused (flash) kernel" if names else ""


def meant_in_model(word: str, known: Collection[str]) -> str:
    """The key of a model's config that a word means, in words; empty where it means none of these."""
    keys = [key for key, words in MODEL.items() if key in known and word.lower() in words]
    return f"; use {keys[0]} instead" if keys else ""


def keys_meant(path: str) -> list[str]:
    """The keys of run files that another key, such as "train.lr", means in the field's words."""
    path = path.lower()
    word = path.rpartition(".")[2]
    keys = [key for key, words in RUN.items() if word in words or path in words]
    return keys + [f"model.{key}" for key, words in MODEL.items() if word in words]
