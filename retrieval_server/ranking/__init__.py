"""Learned ranking of statutes: character bigrams, charges, everyday words and a small fitted model over cheap features.

`ranker.StatuteRanker` is the way in; what it may use of the knowledge base and of the shipped lexicons is in
`charges`, `bigrams` and `lexicon`, the features in `features`, the fitted trees in `trees`.
"""
