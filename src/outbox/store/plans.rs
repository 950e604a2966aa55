//! The statements that relays repeat, for whoever wants to know how a database runs them (`EXPLAIN`).

use super::{Store, claim, stats};

impl Store {
    /// By name, as this database is asked, with a number in the place of what is bound.
    #[must_use]
    pub fn statements(&self) -> Vec<(&'static str, String)> {
        let kind = self.pool.kind();
        let bound = |text: String| text.replace("$1", "5").replace('?', "5");
        vec![
            ("candidates", claim::candidates(kind, 16)),
            ("ready", bound(claim::pending(kind, 1, 100))),
            ("held", bound(claim::held(kind, 1, 100))),
            ("left", claim::left("5")),
            ("stats", stats::stats(kind)),
            ("purge", stats::old(kind, 1_000)),
        ]
    }
}
