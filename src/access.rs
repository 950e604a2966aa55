//! Rules beside what the mapping gives a device: an operator's for each product, and those that come with a login.
//!
//! A rule allows or denies topics: `{productID}`, `{deviceName}` and `{clientID}` stand for one level each, which is the connected
//! device's. Where a gateway device acts for a sub-device, the rules of that one's product count too, with its names and the gateway
//! device's client id. What topics there are and who owns them is not known here: `auth::acl` asks what is said, and judges.
//!
//! Invariants: a name is one literal level, whatever characters it has (G22); a filter is covered only if everything that it
//! matches is (G23); a denial goes before what is allowed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::DeviceId;

/// The most rules of one product, and of one login.
pub const RULES_MAX: usize = 64;
/// The longest filter of a rule, in bytes.
pub const FILTER_BYTES_MAX: usize = 512;

/// What a device wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send on a topic name.
    Publish,
    /// Receive what a filter matches.
    Subscribe,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The device may, too.
    Allow,
    /// The device may not, whatever else allows it.
    Deny,
}

/// Which actions a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actions {
    /// To send.
    Publish,
    /// To receive.
    Subscribe,
    /// Both.
    Both,
}

impl Actions {
    fn include(self, action: Action) -> bool {
        match self {
            Self::Publish => action == Action::Publish,
            Self::Subscribe => action == Action::Subscribe,
            Self::Both => true,
        }
    }
}

macro_rules! words {
    ($type:ident, $expected:literal, $($word:literal = $variant:ident),+) => {
        impl $type {
            /// Its word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = &'static str;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($expected),
                }
            }
        }
    };
}
words!(
    Effect,
    "expected allow or deny",
    "allow" = Allow,
    "deny" = Deny
);
words!(
    Actions,
    "expected publish, subscribe or both",
    "publish" = Publish,
    "subscribe" = Subscribe,
    "both" = Both
);

/// Which topics a rule is about: an MQTT topic filter whose levels may be placeholders. Its first level is neither a wildcard nor a
/// placeholder, so that it says whether it means topics with `$`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Filter(Box<str>);

impl Filter {
    /// The text, with its placeholders.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it matches everything that a topic name or filter matches.
    fn covers(&self, asked: &str, device: &DeviceId, client_id: &str) -> bool {
        let mut asked = asked.split('/');
        for level in self.0.split('/') {
            if level == "#" {
                return true;
            }
            let Some(found) = asked.next() else {
                return false;
            };
            let is_covered = match level {
                "+" => found != "#",
                "{productID}" => is_literal(found, device.product()),
                "{deviceName}" => is_literal(found, device.name()),
                "{clientID}" => is_literal(found, client_id),
                level => is_literal(found, level),
            };
            if !is_covered {
                return false;
            }
        }
        asked.next().is_none()
    }
}

/// Whether what is asked for is this one level, and no wildcard.
fn is_literal(found: &str, level: &str) -> bool {
    found == level && !matches!(found, "+" | "#")
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Filter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text.len() > FILTER_BYTES_MAX || text.contains('\0') {
            return Err("expected 1 to 512 bytes without U+0000");
        }
        let mut levels = text.split('/').peekable();
        let mut is_first = true;
        while let Some(level) = levels.next() {
            let is_placeholder = matches!(level, "{productID}" | "{deviceName}" | "{clientID}");
            if is_first && (is_placeholder || matches!(level, "+" | "#" | "$share")) {
                return Err("expected a first level without wildcard and placeholder, as $thing");
            }
            is_first = false;
            if level == "#" && levels.peek().is_some() {
                return Err("expected # at the end alone");
            }
            if level.len() > 1 && level.contains(['+', '#']) {
                return Err("expected + and # as whole levels");
            }
            if !is_placeholder && level.contains(['{', '}']) {
                return Err("expected {productID}, {deviceName} or {clientID}, as whole levels");
            }
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for Filter {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it says.
    pub effect: Effect,
    /// About which actions.
    pub action: Actions,
    /// On which topics.
    pub filter: Filter,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.effect, self.action, self.filter)
    }
}

/// At most [`RULES_MAX`] rules, in no order that matters; cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Rule>")]
pub struct Rules(Arc<[Rule]>);

impl Deref for Rules {
    type Target = [Rule];

    fn deref(&self) -> &[Rule] {
        &self.0
    }
}

impl FromIterator<Rule> for Rules {
    /// Whoever made them has counted them.
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        Self(rules.into_iter().collect())
    }
}

impl TryFrom<Vec<Rule>> for Rules {
    type Error = &'static str;

    fn try_from(rules: Vec<Rule>) -> Result<Self, Self::Error> {
        match rules.len() {
            0..=RULES_MAX => Ok(Self(rules.into())),
            _ => Err("expected at most 64 rules"),
        }
    }
}

/// Rules by product id; a product without any is not there.
pub type RulesByProduct = HashMap<String, Rules>;

/// The rules that one connected device is held to, beside its own scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    product: Rules,
    /// By product of the sub-devices that are bound to it.
    behind: BTreeMap<String, Rules>,
    /// Of its login.
    own: Rules,
    client_id: Box<str>,
}

impl Access {
    /// Those of its product, of its sub-devices' products (those that have any), and of its login; none if there are none.
    #[must_use]
    pub fn of(
        product: Rules,
        behind: BTreeMap<String, Rules>,
        own: Rules,
        client_id: &str,
    ) -> Option<Arc<Self>> {
        let is_needed = !product.is_empty() || !behind.is_empty() || !own.is_empty();
        is_needed.then(|| {
            Arc::new(Self {
                product,
                behind,
                own,
                client_id: client_id.into(),
            })
        })
    }

    /// The rules that came with the login.
    #[must_use]
    pub fn own(&self) -> &Rules {
        &self.own
    }

    /// What the rules of its product and of its login say about a topic name or filter of this device; none if they say nothing.
    #[must_use]
    pub fn says(&self, device: &DeviceId, action: Action, asked: &str) -> Option<Effect> {
        let rules = self.product.iter().chain(self.own.iter());
        self.judge(rules, device, action, asked)
    }

    /// Whether the rules of its product deny a topic name or filter of this bound sub-device; `{clientID}` is the gateway device's.
    /// What they allow is not asked for: a gateway device acts for what is bound to it, and for nobody else.
    #[must_use]
    pub fn denies(&self, sub_device: &DeviceId, action: Action, asked: &str) -> bool {
        let rules = self.behind.get(sub_device.product());
        let rules = rules.into_iter().flat_map(|rules| rules.iter());
        self.judge(rules, sub_device, action, asked) == Some(Effect::Deny)
    }

    fn judge<'a>(
        &self,
        rules: impl Iterator<Item = &'a Rule>,
        device: &DeviceId,
        action: Action,
        asked: &str,
    ) -> Option<Effect> {
        let mut said = None;
        for rule in rules {
            let is_about =
                rule.action.include(action) && rule.filter.covers(asked, device, &self.client_id);
            match rule.effect {
                Effect::Deny if is_about => return Some(Effect::Deny),
                Effect::Allow if is_about => said = Some(Effect::Allow),
                Effect::Deny | Effect::Allow => {}
            }
        }
        said
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
