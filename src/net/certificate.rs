//! A certificate in DER -> what it says of its holder. Pure; that it is to be believed, the handshake has checked.

use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{Ia5StringRef, ObjectIdentifier, PrintableStringRef, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::device::Certificate;

/// The attribute type of a common name (X.520).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// What the certificate says; its fingerprint alone where it cannot be read.
pub(super) fn read(der: &CertificateDer<'_>) -> Certificate {
    let parsed = x509_cert::Certificate::from_der(der).ok();
    let (common_name, alternative_names) = parsed
        .map(|parsed| (common_name(&parsed), alternative_names(&parsed)))
        .unwrap_or_default();
    Certificate {
        common_name,
        alternative_names,
        fingerprint: Sha256::digest(der).into(),
    }
}

/// Of several, none is the one that counts.
fn common_name(certificate: &x509_cert::Certificate) -> Option<Box<str>> {
    let subject = &certificate.tbs_certificate.subject.0;
    let mut names = subject
        .iter()
        .flat_map(|relative| relative.0.iter())
        .filter(|attribute| attribute.oid == COMMON_NAME);
    let name = names.next()?;
    names.next().is_none().then(|| text(name)).flatten()
}

fn text(attribute: &AttributeTypeAndValue) -> Option<Box<str>> {
    let value = &attribute.value;
    let utf8 = value.decode_as::<Utf8StringRef<'_>>();
    let text = utf8
        .map(|text| text.as_str().into())
        .or_else(|_| {
            value
                .decode_as::<PrintableStringRef<'_>>()
                .map(|text| text.as_str().into())
        })
        .or_else(|_| {
            value
                .decode_as::<Ia5StringRef<'_>>()
                .map(|text| text.as_str().into())
        });
    text.ok()
}

fn alternative_names(certificate: &x509_cert::Certificate) -> Box<[Box<str>]> {
    let found = certificate.tbs_certificate.get::<SubjectAltName>();
    let Ok(Some((_, SubjectAltName(names)))) = found else {
        return Box::default();
    };
    let text = |name: &GeneralName| match name {
        GeneralName::DnsName(text) | GeneralName::UniformResourceIdentifier(text) => {
            Some(text.as_str().into())
        }
        _ => None,
    };
    names.iter().filter_map(text).collect()
}
