"""The GRPO subprocess: `python -m legal_rl.training.grpo_job job.json`. Started by `legal_rl.training.grpo`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

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


def compose(job: dict[str, Any], settings: GrpoSettings, out_dir: Path) -> Any:
    """verl's config, checked by verl, resolved and written beside the run."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    from legal_rl.training.verl_config import grpo_config

    agent_file = Path(job["agent_file"]) if "agent_file" in job else _write_agent_file(job["agent"], out_dir)
    config = grpo_config(
        settings, Path(job["train_file"]), Path(job["val_file"]), Path(job["model_dir"]), out_dir, agent_file
    )
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    OmegaConf.save(config, out_dir / "verl_config.yaml")
    return config


def make_agents(trainer: Any, config: Any, settings: GrpoSettings) -> Any:
    """The manager of the agent loops: a thread here, or verl's Ray processes."""
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ

    from legal_rl.training.local_agents import LocalAgentManager

    manager: Any = AgentLoopManagerTQ if settings.agent_workers else LocalAgentManager
    return manager.create(
        config=config,
        llm_client=trainer.get_llm_client(),
        teacher_client=trainer.get_teacher_client(),
        reward_loop_worker_handles=trainer.get_reward_handles(),
    )


def train(job: dict[str, Any]) -> None:
    """Starts Ray, then loads verl, builds the trainer and runs it to the end."""
    settings, out_dir = GrpoSettings(**job["settings"]), Path(job["out_dir"])
    start_ray(settings, job.get("ray_temp_dir"))

    import transfer_queue as tq

    from legal_rl.training.export import export_checkpoint
    from legal_rl.training.local_agents import route_in_this_process
    from legal_rl.training.trainer import LegalTrainer

    config = compose(job, settings, out_dir)
    if settings.agent_workers == 0:
        route_in_this_process()
    tq.init(config.transfer_queue)
    # verl's registering decorator hides the concrete class from type checkers
    trainer = LegalTrainer(config, out_dir / "metrics.jsonl", settings)  # pyright: ignore[reportAbstractUsage]
    trainer.init()
    trainer.fit(make_agents(trainer, config, settings))
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
