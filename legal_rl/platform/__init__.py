"""Platform plugins: what verl and vLLM need to run the very same training on a machine without a GPU.

`verl_cpu` is loaded by verl through the entry point group `verl.plugins`, `vllm_cpu` by vLLM through
`vllm.general_plugins`, in every one of their processes. Both are inactive where CUDA works.
"""
