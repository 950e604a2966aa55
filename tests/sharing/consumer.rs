//! The durable pull consumer under the shares, with a puller that dies without a word.

use std::time::Duration;

use jetway::jetstream::consumer::{self, Answer, Consumer, Delivered, Durable, Next};
use jetway::jetstream::{Link, client};

use crate::node::{STREAM, backend, consumers, send};
use crate::support::{NatsServer, within};

fn durable() -> Durable {
    Durable {
        stream: STREAM.into(),
        name: "durable".into(),
        description: String::new(),
        filters: vec!["device.down.mqtt.thing.*.*".into()],
        ack_wait: Duration::from_millis(500),
        inactive_threshold: Duration::from_secs(60),
    }
}

async fn link(server: &NatsServer) -> Link {
    let config = client::Config {
        url: server.url(),
        ..client::Config::default()
    };
    Link::connect(&config).await.unwrap()
}

/// The next message, pulled for alone.
async fn one(consumer: &mut Consumer) -> Delivered {
    let message = async {
        loop {
            if !consumer.is_pulling() {
                consumer.pull(1).await;
            }
            match consumer.next().await {
                Next::Message(delivered) => return delivered,
                Next::Ended => {}
                other => panic!("{other:?}"),
            }
        }
    };
    within("a message", message).await
}

#[tokio::test]
async fn what_a_dead_puller_had_goes_to_another_and_what_is_worked_on_does_not() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    send(&backend, 0..3, &[]).await;
    let link = link(&server).await;
    let mut dying = Consumer::open(&link, &durable(), 2).await.unwrap();
    let mut living = Consumer::open(&link, &durable(), 1).await.unwrap();
    let lost = one(&mut dying).await;
    assert_eq!(lost.sequence, 2, "it began where it was made to");
    assert_eq!(lost.message.headers.get("Nats-Sequence"), Some("2"));
    let worked_on = one(&mut living).await;
    assert_eq!(worked_on.sequence, 3);
    drop(dying);
    let again = loop {
        living
            .answer(worked_on.reply.clone(), Answer::Progress)
            .await;
        living.pull(1).await;
        let next = tokio::time::timeout(Duration::from_millis(100), living.next());
        if let Ok(Next::Message(delivered)) = next.await {
            break delivered;
        }
    };
    assert_eq!(again.sequence, 2);
    living.answer(again.reply, Answer::Ack).await;
    living.answer(worked_on.reply, Answer::Ack).await;
    consumer::delete(&link, STREAM, "durable").await.unwrap();
    assert!(consumers(&backend).await.is_empty());
    let gone = async {
        loop {
            living.pull(1).await;
            if let Next::Gone = living.next().await {
                return;
            }
        }
    };
    within("the puller finds it gone", gone).await;
    // As if it had been there.
    consumer::delete(&link, STREAM, "durable").await.unwrap();
}
