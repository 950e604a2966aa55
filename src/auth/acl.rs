//! May a device publish to a topic, or subscribe to a filter (profile §1.5, with its weaknesses W-S1 and W-S2 closed).
//!
//! Pure: the device is authenticated, its sub-devices and rules are known, and `mapping` has read the topic. Names are compared
//! exactly, so a wildcard in the place of a name is another device. There is no way to allow what is not said here.
//!
//! Rules add the topics of other devices of the same product, never another direction, and take away whatever they deny; those of a
//! sub-device's product only take away.

use std::fmt;
use std::sync::Arc;

pub use crate::access::Action;
use crate::access::{Access, Effect};
use crate::device::{Address, Device, Direction, Scope};

/// Why a device may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Denied {
    /// The topic has no rule's shape.
    Unmapped,
    /// It names neither the device nor a sub-device that is bound to it.
    OtherDevice,
    /// Devices publish up topics and subscribe to down topics.
    Direction,
    /// The device has no secret yet.
    RegisterOnly,
    /// Topics that start with `$` are the server's own.
    Reserved,
    /// A rule of its product, of its sub-device's product, or of its login denies it.
    Rule,
}

impl Denied {
    /// In words, for logs and for the device.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unmapped => "no rule has this topic",
            Self::OtherDevice => "topic of another device",
            Self::Direction => "topic of the other direction",
            Self::RegisterOnly => "only registration is allowed before a device has its secret",
            Self::Reserved => "topics that start with $ are the server's",
            Self::Rule => "a rule denies this topic",
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides one action of a device on what `Mapping::address` read from its topic.
///
/// # Errors
/// [`Denied`] says why not.
pub fn authorize(
    device: &Device,
    action: Action,
    address: Option<&Address<'_>>,
) -> Result<(), Denied> {
    let address = address.ok_or(Denied::Unmapped)?;
    if device.scope == Scope::Open {
        // [MQTT-4.7.2-1]: clients may not use them among themselves.
        return match action {
            Action::Publish if address.topic.starts_with('$') => Err(Denied::Reserved),
            Action::Publish | Action::Subscribe => Ok(()),
        };
    }
    let own = device.id.product() == address.product && device.id.name() == address.name;
    match device.scope {
        // Before sub-devices are looked at: who has no secret speaks for nobody else.
        Scope::Register if !own => return Err(Denied::OtherDevice),
        Scope::Register if address.handle != "ext" || address.kind != "register" => {
            return Err(Denied::RegisterOnly);
        }
        Scope::Register | Scope::Full | Scope::Open => {}
    }
    let bound = if own { &[] } else { &*device.sub_devices };
    let mut bound = bound.iter();
    let sub_device =
        bound.find(|sub| sub.product() == address.product && sub.name() == address.name);
    let rules = device
        .access
        .as_ref()
        .filter(|_| device.scope == Scope::Full);
    let said = rules.and_then(|rules| rules.says(&device.id, action, address.topic));
    let is_added = said == Some(Effect::Allow) && address.product == device.id.product();
    if !own && !is_added && sub_device.is_none() {
        return Err(Denied::OtherDevice);
    }
    let denies = |(rules, sub): (&Arc<Access>, _)| rules.denies(sub, action, address.topic);
    let is_denied = said == Some(Effect::Deny) || rules.zip(sub_device).is_some_and(denies);
    match (action, address.direction) {
        _ if is_denied => Err(Denied::Rule),
        (Action::Publish, Direction::Up) | (Action::Subscribe, Direction::Down) => Ok(()),
        _ => Err(Denied::Direction),
    }
}

#[cfg(test)]
#[path = "acl_tests.rs"]
mod tests;
