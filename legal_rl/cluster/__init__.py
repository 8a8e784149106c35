"""Who gets which GPU: the layout of services and trainer over a node or a cluster."""
