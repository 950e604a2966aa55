//! One trace of a message, as a collector gets it: spans of the real gateway, over OTLP/HTTP, decoded from their protobuf.
//!
//! The collector here is a server of the test, because what it was sent is what the tests are about.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of single flows")]
#[path = "../gateway/site.rs"]
mod site;

#[cfg(test)]
mod chain;
#[cfg(test)]
mod collector;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod whereabouts;
