"""`peak()` as source, for tests that measure a fresh process."""

PEAK = '''
def peak():
    """Most bytes held so far. VmHWM begins anew with each program; ru_maxrss may be the parent's, which would hide everything."""
    try:
        with open("/proc/self/status") as status:
            return 1024 * int(status.read().split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):  # not Linux
        import resource
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
'''
