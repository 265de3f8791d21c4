"""The field's other words for the keys and values of run files. They are no aliases: an error names what is meant.

A word may mean several keys: the error names the first that the run file has. A word with a dot counts in that table
only: "optimizer.type".
"""

from regard.nn.synonyms import MODEL_REMARKS, MODEL_SYNONYMS

RUN_WORDS = {
    "optimizer.rate": "lr learning_rate base_lr max_lr init_lr initial_lr peak_lr lr_rate",
    "optimizer.decay": "weight_decay wd l2 l2_reg l2_regularization weight_decay_rate",
    "optimizer": "optim opt",
    "optimizer.kind": "optimizer_type optimizer_name optimizer.type optimizer.name",
    "optimizer.betas": "adam_beta1 adam_beta2 beta1 beta2 adam_betas opt_betas",
    "optimizer.eps": "adam_epsilon epsilon adam_eps opt_eps",
    "schedule.warmup": (
        "warmup warmup_steps num_warmup_steps lr_warmup warmup_ratio warmup_updates warmup_iters warmup_epochs"
    ),
    "schedule": (
        "lr_scheduler scheduler lr_schedule lr_decay gamma sched lr_policy decay_steps step_size t_max lr_decay_rate"
    ),
    "schedule.kind": "lr_scheduler_type scheduler_type schedule.type schedule.name",
    "schedule.floor": "min_lr min_learning_rate eta_min lr_min min_lr_ratio end_learning_rate end_lr final_lr",
    "train.epochs": "epochs num_epochs num_train_epochs max_epochs n_epochs max_epoch",
    "train.steps": (
        "max_steps num_steps total_steps num_training_steps iterations max_iters updates max_update num_updates "
        "num_iterations max_iter n_iter train_steps"
    ),
    "train.split": (
        "gradient_accumulation gradient_accumulation_steps accumulate_grad_batches grad_accum accumulation_steps "
        "micro_batches grad_accum_steps update_freq micro_batch_size"
    ),
    "train.clip": (
        "max_grad_norm gradient_clip_val gradient_clipping grad_clip clip_grad_norm clip_norm clipnorm global_clipnorm "
        "clip_grad max_norm"
    ),
    "train.patience": "early_stopping early_stopping_patience early_stopping_rounds n_iter_no_change",
    "train.moving": "ema ema_decay ema_rate exponential_moving_average use_ema model_ema model_ema_decay ema_momentum",
    "train.average": "checkpoint_averaging swa average_checkpoints num_average_checkpoints",
    "train.evaluate": (
        "eval_steps eval_every eval_interval evaluation_strategy eval_strategy val_check_interval eval_freq "
        "check_val_every_n_epoch validate_interval validation_freq val_interval"
    ),
    "train.save": (
        "save_steps save_every checkpoint_every checkpoint_interval save_interval save_strategy save_freq "
        "every_n_train_steps checkpoint_steps enable_checkpointing"
    ),
    "train.log": "logging_steps log_every log_interval log_every_n_steps logging_interval log_freq print_freq",
    "train.keep": "save_total_limit keep_checkpoints save_top_k max_to_keep keep_last_epochs max_checkpoints",
    "train.precision": "fp16 bf16 mixed_precision amp dtype half use_amp torch_dtype",
    "train.recompute": "gradient_checkpointing activation_checkpointing grad_checkpointing checkpoint_activations",
    "train.compiled": "torch_compile compile jit_compile",
    "train.distribution": "strategy fsdp ddp deepspeed zero_stage parallelism",
    "train.device": "accelerator gpu use_gpu cuda use_cuda no_cuda use_cpu",
    "train.workers": "num_workers dataloader_num_workers n_workers",
    "train.threads": "n_jobs num_threads n_threads cpu_threads",
    "train.rates": "backbone_lr lr_backbone layerwise_lr_decay layer_decay llrd param_groups",
    "data.batch": (
        "batch_size per_device_train_batch_size train_batch_size global_batch_size per_gpu_batch_size minibatch_size "
        "data.budget"
    ),
    "data.budget": (
        "batch_size per_device_train_batch_size train_batch_size global_batch_size per_gpu_batch_size minibatch_size "
        "batch max_tokens tokens_per_batch"
    ),
    "data.window": (
        "lookback lookback_window context_length input_length input_size input_chunk_length seq_len max_length history "
        "history_length past_length input_steps lags n_lags max_encoder_length encoder_length input_window window_size "
        "timesteps data.context"
    ),
    "data.horizon": (
        "prediction_length forecast_horizon forecast_length pred_len output_chunk_length max_prediction_length "
        "output_steps n_ahead fh h periods data.steps"
    ),
    "data.period": "seasonality season_length seasonal_period seasonal_periods seasonality_period sp",
    "data.files": "file csv path filename data_path train_file dataset data.train",
    "data.time": (
        "time_column time_col ds date date_column date_col timestamp timestamp_column datetime time_index time_idx"
    ),
    "data.values": "target targets target_column target_columns target_cols value_column value_columns y",
    "data.series": "item_id unique_id series_id ts_id id_column group_ids",
    "data.scaling": "normalize normalization scaler standardize scale",
    "data.stride": "data.step hop",
    "data.rolling": "n_windows backtest_windows cross_validation n_splits",
    "data.columns": "source target src tgt source_column target_column source_lang target_lang",
    "data.text": "text_column text_col sentence_column text_field",
    "data.key": "text_column text_col text_key text_field",
    "data.label": "label_column label_col label_key target target_column y",
    "data.delimiter": "sep separator delim",
    "data.header": "has_header skip_header",
    "data.longest": (
        "max_seq_length max_seq_len max_source_length max_target_length model_max_length max_length seq_len max_len "
        "maxlen truncation tokens_per_sample max_source_positions data.block_size"
    ),
    "data.size": "data.image_size data.img_size data.input_size resize crop_size",
    "data.fit": "crop center_crop crop_pct resize_mode",
    "data.mean": "normalize normalization image_mean",
    "data.deviation": "std image_std",
    "data.share": (
        "validation_split val_split val_fraction test_size val_size valid_size val_ratio validation_fraction "
        "train_size train_ratio train_split eval_split test_split split_ratio data.split"
    ),
    "data.held_out": (
        "validation val valid dev validation_file eval_file val_file dev_file val_path eval_data eval_dataset"
    ),
    "data.test": "test_file test_path test_data test_dataset",
    "data.train": (
        "train_file train_data train_path train_dataset dataset data_path path file files filename data_file data_dir "
        "root corpus annotations annotation_file"
    ),
    "data.images": "image_dir image_folder img_dir image_root",
    "data.rows": "max_train_samples max_samples n_samples num_samples limit_train_batches",
    "data.augment": "augmentation transforms transform data_augmentation",
    "data.augment.ways": "rand_augment randaugment auto_augment autoaugment aa color_jitter",
    "data.augment.mirror": "hflip horizontal_flip random_flip random_horizontal_flip flip",
    "data.augment.area": "random_crop random_resized_crop",
    "data.augment.erasing": "reprob random_erasing cutout",
    "data.augment.mixup": "mixup_alpha",
    "data.augment.cutmix": "cutmix_alpha",
    "data.augment.copies": "repeated_augmentation aug_repeats",
    "data.vocabulary": "tokenizer tokenizer_name tokenizer_type bpe data.vocab",
    "data.vocabulary.size": "vocab_size max_vocab_size max_features",
    "data.vocabulary.file": "tokenizer_file tokenizer_path vocab_file",
    "data.kind": "data.type data.format",
    "task.kind": "task.type task.name",
    "task.smoothing": "label_smoothing label_smoothing_factor",
    "task.teacher": "teacher_model distill_from distillation",
    "task.share": "distillation_alpha",
    "task.given": "teacher_forcing teacher_forcing_ratio",
    "task.decay": "scheduled_sampling",
    "task.chosen": "mlm_probability mask_prob mask_ratio masking_ratio",
    "task.missing": "noise_density corruption_rate",
    "task.mean": "mean_noise_span_length mean_span_length",
    "task.load": "router_aux_loss_coef aux_loss_weight load_balancing",
    "task.label": "class_cost class_loss_coefficient",
    "task.box": "bbox_cost bbox_loss_coefficient bbox_loss_coef",
    "task.overlap": "giou_cost giou_loss_coefficient giou_loss_coef",
    "task.nothing": "eos_coefficient eos_coef",
    "task.earlier": "auxiliary_loss aux_loss",
    "task.quantiles": "percentiles levels quantile_levels interval_width",
    "start.model": (
        "pretrained from_pretrained checkpoint model_name_or_path init_from resume_from pretrained_model "
        "init_checkpoint restore_file load_from ckpt_path resume_from_checkpoint pretrained_model_name_or_path"
    ),
    "start.learn": "freeze trainable finetune lora peft freeze_backbone freeze_layers trainable_layers",
    "start.rank": "lora_rank lora_r",
    "start.alpha": "lora_alpha",
    "start.where": "target_modules lora_target_modules",
    "model.name": "model_type architecture arch model.type model.kind backbone",
    "folder": (
        "output_dir run_dir save_dir log_dir workdir logging_dir default_root_dir checkpoint_dir out_dir run_name"
    ),
    "seed": "random_seed manual_seed random_state seed_everything",
}
RUN_SYNONYMS = {key: tuple(words.split()) for key, words in RUN_WORDS.items()}
VALUE_WORDS = {  # by the key whose value it is
    "train.device": {"cuda": "gpu cuda:0 nvidia"},
    "train.precision": {
        "bfloat16": "bf16 bf16-mixed fp16 float16 16-mixed mixed half amp 16",
        "float32": "fp32 32 32-true single full",
    },
    "train.stored": {"float16": "fp16 half bf16 bfloat16 16", "float32": "fp32 32 single full"},
    "train.distribution": {
        "fsdp": "zero zero3 deepspeed full_shard fsdp2 sharded",
        "ddp": "dp data_parallel ddp_spawn",
    },
    "optimizer.kind": {"adamw": "adam_w adamw_torch adamw_hf adamw_torch_fused", "sgd": "nesterov momentum"},
    "schedule.kind": {
        "cosine": "cosine_annealing cosineannealinglr cosine_with_warmup cosine_decay cosine_schedule_with_warmup",
        "linear": "linear_with_warmup linear_decay polynomial polynomial_decay linear_schedule_with_warmup",
        "inverse-sqrt": "inverse_sqrt noam rsqrt inverse_square_root",
        "constant": "constant_with_warmup fixed",
    },
    "task.kind": {
        "classify": (
            "classification text-classification image-classification sequence-classification sentiment-analysis"
        ),
        "translate": "translation seq2seq machine-translation",
        "language": "causal-lm causal_lm clm lm language-modeling language_modeling text-generation",
        "masked": "mlm fill-mask masked-lm masked_lm",
        "tag": "ner pos token-classification tagging",
        "answer": "qa question-answering squad",
        "describe": "captioning image-captioning image-to-text",
        "detect": "detection object-detection",
        "similar": "contrastive sentence-similarity",
        "spans": "denoising span-corruption span_corruption",
        "forecast": "forecasting time-series time_series timeseries",
    },
}
VALUE_SYNONYMS = {
    key: {value: tuple(words.split()) for value, words in values.items()} for key, values in VALUE_WORDS.items()
}
SYNONYM_REMARKS = MODEL_REMARKS | {  # where the value is another one too: of a word, or of the key that is meant
    "warmup_ratio": " (in steps)",
    "warmup_epochs": " (in steps)",
    "data.budget": " (in tokens)",
    "train_size": " (the fraction to hold out)",
    "train_ratio": " (the fraction to hold out)",
    "train_split": " (the fraction to hold out)",
    "micro_batch_size": " (the number of parts of a batch)",
    "schedule.floor": " (as a fraction of the peak rate)",
    "lora": ' ("adapters" trains LoRA adapters)',
    "peft": ' ("adapters" trains LoRA adapters)',
}
SPACING = "the spacing of a time series is read from its times; data.period is the seasonal period"
SEASONS = "a model of time series learns the seasons from its data"
DECODING = "it is chosen when the model is used: regard evaluate --beam, regard translate --beam"
LOSS = "the loss follows from the task"
PROCESSES = "torchrun starts one process for each device"
NEEDLESS_WORDS = {  # words that no key has to say
    "the training data is always shuffled": "shuffle shuffle_buffer shuffle_buffer_size",
    SPACING: "freq frequency freqstr",
    SEASONS: "yearly_seasonality weekly_seasonality daily_seasonality",
    DECODING: "num_beams beam beam_size beam_width length_penalty",
    LOSS: "loss criterion loss_fn loss_function objective",
    PROCESSES: "devices gpus num_gpus n_gpu num_nodes nproc_per_node world_size",
    "the best weights become the final model": "load_best_model_at_end",
    "the same seed gives the same numbers": "deterministic use_deterministic_algorithms",
    "metrics are written to metrics.jsonl in the run folder": "report_to wandb tensorboard logger",
}
NEEDLESS_KEYS = {word: reason for reason, words in NEEDLESS_WORDS.items() for word in words.split()}


def keys_meant(path: str) -> list[str]:
    """The keys of run files that another key, such as "train.lr", means in the field's words."""
    path = path.lower()
    word = path.rpartition(".")[2]
    keys = [key for key, words in RUN_SYNONYMS.items() if word in words or path in words]
    return keys + [f"model.{key}" for key, words in MODEL_SYNONYMS.items() if word in words]


def remark_on(word: str, key: str) -> str:
    return SYNONYM_REMARKS.get(word.lower(), SYNONYM_REMARKS.get(key, ""))


def meant_by_value(key: str, word: object) -> str:
    """The value of a key that another word means, as a hint; empty where it means none."""
    values = VALUE_SYNONYMS.get(key, {})
    found = [value for value, words in values.items() if str(word).lower() in words]
    return f"; use {found[0]!r} instead" if found else ""
