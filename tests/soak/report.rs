//! What is shown of a run that failed: the faults, what the journals say about each, and a folder with everything.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::journal::{Entry, Event};
use super::schedule::Character;
use super::support::Backend;
use super::verdict::Stored;
use super::world::Servers;

/// Faults that are explained; all are named.
const FAULTS_MAX: usize = 12;
/// Lines of one journal for one fault.
const LINES_MAX: usize = 40;

/// What is wrong.
pub(crate) struct Report<'a> {
    pub(crate) seed: u64,
    pub(crate) journals: &'a [(Character, Vec<Entry>)],
    /// Client and what is wrong.
    pub(crate) faults: &'a [(usize, String)],
}

impl Report<'_> {
    /// Writes the folder; gives the text.
    pub(crate) async fn write(
        &self,
        backend: &Backend,
        stream: &[Stored],
        servers: &Servers,
    ) -> String {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{}", self.seed));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: String, text: String| fs::write(folder.join(name), text).unwrap();
        for (character, journal) in self.journals {
            let lines = journal.iter().map(|entry| format!("{entry}\n"));
            let text = format!("{character:#?}\n{}", lines.collect::<String>());
            write(format!("client-{}.txt", character.index), text);
        }
        let lines = stream.iter().map(|it| format!("{it:?}\n"));
        write("stream.txt".to_owned(), lines.collect());
        for name in ["KV_jetway_sessions", "DEVICE_STATUS"] {
            let messages = backend.messages(name, ">").await;
            let lines = messages
                .iter()
                .map(|it| format!("{} {}\n", it.subject, it.text()));
            write(format!("{name}.txt"), lines.collect());
        }
        for (node, log) in servers.logs().into_iter().enumerate() {
            write(format!("node-{node}.log"), log);
        }
        format!("in {}:\n{}", folder.display(), self.explain())
    }

    fn explain(&self) -> String {
        let mut text = format!("{} faults\n", self.faults.len());
        for (client, fault) in self.faults {
            writeln!(text, "client {client}: {fault}").unwrap();
        }
        for (client, fault) in self.faults.iter().take(FAULTS_MAX) {
            writeln!(text, "\nclient {client}: {fault}").unwrap();
            for (character, journal) in self.journals {
                let is_own = character.index == *client;
                let lines: Vec<_> = journal
                    .iter()
                    .filter(|entry| {
                        is_about(&entry.event, fault) || is_own && entry.event.is_of_session()
                    })
                    .collect();
                for entry in &lines[lines.len().saturating_sub(LINES_MAX)..] {
                    writeln!(text, "  client {:>2} {entry}", character.index).unwrap();
                }
            }
        }
        text
    }
}

/// Whether an event is about a message that the fault names.
fn is_about(event: &Event, fault: &str) -> bool {
    let mut words = fault.split(|c: char| !(c.is_alphanumeric() || c == '.'));
    event
        .text()
        .is_some_and(|text| !text.is_empty() && words.any(|word| word == text))
}
