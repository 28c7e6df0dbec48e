"""The arithmetic under everything.

In reading order: `border/` (what comes in is checked, what goes out has an error), `integrals/`
(one-dimensional rules and the integrals of the theory), `compiled/` (loops in machine code);
`semidefinite` (roots of singular matrices), `subsets` (posteriors of random subsets). Imports
nothing of the project but `errors`; every room may import it.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
