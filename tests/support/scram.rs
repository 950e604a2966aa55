//! The client's side of SCRAM-SHA-256, written from RFC 5802 and RFC 7677 alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// One exchange of a client that has the password.
#[derive(Debug, Clone)]
pub struct Scram {
    password: String,
    bare: String,
}

impl Scram {
    /// A client of this name, which has no `=` and no `,`.
    pub fn new(username: &str, password: &str) -> Self {
        Self {
            password: password.to_owned(),
            bare: format!("n={username},r=fyko+d2lbbFgONRv9qkxdawL"),
        }
    }

    /// client-first-message.
    pub fn first(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// client-final-message, and the server-final-message of a server that has the same password.
    pub fn last(&self, server_first: &str) -> (String, String) {
        let fields: Vec<&str> = server_first.split(',').collect();
        let [nonce, salt, iterations] = fields[..] else {
            panic!("{server_first}");
        };
        let nonce = nonce.strip_prefix("r=").unwrap();
        let salt = STANDARD.decode(salt.strip_prefix("s=").unwrap()).unwrap();
        let iterations = iterations.strip_prefix("i=").unwrap().parse().unwrap();
        let salted = salted(self.password.as_bytes(), &salt, iterations);
        let unproved = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{unproved}", self.bare);
        let client_key = mac(&salted, b"Client Key");
        let signature = mac(&Sha256::digest(&client_key), message.as_bytes());
        let proof = STANDARD.encode(xor(&client_key, &signature));
        let server_key = mac(&salted, b"Server Key");
        let server_signature = STANDARD.encode(mac(&server_key, message.as_bytes()));
        (
            format!("{unproved},p={proof}"),
            format!("v={server_signature}"),
        )
    }
}

fn salted(password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
    let mut last = mac(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut sum = last.clone();
    for _ in 1..iterations {
        last = mac(password, &last);
        sum = xor(&sum, &last);
    }
    sum
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(message).finalize().into_bytes().to_vec()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}
