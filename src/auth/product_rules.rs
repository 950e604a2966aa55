//! What products allow and deny beside the devices' own scope, as the catalogue had it last: all of it, in memory.
//!
//! It reads no database: who does replaces everything at once, and hears here when it is to read.

use std::collections::{BTreeMap, HashSet};
use std::sync::{PoisonError, RwLock};

use tokio::sync::Notify;

use crate::access::{Rules, RulesByProduct};
use crate::device::DeviceId;

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

    /// Those of the products of these devices, as far as they have any.
    #[must_use]
    pub fn of_all(&self, devices: &[DeviceId]) -> BTreeMap<String, Rules> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let products = devices.iter().map(DeviceId::product);
        // Many devices have few products: a product's rules are taken once.
        let found: BTreeMap<_, _> = products.filter_map(|it| known.get_key_value(it)).collect();
        let found = found.into_iter();
        found
            .map(|(product, rules)| (product.clone(), rules.clone()))
            .collect()
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
        let devices = [("new", "a"), ("gone", "a"), ("new", "b")];
        let devices = devices.map(|(product, name)| DeviceId::new(product, name).unwrap());
        let expected = [("new".to_owned(), rules(&["a"]))];
        assert_eq!(known.of_all(&devices), BTreeMap::from(expected));
        // A change that is said before somebody listens is not lost.
        known.change();
        known.changed().await;
    }
}
