"""Training of whole layers.

In reading order: `attention_model`, `fit_statistics`, `layer_matrices`, `blocks`, `length_curves`.
"""
