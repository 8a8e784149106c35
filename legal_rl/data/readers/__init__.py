"""Readers of raw legal material: JSON Lines with clear diagnoses, and the public formats as one stream of sources."""
