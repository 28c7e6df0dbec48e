"""The explorer, a local page.

`app` serves it; `page` and `controls` are its skeleton, `callbacks` its wiring, `live_figure` the figure that follows a slider, `request_filter`
who may speak to it. `fields` and
`knobs` (the one table of knobs), `state` (values and the address); `compute`, `live` (training that
goes on) and `job_queues` (work in slices) compute; `python_lines` writes the lines of Python,
`view_result` is what a view hands over, `views/` has one file per view, `stable_steps` keeps steps stable and
advises, `stage_data` says what the stage shows; `tours/` leads through the views; `static_page/` writes it
all as plain files. `flow`, `pixels` and `uploads` are helpers.

Imports everything below `report`; imported by the command line, and its tours by `reproduction`.
"""
