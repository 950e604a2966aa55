//! What every broker does for a relay.

use crate::outbox::store::{Answer, Row};

/// A broker that events are published to.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes rows, and says what became of each, in their order. Of one aggregate, which have their order in `rows`, no row
    /// is handed over before the one in front of it is stored. Repeats carry the same id, so that the broker or consumers
    /// know them. Returns within a bounded time, also when the broker does not answer.
    fn publish(&self, rows: &[Row]) -> impl Future<Output = Vec<Answer>> + Send;

    /// Returns when there is a broker to ask; nothing is claimed before. Whoever cannot tell returns at once.
    fn reachable(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
