//! G20: certificates and CAs are replaced under live connections, and nothing broken replaces what works.

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::client::{certificates, tcp, tls, tls_over};
use crate::site::{Site, topic};
use crate::support::pki::{Key, Pair, Pki, read};
use crate::support::{DemoDevice, Protocol, Wire, eventually, packet};

const TLS: usize = 0;
const CLIENTS: usize = 1;
const RENEWED: &str = "jetway_tls_renewals_total";
const FAILED: &str = "jetway_tls_renewals_failed_total";

/// A gateway that looks at its files as often as that, with the pair `server` in use.
async fn site(interval_ms: &str) -> (Site, Pair) {
    let pki = Pki::new();
    let (ca, client_ca) = (pki.authority("ca"), pki.authority("client-ca"));
    let server = pki.leaf("server", Key::Ecdsa, &ca, 10);
    let settings = server.settings();
    let listeners = [
        format!("listen = '127.0.0.1:0', transport = 'tls', {settings}"),
        format!(
            "listen = '127.0.0.1:0', transport = 'tls', {settings}, client_ca = {:?}",
            client_ca.certificate
        ),
    ];
    let every = [("JETWAY_MQTT_CERTIFICATE_CHECK_INTERVAL_MS", interval_ms)];
    let site = Site::start(pki, ca, client_ca, &listeners, &every).await;
    (site, server)
}

fn presents(socket: &TlsStream<TcpStream>, pair: &Pair) -> bool {
    let presented = socket.get_ref().1.peer_certificates().unwrap();
    presented == certificates(&pair.certificate)
}

/// Waits until new handshakes get this certificate.
async fn serves(site: &Site, pair: &Pair) {
    eventually("the certificate is in use", async || {
        let socket = tls(site.address(TLS), &site.ca).await;
        match presents(&socket, pair) {
            true => Ok(()),
            false => Err("another".to_owned()),
        }
    })
    .await;
}

async fn counts(site: &Site, metric: &str, least: f64) {
    eventually(&format!("{metric} is {least}"), async || {
        match site.gateway.metric(metric).await {
            now if now >= least => Ok(()),
            now => Err(format!("{now}")),
        }
    })
    .await;
}

async fn login(site: &Site, device: &DemoDevice) -> Wire {
    let mut wire = Wire::over(tls(site.address(TLS), &site.ca).await);
    wire.send(&packet::connect(Protocol::V311, &device.credentials, 60))
        .await;
    wire.accepted().await;
    wire
}

/// Days until the certificate of the first listener ends.
async fn expiry_days(site: &Site) -> f64 {
    let listener = site.address(TLS);
    let metric = format!("jetway_tls_certificate_expiry_seconds{{listener=\"{listener}\"}}");
    site.gateway.metric(&metric).await / 86_400.0
}

#[tokio::test]
async fn g20_changed_files_are_used_and_broken_ones_are_not() {
    let (site, server) = site("50").await;
    let device = site.device();
    let mut live = login(&site, device).await;
    let mut packet_id = 0;
    let mut still_lives = async || {
        packet_id += 1;
        live.send(&packet::publish(
            Protocol::V311,
            &topic("up", device),
            Some(packet_id),
            b"x",
        ))
        .await;
        assert_eq!(
            live.packet().await,
            Some([&[0x40, 2], &packet_id.to_be_bytes()[..]].concat())
        );
    };
    still_lives().await;
    let first = certificates(&server.certificate);
    assert!((9.9..=10.0).contains(&expiry_days(&site).await));

    // Renewed: another key, another end.
    let next = site.pki.leaf("next", Key::Rsa, &site.ca, 20);
    next.replace(&server);
    serves(&site, &next).await;
    assert!(first != certificates(&server.certificate));
    assert!((19.9..=20.0).contains(&expiry_days(&site).await));
    still_lives().await;

    // A key that does not fit, a file that is none, no file at all.
    let other = site.pki.leaf("other", Key::Ecdsa, &site.ca, 30);
    let failed = site.gateway.metric(FAILED).await;
    std::fs::copy(&other.key, &server.key).unwrap();
    counts(&site, FAILED, failed + 2.0).await;
    std::fs::write(&server.certificate, "-----BEGIN CERTIFICATE-----\nhalf").unwrap();
    counts(&site, FAILED, failed + 4.0).await;
    std::fs::remove_file(&server.certificate).unwrap();
    counts(&site, FAILED, failed + 6.0).await;
    serves(&site, &next).await;
    still_lives().await;
    let log = site.gateway.log();
    assert!(
        log.contains("certificate not renewed, the old one stays in use"),
        "{log}"
    );
    assert!(log.contains("expected the key of the certificate"), "{log}");

    // And whole again.
    other.replace(&server);
    serves(&site, &other).await;
    still_lives().await;
}

#[tokio::test]
async fn g20_a_hangup_renews_at_once_and_client_authorities_too() {
    // Nobody looks at the files within an hour.
    let (site, server) = site("3600000").await;
    let old = site.pki.leaf("old-client", Key::Ecdsa, &site.client_ca, 10);
    let new_ca = site.pki.authority("new-client-ca");
    let new = site.pki.leaf("new-client", Key::Ecdsa, &new_ca, 10);
    let connect = async |client: &Pair, device: &DemoDevice| {
        let socket = tls_over(tcp(site.address(CLIENTS)).await, &site.ca, Some(client)).await;
        // TLS 1.3 tells a client only after its handshake that it was refused.
        let mut wire = Wire::over(socket.unwrap());
        wire.send(&packet::connect(Protocol::V311, &device.credentials, 60))
            .await;
        wire.packet().await.map(|_connack| wire)
    };
    let device = site.device();
    let mut live = connect(&old, device).await.expect("its CA is known");
    assert!(
        connect(&new, site.device()).await.is_none(),
        "its CA is not known yet"
    );

    let renewed = site.gateway.metric(RENEWED).await;
    let next = site.pki.leaf("next", Key::Ecdsa, &site.ca, 20);
    next.replace(&server);
    std::fs::write(&site.client_ca.certificate, read(&new_ca.certificate)).unwrap();
    site.gateway.hang_up();
    counts(&site, RENEWED, renewed + 2.0).await;
    serves(&site, &next).await;
    assert!(connect(&new, site.device()).await.is_some());
    assert!(
        connect(&old, site.device()).await.is_none(),
        "its CA is no longer known"
    );
    live.send(&packet::PINGREQ).await;
    assert_eq!(live.packet().await, Some(packet::PINGRESP.to_vec()));
}
