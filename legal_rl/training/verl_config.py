"""Translation of our settings into verl's Hydra configs; the only place that knows verl's key names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from legal_rl.platform.activation import cpu_platform_active
from legal_rl.training.agent_state import STOP_FILE
from legal_rl.training.settings import GrpoSettings, SftSettings

AGENT_NAME = "legal"
CHECKPOINT_CONTENTS = ["model", "optimizer", "extra", "hf_model"]
"""With `hf_model`, each checkpoint holds a Hugging Face folder, so that export needs no merging."""
Overrides = dict[str, Any]


def compose_config(name: str, overrides: Overrides) -> Any:
    """verl's config `name` with dotted `overrides` applied; unknown keys are errors unless written with `+`."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf, open_dict

    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        config = compose(config_name=name)
    for key, value in overrides.items():
        if key.startswith("+"):
            with open_dict(config):
                OmegaConf.update(config, key.lstrip("+"), value, force_add=True)
        else:
            if OmegaConf.select(config, key.rsplit(".", 1)[0]) is None:
                raise KeyError(key)
            OmegaConf.update(config, key, value)
    return config


def loggers(wandb: bool) -> list[str]:
    """TensorBoard always; wandb when asked for, when a key is set or in offline mode (decisions, trap 11)."""
    wanted = wandb or bool(os.environ.get("WANDB_API_KEY")) or os.environ.get("WANDB_MODE") == "offline"
    return ["tensorboard", "wandb"] if wanted else ["tensorboard"]


def _cpu() -> bool:
    return cpu_platform_active()


def _model(prefix: str, model_dir: Path, gradient_checkpointing: bool) -> Overrides:
    cpu = _cpu()
    overrides: Overrides = {
        f"{prefix}.path": str(model_dir),
        f"{prefix}.enable_gradient_checkpointing": gradient_checkpointing and not cpu,
        f"{prefix}.use_remove_padding": not cpu,
    }
    if cpu:  # flash attention has no CPU kernel
        overrides[f"+{prefix}.override_config.attn_implementation"] = "sdpa"
    return overrides


def _engine(prefix: str, dtype: str, seed: int) -> Overrides:
    cpu = _cpu()
    overrides: Overrides = {f"{prefix}.strategy": "fsdp2", f"{prefix}.dtype": dtype, f"{prefix}.seed": seed}
    overrides[f"+{prefix}.mixed_precision.param_dtype"] = "fp32" if dtype == "float32" else "bf16"
    overrides[f"+{prefix}.mixed_precision.reduce_dtype"] = "fp32"
    overrides[f"+{prefix}.mixed_precision.buffer_dtype"] = "fp32"
    overrides[f"{prefix}.use_torch_compile"] = not cpu
    overrides[f"{prefix}.offload_policy"] = cpu
    return overrides


def _optimizer(prefix: str, settings: SftSettings | GrpoSettings) -> Overrides:
    return {
        f"{prefix}.lr": settings.learning_rate,
        f"{prefix}.weight_decay": settings.weight_decay,
        f"{prefix}.betas": list(settings.betas),
        f"{prefix}.clip_grad": settings.clip_grad,
        f"{prefix}.lr_scheduler_type": settings.lr_schedule,
    }


def _trainer(settings: SftSettings | GrpoSettings, out_dir: Path) -> Overrides:
    return {
        "trainer.default_local_dir": str(out_dir / "checkpoints"),
        "trainer.project_name": settings.project,
        "trainer.experiment_name": settings.experiment,
        "trainer.total_epochs": settings.epochs,
        "trainer.total_training_steps": settings.max_steps,
        "trainer.logger": loggers(settings.wandb),
        "trainer.nnodes": settings.nnodes,
        "trainer.n_gpus_per_node": settings.n_gpus_per_node,
        "trainer.device": "cpu" if _cpu() else "cuda",
        "trainer.resume_mode": "auto",
    }


def sft_config(settings: SftSettings, train_file: Path, model_dir: Path, out_dir: Path) -> Any:
    """verl's SFT config (`sft_trainer_engine`)."""
    overrides: Overrides = {
        **_model("model", model_dir, settings.gradient_checkpointing),
        **_engine("engine", settings.dtype, settings.seed),
        **_optimizer("optim", settings),
        **_trainer(settings, out_dir),
        "optim.lr_warmup_steps_ratio": settings.warmup_ratio,
        "trainer.save_freq": settings.save_every,
        "trainer.max_ckpt_to_keep": 1,
        "checkpoint.save_contents": CHECKPOINT_CONTENTS,
        "checkpoint.load_contents": ["model", "optimizer", "extra"],
        "trainer.seed": settings.seed,
        "data.train_files": str(train_file),
        "data.train_batch_size": settings.batch_size,
        "data.use_dynamic_bsz": True,
        "data.max_token_len_per_gpu": settings.tokens_per_micro_batch,
        "data.max_length": settings.max_length,
        "data.num_workers": 0 if _cpu() else 4,
        "data.custom_cls.path": "pkg://legal_rl.training.sft_dataset",
        "data.custom_cls.name": "TokenRecordDataset",
        **settings.overrides,
    }
    return compose_config("sft_trainer_engine", overrides)


def _actor(settings: GrpoSettings) -> Overrides:
    mini = settings.mini_batch_prompts or settings.prompts_per_step
    actor, ref = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
    return {
        **_engine(f"{actor}.fsdp_config", settings.dtype, settings.seed),
        **_engine(f"{ref}.fsdp_config", settings.dtype, settings.seed),
        **_optimizer(f"{actor}.optim", settings),
        f"{actor}.strategy": "fsdp2",
        f"{actor}.checkpoint.save_contents": CHECKPOINT_CONTENTS,
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{actor}.optim.lr_warmup_steps": settings.warmup_steps,
        f"{actor}.ppo_mini_batch_size": mini,
        f"{actor}.ppo_epochs": settings.epochs_per_batch,
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": settings.tokens_per_micro_batch,
        f"{actor}.use_kl_loss": settings.kl_coef > 0,
        f"{actor}.kl_loss_coef": settings.kl_coef,
        f"{actor}.entropy_coeff": settings.entropy_coef,
        f"{actor}.clip_ratio_low": settings.clip_ratio_low,
        f"{actor}.clip_ratio_high": settings.clip_ratio_high,
        f"{actor}.loss_agg_mode": settings.loss_aggregation,
        f"{actor}.grad_clip": settings.clip_grad,
        f"{actor}.use_torch_compile": not _cpu(),
    }


def _rollout(settings: GrpoSettings, agent_file: Path) -> Overrides:
    cpu, rollout = _cpu(), "actor_rollout_ref.rollout"
    overrides: Overrides = {
        f"{rollout}.name": "vllm",
        f"{rollout}.mode": "async",
        f"{rollout}.n": settings.group_size,
        f"{rollout}.temperature": settings.temperature,
        f"{rollout}.top_p": settings.top_p,
        f"{rollout}.dtype": settings.dtype,
        f"{rollout}.seed": settings.seed,
        f"{rollout}.tensor_model_parallel_size": settings.tensor_parallel,
        f"{rollout}.gpu_memory_utilization": settings.vllm_memory,
        f"{rollout}.max_num_batched_tokens": settings.vllm_batch_tokens,
        f"{rollout}.max_num_seqs": settings.vllm_max_seqs,
        f"{rollout}.max_model_len": settings.max_prompt_tokens + settings.max_response_tokens,
        f"{rollout}.enforce_eager": cpu,
        f"{rollout}.free_cache_engine": not cpu,
        f"{rollout}.agent.num_workers": max(1, settings.agent_workers),
        f"{rollout}.agent.default_agent_loop": AGENT_NAME,
        f"{rollout}.agent.agent_loop_config_path": str(agent_file),
    }
    if cpu:
        overrides[f"+{rollout}.enable_sleep_mode"] = False
        overrides[f"{rollout}.checkpoint_engine.update_weights_bucket_megabytes"] = 64
        if settings.tensor_parallel == 1:  # one process less than with multiprocessing workers
            overrides[f"+{rollout}.engine_kwargs.vllm.distributed_executor_backend"] = "uni"
    return overrides


def _sampler(settings: GrpoSettings, out_dir: Path) -> Overrides:
    sampler = "trainer.v1.sampler"
    return {
        f"{sampler}.custom_sampler.path": "pkg://legal_rl.training.replay",
        f"{sampler}.custom_sampler.name": "GroupFilterBuffer",
        f"+{sampler}.sampler_kwargs.enabled": settings.filter_groups,
        f"+{sampler}.sampler_kwargs.metrics": list(settings.filter_metrics),
        f"+{sampler}.sampler_kwargs.min_valid": settings.min_valid_rollouts,
        f"+{sampler}.sampler_kwargs.max_refills": settings.max_refills,
        f"+{sampler}.sampler_kwargs.stop_file": str(out_dir / STOP_FILE),
    }


def grpo_config(
    settings: GrpoSettings, train_file: Path, val_file: Path, model_dir: Path, out_dir: Path, agent_file: Path
) -> Any:
    """verl's GRPO config (`ppo_trainer`, v1 synchronous trainer)."""
    overrides: Overrides = {
        **_model("actor_rollout_ref.model", model_dir, settings.gradient_checkpointing),
        **_actor(settings),
        **_rollout(settings, agent_file),
        **_trainer(settings, out_dir),
        **_sampler(settings, out_dir),
        "algorithm.adv_estimator": "grpo",
        "algorithm.rollout_correction.bypass_mode": settings.use_sampled_logprobs,
        "trainer.save_freq": settings.save_every if settings.save_every > 0 else 1_000_000_000,
        "trainer.test_freq": settings.test_every,
        "trainer.val_before_train": settings.val_before_train,
        "trainer.max_actor_ckpt_to_keep": settings.keep_checkpoints,
        "trainer.balance_batch": settings.n_gpus_per_node * settings.nnodes > 1,
        "data.train_files": str(train_file),
        "data.val_files": str(val_file),
        "data.train_batch_size": settings.prompts_per_step,
        "data.gen_batch_size": 1,  # lets the group filter ask for exactly as many questions as it dropped
        "data.max_prompt_length": settings.max_prompt_tokens,
        "data.max_response_length": settings.max_response_tokens,
        "data.dataloader_num_workers": 0,
        "data.seed": settings.seed,
        "reward.num_workers": 0,  # the agent loop scores its own rollouts
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": max(1, 2 * settings.nnodes) if not _cpu() else 1,
        **settings.overrides,
    }
    return compose_config("ppo_trainer", overrides)
