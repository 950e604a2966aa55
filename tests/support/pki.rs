//! Certificates made by openssl: certificate authorities, and chains for servers and clients.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::tools::succeed;

/// A folder of PEM files.
pub struct Pki {
    folder: TempDir,
}

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Rsa,
    Ecdsa,
}

/// Certificate chain and key, as PEM files.
#[derive(Debug, Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Pki {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a CA of that name: `<name>.pem`.
    pub fn authority(&self, name: &str) -> Pair {
        let pair = self.pair(name);
        let command = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN={name} -keyout {} -out {}",
            pair.key.display(),
            pair.certificate.display()
        );
        openssl(&command);
        pair
    }

    /// Makes the certificate of a server at 127.0.0.1, or of a client of that name, valid for so many days from now.
    pub fn leaf(&self, name: &str, key: Key, issuer: &Pair, days: i32) -> Pair {
        let extensions = "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n";
        self.issue(name, name, key, issuer, days, extensions)
    }

    /// [`leaf`](Self::leaf) with an authority in between, whose certificate is in the chain.
    pub fn chained_leaf(&self, name: &str, key: Key, root: &Pair) -> Pair {
        let between = self.intermediate(&format!("{name}-issuer"), key, root);
        let leaf = self.leaf(name, key, &between, 10);
        let chain = [&leaf.certificate, &between.certificate].map(|path| read(path));
        std::fs::write(&leaf.certificate, chain.concat()).unwrap();
        leaf
    }

    /// An authority that another one answers for.
    pub fn intermediate(&self, name: &str, key: Key, root: &Pair) -> Pair {
        let extensions = "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n";
        self.issue(name, name, key, root, 20, extensions)
    }

    /// The certificate of a client with this common name and further extensions; its files are called `file`.
    pub fn holder(
        &self,
        file: &str,
        name: &str,
        extensions: &str,
        key: Key,
        issuer: &Pair,
    ) -> Pair {
        let extensions = format!("basicConstraints=CA:FALSE\n{extensions}");
        self.issue(file, name, key, issuer, 10, &extensions)
    }

    /// Makes `<name of the issuer's files>.crl`: the list of what it revoked, these certificates among others before.
    pub fn revocation_list(&self, issuer: &Pair, revoked: &[&Pair]) -> PathBuf {
        let list = issuer.certificate.with_extension("crl");
        let settings = issuer.certificate.with_extension("cnf");
        let (index, number) = (list.with_extension("index"), list.with_extension("number"));
        if !settings.exists() {
            let text = format!(
                "[ca]\ndefault_ca = it\n[it]\ndatabase = {}\ncrlnumber = {}\ncertificate = {}\nprivate_key = {}\n\
                 default_md = sha256\ndefault_crl_days = 10\ncrl_extensions = more\n[more]\nauthorityKeyIdentifier = keyid:always\n",
                index.display(),
                number.display(),
                issuer.certificate.display(),
                issuer.key.display(),
            );
            std::fs::write(&settings, text).unwrap();
            std::fs::write(&index, "").unwrap();
            std::fs::write(&number, "01\n").unwrap();
        }
        let ca = format!("ca -config {}", settings.display());
        for pair in revoked {
            openssl(&format!("{ca} -revoke {}", pair.certificate.display()));
        }
        openssl(&format!("{ca} -gencrl -out {}", list.display()));
        list
    }

    fn issue(
        &self,
        file: &str,
        name: &str,
        key: Key,
        issuer: &Pair,
        days: i32,
        extensions: &str,
    ) -> Pair {
        let algorithm = match key {
            Key::Rsa => "rsa:2048",
            Key::Ecdsa => "ec -pkeyopt ec_paramgen_curve:P-256",
        };
        let pair = self.pair(file);
        let (request, extended) = (
            self.path(&format!("{file}.csr")),
            self.path(&format!("{file}.ext")),
        );
        std::fs::write(&extended, extensions).unwrap();
        let request_it = format!(
            "req -newkey {algorithm} -nodes -keyout {} -out {}",
            pair.key.display(),
            request.display()
        );
        let mut command = Command::new("openssl");
        command.args(request_it.split(' '));
        succeed(command.args(["-subj", &format!("/CN={name}")]));
        openssl(&format!(
            "x509 -req -in {} -CA {} -CAkey {} -days {days} -extfile {} -out {}",
            request.display(),
            issuer.certificate.display(),
            issuer.key.display(),
            extended.display(),
            pair.certificate.display()
        ));
        pair
    }

    fn pair(&self, name: &str) -> Pair {
        Pair {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        }
    }
}

impl Pair {
    /// Puts these files where another pair's are, one after the other as a careless script would.
    pub fn replace(&self, other: &Self) {
        std::fs::copy(&self.certificate, &other.certificate).unwrap();
        std::fs::copy(&self.key, &other.key).unwrap();
    }

    /// The keys of a listener's table.
    pub fn settings(&self) -> String {
        format!("certificate = {:?}, key = {:?}", self.certificate, self.key)
    }
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Runs `openssl` with arguments that contain no spaces.
fn openssl(arguments: &str) {
    succeed(Command::new("openssl").args(arguments.split(' ')));
}
