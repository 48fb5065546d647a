#!/bin/sh
# Resolve pyproject.toml for every supported Python and platform at once, and write constraints.txt.
# Usage: renew_constraints.sh [python]
set -eu

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${1:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check uv

"$scratch/venv/bin/uv" --quiet pip compile pyproject.toml --universal --python-version 3.10 --all-extras \
    --no-header --no-annotate --no-emit-index-url >"$scratch/resolved"

# CUDA's packages follow from the PyTorch build that a machine takes, and nothing here is for native Windows.
{
    sed -n '/^#/p' constraints.txt
    grep -Ev "^(nvidia-|cuda-|triton)|sys_platform == 'win32'|os_name == 'nt'" "$scratch/resolved"
} >"$scratch/constraints.txt"
mv "$scratch/constraints.txt" constraints.txt
