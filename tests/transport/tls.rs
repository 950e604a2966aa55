//! TLS with mosquitto's clients, and who is refused by whom.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::tls;
use crate::site::{At, Site, downlink, stored, topic};
use crate::support::pki::{Key, Pair};
use crate::support::{DemoDevice, Protocol, Wire, eventually, packet, succeed, within};

const PUBLISH: &str = "mosquitto_pub";
const SUBSCRIBE: &str = "mosquitto_sub";

/// A client of mosquitto as this device, which trusts that CA.
fn mosquitto(program: &str, address: SocketAddr, device: &DemoDevice, ca: &Pair) -> Command {
    let who = &device.credentials;
    let mut command = Command::new(program);
    command
        .args([
            "-h",
            "127.0.0.1",
            "-q",
            "1",
            "-p",
            &address.port().to_string(),
        ])
        .args(who.mosquitto())
        .arg("--cafile")
        .arg(&ca.certificate);
    command
}

/// The same, publishing a report.
fn report(address: SocketAddr, device: &DemoDevice, ca: &Pair) -> Command {
    let mut command = mosquitto(PUBLISH, address, device, ca);
    command.args(["-t", &topic("up", device), "-m", "over TLS"]);
    command
}

fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn mosquitto_publishes_with_both_keys_in_both_versions() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for listener in [At::TlsRsa, At::TlsEcdsa] {
        for tls in ["tlsv1.2", "tlsv1.3"] {
            for mqtt in ["mqttv311", "mqttv5"] {
                let device = site.device();
                let mut command = report(site.at(listener), device, &site.ca);
                succeed(command.args(["--tls-version", tls, "-V", mqtt]));
                let messages = backend.messages("DEVICE_UP", &stored(device)).await;
                assert_eq!(messages.len(), 1, "{listener:?} {tls} {mqtt}");
                assert_eq!(messages[0].text(), "over TLS");
            }
        }
    }
}

#[tokio::test]
async fn mosquitto_receives() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let device = site.device();
    let mut command = mosquitto(SUBSCRIBE, site.at(At::TlsRsa), device, &site.ca);
    command.args(["-t", &topic("down", device), "-C", "1"]);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Commands to a device that does not listen yet go nowhere, so there is one until it has one.
    eventually("it has received one", async || {
        backend.publish(&downlink(device), &[], "a command").await;
        match child.try_wait().unwrap() {
            Some(status) if status.success() => Ok(()),
            Some(status) => panic!("{status}"),
            None => Err("it waits".to_owned()),
        }
    })
    .await;
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"a command\n");
}

#[tokio::test]
async fn clients_refuse_a_wrong_or_expired_server() {
    let site = Site::shared().await;
    let before = site.rejected("tls").await;
    let device = site.device();
    let mut wrong_ca = report(site.at(At::TlsEcdsa), device, &site.client_ca);
    assert!(refused(&mut wrong_ca).contains("A TLS error occurred"));
    let mut expired = report(site.at(At::TlsExpired), device, &site.ca);
    assert!(refused(&mut expired).contains("A TLS error occurred"));
    site.rejects("tls", before, 2).await;
    assert!(site.gateway.log().contains("certificate has expired"));
}

#[tokio::test]
async fn a_client_ca_refuses_clients_without_its_certificate() {
    let site = Site::shared().await;
    let (pki, address) = (&site.pki, site.at(At::TlsClients));
    let good = pki.chained_leaf("client", Key::Rsa, &site.client_ca);
    let other = pki.leaf("stranger", Key::Ecdsa, &site.ca, 10);
    let expired = pki.leaf("late", Key::Ecdsa, &site.client_ca, -1);
    let device = site.device();
    let with = |own: &Pair| {
        let mut command = report(address, device, &site.ca);
        command.arg("--cert").arg(&own.certificate);
        command.arg("--key").arg(&own.key);
        command
    };
    let before = site.rejected("tls").await;
    refused(&mut report(address, device, &site.ca));
    refused(&mut with(&other));
    refused(&mut with(&expired));
    site.rejects("tls", before, 3).await;
    let backend = site.backend().await;
    assert!(
        backend
            .messages("DEVICE_UP", &stored(device))
            .await
            .is_empty()
    );
    for version in ["tlsv1.2", "tlsv1.3"] {
        succeed(with(&good).args(["--tls-version", version]));
    }
    assert_eq!(
        backend.messages("DEVICE_UP", &stored(device)).await.len(),
        2
    );
}

#[tokio::test]
async fn what_is_no_tls_is_closed_and_counted() {
    let site = Site::shared().await;
    let before = site.rejected("tls").await;
    let device = site.device();
    let mut wire = Wire::connect(site.at(At::TlsRsa)).await;
    wire.send(&packet::connect(Protocol::V5, &device.credentials, 60))
        .await;
    // An alert, perhaps; never a CONNACK.
    assert_ne!(wire.closed().await.first(), Some(&0x20));
    // TLS 1.1 is refused: a ClientHello that offers nothing newer.
    let mut old = Command::new("openssl");
    let address = site.at(At::TlsRsa).to_string();
    old.args([
        "s_client",
        "-connect",
        &address,
        "-tls1_1",
        "-cipher",
        "DEFAULT@SECLEVEL=0",
    ]);
    refused(old.stdin(Stdio::null()));
    site.rejects("tls", before, 2).await;
}

#[tokio::test]
async fn g21_a_refused_login_gets_its_connack_first() {
    // G21, with packets behind the CONNECT that nobody will read.
    let site = Site::shared().await;
    let mut who = site.device().credentials.clone();
    who.password = "wrong;hmacsha256".to_owned();
    let connect = packet::connect(Protocol::V5, &who, 60);
    let behind = packet::publish(Protocol::V5, "any", None, &[0; 50_000]);
    for listener in [At::TlsRsa, At::TlsEcdsa] {
        let mut wire = Wire::over(tls(site.at(listener), &site.ca).await);
        wire.send(&[connect.clone(), behind.clone()].concat()).await;
        let connack = wire.packet().await.expect("CONNACK");
        assert_eq!((connack[0], connack[3]), (0x20, 0x86));
        assert!(wire.closed().await.is_empty());
    }
}

#[tokio::test]
async fn the_end_of_tls_is_announced() {
    let site = Site::shared().await;
    let who = &site.device().credentials;
    let mut socket = tls(site.at(At::TlsRsa), &site.ca).await;
    let connect = packet::connect(Protocol::V5, who, 60);
    let bytes = [connect, packet::DISCONNECT.to_vec()].concat();
    socket.write_all(&bytes).await.unwrap();
    let mut rest = Vec::new();
    // rustls makes an end without close_notify an error, because it may be an attacker's.
    within("the end", socket.read_to_end(&mut rest))
        .await
        .unwrap();
    assert_eq!(rest[0], 0x20);
}
