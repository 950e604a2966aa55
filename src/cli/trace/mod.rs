//! `jetway trace`: where is my message? Reads the streams, changes nothing.

mod command;
mod search;
mod story;

pub(super) use command::{Args, run};
