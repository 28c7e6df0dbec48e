"""`make bench`: run every bench script in turn, each in a fresh process,
and say what machine this is.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    failed = 0
    for script in sorted(Path(__file__).parent.glob("bench_*.py")):
        failed += subprocess.run([sys.executable, str(script)]).returncode != 0
    sys.exit(failed)
