//! The run: clients live while servers die, then all come back and take what they are owed; and the verdict.

use std::collections::{HashMap, HashSet};
use std::env;
use std::sync::Arc;
use std::time::Duration;

use jetway::mqtt::QoS;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::Client;
use super::connection::Connection;
use super::journal::{Entry, Event};
use super::model::Model;
use super::report::Report;
use super::schedule::{CLIENTS, Character, End, Life};
use super::status;
use super::support::{Backend, DEADLINE, eventually};
use super::verdict::{Stored, Verdict};
use super::world::{Outage, Servers, World};

/// The run that is always the same.
const SEED: u64 = 1;
const SECONDS: u64 = 20;
/// How long the Wills of clients of a dead gateway may take; the verdict tells which have not come.
const WILLS_MAX: Duration = Duration::from_secs(25);

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
    let mut living = JoinSet::new();
    for index in 0..CLIENTS {
        let mut client = Client::new(&world, Character::new(seed, index));
        living.spawn(async move {
            client.live(until).await;
            client
        });
    }
    let outages = servers.suffer(&world, until).await;
    let mut clients = living.join_all().await;
    clients.sort_unstable_by_key(|client| client.character.index);
    println!("{:>9.3}s draining", world.clock.now().at.as_secs_f64());
    let drained = Drained::of(&world, clients).await;
    judge(seed, drained, &outages, servers).await;
}

/// All clients at the end of the run.
struct Drained {
    journals: Vec<(Character, Vec<Entry>)>,
    /// Those that are still there.
    connections: Vec<Option<Connection>>,
    /// What is retained, by topic.
    retained: HashMap<String, String>,
}

impl Drained {
    /// Lets every client come back and take what it is owed; every second one leaves in good order then.
    async fn of(world: &Arc<World>, clients: Vec<Client>) -> Self {
        let mut back = Vec::new();
        for mut client in clients {
            let wish = client.character.last_wish();
            let connection = come_back(&mut client, &[wish]).await;
            back.push((client, connection));
        }
        let mut last = Client::new(world, Character::last());
        let mut connection = come_back(&mut last, &[0, 1]).await;
        let mut sentinels = Vec::new();
        for index in 0..CLIENTS {
            let (topic, qos) = (format!("end/{index}"), QoS::AtLeastOnce);
            let published = last.publish(&mut connection, &topic, qos, false, Some(0));
            published.await.expect("no server dies any more");
            sentinels.push(last.last_text());
        }
        // Behind what is retained comes what is live.
        last.drain(&mut connection, &sentinels[CLIENTS - 1]).await;
        let retained = retained(&last.journal);
        let mut draining = JoinSet::new();
        for ((mut client, mut connection), sentinel) in back.into_iter().zip(sentinels) {
            draining.spawn(async move {
                client.drain(&mut connection, &sentinel).await;
                let end = [End::Disconnect, End::Stay][client.character.index % 2];
                let left = client.end(Ok(()), end, connection).await;
                (client, left)
            });
        }
        let mut ended = draining.join_all().await;
        ended.push((last, Some(connection)));
        ended.sort_unstable_by_key(|(client, _)| client.character.index);
        let (clients, connections): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
        let journals = clients.into_iter().map(|it| (it.character, it.journal));
        Self {
            journals: journals.collect(),
            connections,
            retained,
        }
    }
}

async fn come_back(client: &mut Client, wishes: &[usize]) -> Connection {
    let mut life = Life::last(&client.character);
    let deadline = Instant::now() + DEADLINE;
    let mut connection = loop {
        if let Some(connection) = client.connect(u64::MAX, &mut life).await {
            break connection;
        }
        assert!(Instant::now() < deadline, "a client cannot come back");
    };
    client.subscribe(&mut connection, wishes.to_vec());
    let settled = client.settle(&mut connection).await;
    settled.expect("no server dies any more");
    connection
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

async fn judge(seed: u64, drained: Drained, outages: &[Outage], servers: Servers) {
    let journals = &drained.journals;
    let backend = Backend::connect(&servers.nats.url()).await;
    // First, while those that are there are not missed.
    let reality = drained.connections.iter().map(Option::is_some);
    let status = status::judge(&backend, &reality.collect::<Vec<_>>()).await;
    let model = Model::read(journals, outages);
    wills_are_due(&backend, &model).await;
    let stream = stream(&backend).await;
    let characters: Vec<Character> = journals.iter().map(|(it, _)| it.clone()).collect();
    let mut verdict = Verdict::new(&model, &characters, &stream);
    let checked = verdict.judge(&stream);
    verdict.retained(&drained.retained, &stream);
    let mut faults = verdict.faults;
    faults.extend(status);
    println!(
        "{} messages in the stream, {} outages; checked: {checked:?}",
        stream.len(),
        outages.len()
    );
    if !faults.is_empty() {
        let report = Report {
            seed,
            journals,
            faults: &faults,
        };
        let text = report.write(&backend, &stream, &servers).await;
        // Their logs are in the report's folder.
        drop(servers);
        panic!("{text}");
    }
    let proves = checked.required > 0 && checked.exactly_once > 0;
    assert!(proves, "{checked:?}");
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

async fn wills_are_due(backend: &Backend, model: &Model) {
    let deadline = Instant::now() + WILLS_MAX;
    let wait = async || {
        let wills = backend.messages("MQTT", "mqtt.w.>").await;
        let wills: HashSet<&str> = wills.iter().map(|will| will.text()).collect();
        let owed = model.wills.iter().filter(|will| will.at_least > 0);
        let missing = owed.filter(|will| !wills.contains(&*will.text)).count();
        match missing > 0 && Instant::now() < deadline {
            true => Err(format!("{missing} are missing")),
            false => Ok(()),
        }
    };
    eventually("the wills are published", wait).await;
}
