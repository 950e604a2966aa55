//! Dead letters of services in another language, and what of streams and durables an operator sees and changes.

#![cfg(test)]

#[path = "../support/mod.rs"]
mod support;

mod failing;
mod http;
mod outage;
mod provision;
mod replay;
mod site;
