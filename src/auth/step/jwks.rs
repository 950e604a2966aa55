//! The keys that tokens are verified with: a JSON Web Key Set (RFC 7517) from a file or a URL, read again from time to time.
//!
//! One task reads; logins look at what it read last, and may ask for a new look when they meet a key that is not there.
//!
//! Invariants: keys stay in use until others could be read; however many logins ask, one look is under way, and there is at most one
//! in [`COOL_DOWN`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt as _;
use hyper::Uri;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::net::post;

/// Between two looks that logins ask for; also the wait behind one that failed.
const COOL_DOWN: Duration = Duration::from_secs(10);
/// How long a URL may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// The algorithm of this name; the ones with shared secrets, and none at all, are not among them.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A public key, which verifies by one algorithm only.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key as RFC 7517 and 7518 write it; other members are not looked at.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// All keys of a set that can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// Reads a set; keys of other kinds or for other purposes are left out.
    ///
    /// # Errors
    /// What was expected, when there is none that can be used.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        let set: Set = serde_json::from_slice(json)
            .map_err(|error| format!("expected a JSON Web Key Set: {error}"))?;
        let keys = set.keys.into_iter().filter_map(|key| {
            let key: Jwk = serde_json::from_value(key).ok()?;
            let material = key.material()?;
            Some(Key {
                id: key.kid,
                material,
            })
        });
        let keys: Vec<Key> = keys.collect();
        match keys.is_empty() {
            false => Ok(Self(keys)),
            true => Err("expected a key for RS256, ES256 or EdDSA, found none".to_owned()),
        }
    }

    /// Whether a key of this id and algorithm made the signature; none when there is no such key. A token without a key's id is
    /// good if there is one key that could be meant.
    pub(super) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let mut fitting = self.0.iter().filter(|key| {
            key.material.algorithm() == algorithm && (id.is_none() || key.id.as_deref() == id)
        });
        let key = fitting.next()?;
        match fitting.next() {
            Some(_) => None,
            None => Some(key.material.verify(message, signature)),
        }
    }
}

impl Jwk {
    fn material(&self) -> Option<Material> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
        let exactly = |text| bytes(text).filter(|bytes: &Vec<u8>| bytes.len() == 32);
        // ring takes numbers without leading zeros.
        let number = |text| {
            let bytes = bytes(text)?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            Some(bytes.get(zeros..)?.to_vec())
        };
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Material::Rsa {
                n: number(&self.n)?,
                e: number(&self.e)?,
            },
            // An uncompressed point (SEC 1 §2.3.3).
            ("EC", Some("P-256")) => {
                Material::P256([&[4], &*exactly(&self.x)?, &*exactly(&self.y)?].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(exactly(&self.x)?),
            _ => return None,
        };
        let is_for_signatures = self
            .purpose
            .as_deref()
            .is_none_or(|purpose| purpose == "sig");
        let algorithm = self.alg.as_deref().map(Algorithm::named);
        let fits = algorithm.is_none_or(|algorithm| algorithm == Some(material.algorithm()));
        (is_for_signatures && fits).then_some(material)
    }
}

impl Material {
    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Self::Ed25519(point) => {
                UnparsedPublicKey::new(&ED25519, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// Where keys are.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    Url(Uri),
}

impl Source {
    /// Reads the keys that are there now.
    ///
    /// # Errors
    /// What was expected.
    async fn read(&self) -> Result<KeySet, String> {
        let json = match self {
            Self::File(path) => tokio::fs::read(path)
                .await
                .map_err(|error| format!("{}: {error}", path.display()))?,
            Self::Url(uri) => match post::get(uri, ANSWER_MAX).await {
                Ok((200, body)) => body.to_vec(),
                Ok((status, _)) => return Err(format!("expected status 200, found {status}")),
                Err(error) => return Err(error.to_string()),
            },
        };
        KeySet::parse(&json)
    }
}

/// What was read last.
#[derive(Debug, Clone, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// When the source was looked at last, and whether keys were found then.
    looked: Option<(Instant, bool)>,
}

/// The keys as logins see them.
#[derive(Debug, Clone)]
pub(super) struct Keyring {
    state: watch::Receiver<State>,
    wanted: Arc<Notify>,
}

/// What came of looking for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verified {
    Yes,
    No,
    /// There is no such key, and the source said so lately.
    NoKey,
    /// There is no such key here, and the source does not say whether there is one.
    Unknown,
}

impl Keyring {
    /// Looks for the key with which this is to be verified, and asks the source again if it is not there.
    pub(super) async fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Verified {
        let mut state = self.state.clone();
        loop {
            let seen = state.borrow_and_update().clone();
            let keys = seen.keys.as_ref();
            let found = keys.and_then(|keys| keys.verify(id, algorithm, message, signature));
            match (found, seen.looked) {
                (Some(true), _) => return Verified::Yes,
                (Some(false), _) => return Verified::No,
                (None, Some((at, found))) if at.elapsed() < COOL_DOWN => {
                    return match found {
                        true => Verified::NoKey,
                        false => Verified::Unknown,
                    };
                }
                (None, _) => {
                    self.wanted.notify_one();
                    if state.changed().await.is_err() {
                        return Verified::Unknown;
                    }
                }
            }
        }
    }
}

/// The task that reads.
#[derive(Debug)]
pub struct Reading {
    source: Source,
    refresh: Duration,
    state: watch::Sender<State>,
    wanted: Arc<Notify>,
}

impl Reading {
    pub(super) fn new(source: Source, refresh: Duration) -> (Self, Keyring) {
        let (sender, state) = watch::channel(State::default());
        let wanted = Arc::<Notify>::default();
        let reading = Self {
            source,
            refresh,
            state: sender,
            wanted: Arc::clone(&wanted),
        };
        (reading, Keyring { state, wanted })
    }

    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.read_on()).await;
    }

    async fn read_on(self) {
        loop {
            let found = self.source.read().await;
            let is_ok = found.is_ok();
            if let Err(fault) = &found {
                let has_keys = self.state.borrow().keys.is_some();
                tracing::warn!(
                    fault,
                    has_keys,
                    "keys of tokens not read; old ones stay in use"
                );
            }
            self.state.send_modify(|state| {
                state.looked = Some((Instant::now(), is_ok));
                if let Ok(keys) = found {
                    state.keys = Some(Arc::new(keys));
                }
            });
            // Who wanted this look while it was under way has had it.
            let _had_it: Option<()> = self.wanted.notified().now_or_never();
            let wait = match is_ok {
                true => self.refresh,
                false => self.refresh.min(COOL_DOWN),
            };
            // Until it is time, or somebody wants it, whose last look is old enough.
            drop(timeout(wait, self.wanted.notified()).await);
        }
    }
}

#[cfg(test)]
#[path = "jwks_tests.rs"]
mod tests;
