"""Options of the compiled functions, by how far the compiler may change the arithmetic.

All of them store the machine code on disk, divide as numpy does (the default checks for division by
zero, and that branch blocks vectorisation) and release the interpreter lock.
"""

__all__ = ["FUSED_FLAGS", "REASSOCIATING_FLAGS", "STRICT_FLAGS"]

STRICT_FLAGS = {"cache": True, "error_model": "numpy", "nogil": True}
# fused multiply-add where the processor has it, but no reassociation: it would break the rounding to
# an integer by adding a magic number (fast_erf)
FUSED_FLAGS = {**STRICT_FLAGS, "fastmath": {"contract"}}
# reassociation lets dot products use vector registers; infinities and NaN keep their meaning
REASSOCIATING_FLAGS = {**STRICT_FLAGS, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
