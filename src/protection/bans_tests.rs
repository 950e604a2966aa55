//! Thresholds, blocks that end, and tables that stay bounded whoever fills them.

use super::*;
use crate::protection::{Flapping, Logins};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000 * SECOND;

fn bans() -> Bans {
    Bans::new(&Config {
        logins: Logins {
            window_s: 60,
            address_failures_max: 5,
            username_failures_max: 4,
            client_id_failures_max: 3,
            block_s: 30,
        },
        flapping: Flapping {
            window_s: 60,
            connects_max: 2,
            block_s: 10,
        },
        entries_max: 100,
        ..Config::default()
    })
}

#[test]
fn each_kind_has_a_threshold_of_its_own_and_a_block_that_ends() {
    let bans = bans();
    for (kind, max, block_s) in [
        (Kind::Address, 5, 30),
        (Kind::Username, 4, 30),
        (Kind::ClientId, 3, 30),
        (Kind::Device, 2, 10),
    ] {
        for number in 1..max {
            assert_eq!(bans.count(kind, "x", START + number), None, "{kind:?}");
            assert_eq!(bans.why(kind, "x", START + number), None);
        }
        let now = START + SECOND;
        let blocked = bans.count(kind, "x", now).unwrap();
        assert_eq!(blocked.time, Duration::from_secs(block_s));
        assert!(bans.why(kind, "x", now + block_s * SECOND - 1).is_some());
        assert_eq!(bans.why(kind, "x", now + block_s * SECOND), None);
        assert_eq!(bans.why(kind, "y", now), None, "of another one");
        assert_eq!(bans.count(kind, "x", now), None, "blocked once");
    }
    assert_eq!(bans.list(START + SECOND).len(), 4);
    assert!(bans.list(START + 31 * SECOND).is_empty());
}

#[test]
fn what_fails_now_and_then_is_not_blocked() {
    let bans = bans();
    for number in 0..1_000 {
        let now = START + number * 21 * SECOND;
        assert_eq!(bans.count(Kind::ClientId, "x", now), None);
    }
    bans.forgive(Kind::ClientId, "x", START);
    let again = START + 21_000 * SECOND;
    (0..2).for_each(|_| assert_eq!(bans.count(Kind::ClientId, "x", again), None));
}

#[test]
fn a_block_is_listed_and_lifted_and_not_forgiven() {
    let bans = bans();
    for number in 0..3 {
        bans.count(Kind::ClientId, "P&D", START + number);
    }
    bans.add(Kind::Address, "192.0.2.7", Duration::from_secs(5), START);
    let ban = |kind, value: &str, why, remaining_ms| Ban {
        kind,
        value: value.to_owned(),
        why,
        remaining_ms,
    };
    let blocked = ban(Kind::ClientId, "P&D", Why::Logins, 29_001);
    let expected = [
        ban(Kind::Address, "192.0.2.7", Why::Operator, 4_000),
        blocked.clone(),
    ];
    assert_eq!(bans.list(START + SECOND), expected);
    bans.forgive(Kind::ClientId, "P&D", START + SECOND);
    assert!(bans.lift(Kind::Address, "192.0.2.7", START + SECOND));
    assert!(!bans.lift(Kind::Address, "192.0.2.7", START + SECOND));
    assert_eq!(bans.list(START + SECOND), [blocked]);
}

#[test]
fn many_names_fill_no_more_than_their_table_and_push_nobody_out() {
    let bans = bans();
    for number in 0..3 {
        bans.count(Kind::ClientId, "P&D", START + number);
    }
    for number in 0..10_000 {
        bans.count(Kind::ClientId, &format!("x{number}"), START + number);
    }
    assert_eq!(bans.table(Kind::ClientId).entries.len(), 100);
    let why = bans.why(Kind::ClientId, "P&D", START + SECOND);
    assert_eq!(why, Some(Why::Logins));
    assert_eq!(bans.count(Kind::Address, "192.0.2.7", START), None);
    // What is forgotten makes room, and an operator needs none.
    bans.add(Kind::ClientId, "y", Duration::from_secs(1), START);
    let later = START + 3_600 * SECOND;
    bans.count(Kind::ClientId, "z", later);
    assert_eq!(bans.table(Kind::ClientId).entries.len(), 1);
}

#[test]
fn a_long_name_is_cut_between_characters() {
    let long = "ü".repeat(300) + "x";
    assert_eq!(key(&long).len(), 512);
    assert_eq!(key(&("x".to_owned() + &long)).len(), 511);
    assert_eq!(key("P&D"), "P&D");
}

#[test]
fn a_storm_of_devices_is_forgotten_as_it_passes() {
    let bans = Bans::new(&Config::default());
    for number in 0..100_000 {
        // 10,000 a second, each of which counts for a second.
        let now = START + number * SECOND / 10_000;
        bans.count(Kind::Device, &format!("P/d{number}"), now);
    }
    let kept = bans.table(Kind::Device).entries.len();
    assert!(kept <= 30_000, "{kept}");
}
