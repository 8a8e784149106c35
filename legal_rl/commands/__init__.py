"""The commands of `legal-rl`, one module per group; heavy imports happen inside the commands."""
