"""LawBench and LexEval: tasks, graders, scoring of prediction files, the runner, and the report.

Reading order: `records` (what passes between the parts), `tasks` (the table of 43 tasks), `graders` (one task type, one
pure function), `scoring` (files to scores), `runner` (questions to files), `report` (scores to pages).
"""
