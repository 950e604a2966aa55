//! What was changed, told to all nodes over NATS by whoever changed it, behind the commit.
//!
//! A notice is not stored: one that is lost is made good when what a node remembers ends (`auth.cache_ttl_ms`), and for who is
//! connected at the next login.

use std::time::Duration;

use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::record::State;
use crate::device::DeviceId;
use crate::telemetry;

/// How long the server may take to say that it has what was sent.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Notices between two answers.
const AT_ONCE: usize = 1_000;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// New.
    Added,
    /// May log in.
    Enabled,
    /// May not log in.
    Disabled,
    /// May not log in.
    Blocked,
    /// Has another secret.
    Secret,
    /// Is not there any more.
    Removed,
    /// Acts for further sub-devices.
    Bound,
    /// Acts for fewer sub-devices.
    Unbound,
    /// Has a further certificate.
    CertificateAdded,
    /// Has a certificate less.
    CertificateRemoved,
    /// Allows and denies other topics: a product.
    Rules,
}

impl What {
    /// Whether who is connected is not to stay: it may not log in, or what it logged in with proves nothing any more.
    #[must_use]
    pub fn ends_connections(self) -> bool {
        match self {
            Self::Disabled
            | Self::Blocked
            | Self::Secret
            | Self::Removed
            | Self::CertificateRemoved => true,
            Self::Added
            | Self::Enabled
            | Self::Bound
            | Self::Unbound
            | Self::CertificateAdded
            | Self::Rules => false,
        }
    }
}

impl From<State> for What {
    fn from(state: State) -> Self {
        match state {
            State::Enabled => Self::Enabled,
            State::Disabled => Self::Disabled,
            State::Blocked => Self::Blocked,
        }
    }
}

/// A notice: `{"what":"disabled","product":"P","device":"D"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What was done.
    pub what: What,
    /// Of which product.
    pub product: String,
    /// With which of its devices; without one, with many of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The gateway device that acts, or acted, for it: `P/D`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

impl Notice {
    /// Where notices are published.
    pub const SUBJECT: &'static str = "jetway.devices.changed";

    /// A notice of one device.
    #[must_use]
    pub fn of(device: &DeviceId, what: What) -> Self {
        Self {
            what,
            product: device.product().to_owned(),
            device: Some(device.name().to_owned()),
            gateway: None,
        }
    }

    /// The same with the gateway device that acts for the device, if there is one.
    #[must_use]
    pub(super) fn behind(self, gateway: Option<&DeviceId>) -> Self {
        Self {
            gateway: gateway.map(ToString::to_string),
            ..self
        }
    }

    /// A notice of many new devices of a product.
    #[must_use]
    pub fn added(product: &str) -> Self {
        Self::of_product(product, What::Added)
    }

    /// A notice of a product, or of many of its devices.
    #[must_use]
    pub fn of_product(product: &str, what: What) -> Self {
        Self {
            what,
            product: product.to_owned(),
            device: None,
            gateway: None,
        }
    }

    /// The gateway device that may act for other sub-devices now.
    #[must_use]
    pub fn rebound(&self) -> Option<DeviceId> {
        let (product, name) = match (&self.gateway, self.what) {
            (Some(gateway), _) => gateway.split_once('/')?,
            (None, What::Bound | What::Unbound) => (&*self.product, self.device.as_deref()?),
            (None, _) => return None,
        };
        DeviceId::new(product, name).ok()
    }

    /// Reads a notice, and the device that it names.
    ///
    /// # Errors
    /// The text is no notice, or names what no device can be called.
    pub fn read(payload: &[u8]) -> Result<(Self, Option<DeviceId>), String> {
        let notice: Self = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let device = notice.device.as_ref();
        let device = device.map(|name| DeviceId::new(&notice.product, name));
        let device = device.transpose().map_err(|error| error.to_string())?;
        Ok((notice, device))
    }
}

/// Tells all nodes; returns when the server has the notices.
///
/// # Errors
/// The client's, or NATS does not answer for 5 s: nodes may not know.
pub async fn tell(client: &Client, notices: &[Notice]) -> Result<(), async_nats::Error> {
    for some in notices.chunks(AT_ONCE) {
        let told = timeout(ANSWER_MAX, tell_some(client, some)).await;
        told.unwrap_or_else(|_elapsed| Err("NATS does not answer".into()))?;
    }
    Ok(())
}

async fn tell_some(client: &Client, notices: &[Notice]) -> Result<(), async_nats::Error> {
    for notice in notices {
        let payload = serde_json::to_vec(notice)?;
        client.publish(Notice::SUBJECT, payload.into()).await?;
    }
    // What comes back says that the server has read all before it; the client's flush waits for the socket alone.
    let subject = format!("_jw.back.{:016x}", telemetry::random_u64());
    let mut back = client.subscribe(subject.clone()).await?;
    client.publish(subject, Bytes::new()).await?;
    match back.next().await {
        Some(_came) => Ok(()),
        None => Err("the connection is closed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_as_it_was_written() {
        let device = DeviceId::new("p", "d").unwrap();
        let one = Notice::of(&device, What::CertificateRemoved);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(
            text,
            r#"{"what":"certificate_removed","product":"p","device":"d"}"#
        );
        assert_eq!(Notice::read(text.as_bytes()), Ok((one, Some(device))));
        let many = Notice::added("p");
        let text = serde_json::to_string(&many).unwrap();
        assert_eq!(text, r#"{"what":"added","product":"p"}"#);
        assert_eq!(Notice::read(text.as_bytes()), Ok((many, None)));
    }

    #[test]
    fn what_is_no_notice_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"what":"praised","product":"p"}"#,
            r#"{"what":"added","product":"p","device":"a/b"}"#,
        ] {
            assert!(Notice::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
