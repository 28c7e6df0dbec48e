"""The explorer as plain files: `attnscope explore --static DIR`, for file:// and any web server.

In reading order: `tables` (risks between computed points), `stored_draws` (the library's own random starts
and sequences), `examples` (whole views, computed beforehand), `knob_table` (the knobs as data),
`build` (which writes it all). `assets/` has the page: what erf and linear attention do it computes
itself (`closed_forms.js`, `points.js`, `descent.js`), everything else it reads from here.
"""
