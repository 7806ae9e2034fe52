"""Verdicts about models that others made: whether a module does what is claimed, on every input.

A module is read as a graph of operators (:mod:`graph`), every operator has a rule with its lemma
(:mod:`rules`), an engine walks the graph with balls that hold whatever any execution in the arithmetic
computes (:mod:`balls`, :mod:`rounding`, :mod:`engine`), and all inputs are enumerated
(:mod:`exhaustive`). Nothing here knows the families of models that this package builds: it is a
second opinion on them.
"""
