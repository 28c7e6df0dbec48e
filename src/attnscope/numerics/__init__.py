"""Numerical building blocks that every other package may import.

In reading order: `border/` (checks of arguments, estimates with an error), `integrals/`
(one-dimensional rules and the integrals of the theory), `compiled/` (loops in machine code);
`semidefinite` (roots of singular matrices), `subsets` (posteriors of random subsets). Of the
project's own modules these import only helpers such as `errors`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
