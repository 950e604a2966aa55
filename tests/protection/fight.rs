//! G19: two clients that fight over one identity are found out, slowed down and reported; so is a device that loses its connection all
//! the time.

use crate::site::Site;
use crate::support::{Protocol, Wire, eventually, packet};

const CONNECTS: usize = 6;

/// CONNACK's code, and the connection.
async fn connect(site: &Site, protocol: Protocol, device: usize) -> (u8, Wire) {
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&packet::connect(protocol, &Site::device(device), 60))
        .await;
    let connack = wire.packet().await.expect("a CONNACK");
    (connack[3], wire)
}

async fn site(block_s: u64) -> Site {
    let flapping = format!("{{ connects_max = {CONNECTS}, block_s = {block_s} }}");
    Site::start(3, &[("JETWAY_PROTECTION_FLAPPING", &flapping)]).await
}

#[tokio::test]
async fn g19_of_clients_that_fight_the_last_one_stays() {
    let site = site(600).await;
    let mut last = None;
    for _ in 0..CONNECTS {
        let (code, wire) = connect(&site, Protocol::V5, 0).await;
        assert_eq!(code, 0);
        last = Some(wire);
    }
    for _ in 0..10 {
        assert_eq!(connect(&site, Protocol::V5, 0).await.0, 0x9F);
        assert_eq!(connect(&site, Protocol::V311, 0).await.0, 3);
    }
    assert!(last.unwrap().ping().await.is_empty(), "it is not replaced");
    assert_eq!(
        connect(&site, Protocol::V5, 1).await.0,
        0,
        "of another device"
    );
    assert_eq!(site.bans().await, ["device P/d0"]);
    assert_eq!(
        site.gateway
            .metric("jetway_blocks_total{kind=\"device\"}")
            .await,
        1.0
    );
    let shown = site.command(&["device", "show", "P", "d0", "--json"]);
    assert!(shown.contains(r#""reason":"flapping""#), "{shown}");
    assert!(shown.contains(r#""count":20"#), "{shown}");
    assert!(site.gateway.log().contains("P/d0"), "it is logged");
    site.command(&["bans", "lift", "device", "P/d0"]);
    assert_eq!(connect(&site, Protocol::V5, 0).await.0, 0);
}

#[tokio::test]
async fn g19_a_device_that_loses_its_connection_all_the_time_has_to_wait_and_is_let_in_again() {
    let site = site(5).await;
    for _ in 0..CONNECTS {
        let (code, mut wire) = connect(&site, Protocol::V311, 0).await;
        assert_eq!(code, 0);
        wire.send(&packet::DISCONNECT).await;
        wire.closed().await;
    }
    assert_eq!(connect(&site, Protocol::V311, 0).await.0, 3);
    eventually("it may come again", async || {
        match connect(&site, Protocol::V311, 0).await.0 {
            0 => Ok(()),
            code => Err(format!("{code}")),
        }
    })
    .await;
}
