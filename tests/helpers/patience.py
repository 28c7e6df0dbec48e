"""How long a test waits for another process before it says that the process hangs."""

# seconds: some hundred times what any of them needs on an idle machine, so that no load decides a
# test; a process that never answers still ends
HANG = 600.0
