//! Each rule at its threshold: not yet, then, and no longer.

use super::*;
use crate::health::measured::{Outbox, Stream, Tally};
use crate::jetstream::{DurableState, StreamState};

struct Bench {
    conditions: Conditions,
    measured: Measured,
    node: Node,
    start: Instant,
}

impl Bench {
    fn new() -> Self {
        let durable = Durable {
            stream: "APPLICATION".to_owned(),
            name: "iot-core".to_owned(),
            state: Some(DurableState::default()),
            ..Durable::default()
        };
        let stream = Stream {
            name: "DEVICE_UP".to_owned(),
            state: Some(StreamState::default()),
            ..Stream::default()
        };
        Self {
            conditions: Conditions::new(&Config::default(), "n1", "DEVICE_UP"),
            measured: Measured {
                durables: vec![durable],
                streams: vec![stream],
                ..Measured::default()
            },
            node: Node {
                connected: true,
                ..Node::default()
            },
            start: Instant::now(),
        }
    }

    fn at(&mut self, second: u64) -> Vec<Alarm> {
        let now = self.start + Duration::from_secs(second);
        self.conditions.judge(now, &self.measured, &self.node)
    }

    fn rules(&mut self, second: u64) -> Vec<String> {
        self.at(second)
            .into_iter()
            .map(|alarm| alarm.rule)
            .collect()
    }

    fn lag(&mut self, lag: u64) {
        self.measured.durables[0].state.as_mut().unwrap().pending = lag;
    }

    fn tally(&mut self, handled: u64, failed: u64) {
        self.measured.durables[0].tally = Tally {
            handled,
            failed,
            ..Tally::default()
        };
    }

    fn uplinks(&mut self, count: u64) {
        self.measured.streams[0]
            .state
            .as_mut()
            .unwrap()
            .last_sequence = count;
    }
}

#[test]
fn nothing_is_an_alarm_while_all_is_well() {
    let mut bench = Bench::new();
    for second in 0..700 {
        bench.uplinks(second * 100);
        bench.tally(second * 100, second);
        assert_eq!(bench.at(second), [], "{second}");
    }
}

#[test]
fn lag_is_an_alarm_when_it_lasts() {
    let mut bench = Bench::new();
    bench.lag(10_000);
    assert_eq!(bench.rules(0), [""; 0]);
    bench.lag(10_001);
    assert_eq!(bench.rules(1), [""; 0]);
    assert_eq!(bench.rules(300), [""; 0]);
    let alarms = bench.at(301);
    assert_eq!(
        (&*alarms[0].rule, &*alarms[0].task),
        ("JetwayDurableLag", "APPLICATION/iot-core")
    );
    bench.lag(1);
    assert_eq!(bench.rules(302), [""; 0]);
    bench.lag(20_000);
    assert_eq!(bench.rules(303), [""; 0], "its time begins anew");
}

#[test]
fn more_than_one_failure_in_a_hundred_is_an_alarm_for_as_long_as_the_window() {
    let mut bench = Bench::new();
    bench.tally(1_000, 50);
    assert_eq!(bench.rules(0), [""; 0], "what was before it began to look");
    bench.tally(1_099, 51);
    assert_eq!(bench.rules(5), [""; 0], "one in a hundred");
    bench.tally(1_099, 52);
    assert_eq!(bench.rules(10), ["JetwayDurableFailures"]);
    for second in (15..310).step_by(5) {
        assert_eq!(bench.rules(second), ["JetwayDurableFailures"], "{second}");
    }
    assert_eq!(bench.rules(310), [""; 0]);
}

#[test]
fn a_dead_letter_is_an_alarm_that_names_event_reason_retries_and_trace() {
    let mut bench = Bench::new();
    bench.measured.dead_letters = vec![Dead {
        origin: "durable".to_owned(),
        reason: "max_deliveries".to_owned(),
        count: 2,
        last_sequence: 17,
        durable: "iot-core".to_owned(),
        event: "device.property.reported".to_owned(),
        attempts: Some(4),
        trace_id: "abc".to_owned(),
    }];
    let alarms = bench.at(0);
    let alarm = &alarms[0];
    assert_eq!(
        (&*alarm.rule, &*alarm.reason),
        ("JetwayDeadLetters", "max_deliveries")
    );
    assert_eq!(
        (&*alarm.event, alarm.retries),
        ("device.property.reported", Some(4))
    );
    assert_eq!((&*alarm.trace_id, alarm.count), ("abc", 17));
    assert_eq!(alarm.detail, "2 dead letters, the last one of iot-core");
    bench.measured.dead_letters[0].count = 0;
    assert_eq!(bench.rules(5), [""; 0]);
}

#[test]
fn a_rate_that_differs_by_more_than_half_is_an_alarm_in_both_directions() {
    for (after, is_alarm) in [(15, false), (16, true), (5, false), (4, true), (0, true)] {
        let mut bench = Bench::new();
        let mut seen = Vec::new();
        for second in (0..=900).step_by(5) {
            let late = second.max(600) - 600;
            bench.uplinks(10 * second.min(600) + after * late);
            seen = bench.rules(second);
        }
        let expected = if is_alarm {
            vec!["JetwayRateStep"]
        } else {
            vec![]
        };
        assert_eq!(seen, expected, "from 10 to {after} a second");
    }
}

#[test]
fn a_few_uplinks_are_no_rate() {
    let mut bench = Bench::new();
    for second in (0..=900).step_by(5) {
        bench.uplinks(second.min(600) / 2);
        assert_eq!(bench.rules(second), [""; 0], "{second}");
    }
}

#[test]
fn a_node_tells_of_itself_what_lasts() {
    let mut bench = Bench::new();
    bench.node.stalled_s = 5;
    assert_eq!(bench.rules(0), ["JetwayUplinkStalled"]);
    bench.node = Node {
        connected: false,
        obstacles: vec!["NATS is not connected".to_owned()],
        ..Node::default()
    };
    assert_eq!(bench.rules(1), [""; 0]);
    assert_eq!(bench.rules(11), ["JetwayNatsAway"]);
    assert_eq!(bench.rules(31), ["JetwayNatsAway", "JetwayNotReady"]);
    bench.node.connected = true;
    bench.node.obstacles.clear();
    assert_eq!(bench.rules(32), [""; 0]);
}

#[test]
fn a_lost_node_is_told_for_ten_minutes() {
    let mut bench = Bench::new();
    bench.node.nodes_lost = 3;
    assert_eq!(bench.rules(0), [""; 0]);
    bench.node.nodes_lost = 4;
    assert_eq!(bench.rules(5), ["JetwayNodeLost"]);
    for second in (10..605).step_by(5) {
        assert_eq!(bench.rules(second), ["JetwayNodeLost"], "{second}");
    }
    assert_eq!(bench.rules(605), [""; 0]);
}

#[test]
fn rows_of_the_outbox_that_wait_too_long_or_are_dead_are_alarms() {
    let mut bench = Bench::new();
    let outbox = |oldest_s, dead| Outbox {
        waiting: 3,
        oldest: Duration::from_secs(oldest_s),
        dead,
    };
    bench.measured.outbox = Some(outbox(300, 0));
    assert_eq!(bench.rules(0), [""; 0]);
    bench.measured.outbox = Some(outbox(301, 0));
    let alarms = bench.at(5);
    assert_eq!(
        (&*alarms[0].rule, &*alarms[0].task, &*alarms[0].detail),
        (
            "JetwayOutboxPending",
            "outbox",
            "3 rows wait, the oldest for 301 s"
        )
    );
    bench.measured.outbox = Some(outbox(0, 2));
    let alarms = bench.at(10);
    assert_eq!(alarms.len(), 1);
    assert_eq!(
        (&*alarms[0].rule, &*alarms[0].reason, alarms[0].count),
        ("JetwayOutboxDead", "outbox_dead", 2)
    );
    bench.measured.outbox = Some(outbox(0, 0));
    assert_eq!(bench.rules(15), [""; 0]);
}
