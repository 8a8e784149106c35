"""The GRPO subprocess: `python -m legal_rl.training.grpo_job job.json`. Started by `legal_rl.training.grpo`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from legal_rl.training.export import export_checkpoint
from legal_rl.training.metrics import latest_step
from legal_rl.training.process import write_error, write_result
from legal_rl.training.settings import GrpoSettings


def start_ray(settings: GrpoSettings, temp_dir: str | None) -> None:
    """A cluster on this machine, or the one that RAY_ADDRESS names. On a CPU the GPUs are logical."""
    import ray

    from legal_rl.platform.activation import cpu_platform_active

    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=True)
        return
    options: dict[str, Any] = {"address": "local", "include_dashboard": False, "log_to_driver": True}
    if cpu_platform_active():
        ranks = settings.n_gpus_per_node * settings.nnodes
        # CPUs are logical too: a bundle of verl asks for three, every further actor for one.
        options |= {"num_gpus": ranks, "num_cpus": 8 + 4 * ranks, "object_store_memory": 256 * 2**20}
    if temp_dir:
        options["_temp_dir"] = temp_dir
    ray.init(**options)


def _write_agent_file(options: dict[str, Any], out_dir: Path) -> Path:
    from legal_rl.training.agent_loop import write_agent_file
    from legal_rl.training.agent_state import AgentOptions
    from legal_rl.training.verl_config import AGENT_NAME

    path = out_dir / "agent_loop.yaml"
    write_agent_file(path, AGENT_NAME, AgentOptions(**options))
    return path


def train(job: dict[str, Any]) -> None:
    """Composes verl's config, builds the trainer and runs it to the end."""
    import transfer_queue as tq
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.import_utils import load_class_from_fqn

    from legal_rl.training.local_agents import route_in_this_process
    from legal_rl.training.trainer import LegalTrainer
    from legal_rl.training.verl_config import grpo_config

    settings, out_dir = GrpoSettings(**job["settings"]), Path(job["out_dir"])
    agent_file = Path(job["agent_file"]) if "agent_file" in job else _write_agent_file(job["agent"], out_dir)
    if settings.agent_workers == 0:
        route_in_this_process()
    config = grpo_config(
        settings, Path(job["train_file"]), Path(job["val_file"]), Path(job["model_dir"]), out_dir, agent_file
    )
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    start_ray(settings, job.get("ray_temp_dir"))
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    OmegaConf.save(config, out_dir / "verl_config.yaml")
    tq.init(config.transfer_queue)
    trainer = LegalTrainer(  # pyright: ignore[reportAbstractUsage]  # verl's decorator hides the class it registers
        config, out_dir / "metrics.jsonl", settings.max_empty_evidence, settings.empty_evidence_window
    )
    trainer.init()
    manager = config.actor_rollout_ref.rollout.agent.get("agent_loop_manager_class")
    manager = manager or "verl.trainer.ppo.v1.AgentLoopManagerTQ"
    agents = load_class_from_fqn(manager, "AgentLoopManager").create(
        config=config,
        llm_client=trainer.get_llm_client(),
        teacher_client=trainer.get_teacher_client(),
        reward_loop_worker_handles=trainer.get_reward_handles(),
    )
    trainer.fit(agents)
    trainer.logger.finish(exit_code=0)
    steps = latest_step(out_dir / "checkpoints")
    exported = export_checkpoint(out_dir / "checkpoints" / f"global_step_{steps}", out_dir / "model")
    write_result(out_dir, exported, steps)


def main() -> int:
    """Exit code 0 or 1; on 1 the reason is in `error.txt` beside the job file."""
    job_file = Path(sys.argv[1])
    try:
        train(json.loads(job_file.read_text(encoding="utf-8")))
    except Exception as error:
        write_error(job_file, error)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Ray, vLLM and TransferQueue are ended by the parent with this process's group; their own teardown takes longer.
    os._exit(code)
