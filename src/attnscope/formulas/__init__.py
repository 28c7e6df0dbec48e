"""Formulas as one types them, set as MathML without anybody's help: `typeset` (sentences),
`grammar` (what is a formula), `words` (names, signs, and how a sentence is cut into pieces).

Imports nothing of the project; `report` and `explorer` set their sentences with it.
"""
