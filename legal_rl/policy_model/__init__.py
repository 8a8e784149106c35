"""The quickstart's own policy: a Qwen3 of a few million parameters with its tokenizer, made in minutes on a CPU.

    build_policy(PolicySettings(), texts, protocol_samples, out_dir) -> Hugging Face folder

Nothing here knows the questions of the train or test part: a policy learns to read and to copy here, and the task
in SFT and GRPO."""
