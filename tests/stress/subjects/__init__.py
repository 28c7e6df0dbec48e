"""One file per family of public functions, each with its list SUBJECTS;
a file here is found by its name alone.
"""
