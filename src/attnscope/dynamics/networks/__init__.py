"""Training of whole layers.

In reading order: `attention_model`, `layer_matrices`, `blocks`, `length_curves`.
"""
