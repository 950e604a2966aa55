//! `jetway hash`: a password from standard input -> its hash, for the file of `[auth.password]`.

use std::io::{IsTerminal as _, Write as _};

use anyhow::{Context as _, Result, ensure};

use crate::auth::step::password;

/// Reads one line and prints its hash.
pub(super) fn run() -> Result<bool> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprintln!("the password, which is shown as it is typed:");
    }
    let mut line = String::new();
    stdin.read_line(&mut line).context("standard input")?;
    let text = line.trim_end_matches(['\r', '\n']);
    ensure!(!text.is_empty(), "expected a password on standard input");
    let hash = password::hash(text).map_err(anyhow::Error::msg)?;
    writeln!(std::io::stdout(), "{hash}")?;
    Ok(true)
}
