"""Write the race log of the README anew, from a race that is run for it: `make readme`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BETWEEN = re.compile(r"(<!-- the race, by `make readme` -->\n```\n).*?(\n```\n)", re.DOTALL)


def main() -> int:
    """One race; a log of one that failed is not written."""
    race = subprocess.run([sys.executable, "-m", "tenure", "drill", "lease-race"], capture_output=True, text=True)
    if race.returncode:
        print(race.stdout, race.stderr, sep="\n", file=sys.stderr)
        return race.returncode
    log = "\n".join(line for line in race.stdout.splitlines() if not line.startswith("  postgres"))
    text, n = BETWEEN.subn(lambda found: found[1] + log.strip("\n") + found[2], README.read_text(encoding="utf-8"))
    if n != 1:
        print(f"{README.name} has {n} places for the race log: there must be one", file=sys.stderr)
        return 1
    README.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
