//! A certificate authority and a server's certificate of it, made by openssl for one run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// PEM files.
pub(super) struct Pair {
    /// What clients trust.
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Makes them in this folder, for 127.0.0.1 and `localhost`, good for a day.
pub(super) fn make(folder: &Path) -> Result<Pair> {
    let pair = Pair {
        authority: folder.join("authority.pem"),
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        folder,
        &format!(
            "req -x509 {key} -days 1 -subj /CN=bench -keyout authority.key -out authority.pem"
        ),
    )?;
    openssl(
        folder,
        &format!("req {key} -subj /CN=localhost -keyout server.key -out server.csr"),
    )?;
    let extensions = "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n";
    std::fs::write(folder.join("server.ext"), extensions)?;
    openssl(
        folder,
        "x509 -req -days 1 -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -extfile server.ext -out server.pem",
    )?;
    Ok(pair)
}

/// Runs it with arguments that contain no spaces.
fn openssl(folder: &Path, arguments: &str) -> Result<()> {
    let done = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .context("openssl, which makes the certificate for --tls")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "openssl {arguments}: {said}");
    Ok(())
}
