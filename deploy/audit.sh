#!/usr/bin/env bash
# Audits the dependencies: licences, bans, sources, and known advisories where their database can be reached.
# A command of its own because cargo-deny takes minutes to build.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
cargo deny --version 2>/dev/null | grep -qxF "cargo-deny $version" || cargo install --locked "cargo-deny@$version"

cargo deny --locked --config .deny.toml check licenses bans sources
if cargo deny --locked --config .deny.toml fetch db; then
    cargo deny --locked --config .deny.toml check --disable-fetch advisories
else
    echo "advisories NOT CHECKED: their database cannot be reached from here" >&2
fi
