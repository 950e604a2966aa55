//! SCRAM-SHA-256 (RFC 5802, RFC 7677): the messages and the server's side of one exchange. Pure.
//!
//! The user name is the device of the client id, in a form that a client id has, too; the password is the text of the
//! device's secret. There is no channel binding. Names are compared as they are: SASLprep is the client's matter, and
//! its failure a denial.
//!
//! Invariants: any bytes may come in; every denial before the proof depends only on what the client knows anyway; the
//! proof is compared in constant time; no error shows what was sent.

use std::ops::RangeInclusive;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::auth::credentials::Identity;
use crate::auth::denied::Denied;
use crate::auth::exchange::{Mechanism, Step};
use crate::device::{Device, DeviceId, Scope};

/// The name of the Authentication Method.
pub const METHOD: &str = "SCRAM-SHA-256";

/// How many iterations may be configured: from the least of RFC 7677 §4 to what does not yet hold up a node's other
/// connections, about 10 ms.
pub const ITERATIONS: RangeInclusive<u32> = 4_096..=65_536;

/// The longest message of a client: two names of a device twice, all escaped, and a nonce fit many times.
const MESSAGE_BYTES_MAX: usize = 4_096;

type Block = [u8; 32];

/// What a server keeps of a password (RFC 5802 §3). Has no `Debug`: `server` is a secret.
#[derive(Clone)]
pub struct Keys {
    stored: Block,
    server: Block,
}

impl Keys {
    /// Hashes a password, `iterations` times. A fixed cost per iteration, about a tenth of a microsecond.
    #[must_use]
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = salted(password.as_bytes(), salt, iterations);
        Self {
            stored: Sha256::digest(hmac(&salted, b"Client Key")).into(),
            server: hmac(&salted, b"Server Key"),
        }
    }
}

/// What the server asks of the client.
pub struct Challenge {
    /// The server's part of the nonce: printable ASCII without comma, new for each exchange.
    pub nonce: String,
    /// The salt of the keys.
    pub salt: Vec<u8>,
    /// The iterations of the keys.
    pub iterations: u32,
}

/// What a proof is worth.
pub enum Account {
    /// The device is let in, and may act for these sub-devices.
    Enabled(Arc<[DeviceId]>),
    /// The device may not log in, and is told apart from others only behind the proof. This is why.
    Shut(Denied),
    /// Nothing can prove this device, and the keys are of no real secret. This is why.
    Unprovable(Denied),
}

/// The server's side of one exchange.
pub struct Server {
    device: DeviceId,
    account: Account,
    keys: Keys,
    challenge: Challenge,
    state: State,
}

enum State {
    /// Nothing came yet.
    Begun,
    /// A packet without data came, and the client-first message was asked for.
    Asked,
    /// The server-first message is sent.
    Challenged(Challenged),
    /// Accepted or denied.
    Over,
}

/// What the client-final message must repeat or have signed.
struct Challenged {
    /// gs2-header, with its commas.
    header: String,
    /// Both parts of the nonce.
    nonce: String,
    /// client-first-message-bare, comma, server-first-message.
    signed: String,
}

impl Server {
    /// An exchange with the client that says it is `device`. The keys are those of the challenge's salt and iterations.
    #[must_use]
    pub fn new(device: DeviceId, account: Account, keys: Keys, challenge: Challenge) -> Self {
        Self {
            device,
            account,
            keys,
            challenge,
            state: State::Begun,
        }
    }

    /// client-first-message -> server-first-message.
    fn challenge(&self, text: &str) -> Result<(Challenged, Bytes), Error> {
        let first = ClientFirst::parse(text)?;
        // Who acts and as whom: a device acts as itself.
        for name in [Some(first.username), first.authorization]
            .into_iter()
            .flatten()
        {
            let named = Identity::parse("user name", &name).ok();
            if named.is_none_or(|named| named.device != self.device || named.scope != Scope::Full) {
                return Err(Error::Mismatch);
            }
        }
        let Challenge {
            nonce,
            salt,
            iterations,
        } = &self.challenge;
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = STANDARD.encode(salt);
        let message = format!("r={nonce},s={salt},i={iterations}");
        let challenged = Challenged {
            header: first.header,
            nonce,
            signed: format!("{},{message}", first.bare),
        };
        Ok((challenged, message.into()))
    }

    /// client-final-message -> server-final-message, once the proof holds.
    fn prove(&self, challenged: &Challenged, text: &str) -> Result<Bytes, Error> {
        let last = ClientFinal::parse(text)?;
        if last.header != challenged.header.as_bytes() {
            return Err(Error::ChannelBinding);
        }
        if last.nonce != challenged.nonce {
            return Err(Error::Nonce);
        }
        let signed = format!("{},{}", challenged.signed, last.unproved);
        let mut client_key = hmac(&self.keys.stored, signed.as_bytes());
        for (byte, proof) in client_key.iter_mut().zip(last.proof) {
            *byte ^= proof;
        }
        if bool::from(Sha256::digest(client_key).ct_ne(&self.keys.stored)) {
            return Err(Error::Proof);
        }
        let signature = STANDARD.encode(hmac(&self.keys.server, signed.as_bytes()));
        Ok(format!("v={signature}").into())
    }

    /// What the outcome of the proof means for the account.
    fn judge(&self, proved: Result<Bytes, Error>) -> Result<Step, Denied> {
        match (&self.account, proved) {
            // A wrong message is named before the account: it would be wrong for any.
            (Account::Unprovable(denied), Ok(_) | Err(Error::Proof)) => Err(denied.clone()),
            (_, Err(error)) => Err(error.into()),
            (Account::Shut(denied), Ok(_)) => Err(denied.clone()),
            (Account::Enabled(sub_devices), Ok(data)) => Ok(Step::Done {
                device: Device {
                    id: self.device.clone(),
                    scope: Scope::Full,
                    sub_devices: Arc::clone(sub_devices),
                    access: None,
                },
                data,
            }),
        }
    }
}

impl Mechanism for Server {
    fn step(&mut self, data: &[u8]) -> Result<Step, Denied> {
        // Over, unless this step gives the exchange another state.
        match std::mem::replace(&mut self.state, State::Over) {
            State::Begun if data.is_empty() => {
                self.state = State::Asked;
                Ok(Step::Continue(Bytes::new()))
            }
            State::Begun | State::Asked => {
                let (challenged, message) = self.challenge(text(data)?)?;
                self.state = State::Challenged(challenged);
                Ok(Step::Continue(message))
            }
            State::Challenged(challenged) => self.judge(self.prove(&challenged, text(data)?)),
            State::Over => Err(Error::Over.into()),
        }
    }
}

/// client-first-message (RFC 5802 §7).
struct ClientFirst<'a> {
    /// gs2-header, with its commas.
    header: String,
    /// The rest.
    bare: &'a str,
    authorization: Option<String>,
    username: String,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    fn parse(text: &'a str) -> Result<Self, Error> {
        const HEADER: Error = Error::Malformed("n,,");
        let (binding, rest) = text.split_once(',').ok_or(HEADER)?;
        match binding {
            // `y`: the client could bind and believes that the server cannot, which is so.
            "n" | "y" => {}
            _ if binding.starts_with("p=") => return Err(Error::ChannelBinding),
            _ => return Err(HEADER),
        }
        let (authorization, bare) = rest.split_once(',').ok_or(HEADER)?;
        if bare.starts_with("m=") {
            return Err(Error::Extension);
        }
        let mut fields = bare.split(',');
        let this = Self {
            header: format!("{binding},{authorization},"),
            bare,
            authorization: match authorization {
                "" => None,
                name => Some(unescaped(value(Some(name), "a=")?)?),
            },
            username: unescaped(value(fields.next(), "n=")?)?,
            nonce: value(fields.next(), "r=")?,
        };
        // The other bytes that a nonce cannot have separate fields.
        if !this.nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::Malformed("a nonce of printable ASCII"));
        }
        check_extensions(fields)?;
        Ok(this)
    }
}

/// client-final-message (RFC 5802 §7).
struct ClientFinal<'a> {
    /// Everything before the proof and its comma.
    unproved: &'a str,
    /// cbind-input, which is the gs2-header alone.
    header: Vec<u8>,
    nonce: &'a str,
    proof: Block,
}

impl<'a> ClientFinal<'a> {
    fn parse(text: &'a str) -> Result<Self, Error> {
        const PROOF: Error = Error::Malformed("p=<base64 of 32 bytes>");
        let (unproved, proof) = text.rsplit_once(",p=").ok_or(PROOF)?;
        let mut fields = unproved.split(',');
        let this = Self {
            unproved,
            header: decoded(value(fields.next(), "c=")?).ok_or(Error::Malformed("c=<base64>"))?,
            nonce: value(fields.next(), "r=")?,
            proof: decoded(proof)
                .and_then(|proof| proof.try_into().ok())
                .ok_or(PROOF)?,
        };
        check_extensions(fields)?;
        Ok(this)
    }
}

/// A message of the client, whose grammar is in characters.
fn text(data: &[u8]) -> Result<&str, Error> {
    if data.len() > MESSAGE_BYTES_MAX {
        return Err(Error::Malformed("at most 4096 bytes"));
    }
    match std::str::from_utf8(data) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Error::Malformed("UTF-8 without NUL")),
    }
}

/// The value of the attribute of this name, `n=` for example.
fn value<'a>(field: Option<&'a str>, name: &'static str) -> Result<&'a str, Error> {
    field
        .and_then(|field| field.strip_prefix(name))
        .filter(|value| !value.is_empty())
        .ok_or(Error::Malformed(name))
}

/// A saslname in clear: `=2C` is a comma and `=3D` an equals sign, which has no other place in it.
fn unescaped(name: &str) -> Result<String, Error> {
    let mut parts = name.split('=');
    let mut clear = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(Error::Malformed("=2C or =3D in a name")),
        };
        clear.push(sign);
        clear.push_str(rest);
    }
    Ok(clear)
}

/// Extensions that are not mandatory are ignored, if they are any.
fn check_extensions<'a>(mut fields: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let is_extension =
        |field: &str| matches!(field.as_bytes(), [name, b'=', _, ..] if name.is_ascii_alphabetic());
    match fields.all(is_extension) {
        true => Ok(()),
        false => Err(Error::Malformed("<letter>=<value>")),
    }
}

fn decoded(base64: &str) -> Option<Vec<u8>> {
    STANDARD.decode(base64).ok()
}

/// HMAC-SHA-256.
pub(super) fn hmac(key: &[u8], message: &[u8]) -> Block {
    keyed(key)
        .chain_update(message)
        .finalize()
        .into_bytes()
        .into()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// `Hi` of RFC 5802 §2.2: the first block of PBKDF2, which is all that is needed of it.
fn salted(password: &[u8], salt: &[u8], iterations: u32) -> Block {
    let keyed = keyed(password);
    let first = keyed
        .clone()
        .chain_update(salt)
        .chain_update(1_u32.to_be_bytes());
    let mut last: Block = first.finalize().into_bytes().into();
    let mut sum = last;
    for _ in 1..iterations {
        last = keyed
            .clone()
            .chain_update(last)
            .finalize()
            .into_bytes()
            .into();
        for (sum, byte) in sum.iter_mut().zip(last) {
            *sum ^= byte;
        }
    }
    sum
}

/// Why the messages of a client prove nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not the message that is due, with what was expected in it.
    #[error("SCRAM message: expected {0}")]
    Malformed(&'static str),
    /// The client binds to a channel, or what it says of that does not stay the same.
    #[error("SCRAM channel binding: expected none")]
    ChannelBinding,
    /// A mandatory extension.
    #[error("SCRAM extension: expected none that is mandatory")]
    Extension,
    /// The user name, or whom it wants to act as, is another device than that of the client id.
    #[error("SCRAM user name: expected the device of the client id")]
    Mismatch,
    /// Not the nonce of this exchange.
    #[error("SCRAM nonce: expected that of this exchange")]
    Nonce,
    /// The proof was made with another secret or over other messages.
    #[error("SCRAM proof does not fit the device's secret")]
    Proof,
    /// The exchange ended before.
    #[error("SCRAM message: expected none behind the end of the exchange")]
    Over,
}

impl From<Error> for Denied {
    fn from(error: Error) -> Self {
        Self::Scram(error)
    }
}

#[cfg(test)]
#[path = "scram_tests.rs"]
mod tests;
