//! What is logged about a message names its durable, its event and its trace.

use std::io::Write;
use std::sync::Mutex;

use sqlx::SqlitePool;

use super::*;
use crate::database::Pool;
use crate::message::{Headers, Message};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn bench() -> Arc<Bench> {
    let pool = SqlitePool::connect("sqlite::memory:").await.unwrap();
    Arc::new(Bench {
        config: Config::new("APPLICATION", "gps"),
        handlers: Handlers::default(),
        inbox: Inbox::open(Pool::Sqlite(pool)).await.unwrap(),
        metrics: Metrics::default(),
        spans: Spans::default(),
        stopping: CancellationToken::new(),
        abandoned: CancellationToken::new(),
    })
}

#[tokio::test]
async fn a_line_about_a_message_has_its_durable_event_and_trace() {
    let mut headers = Headers::default();
    headers.push(
        "traceparent",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    );
    let delivered = Delivered {
        message: Message {
            subject: "replay.gps.application.device.p.d.report.thing.property".into(),
            headers,
            payload: r#"{"event_id":"i-1","event_name":"a.b","event_version":"1.0","data":{}}"#
                .into(),
        },
        sequence: 7,
        attempt: 2,
        bytes: 0,
        reply: "".into(),
    };
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_writer(move || writer.clone())
        .finish();
    let logged = tracing::subscriber::set_default(subscriber);
    let ended = bench().await.handle(delivered).await;
    drop(logged);
    assert_eq!(
        ended,
        Ended::Poison("no handler for event a.b 1.0".to_owned())
    );
    let lines = lines.0.lock().unwrap().clone();
    let line = lines.split(|byte| *byte == b'\n').next().unwrap();
    let line: serde_json::Value = serde_json::from_slice(line).unwrap();
    assert_eq!(line["fields"]["reason"], "no handler for event a.b 1.0");
    let span = &line["span"];
    for (field, value) in [
        ("durable", "gps"),
        ("subject", "application.device.p.d.report.thing.property"),
        ("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("parent_id", "00f067aa0ba902b7"),
        ("event", "a.b"),
        ("event_id", "i-1"),
    ] {
        assert_eq!(span[field], value, "{line}");
    }
    assert_eq!(
        (&span["sequence"], &span["attempt"]),
        (&7.into(), &2.into())
    );
}

#[test]
fn a_reason_is_one_line_and_not_too_long() {
    assert_eq!(reason("a\r\nb\u{0}c"), "a  b c");
    assert_eq!(reason(&"ä".repeat(400)).len(), REASON_BYTES_MAX);
}
