//! The schemas of events: what the operator's port gives out, what the gateway really publishes against them, and the
//! current ones against the released ones.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of single flows")]
#[path = "../gateway/site.rs"]
mod site;

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod port;
#[cfg(test)]
mod published;
