//! Step `certificate`: whose certificate names a device comes in as that device, over chains of RSA and ECDSA keys, and nobody else.

use crate::site::{Client, Site};
use crate::support::pki::{Key, Pair, Pki, read};
use crate::support::{Protocol, eventually, jetway, succeed};

const BOTH: [Protocol; 2] = [Protocol::V311, Protocol::V5];
const CLOSED: u16 = 256;

/// Listeners in this order: certificates are wanted; can be had; are wanted, and some are revoked.
struct Bench {
    site: Site,
    pki: Pki,
    ca: Pair,
    client_ca: Pair,
}

const WANTED: usize = 0;
const OPTIONAL: usize = 1;
const REVOKING: usize = 2;

impl Bench {
    async fn start() -> Self {
        let pki = Pki::new();
        let (ca, client_ca) = (pki.authority("ca"), pki.authority("client-ca"));
        let server = pki.leaf("server", Key::Ecdsa, &ca, 10).settings();
        let revoked = pki.revocation_list(&client_ca, &[]);
        let tls = format!(
            "listen = '127.0.0.1:0', transport = 'tls', {server}, client_ca = {:?}",
            client_ca.certificate
        );
        let listeners = format!(
            "[{{ {tls} }}, {{ {tls}, client_certificate = 'optional' }}, {{ {tls}, client_crl = {revoked:?} }}]"
        );
        let settings = [
            ("JETWAY_LISTENER", listeners.as_str()),
            ("JETWAY_AUTH_CHAIN", "['certificate', 'device']"),
        ];
        Self {
            site: Site::start(&settings).await,
            pki,
            ca,
            client_ca,
        }
    }

    /// The certificate of the device `demo`/`name`.
    fn leaf(&self, name: &str, key: Key) -> Pair {
        self.pki
            .holder(name, &format!("demo&{name}"), "", key, &self.client_ca)
    }

    fn client<'a>(&'a self, client_id: &'a str, certificate: Option<&'a Pair>) -> Client<'a> {
        Client {
            client_id,
            ca: Some(&self.ca),
            certificate,
            ..Client::default()
        }
    }
}

#[tokio::test]
async fn holders_of_certificates_come_in_as_their_devices() {
    let bench = Bench::start().await;
    let wanted = bench.site.address(WANTED);
    for (name, key) in [("rsa", Key::Rsa), ("ecdsa", Key::Ecdsa)] {
        let own = bench.leaf(name, key);
        let client_id = format!("demo&{name}");
        let client = bench.client(&client_id, Some(&own));
        for tls in ["tlsv1.2", "tlsv1.3"] {
            for mqtt in ["mqttv311", "mqttv5"] {
                succeed(
                    client
                        .mosquitto(wanted)
                        .args(["--tls-version", tls, "-V", mqtt]),
                );
            }
        }
        for (protocol, listener) in BOTH.into_iter().zip([OPTIONAL, REVOKING]) {
            assert_eq!(client.log_in(protocol, bench.site.address(listener)), 0);
        }
        assert_eq!(bench.site.stored(name).await, 6, "{name}");
    }
    // With an authority in between, and with the name in another place.
    let between = bench
        .pki
        .intermediate("between", Key::Rsa, &bench.client_ca);
    let names = "subjectAltName=DNS:example.com,URI:device:demo/chained\n";
    let own = bench
        .pki
        .holder("chained", "a sensor", names, Key::Ecdsa, &between);
    let chain = [&own.certificate, &between.certificate].map(|path| read(path));
    std::fs::write(&own.certificate, chain.concat()).unwrap();
    let client = bench.client("demo&chained", Some(&own));
    succeed(&mut client.mosquitto(wanted));
    assert_eq!(bench.site.stored("chained").await, 1);
    // The list of the root says nothing about what the authority in between signed.
    assert_eq!(
        client.log_in(Protocol::V5, bench.site.address(REVOKING)),
        CLOSED
    );
}

#[tokio::test]
async fn g22_a_certificate_is_good_for_its_own_device_only() {
    let bench = Bench::start().await;
    let own = bench.leaf("one", Key::Ecdsa);
    let other = bench
        .pki
        .holder("other", "demo&*", "", Key::Ecdsa, &bench.client_ca);
    let nobody = bench
        .pki
        .holder("nobody", "gateway-7", "", Key::Ecdsa, &bench.client_ca);
    for (protocol, not_authorized, bad) in [(Protocol::V311, 5, 4), (Protocol::V5, 0x87, 0x86)] {
        for (client_id, certificate, code) in [
            ("demo&two", &own, not_authorized),
            ("demo&one", &other, not_authorized),
            ("", &own, not_authorized),
            // Neither does it prove anything, nor does its holder in another way.
            ("demo&one", &nobody, bad),
        ] {
            let client = bench.client(client_id, Some(certificate));
            let told = client.log_in(protocol, bench.site.address(WANTED));
            assert_eq!(told, code, "{client_id:?} {protocol:?}");
        }
        // Without one, where none is wanted, a device proves its secret or nothing.
        let client = bench.client("demo&one", None);
        assert_eq!(client.log_in(protocol, bench.site.address(OPTIONAL)), bad);
    }
    let device = bench.site.gateway.add_devices("secret", 1).remove(0);
    let who = &device.credentials;
    for certificate in [None, Some(&nobody)] {
        let client = Client {
            username: &who.username,
            password: &who.password,
            ..bench.client(&who.client_id, certificate)
        };
        assert_eq!(client.log_in(Protocol::V5, bench.site.address(OPTIONAL)), 0);
    }
    assert!(!bench.site.gateway.log().contains(&who.password));
}

#[tokio::test]
async fn a_certificate_is_known_by_its_fingerprint_as_long_as_the_catalogue_has_it() {
    let bench = Bench::start().await;
    let gateway = &bench.site.gateway;
    let device = gateway.add_devices("pinned", 1).remove(0);
    let own = bench
        .pki
        .holder("pinned", "a sensor", "", Key::Ecdsa, &bench.client_ca);
    let who = format!("demo/{}", device.name);
    let certificates = |command: &str| {
        let file = own.certificate.to_str().unwrap();
        let place = [
            ("JETWAY_DATABASE_URL", gateway.database_url()),
            ("JETWAY_NATS_URL", &gateway.ready.nats),
        ];
        jetway(&["certificate", command, &who, file], &place);
    };
    let client_id = device.credentials.client_id.clone();
    let told = |client_id: &str| {
        let client = bench.client(client_id, Some(&own));
        client.log_in(Protocol::V5, bench.site.address(WANTED))
    };
    assert_eq!(told(&client_id), 0x86);
    for (command, expected) in [("add", 0), ("remove", 0x86), ("add", 0)] {
        certificates(command);
        eventually("the gateway has heard of it", async || {
            match told(&client_id) {
                code if code == expected => Ok(()),
                code => Err(format!("{command}: {code}")),
            }
        })
        .await;
    }
    assert_eq!(told("demo&another"), 0x87);
}

#[tokio::test]
async fn strangers_are_refused_by_the_handshake() {
    let bench = Bench::start().await;
    let pki = &bench.pki;
    let (good, stolen) = (
        bench.leaf("good", Key::Rsa),
        bench.leaf("stolen", Key::Ecdsa),
    );
    let wrong_ca = pki.holder("wrong", "demo&wrong", "", Key::Ecdsa, &bench.ca);
    let expired = pki.leaf("expired", Key::Ecdsa, &bench.client_ca, -1);
    for (listener, certificate) in [
        (WANTED, Some(&wrong_ca)),
        (WANTED, Some(&expired)),
        (WANTED, None),
        (OPTIONAL, Some(&wrong_ca)),
        (OPTIONAL, Some(&expired)),
    ] {
        let client = bench.client("demo&wrong", certificate);
        for protocol in BOTH {
            let told = client.log_in(protocol, bench.site.address(listener));
            assert_eq!(told, CLOSED, "{listener} {certificate:?}");
        }
        assert!(
            !client
                .mosquitto(bench.site.address(listener))
                .status()
                .unwrap()
                .success()
        );
    }
    // G20: what is revoked while the gateway runs is refused from then on, and nothing else.
    let revoking = bench.site.address(REVOKING);
    let of = |name: &'static str, certificate| {
        bench
            .client(name, Some(certificate))
            .log_in(Protocol::V5, revoking)
    };
    assert_eq!((of("demo&stolen", &stolen), of("demo&good", &good)), (0, 0));
    pki.revocation_list(&bench.client_ca, &[&stolen]);
    bench.site.gateway.hang_up();
    eventually("what is revoked is refused", async || {
        match of("demo&stolen", &stolen) {
            CLOSED => Ok(()),
            told => Err(format!("{told}")),
        }
    })
    .await;
    assert_eq!(of("demo&good", &good), 0);
    // A list that cannot be read never replaces one that can.
    std::fs::write(bench.pki.path("client-ca.crl"), "none").unwrap();
    bench.site.gateway.hang_up();
    eventually("the fault is logged", async || {
        match bench.site.gateway.log().contains("certificate not renewed") {
            true => Ok(()),
            false => Err("it is not".to_owned()),
        }
    })
    .await;
    assert_eq!(of("demo&stolen", &stolen), CLOSED);
}

#[test]
fn settings_that_revoke_nothing_are_faults() {
    let pki = Pki::new();
    let ca = pki.authority("ca");
    let empty = pki.path("empty.crl");
    std::fs::write(&empty, "").unwrap();
    let server = pki.leaf("server", Key::Ecdsa, &ca, 10).settings();
    let tls = format!("listen = '127.0.0.1:0', transport = 'tls', {server}");
    for (more, expected) in [
        (
            format!("client_crl = {empty:?}"),
            "client_crl: expected client_ca",
        ),
        (
            "client_certificate = 'optional'".to_owned(),
            "client_certificate: expected client_ca",
        ),
        (
            format!("client_ca = {:?}, client_crl = {empty:?}", ca.certificate),
            "found none",
        ),
    ] {
        let listeners = format!("[{{ {tls}, {more} }}]");
        let environment = [("JETWAY_LISTENER", listeners.as_str())];
        let (code, said) = crate::support::jetway_fails(&["check"], &environment);
        assert_eq!(code, 78);
        assert!(said.contains(expected), "{said}");
    }
    let listeners = format!(
        "[{{ {tls}, client_ca = {:?}, client_crl = {:?} }}]",
        ca.certificate,
        pki.revocation_list(&ca, &[])
    );
    jetway(&["check"], &[("JETWAY_LISTENER", &listeners)]);
}
