"""The Legal Assistant as a service: indexes, fusion, rerank, precedent selection, briefs and HTTP."""
