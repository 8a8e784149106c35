"""Legal-RL: the system around the Lawyer: data construction, training, evaluation, serving and the command line."""

__version__ = "0.1.0"
