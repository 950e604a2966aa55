//! Step `password`: applications with a user name and a password, hashed by the program itself.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::site::{Client, Site};
use crate::support::{Protocol, eventually};

/// What `jetway hash` prints for this password.
fn hash(password: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetway"));
    command
        .arg("hash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{password}").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn applications_come_in_with_their_passwords() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("users.toml");
    let user = |name: &str, hash: &str| {
        format!(
            "[[user]]\nname = {name:?}\nhash = {hash:?}\nproduct = \"app\"\ndevice = {name:?}\n"
        )
    };
    let (first, second) = (hash("a horse, a horse"), hash("my kingdom"));
    assert!(first.starts_with("$argon2id$v=19$") && !first.contains("horse"));
    assert_ne!(
        first,
        hash("a horse, a horse"),
        "each has a salt of its own"
    );
    std::fs::write(&file, user("dashboard", &first)).unwrap();
    let site = Site::start(&[
        ("JETWAY_AUTH_CHAIN", "['device', 'password']"),
        ("JETWAY_AUTH_PASSWORD", &format!("{{ file = {file:?} }}")),
        ("JETWAY_LOG_FILTER", "trace"),
    ])
    .await;
    let mqtt = site.gateway.mqtt();
    let of = |client_id, username, password| Client {
        client_id,
        username,
        password,
        ..Client::default()
    };
    for (protocol, bad, not_authorized) in [(Protocol::V311, 4, 5), (Protocol::V5, 0x86, 0x87)] {
        for (client, code) in [
            (of("app&dashboard", "dashboard", "a horse, a horse"), 0),
            (of("app&dashboard", "dashboard", "a mule"), bad),
            (
                of("app&other", "dashboard", "a horse, a horse"),
                not_authorized,
            ),
            (of("app&report", "report", "my kingdom"), bad),
        ] {
            assert_eq!(client.log_in(protocol, mqtt), code, "{client:?}");
        }
    }
    // A user that is added can come in soon; one that is not in the file any more cannot.
    std::fs::write(&file, user("report", &second)).unwrap();
    eventually("the new user comes in", async || {
        match of("app&report", "report", "my kingdom").log_in(Protocol::V5, mqtt) {
            0 => Ok(()),
            code => Err(format!("{code}")),
        }
    })
    .await;
    let gone = of("app&dashboard", "dashboard", "a horse, a horse");
    assert_eq!(gone.log_in(Protocol::V5, mqtt), 0x86);
    let log = site.gateway.log();
    for secret in ["a horse", "a mule", "my kingdom", &first, &second] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
}
