//! Random clients for a while, with servers dying under them, and a model that knows what must have been received.
//!
//! `JETWAY_SOAK_SECONDS=1800` lengthens the run, `JETWAY_SOAK_SEED` chooses another one or the same again: what every client
//! does in each of its lives and which server dies when follow from the seed. A failure prints what is wrong with the lines
//! of the journals that are about it; the whole journals are in the folder that it names.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod connection;
mod journal;
mod model;
mod schedule;
mod status;
mod verdict;
mod world;

use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jetway::mqtt::QoS;
use tokio::time::Instant;

use client::Client;
use connection::Connection;
use journal::{Entry, Event};
use model::Model;
use schedule::{CLIENTS, Character, End, Life};
use support::Backend;
use verdict::{Stored, Verdict};
use world::{Servers, World};

/// The run that is always the same.
const SEED: u64 = 1;
const SECONDS: u64 = 20;
/// Faults that are printed in full.
const FAULTS_MAX: usize = 12;
/// Lines of one journal that are printed for one fault.
const LINES_MAX: usize = 40;

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |number| number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_client_receives_what_it_must() {
    let seed = number("JETWAY_SOAK_SEED", SEED);
    let seconds = number("JETWAY_SOAK_SECONDS", SECONDS);
    println!("JETWAY_SOAK_SEED={seed} JETWAY_SOAK_SECONDS={seconds}");
    let (world, mut servers) = Servers::start(seed).await;
    let until = Instant::now() + Duration::from_secs(seconds);
    let living: Vec<_> = (0..CLIENTS)
        .map(|index| {
            let mut client = Client::new(&world, Character::new(seed, index));
            tokio::spawn(async move {
                client.live(until).await;
                client
            })
        })
        .collect();
    let outages = servers.suffer(&world, until).await;
    let mut clients = Vec::new();
    for client in living {
        clients.push(client.await.unwrap());
    }
    println!("{:>9.3}s draining", world.clock.now().at.as_secs_f64());
    let (mut ended, retained) = drain(&world, clients).await;
    let backend = Backend::connect(&servers.nats.url()).await;
    let reality: Vec<bool> = ended
        .iter()
        .map(|(_, connection)| connection.is_some())
        .collect();
    let journals: Vec<(Character, Vec<Entry>)> = ended
        .iter_mut()
        .map(|(client, _)| {
            (
                client.character.clone(),
                std::mem::take(&mut client.journal),
            )
        })
        .collect();
    let model = Model::read(&journals, &outages);
    wills_are_due(&backend, &model).await;
    let stream = stream(&backend).await;
    let characters: Vec<Character> = journals.iter().map(|(it, _)| it.clone()).collect();
    let mut verdict = Verdict::new(&model, &characters, &stream);
    let checked = verdict.judge(&stream);
    verdict.retained(&retained, &stream);
    let mut faults = verdict.faults;
    faults.extend(status::judge(&backend, &reality).await);
    println!(
        "{:>9.3}s {} messages in the stream, {} outages; checked: {checked:?}",
        world.clock.now().at.as_secs_f64(),
        stream.len(),
        outages.len()
    );
    if !faults.is_empty() {
        let folder = write(seed, &journals, &stream);
        let sessions = backend.messages("KV_jetway_sessions", ">").await;
        let sessions = sessions
            .iter()
            .map(|it| format!("{} {}\n", it.subject, it.text()));
        fs::write(folder.join("sessions.txt"), sessions.collect::<String>()).unwrap();
        for (node, before) in servers.logs.iter().enumerate() {
            let log = before.clone() + &servers.nodes[node].log();
            fs::write(folder.join(format!("node-{node}.log")), log).unwrap();
        }
        let events = backend.messages("DEVICE_STATUS", ">").await;
        let events = events
            .iter()
            .map(|it| format!("{} {}\n", it.sequence, it.text()));
        fs::write(folder.join("status.txt"), events.collect::<String>()).unwrap();
        // Their logs are in the folder.
        drop(servers);
        panic!("{}", explain(&faults, &journals, &folder));
    }
    assert!(
        checked.required > 0 && checked.exactly_once > 0,
        "{checked:?}"
    );
}

/// Lets every client come back and take what it is owed; every second one leaves in good order then. Also gives what is retained.
async fn drain(
    world: &Arc<World>,
    clients: Vec<Client>,
) -> (Vec<(Client, Option<Connection>)>, HashMap<String, String>) {
    let mut back = Vec::new();
    for mut client in clients {
        let life = client.last_life();
        let wish = client.character.last_wish();
        let mut connection = connect(&mut client, &life).await;
        client.subscribe(&mut connection, vec![wish]);
        let settled = client.settle(&mut connection).await;
        settled.expect("no server dies any more");
        back.push((client, connection));
    }
    let mut last = Client::new(world, Character::last());
    let life = last.last_life();
    let mut connection = connect(&mut last, &life).await;
    last.subscribe(&mut connection, vec![0, 1]);
    let mut sentinels = Vec::new();
    for index in 0..CLIENTS {
        let topic = format!("end/{index}");
        let published = last
            .publish(&mut connection, &topic, QoS::AtLeastOnce, false, Some(0))
            .await;
        published.expect("no server dies any more");
        sentinels.push(last.last_text());
    }
    let own = sentinels.last().expect("there are clients").clone();
    last.drain(&mut connection, &own).await;
    let retained = retained(&last.journal);
    let draining = back.into_iter().zip(sentinels);
    let draining = draining.map(|((mut client, mut connection), sentinel)| {
        tokio::spawn(async move {
            client.drain(&mut connection, &sentinel).await;
            let left = match client.character.index % 2 {
                0 => client.end(Ok(()), End::Disconnect, connection).await,
                _ => Some(connection),
            };
            (client, left)
        })
    });
    let draining: Vec<_> = draining.collect();
    let mut ended = Vec::new();
    for client in draining {
        ended.push(client.await.unwrap());
    }
    ended.push((last, Some(connection)));
    (ended, retained)
}

async fn connect(client: &mut Client, life: &Life) -> Connection {
    let deadline = Instant::now() + support::DEADLINE;
    loop {
        if let Some(connection) = client.connect(u64::MAX, life).await {
            return connection;
        }
        assert!(Instant::now() < deadline, "a client cannot come back");
    }
}

/// The retained messages that came to the last client, by topic.
fn retained(journal: &[Entry]) -> HashMap<String, String> {
    let found = journal.iter().filter_map(|entry| match &entry.event {
        Event::Received {
            text,
            topic,
            retain: true,
            ..
        } => Some((topic.clone(), text.clone())),
        _ => None,
    });
    found.collect()
}

async fn stream(backend: &Backend) -> Vec<Stored> {
    let messages = backend.messages("MQTT", "mqtt.>").await;
    let stored = messages.into_iter().map(|message| {
        let text = message.text().split(' ').next().unwrap_or_default();
        Stored {
            sequence: message.sequence,
            topic: message
                .subject
                .trim_start_matches("mqtt.")
                .replace('.', "/"),
            text: text.to_owned(),
        }
    });
    stored.collect()
}

/// Waits for the Wills that must come, but not in vain for ever: the verdict tells which have not.
async fn wills_are_due(backend: &Backend, model: &Model) {
    let deadline = Instant::now() + Duration::from_secs(25);
    let wait = async || {
        let stream = stream(backend).await;
        let is_there = |text: &str| stream.iter().any(|stored| stored.text == text);
        let owed = model.wills.iter().filter(|will| will.at_least > 0);
        let missing = owed.filter(|will| !is_there(&will.text)).count();
        match missing > 0 && Instant::now() < deadline {
            true => Err(format!("{missing} are missing")),
            false => Ok(()),
        }
    };
    support::eventually("the wills are published", wait).await;
}

fn write(seed: u64, journals: &[(Character, Vec<Entry>)], stream: &[Stored]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{seed}"));
    fs::create_dir_all(&folder).unwrap();
    for (character, journal) in journals {
        let mut text = format!("{character:#?}\n");
        for entry in journal {
            writeln!(text, "{entry}").unwrap();
        }
        let name = format!("client-{}.txt", character.index);
        fs::write(folder.join(name), text).unwrap();
    }
    let lines: Vec<String> = stream
        .iter()
        .map(|stored| format!("{} {} {}\n", stored.sequence, stored.topic, stored.text))
        .collect();
    fs::write(folder.join("stream.txt"), lines.concat()).unwrap();
    folder
}

/// The faults, each with what the journals say about its message.
fn explain(
    faults: &[(usize, String)],
    journals: &[(Character, Vec<Entry>)],
    folder: &std::path::Path,
) -> String {
    let mut text = format!("{} faults; journals: {}\n", faults.len(), folder.display());
    for (client, fault) in faults {
        writeln!(text, "client {client}: {fault}").unwrap();
    }
    for (client, fault) in faults.iter().take(FAULTS_MAX) {
        writeln!(text, "\nclient {client}: {fault}").unwrap();
        let about = |event: &Event| {
            event.text().is_some_and(|about| {
                let mut words = fault.split(|c: char| !(c.is_alphanumeric() || c == '.'));
                !about.is_empty() && words.any(|word| word == about)
            })
        };
        for (character, journal) in journals {
            let lines = journal.iter().filter(|entry| {
                let is_own = character.index == *client;
                about(&entry.event) || is_own && entry.event.is_of_session()
            });
            let lines: Vec<_> = lines.collect();
            let shown = lines.iter().rev().take(LINES_MAX).rev();
            for entry in shown {
                writeln!(text, "  client {:>2} {entry}", character.index).unwrap();
            }
        }
    }
    text
}
