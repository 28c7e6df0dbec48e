"""The report: `build` (one page) of `coverage` (papers), `graph` (what rests on what), `states`,
`notation`, `mathematics`, `steps` (of tours that show a claim), `tables`, `drawing` and
`environment`; `folder` and `archive` (files); `terminal` (the same in text), `cards` (one claim),
`difference` (of two reports).

Imports `claims`; imported by `reproduction` and the command line.
"""
