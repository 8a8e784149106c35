"""The multi-turn environment: protocol, actions and the single rollout loop. Light: no torch, Ray, verl or vLLM."""
