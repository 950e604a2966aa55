//! Reading back: order over several subjects, gaps, limits, and more subjects than the index answers.

use std::time::Duration;

use jetway::jetstream::{Backlog, Reader};
use serde_json::json;

use crate::rig::{Rig, create, subjects};
use crate::support::{Backend, NatsCluster, eventually, lasting};

async fn read(mut backlog: Backlog) -> Vec<u64> {
    let mut sequences = Vec::new();
    loop {
        let page = backlog.next_page().await.unwrap();
        if page.is_empty() {
            return sequences;
        }
        assert!(page.len() <= 256);
        sequences.extend(page.iter().map(|stored| stored.sequence));
    }
}

/// So many messages on these subjects in turn, without waiting for each.
async fn publish(rig: &Rig, stream: &str, subjects: impl Iterator<Item = String>) {
    publish_to(&rig.backend, stream, subjects).await;
}

async fn publish_to(backend: &Backend, stream: &str, subjects: impl Iterator<Item = String>) {
    let last = async || {
        let stream = backend.stream(stream).await;
        stream.cached_info().state.last_sequence
    };
    let before = last().await;
    let mut count = 0;
    for subject in subjects {
        backend.client.publish(subject, "x".into()).await.unwrap();
        count += 1;
    }
    eventually("all are stored", async || {
        let last = last().await;
        match last == before + count {
            true => Ok(()),
            false => Err(last.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn several_subjects_are_merged_in_the_order_of_the_stream() {
    let rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({})).await;
    // 1 to 1,000: a quarter each of a, b, c.x and of d, which no filter has.
    let names = ["s.a", "s.b", "s.c.x", "s.d"];
    publish(&rig, "S", (0..1_000).map(|at| names[at % 4].to_owned())).await;
    let reader = Reader::new(&rig.link, "S");
    let filters = subjects(&["s.a", "s.b", "s.c.*", "s.none"]);
    let wanted = |from: u64, to: u64| (from..=to).filter(|at| at % 4 != 0).collect::<Vec<_>>();
    for (after, up_to) in [
        (0, 1_000),
        (0, u64::MAX),
        (499, 700),
        (999, 1_000),
        (700, 700),
        (3, 4),
    ] {
        let found = read(reader.backlog(filters.clone(), after, up_to)).await;
        assert_eq!(
            found,
            wanted(after + 1, up_to.min(1_000)),
            "{after} {up_to}"
        );
    }
    let nothing = read(reader.backlog(subjects(&["s.none"]), 0, 1_000)).await;
    assert_eq!(nothing, [0; 0]);
    let last = reader.last_by_subject(&filters, 997).await.unwrap();
    assert_eq!(last, [("s.b".into(), 998), ("s.c.x".into(), 999)]);
}

#[tokio::test]
async fn what_is_gone_is_left_out() {
    let rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({ "allow_msg_ttl": true }))
        .await;
    let reader = Reader::new(&rig.link, "S");
    let filters = subjects(&["s.*"]);
    for _ in 0..3 {
        rig.backend.publish("s.a", &[], "").await;
        rig.backend.publish("s.b", &[], "").await;
    }
    // 7 and 8 live for a second; 8 is the last one of its subject.
    rig.backend.publish("s.a", &[("Nats-TTL", "1s")], "").await;
    rig.backend.publish("s.b", &[("Nats-TTL", "1s")], "").await;
    rig.backend.publish("s.a", &[], "").await;
    for sequence in [1, 3, 4] {
        assert!(reader.remove(sequence).await.unwrap());
    }
    assert!(!reader.remove(4).await.unwrap());
    assert!(!reader.remove(100).await.unwrap());

    // Its subjects are known, and then what was last in one of them goes.
    let mut begun = reader.backlog(filters.clone(), 0, 9);
    let first = begun.next_page().await.unwrap();
    let mut sequences: Vec<_> = first.iter().map(|stored| stored.sequence).collect();
    eventually("two have expired", async || {
        match rig.backend.count("S").await {
            4 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    sequences.extend(read(begun).await);
    assert_eq!(
        sequences
            .iter()
            .filter(|at| !matches!(at, 7 | 8))
            .copied()
            .collect::<Vec<_>>(),
        [2, 5, 6, 9]
    );
    assert_eq!(read(reader.backlog(filters, 0, 9)).await, [2, 5, 6, 9]);

    assert_eq!(reader.at(5).await.unwrap().unwrap().sequence, 5);
    assert_eq!(reader.at(4).await.unwrap(), None);
    assert_eq!(reader.at(100).await.unwrap(), None);
}

#[tokio::test]
async fn messages_that_vanish_while_they_are_read_end_nothing() {
    let rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({})).await;
    let reader = Reader::new(&rig.link, "S");
    publish(&rig, "S", (0..2_000).map(|at| format!("s.{}", at % 2))).await;
    let mut backlog = reader.backlog(subjects(&["s.*"]), 0, 2_000);
    let first = backlog.next_page().await.unwrap();
    assert!(!first.is_empty());
    // The rest of one subject, its last message among them.
    let stream = rig.backend.stream("S").await;
    stream.purge().filter("s.0").await.unwrap();
    let rest = read(backlog).await;
    let odd = rest.iter().filter(|sequence| *sequence % 2 == 0).count();
    let read_before = first
        .iter()
        .filter(|stored| stored.sequence % 2 == 0)
        .count();
    assert_eq!(odd + read_before, 1_000);
    assert!(rest.len() < 1_500, "{}", rest.len());
}

#[tokio::test]
async fn more_subjects_than_the_index_answers_are_read_all_the_same() {
    let rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({})).await;
    let reader = Reader::new(&rig.link, "S");
    publish(&rig, "S", (0..5_000).map(|at| format!("s.{}", at % 2_500))).await;
    // Overlapping filters give nothing twice.
    let filters = subjects(&["s.*", "s.>", "s.7"]);
    let found = read(reader.backlog(filters.clone(), 1_000, 4_900)).await;
    assert_eq!(found, (1_001..=4_900).collect::<Vec<_>>());
    let error = reader.last_by_subject(&filters, 0).await.unwrap_err();
    assert!(error.to_string().contains("more than 1024"), "{error}");

    let last = |max| {
        let reader = reader.clone();
        async move { reader.last(&subjects(&["s.>"]), max).await.unwrap() }
    };
    let all: Vec<_> = last(10_000)
        .await
        .iter()
        .map(|stored| stored.sequence)
        .collect();
    assert_eq!(all, (2_501..=5_000).collect::<Vec<_>>());
    assert_eq!(last(10).await.len(), 10);
    let few = reader.last(&subjects(&["s.1", "s.2"]), 10).await.unwrap();
    assert_eq!(
        few.iter().map(|stored| stored.sequence).collect::<Vec<_>>(),
        [2_502, 2_503]
    );
}

#[tokio::test]
async fn pages_are_bounded_in_bytes() {
    let rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({})).await;
    let large = vec![0; 300_000];
    for at in 0..20 {
        let subject = format!("s.{}", at % 3);
        rig.backend.publish(&subject, &[], large.clone()).await;
    }
    let reader = Reader::new(&rig.link, "S");
    let mut backlog = reader.backlog(subjects(&["s.*"]), 0, 20);
    let mut count = 0;
    loop {
        let page = backlog.next_page().await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 4, "{}", page.len());
        count += page.len();
    }
    assert_eq!(count, 20);
    // The bodies come along in pages of their own.
    assert_eq!(reader.last(&subjects(&["s.*"]), 10).await.unwrap().len(), 3);
}

#[tokio::test]
async fn the_last_message_of_a_subject_is_read_and_all_up_to_it_removed() {
    let rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({})).await;
    let subjects = ["s.a", "s.b", "s.a", "s.c", "s.a"];
    publish(&rig, "S", subjects.iter().map(ToString::to_string)).await;
    let reader = Reader::new(&rig.link, "S");
    let last = async |subject| {
        let stored = reader.last_on(subject).await.unwrap();
        stored.map_or(0, |stored| stored.sequence)
    };
    assert_eq!((last("s.a").await, last("s.x").await), (5, 0));
    reader.purge("s.a", 3).await.unwrap();
    assert_eq!(last("s.a").await, 5);
    assert!(reader.at(1).await.unwrap().is_none());
    assert!(reader.at(3).await.unwrap().is_none());
    assert!(reader.at(2).await.unwrap().is_some());
    reader.purge("s.*", u64::MAX).await.unwrap();
    assert_eq!((last("s.a").await, last("s.b").await), (0, 0));
    let missing = Reader::new(&rig.link, "MISSING").purge("s.a", 1).await;
    assert!(missing.is_err());
}

#[tokio::test]
async fn a_killed_server_only_delays_reading() {
    let mut rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({})).await;
    publish(&rig, "S", (0..1_000).map(|at| format!("s.{}", at % 3))).await;
    let reader = Reader::new(&rig.link, "S");
    let mut backlog = reader.backlog(subjects(&["s.*"]), 0, 1_000);
    let mut count = backlog.next_page().await.unwrap().len();
    rig.server.kill9().await;
    let rest = async {
        loop {
            match backlog.next_page().await.unwrap().len() {
                0 => break,
                more => count += more,
            }
        }
    };
    tokio::join!(rest, rig.server.restart());
    assert_eq!(count, 1_000);
}

#[tokio::test]
async fn a_replica_that_lags_behind_hides_nothing() {
    let cluster = NatsCluster::start().await;
    let backend = cluster.backend(0).await;
    create(&backend, "S", &["s.>"], json!({ "num_replicas": 3 })).await;
    // Direct gets are answered by the server that one is connected to, if it has a replica.
    let link = crate::rig::link(&cluster.url_of(1)).await;
    let reader = Reader::new(&link, "S");
    for round in 0..5 {
        let subject = format!("s.{round}");
        cluster.lead("S", 0).await;
        cluster.whole("S").await;
        cluster.pause(1);
        // The more there is to catch up on, the longer it lags.
        publish_to(&backend, "S", (0..3000).map(|_| "s.other".to_owned())).await;
        let sequence = backend.publish(&subject, &[], "").await;
        let backlog = reader.backlog(subjects(&[&subject]), sequence - 1, sequence);
        let resumed = async {
            // The question is there before what the replica missed.
            lasting(Duration::from_millis(20)).await;
            cluster.resume(1);
        };
        let (found, at, last, ()) = tokio::join!(
            read(backlog),
            reader.at(sequence),
            reader.last_on(&subject),
            resumed
        );
        assert_eq!(found, [sequence]);
        assert!(at.unwrap().is_some());
        assert!(last.unwrap().is_some());
    }
}
