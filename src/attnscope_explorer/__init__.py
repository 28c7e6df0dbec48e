"""The explorer, a local page.

`app` serves it; `page` and `controls` are its skeleton, `callbacks` its wiring, `quick` the figure that follows a slider, `gate`
who may speak to it. `fields` and
`knobs` (the one table of knobs), `state` (values and the address); `compute`, `live` (training that
goes on) and `job_queues` (work in slices) compute; `python_lines` writes the lines of Python,
`shown` is what a view hands over, `views/` has one file per view, `steering` keeps steps stable and
advises, `staged` says what the stage shows; `tours/` leads through the views; `static_page/` writes it
all as plain files. `flow`, `pixels` and `uploads` are helpers.

Imports everything below `report`; imported by the command line, and its tours by `reproduction`.
"""
