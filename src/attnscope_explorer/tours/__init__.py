"""Guided tours: what a student is shown, step by step, as plain data.

In reading order: `tour` (what a tour and a step are), `registry` (all of them, and which step shows
a claim), `stated_numbers` (the library's numbers that steps state), `panel` (the tour beside a view of the
live page), and a file for each tour, found by its name: `tour_1_swapped_runs`,
`tour_2_inverse_temperature`, `tour_3_dimension`, `tour_4_softmax`, `tour_5_posterior`,
`tour_6_bags`, `tour_7_deciding_token`. `assets/tours.css` has the colours of their formulas,
`assets/tours.js` keys and presenter mode.

`tour`, `registry` and the tours need neither Dash nor Plotly; the static page embeds `record()`.
"""
