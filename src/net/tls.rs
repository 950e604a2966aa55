//! TLS: a server's certificate and key, the CAs of its clients and what they revoked, and their renewal without a restart (G20).
//!
//! What is loaded is used by the handshakes that follow; connections that stand keep what they were made with. Material that
//! cannot be used never replaces material that can.

use std::fs::Metadata;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error as TlsError, RootCertStore, ServerConfig};
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode as _;

use super::config::ClientCertificate;
use crate::telemetry;

/// Where the PEM files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate first, then those that link it to its CA.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The CAs whose client certificates are let in; without it clients need none.
    pub client_ca: Option<PathBuf>,
    /// What these CAs revoked.
    pub client_crl: Option<PathBuf>,
    /// Whether clients need a certificate, where there is a CA for it.
    pub client_certificate: ClientCertificate,
}

/// What handshakes use.
#[derive(Debug, Clone)]
pub struct Material {
    config: Arc<ServerConfig>,
    /// Unix seconds at which the first certificate of the chain ends.
    expires_unix_s: u64,
    /// Unix seconds at which the first of the revocation lists should have been replaced.
    lists_due_unix_s: Option<u64>,
}

/// What a file looked like; a renewed one looks otherwise.
type Stamp = Option<(SystemTime, u64)>;

impl Files {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Every fault, as `key: what was expected`.
    pub fn load(&self) -> Result<Material, Vec<String>> {
        let mut faults = Vec::new();
        let mut note = |key: &str, path: &Path, fault: &dyn std::fmt::Display| {
            faults.push(format!("{key}: {}: {fault}", path.display()));
        };
        let chain = read_certificates(&self.certificate)
            .map_err(|fault| note("certificate", &self.certificate, &fault));
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            note(
                "key",
                &self.key,
                &format!("expected a private key in PEM: {error}"),
            );
        });
        let lists = match &self.client_crl {
            None => Ok(Vec::new()),
            Some(path) => read_lists(path).map_err(|fault| note("client_crl", path, &fault)),
        };
        let roots = self
            .client_ca
            .as_ref()
            .map(|path| roots(path).map_err(|fault| note("client_ca", path, &fault)));
        let (Ok(chain), Ok(key), Ok(lists), Ok(roots)) = (chain, key, lists, roots.transpose())
        else {
            return Err(faults);
        };
        let expires_unix_s = expires_unix_s(&chain).map_err(|fault| {
            vec![format!(
                "certificate: {}: {fault}",
                self.certificate.display()
            )]
        })?;
        let lists_due_unix_s = lists_due_unix_s(&lists);
        let verifier = roots.map(|roots| self.client_verifier(roots, lists));
        let config = server_config(chain, key, verifier.transpose()?).map_err(|error| {
            let key = self.key.display();
            vec![match error {
                TlsError::InconsistentKeys(_) => {
                    format!("key: {key}: expected the key of the certificate")
                }
                error => format!("key: {key}: expected a certificate and key for TLS: {error}"),
            }]
        })?;
        Ok(Material {
            config: Arc::new(config),
            expires_unix_s,
            lists_due_unix_s,
        })
    }

    fn client_verifier(
        &self,
        roots: RootCertStore,
        lists: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<Arc<dyn ClientCertVerifier>, Vec<String>> {
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(roots, provider).with_crls(lists);
        if self.client_certificate == ClientCertificate::Optional {
            builder = builder.allow_unauthenticated();
        }
        let (key, path) = match &self.client_crl {
            Some(path) => ("client_crl", Some(path)),
            None => ("client_ca", self.client_ca.as_ref()),
        };
        let path = path
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        builder.build().map_err(|error| {
            vec![format!(
                "{key}: {path}: expected CA certificates and lists of theirs: {error}"
            )]
        })
    }

    fn stamps(&self) -> [Stamp; 4] {
        let stamp = |path: &Path| {
            let of = |metadata: Metadata| Some((metadata.modified().ok()?, metadata.len()));
            std::fs::metadata(path).ok().and_then(of)
        };
        [
            stamp(&self.certificate),
            stamp(&self.key),
            self.client_ca.as_deref().and_then(stamp),
            self.client_crl.as_deref().and_then(stamp),
        ]
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let expected = |error| format!("expected certificates in PEM: {error}");
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(expected)?
        .collect::<Result<_, _>>()
        .map_err(expected)?;
    match chain.is_empty() {
        false => Ok(chain),
        true => Err("expected certificates in PEM, found none".to_owned()),
    }
}

fn read_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let expected = |error| format!("expected certificate revocation lists in PEM: {error}");
    let lists: Vec<_> = CertificateRevocationListDer::pem_file_iter(path)
        .map_err(expected)?
        .collect::<Result<_, _>>()
        .map_err(expected)?;
    // No list at all would revoke nothing.
    match lists.is_empty() {
        false => Ok(lists),
        true => Err("expected certificate revocation lists in PEM, found none".to_owned()),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| format!("expected CA certificates: {error}"))?;
    }
    Ok(roots)
}

/// None for lists that do not say.
fn lists_due_unix_s(lists: &[CertificateRevocationListDer<'_>]) -> Option<u64> {
    let due = |list: &CertificateRevocationListDer<'_>| {
        let list = CertificateList::from_der(list).ok()?;
        Some(list.tbs_cert_list.next_update?.to_unix_duration().as_secs())
    };
    lists.iter().filter_map(due).min()
}

fn expires_unix_s(chain: &[CertificateDer<'_>]) -> Result<u64, String> {
    let ends = chain.iter().map(|certificate| {
        x509_cert::Certificate::from_der(certificate)
            .map(|parsed| {
                parsed
                    .tbs_certificate
                    .validity
                    .not_after
                    .to_unix_duration()
                    .as_secs()
            })
            .map_err(|error| format!("expected X.509 certificates: {error}"))
    });
    let ends: Vec<u64> = ends.collect::<Result<_, _>>()?;
    Ok(ends.into_iter().min().unwrap_or(0))
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    match verifier {
        None => {
            let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
            // A fleet that comes back after an outage resumes without a signature each, and without memory here.
            config.ticketer = ring::Ticketer::new()?;
            Ok(config)
        }
        Some(verifier) => {
            let mut config = builder
                .with_client_cert_verifier(verifier)
                .with_single_cert(chain, key)?;
            // A resumed session would not be verified again: no resumption.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            Ok(config)
        }
    }
}

/// Two for each thread: one is computed while the next one is woken.
fn turns() -> usize {
    2 * std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// What one listener uses now, and where the next comes from.
#[derive(Debug)]
pub struct Tls {
    /// The listener's address or path: what logs and the metric call it.
    pub listener: String,
    files: Files,
    current: RwLock<Current>,
    /// Handshakes that are computed at the same time.
    turns: Semaphore,
}

#[derive(Debug)]
struct Current {
    material: Material,
    /// Of the files when they were last read, whatever came of it.
    stamps: [Stamp; 4],
}

impl Tls {
    /// Loads a listener's material for the first time.
    ///
    /// # Errors
    /// Every fault, as `key: what was expected`.
    pub fn new(listener: String, files: Files) -> Result<Self, Vec<String>> {
        // Looked at before they are read: a change in between is seen the next time.
        let stamps = files.stamps();
        let material = files.load()?;
        let tls = Self {
            listener,
            files,
            current: RwLock::new(Current { material, stamps }),
            turns: Semaphore::new(turns()),
        };
        tls.warn_if_expired();
        Ok(tls)
    }

    /// Returns when a handshake may be computed; to be dropped as soon as it waits for its peer.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed, so there is always one.
        self.turns.acquire().await.ok()
    }

    /// What the next handshake uses.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.read().material.config)
    }

    /// Seconds until the first certificate of the chain ends; negative once it has.
    #[must_use]
    pub fn expiry_s(&self) -> i64 {
        let now = i64::try_from(telemetry::now().as_secs()).unwrap_or(i64::MAX);
        i64::try_from(self.read().material.expires_unix_s).unwrap_or(i64::MAX) - now
    }

    /// Whether a file is not what it was when it was last read.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.files.stamps() != self.read().stamps
    }

    /// Reads the files again and uses what is in them.
    ///
    /// # Errors
    /// Every fault; what was in use stays in use.
    pub fn reload(&self) -> Result<(), Vec<String>> {
        let stamps = self.files.stamps();
        let loaded = self.files.load();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.stamps = stamps;
        current.material = loaded?;
        drop(current);
        self.warn_if_expired();
        Ok(())
    }

    fn warn_if_expired(&self) {
        if self.expiry_s() <= 0 {
            tracing::warn!(listener = self.listener, "certificate has expired");
        }
        let due = self.read().material.lists_due_unix_s;
        if due.is_some_and(|due| due <= telemetry::now().as_secs()) {
            let listener = &self.listener;
            tracing::warn!(
                listener,
                "a certificate revocation list is overdue; it stays in force"
            );
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}
