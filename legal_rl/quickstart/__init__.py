"""The quickstart: the paper's whole method as a chain of resumable stages on one machine."""
