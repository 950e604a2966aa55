//! The authentication chain with real clients: certificates made by openssl, tokens, and services that are asked; who comes in, who
//! does not, and what each is told.
//!
//! Names in comments (G20, G22, G24) are the promises that are tested.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod certificates;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod names;
#[cfg(test)]
mod passwords;
#[cfg(test)]
mod registration;
#[cfg(test)]
mod service;
#[cfg(test)]
mod site;
#[cfg(test)]
mod strict;
#[cfg(test)]
mod tokens;
