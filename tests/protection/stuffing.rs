//! G19: credential stuffing. Who guesses is blocked before the authentication is asked, by address, user name and client identifier;
//! nobody who is connected notices.

use crate::site::Site;
use crate::support::{Credentials, Protocol, Wire, eventually, jetway_fails};

const ATTACKER: &str = "192.0.2.66";
const DEVICE: &str = "192.0.2.7";
/// CONNACK: banned, and bad user name or password.
const BANNED: u8 = 0x8A;
const WRONG: u8 = 0x86;

/// The right names with a wrong token.
fn guessed(number: usize) -> Credentials {
    let mut guessed = Site::device(number);
    guessed.password = format!("{};hmacsha256", "00".repeat(32));
    guessed
}

/// As another one each time, so that user name and client identifier say nothing.
async fn stuff(site: &Site, from: &str, count: usize) -> Vec<u8> {
    let mut codes = Vec::new();
    for number in 0..count {
        codes.push(site.connect(from, Protocol::V5, &guessed(number)).await.0);
    }
    codes
}

async fn denials(site: &Site) -> f64 {
    site.gateway
        .metric("jetway_auth_denied_total{reason=\"token\"}")
        .await
}

#[tokio::test]
async fn g19_an_address_that_guesses_is_blocked_before_the_authentication() {
    const ALLOWED: usize = 10;
    let logins = format!("{{ address_failures_max = {ALLOWED}, block_s = 600 }}");
    let site = Site::start(100, &[("JETWAY_PROTECTION_LOGINS", &logins)]).await;
    let (code, mut connected) = site
        .connect(ATTACKER, Protocol::V5, &Site::device(99))
        .await;
    assert_eq!(code, 0);
    let codes = stuff(&site, ATTACKER, 50).await;
    assert_eq!(codes[..ALLOWED], [WRONG; ALLOWED]);
    assert_eq!(codes[ALLOWED..], [BANNED; 50 - ALLOWED]);
    assert_eq!(denials(&site).await, ALLOWED as f64, "not asked any more");
    site.refuses("blocked", (50 - ALLOWED) as f64).await;
    // Not even with what is right; 3.1.1 is told "not authorized".
    let right = Site::device(98);
    assert_eq!(site.connect(ATTACKER, Protocol::V5, &right).await.0, BANNED);
    assert_eq!(site.connect(ATTACKER, Protocol::V311, &right).await.0, 5);
    // Whoever was connected from there stays, and the devices that were guessed come in from elsewhere.
    assert!(connected.ping().await.is_empty());
    for number in 0..5 {
        let device = Site::device(number);
        assert_eq!(site.connect(DEVICE, Protocol::V5, &device).await.0, 0);
    }
    assert_eq!(site.bans().await, [format!("address {ATTACKER}")]);
    let lift = format!("/bans?kind=address&value={ATTACKER}");
    assert_eq!(site.ask("DELETE", &lift).await, 200);
    assert_eq!(site.ask("DELETE", &lift).await, 404);
    assert_eq!(site.connect(ATTACKER, Protocol::V5, &right).await.0, 0);
}

#[tokio::test]
async fn g19_a_name_that_is_guessed_from_everywhere_is_blocked_and_no_other() {
    let logins = "{ username_failures_max = 8, client_id_failures_max = 4, block_s = 600 }";
    let site = Site::start(4, &[("JETWAY_PROTECTION_LOGINS", logins)]).await;
    let from = |number: usize| format!("198.51.100.{number}");
    for number in 0..4 {
        let code = site
            .connect(&from(number), Protocol::V5, &guessed(0))
            .await
            .0;
        assert_eq!(code, WRONG);
    }
    let code = site
        .connect(&from(9), Protocol::V5, &Site::device(0))
        .await
        .0;
    assert_eq!(code, BANNED);
    // A user name has a threshold of its own, whatever client identifier comes with it.
    let user = Site::device(1).username;
    for number in 0..10 {
        let who = Credentials {
            client_id: format!("P&x{number}"),
            username: user.clone(),
            password: guessed(1).password,
        };
        let code = site.connect(&from(number), Protocol::V5, &who).await.0;
        assert_eq!(code == BANNED, number >= 8, "{number}: {code:#x}");
    }
    let expected = ["client_id P&d0".to_owned(), format!("username {user}")];
    assert_eq!(site.bans().await, expected);
    assert_eq!(
        site.connect(DEVICE, Protocol::V5, &Site::device(2)).await.0,
        0
    );
    // The command line sees and lifts what the operator's port does.
    let listed = site.command(&["bans", "ls"]);
    assert!(listed.contains("\tclient_id\tP&d0\tlogins\t"), "{listed}");
    site.command(&["bans", "lift", "client_id", "P&d0"]);
    let nats = site.nats.url();
    let again = ["bans", "lift", "client_id", "P&d0"];
    jetway_fails(&again, &[("JETWAY_NATS_URL", &nats)]);
    assert_eq!(
        site.connect(DEVICE, Protocol::V5, &Site::device(0)).await.0,
        0
    );
    let shown = site.command(&["device", "show", "P", "d0"]);
    for reason in ["\tlogin\t4\t", "\tblocked\t1\t"] {
        assert!(shown.contains(reason), "{shown}");
    }
}

#[tokio::test]
async fn g19_a_block_ends_by_itself_and_a_right_login_clears_what_failed() {
    let logins = "{ client_id_failures_max = 3, block_s = 5 }";
    let site = Site::start(2, &[("JETWAY_PROTECTION_LOGINS", logins)]).await;
    for _ in 0..5 {
        for _ in 0..2 {
            assert_eq!(
                site.connect(DEVICE, Protocol::V5, &guessed(0)).await.0,
                WRONG
            );
        }
        assert_eq!(
            site.connect(DEVICE, Protocol::V5, &Site::device(0)).await.0,
            0
        );
    }
    for _ in 0..3 {
        assert_eq!(
            site.connect(DEVICE, Protocol::V5, &guessed(1)).await.0,
            WRONG
        );
    }
    let device = Site::device(1);
    assert_eq!(site.connect(DEVICE, Protocol::V5, &device).await.0, BANNED);
    eventually("the block is over", async || {
        match site.connect(DEVICE, Protocol::V5, &device).await.0 {
            0 => Ok(()),
            code => Err(format!("{code:#x}")),
        }
    })
    .await;
    assert!(site.bans().await.is_empty());
}

#[tokio::test]
async fn g19_an_operator_blocks_on_all_nodes_and_cuts_nobody_off() {
    let site = Site::start(2, &[]).await;
    let mut connected = Wire::login(Protocol::V5, site.gateway.mqtt(), &Site::device(0), 60).await;
    site.command(&["bans", "add", "device", "P/d0", "--seconds", "600"]);
    assert_eq!(
        site.ask("POST", "/bans?kind=address&value=192.0.2.66&seconds=600")
            .await,
        200
    );
    assert_eq!(
        site.ask("POST", "/bans?kind=address&value=192.0.2.66")
            .await,
        400
    );
    assert_eq!(
        site.ask("POST", "/bans?kind=face&value=x&seconds=1").await,
        400
    );
    assert_eq!(site.bans().await, ["address 192.0.2.66", "device P/d0"]);
    assert_eq!(
        site.connect(DEVICE, Protocol::V5, &Site::device(0)).await.0,
        BANNED
    );
    assert_eq!(
        site.connect(ATTACKER, Protocol::V5, &Site::device(1))
            .await
            .0,
        BANNED
    );
    assert!(connected.ping().await.is_empty(), "it stays connected");
}
