//! Devices that are shut out or changed while they are connected, and what two gateways with one catalogue make of it.

use std::net::SocketAddr;

use serde_json::Value;

use crate::site::{BOTH, Registered, SECRET, Site};
use crate::support::{
    Connect, Credentials, Device, FaultProxy, Gateway, Protocol, eventually, jetway, within,
};

/// MQTT 5: administrative action.
const ADMINISTRATIVE_ACTION: u8 = 0x98;
/// MQTT 5: server unavailable.
const UNAVAILABLE: u8 = 0x88;
const NEW_SECRET: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM=";
/// Whoever tries again and again until a notice has come is not blocked for it.
pub(crate) const PATIENT: [(&str, &str); 2] = [
    (
        "JETWAY_PROTECTION_LOGINS",
        "{ client_id_failures_max = 0, username_failures_max = 0 }",
    ),
    ("JETWAY_PROTECTION_FLAPPING", "{ connects_max = 0 }"),
];

/// Runs `jetway device VERB PRODUCT NAME …`, and tells gateways.
fn device(site: &Site, verb: &str, who: &Registered, more: &[&str]) -> String {
    let command = [&["device", verb, &who.product, &who.name], more].concat();
    run(site, &command)
}

fn run(site: &Site, command: &[&str]) -> String {
    let (database, nats) = (site.database_url(), site.nats.url());
    let environment = [
        ("JETWAY_DATABASE_URL", database.as_str()),
        ("JETWAY_NATS_URL", nats.as_str()),
    ];
    jetway(command, &environment)
}

pub(crate) async fn log_in(gateway: &Gateway, credentials: &Credentials) -> Result<Device, u8> {
    let connect = Connect::new(Protocol::V5, gateway.mqtt(), credentials);
    let connected = Box::pin(Device::connect_with(connect)).await;
    connected.map_err(|closed| closed.reason.unwrap())
}

/// Waits until a gateway refuses the device for good: a login that a notice overtakes is to be begun anew.
async fn refused(gateway: &Gateway, credentials: &Credentials) {
    eventually("the device is refused", async || {
        match log_in(gateway, credentials).await {
            Ok(_device) => Err("it is let in".to_owned()),
            Err(UNAVAILABLE) => Err("it is to try again".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
}

/// Waits until a gateway lets the device in.
pub(crate) async fn let_in(gateway: &Gateway, credentials: &Credentials) -> Device {
    eventually("the device is let in", async || {
        let device = log_in(gateway, credentials).await;
        device.map_err(|reason| format!("{reason:#x}"))
    })
    .await
}

/// Why this device was disconnected last.
async fn reason(site: &Site, who: &Registered) -> String {
    let backend = site.backend().await;
    let events = who.subject("application.device") + ".status.disconnected";
    let events = backend.wait_for("APPLICATION", &events, 1).await;
    let event: Value = serde_json::from_str(events.last().unwrap().text()).unwrap();
    event["data"]["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn who_is_shut_out_is_disconnected_on_whichever_node() {
    let site = Site::start(&PATIENT).await;
    let second = site.further_gateway().await;
    let neighbour = site.device();
    let mut neighbour = site.connect(Protocol::V5, &neighbour).await;
    for (verb, more) in [
        ("disable", &[][..]),
        ("block", &[]),
        ("set-state", &["blocked"]),
        ("remove", &[]),
        ("set-secret", &["--secret", NEW_SECRET]),
    ] {
        for (gateway, protocol) in [&site.gateway, &second].into_iter().zip(BOTH) {
            let who = site.device();
            let mut connected = Device::connect(protocol, gateway.mqtt(), &who.credentials).await;
            device(&site, verb, &who, more);
            let closed = connected.closed().await;
            let told = (protocol == Protocol::V5).then_some(ADMINISTRATIVE_ACTION);
            assert_eq!(closed.reason, told, "{verb}");
            assert_eq!(reason(&site, &who).await, "revoked", "{verb}");
            for gateway in [&site.gateway, &second] {
                refused(gateway, &who.credentials).await;
                if verb == "set-secret" {
                    let new = Credentials::new(&who.product, &who.name, NEW_SECRET);
                    let_in(gateway, &new).await;
                }
            }
        }
    }
    let acked = neighbour.publish_acked("$thing/up/property/flows/d0", "{}");
    assert_eq!(acked.await, 0, "the neighbour stays");
    let ended = r#"jetway_disconnects_total{reason="revoked"}"#;
    assert_eq!(site.gateway.metric(ended).await, 5.0);
}

/// Nobody tells a gateway what it did not hear.
#[tokio::test]
async fn who_was_shut_out_while_nats_was_away_is_disconnected_when_it_is_back() {
    // Longer than NATS is away.
    let site = Site::start(&[("JETWAY_OWNERSHIP_LEASE_S", "60")]).await;
    let address = SocketAddr::from(([127, 0, 0, 1], site.nats.port()));
    let nats = FaultProxy::start(address).await;
    let gateway = site.gateway_at(nats.url()).await;
    let neighbour = site.device();
    let mut stays = log_in(&gateway, &neighbour.credentials).await.unwrap();
    let mut shut_out = Vec::new();
    for verb in ["block", "disable", "remove"] {
        let who = site.device();
        let connected = log_in(&gateway, &who.credentials).await.unwrap();
        shut_out.push((verb, who, connected));
    }
    nats.refuse(true);
    nats.cut();
    for (verb, who, _) in &shut_out {
        device(&site, verb, who, &[]);
    }
    nats.refuse(false);
    for (verb, _, mut connected) in shut_out {
        let closed = within("the end of the connection", connected.closed()).await;
        assert_eq!(closed.reason, Some(ADMINISTRATIVE_ACTION), "{verb}");
    }
    assert_eq!(stays.publish_acked(&neighbour.reports(), "{}").await, 0);
}

#[tokio::test]
async fn what_gateways_remember_is_forgotten_on_all_of_them() {
    let remembering = [
        ("JETWAY_AUTH_CACHE_TTL_MS", "3600000"),
        ("JETWAY_AUTH_CACHE_UNKNOWN_TTL_MS", "3600000"),
    ];
    let site = Site::start(&[remembering, PATIENT].concat()).await;
    let second = site.further_gateway().await;
    let both = [&site.gateway, &second];
    let who = site.device();
    for gateway in both {
        let_in(gateway, &who.credentials).await;
    }
    for (verb, is_let_in) in [("disable", false), ("enable", true), ("block", false)] {
        device(&site, verb, &who, &[]);
        for gateway in both {
            match is_let_in {
                true => drop(let_in(gateway, &who.credentials).await),
                false => refused(gateway, &who.credentials).await,
            }
        }
    }
    // Unknown ones, one by one and many at once.
    let new = |name: &str| Registered::new("new", name);
    for (added, more, name) in [("one", &[][..], "one"), ("d", &["--count", "3"], "d2")] {
        let who = new(name);
        for gateway in both {
            refused(gateway, &who.credentials).await;
        }
        device(
            &site,
            "add",
            &new(added),
            &[more, &["--secret", SECRET]].concat(),
        );
        for gateway in both {
            let_in(gateway, &who.credentials).await;
        }
    }
}

#[tokio::test]
async fn a_certificate_that_is_taken_away_ends_the_connection() {
    let site = Site::start(&[]).await;
    let who = site.device();
    let id = format!("{}/{}", who.product, who.name);
    let fingerprint = "ab".repeat(32);
    let change = |verb| {
        run(
            &site,
            &["certificate", verb, &id, "--fingerprint", &fingerprint],
        )
    };
    let mut connected = site.connect(Protocol::V5, &who).await;
    change("add");
    assert_eq!(
        connected.publish_acked(&who.reports(), "{}").await,
        0,
        "a further one changes nothing"
    );
    change("remove");
    assert_eq!(connected.closed().await.reason, Some(ADMINISTRATIVE_ACTION));
}
