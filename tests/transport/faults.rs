//! A listener that cannot work is reported before anything starts, with everything that is wrong.

use std::process::Command;

use crate::support::pki::{Key, Pki};

/// What `jetway check` says about a configuration file.
fn check(pki: &Pki, config: &str) -> (Option<i32>, String) {
    let file = pki.path("jetway.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetway"));
    let output = command
        .env_clear()
        .arg("check")
        .arg("--config")
        .arg(file)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn every_fault_of_every_listener_is_named() {
    let pki = Pki::new();
    let ca = pki.authority("ca");
    let (one, two) = (
        pki.leaf("one", Key::Ecdsa, &ca, 10),
        pki.leaf("two", Key::Rsa, &ca, 10),
    );
    let config = format!(
        "[mqtt]\nlisten = 'off'\n
        [[listener]]\nlisten = '127.0.0.1:1'\ntransport = 'tls'\ncertificate = '/none.pem'\nkey = '/none.key'\nclient_ca = {key:?}\n
        [[listener]]\nlisten = '127.0.0.1:2'\ntransport = 'wss'\ncertificate = {certificate:?}\nkey = {other:?}\n
        [[listener]]\nlisten = '127.0.0.1:3'\ntransport = 'tls'\n
        [[listener]]\nlisten = '127.0.0.1:4'\nunix = '/a.sock'\nkey = {key:?}\nconnections_max = 0\n
        [[listener]]\ntransport = 'ws'\n",
        certificate = one.certificate,
        key = one.key,
        other = two.key,
    );
    let (status, found) = check(&pki, &config);
    assert_eq!(status, Some(78), "{found}");
    let expected = [
        "[[listener]] 1 (127.0.0.1:1) certificate: /none.pem: expected certificates in PEM",
        "[[listener]] 1 (127.0.0.1:1) key: /none.key: expected a private key in PEM",
        "[[listener]] 1 (127.0.0.1:1) client_ca: ",
        "[[listener]] 2 (127.0.0.1:2) key: ",
        "expected the key of the certificate",
        "[[listener]] 3 (127.0.0.1:3) certificate: expected a PEM file",
        "[[listener]] 3 (127.0.0.1:3) key: expected a PEM file",
        "[[listener]] 4 (127.0.0.1:4) listen: expected an address here or a path",
        "[[listener]] 4 (127.0.0.1:4) key: expected only with transport tls or wss",
        "[[listener]] 4 (127.0.0.1:4) connections_max: expected more than 0",
        "[[listener]] 5 (nowhere) listen: expected an address here or a path",
    ];
    for fault in expected {
        assert!(found.contains(fault), "{fault} in\n{found}");
    }
    assert_eq!(found.lines().count(), expected.len() - 1, "{found}");
}

#[test]
fn keys_are_checked_where_they_stand() {
    let pki = Pki::new();
    let config = "[[listener]]\nlisten = '127.0.0.1'\n\n[[listener]]\nlisten = '127.0.0.1:2'\ntransport = 'quic'\n";
    let (status, found) = check(&pki, config);
    assert_eq!(status, Some(78), "{found}");
    for fault in [
        "jetway.toml:2: listen: expected ADDRESS:PORT",
        "jetway.toml:6: transport: unknown variant `quic`",
    ] {
        assert!(found.contains(fault), "{fault} in\n{found}");
    }
    let (status, found) = check(&pki, "[mqtt]\nlisten = 'off'\n");
    assert_eq!(status, Some(78), "{found}");
    assert!(
        found.contains("[mqtt] listen: expected an address, or at least one [[listener]]"),
        "{found}"
    );
}
