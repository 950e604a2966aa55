//! Step `device` held to an expiry, and to user names that are good for one login.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::site::{Client, Site};
use crate::support::{Protocol, jetway};

const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";

fn password(username: &str) -> String {
    let key = STANDARD.decode(SECRET).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(username.as_bytes());
    let token: String = (mac.finalize().into_bytes().iter())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{token};hmacsha256")
}

#[tokio::test]
async fn a_user_name_is_good_once_and_until_it_expires() {
    let policy = "{ check_expiry = true, expiry_max_s = 600, once = true }";
    let site = Site::start(&[("JETWAY_AUTH_DEVICE", policy)]).await;
    let place = [("JETWAY_DATABASE_URL", site.gateway.database_url())];
    let add = ["device", "add", "demo", "strict", "--secret", SECRET];
    jetway(&add, &place);
    let now_s = jetway::telemetry::now_unix_ms() / 1_000;
    let told = |protocol, connid: &str, expiry_s: u64| {
        let username = format!("demo&strict;12010126;{connid};{expiry_s}");
        let client = Client {
            client_id: "demo&strict",
            username: &username,
            password: &password(&username),
            ..Client::default()
        };
        client.log_in(protocol, site.gateway.mqtt())
    };
    for (protocol, bad) in [(Protocol::V311, 4), (Protocol::V5, 0x86)] {
        let of = |name: &str| format!("{name}{bad}");
        assert_eq!(told(protocol, &of("A"), now_s + 300), 0);
        assert_eq!(told(protocol, &of("A"), now_s + 300), bad);
        assert_eq!(told(protocol, &of("A"), now_s + 301), 0);
        assert_eq!(told(protocol, &of("B"), now_s + 300), 0);
        assert_eq!(told(protocol, &of("C"), now_s - 1), bad);
        assert_eq!(told(protocol, &of("D"), now_s + 3_600), bad);
    }
}
