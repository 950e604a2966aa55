//! What products allow and deny beside the devices' own scope, as the catalogue had it last: all of it, in memory.
//!
//! It reads no database: who does replaces everything at once, and hears here when it is to read.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use tokio::sync::Notify;

use crate::access::{Rules, RulesByProduct};

/// The rules of all products.
#[derive(Debug)]
pub struct ProductRules {
    known: RwLock<RulesByProduct>,
    changed: Notify,
}

impl ProductRules {
    /// These.
    #[must_use]
    pub fn new(known: RulesByProduct) -> Self {
        Self {
            known: RwLock::new(known),
            changed: Notify::new(),
        }
    }

    /// Those of a product.
    #[must_use]
    pub fn of(&self, product: &str) -> Rules {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(product).cloned().unwrap_or_default()
    }

    /// The catalogue has others, or may have.
    pub fn change(&self) {
        self.changed.notify_one();
    }

    /// Returns once there was a [change](Self::change) since it returned last.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Has these instead; gives the products whose rules are others now.
    pub fn replace(&self, new: RulesByProduct) -> HashSet<String> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *known, new);
        let all = old.keys().chain(known.keys());
        let is_other = |product: &&String| old.get(*product) != known.get(*product);
        all.filter(is_other).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Actions, Effect, Rule};

    fn rules(filters: &[&str]) -> Rules {
        let rule = |filter: &&str| Rule {
            effect: Effect::Deny,
            action: Actions::Both,
            filter: filter.parse().unwrap(),
        };
        let rules: Vec<_> = filters.iter().map(rule).collect();
        rules.try_into().unwrap()
    }

    #[tokio::test]
    async fn what_is_replaced_says_which_products_have_other_rules() {
        let all = |all: &[(&str, &[&str])]| {
            let all = all.iter();
            all.map(|(product, filters)| ((*product).to_owned(), rules(filters)))
                .collect::<RulesByProduct>()
        };
        let known = ProductRules::new(all(&[
            ("same", &["a"]),
            ("other", &["a"]),
            ("gone", &["a"]),
        ]));
        let changed = known.replace(all(&[
            ("same", &["a"]),
            ("other", &["a", "b"]),
            ("new", &["a"]),
        ]));
        let expected = ["other", "gone", "new"].map(str::to_owned);
        assert_eq!(changed, HashSet::from(expected));
        assert_eq!(known.of("other"), rules(&["a", "b"]));
        assert_eq!(known.of("gone"), Rules::default());
        // A change that is said before somebody listens is not lost.
        known.change();
        known.changed().await;
    }
}
