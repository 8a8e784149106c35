"""The CPU platform for verl and vLLM: every adaptation that lets the GPU training code run without one."""
