"""The explorer, a local page: `app` (serves), `page`, `controls`, `knobs` (the one table) of `fields`,
`state` (and address), `callbacks`, `answers`, `live`, `lanes` (work in slices), `code`, `view`, `flow`,
`pixels`, `uploads`, and `views/`.

Imports everything below `report`; imported by the command line alone.
"""
