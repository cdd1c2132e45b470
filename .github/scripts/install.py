"""Install into the environment of this Python, as pip would: `.venv/bin/python install.py ARGUMENTS OF PIP INSTALL`.

uv does it, in half a minute where pip takes three (PyTorch and its CUDA libraries are several GB). uv does not read
pip's configuration (pip.conf, PIP_*), so its sources are passed on here. Where uv cannot be had, pip installs.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

# --no-compile: byte code is made at first import, of what is imported, instead of for all of PyTorch.
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
# What uv calls the options of pip that say where packages come from, and what separates several values.
SOURCES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}


def main() -> int:
    wanted = sys.argv[1:]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    # All indexes are equal, as for pip; uv alone would take a package from the first that has any version of it.
    uv += ["--index-strategy", "unsafe-best-match"]
    has_uv = subprocess.call([*PIP, "--constraint", "constraints.txt", "uv"]) == 0
    if has_uv and subprocess.call([*uv, *wanted], env=os.environ | sources()) == 0:
        return 0
    print("uv did not install; pip does, which takes minutes ...", file=sys.stderr)
    return subprocess.call([*PIP, *wanted])


def sources() -> dict[str, str]:
    """Environment variables for uv: where pip is configured to take packages from."""
    listed = subprocess.run([*PIP[:3], "config", "list"], check=True, capture_output=True, text=True).stdout
    set_to = dict(line.split("=", 1) for line in listed.splitlines())
    found = {}
    for section in ("global", "install", ":env:"):  # the later one decides, as for pip
        for option, (variable, separator) in SOURCES.items():
            if value := set_to.get(f"{section}.{option}"):
                found[variable] = separator.join(str(ast.literal_eval(value)).split())
    return found


if __name__ == "__main__":
    sys.exit(main())
