#!/usr/bin/env bash
# Makes what a release publishes, in dist/: sdist, wheel, the wheel of what `fairgate demo` judges, and NOTES.md with the
# changelog's section. Nothing is sent.
#
#   dist.sh [TAG]     with a tag, which must be v and the version; PYTHON names a Python that has release-requirements.txt
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${PYTHON:-python}
tag=${1:-}

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' fairgate/version.py)
if [ -n "$tag" ] && [ "$tag" != "v$version" ]; then
  echo "dist: the tag is $tag, and fairgate/version.py says $version: tag v$version, or change the version." >&2
  exit 1
fi
notes=$(awk -v head="## [$version]" 'index($0, "## [") == 1 { on = index($0, head) == 1; next } on' CHANGELOG.md)
if [ -z "$notes" ]; then
  echo "dist: CHANGELOG.md has no section for $version: write what a user can now do." >&2
  exit 1
fi

rm -rf dist
"$python" -I -m build --no-isolation --outdir dist .
"$python" -I -m build --no-isolation --wheel --outdir dist demo
"$python" -I -m twine check --strict dist/*.whl dist/*.tar.gz
printf '%s\n' "$notes" > dist/NOTES.md

# The wheel has the files that are no Python, and says its version; the demonstration's stays small.
"$python" -I - "$version" dist/fairgate-*.whl dist/fairgate_demo-*.whl <<'PYTHON'
import os
import sys
import zipfile

version, wheel, demo = sys.argv[1:]
names = zipfile.ZipFile(wheel).namelist()
needed = ["py.typed", "suites/suite.schema.json", "records/results.schema.json", "records/metrics.json", "reports/templates/"]
lacking = [need for need in needed if not any(name.startswith(f"fairgate/{need}") for name in names)]
if lacking or any(name.startswith("tests/") for name in names) or f"-{version}-" not in wheel:
    sys.exit(f"dist: the wheel {wheel} lacks {lacking}, holds tests, or is of another version than {version}.")
if os.path.getsize(demo) > 15 << 20 or f"-{version}-" not in demo:
    sys.exit(f"dist: the wheel {demo} has more than 15 MB, or is of another version than {version}.")
PYTHON
ls -l dist
