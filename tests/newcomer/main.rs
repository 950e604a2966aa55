//! The first minutes with `jetway dev`: its page, word for word, and what goes wrong on a machine that is not empty.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod page;
#[cfg(test)]
mod refusals;
