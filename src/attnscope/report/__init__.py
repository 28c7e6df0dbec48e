"""The report: `build` (one page) of `coverage` (papers), `graph` (what rests on what), `states`,
`drawing`, `numbers` and `environment`; `folder` (files); `terminal` (the same in text).

Imports `claims`; imported by `reproduction` and the command line.
"""
