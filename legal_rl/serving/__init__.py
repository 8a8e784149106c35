"""The trained Lawyer behind an endpoint."""
