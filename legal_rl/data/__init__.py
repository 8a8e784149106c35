"""Data construction: questions by rule, the scripted teacher, trajectories for SFT and GRPO (paper, 4.2)."""
