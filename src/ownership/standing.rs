//! How a device stands, for those who do not hold its session.

use super::document::Document;
use super::{Error, Ownership};
use crate::session::Record;

/// A device's session as it was written last.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The node that serves its connection; none: it is not connected.
    pub node: Option<Box<str>>,
    /// The session state; none if it ends with the connection.
    pub session: Option<Record>,
}

impl Ownership {
    /// How the device with this key (`P.D`) stands; none if it has no session.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn standing(&self, key: &str) -> Result<Option<Standing>, Error> {
        let entry = self.sessions().get_from_leader(key).await?;
        let document = entry
            .and_then(|entry| entry.value)
            .and_then(|value| Document::read(&value));
        Ok(document.map(|document| Standing {
            node: document
                .is_connected()
                .then(|| document.node.clone())
                .flatten(),
            session: document.session.map(|session| *session),
        }))
    }
}
