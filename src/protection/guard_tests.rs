//! The questions of a connection in their order: address, rates and blocks, device.

use super::*;
use crate::protection::{Flapping, Logins, ProductLimits};

fn who<'a>(address: &str, client_id: &'a str) -> Who<'a> {
    Who {
        peer: Some(address.parse().unwrap()),
        client_id,
        username: Some("user"),
    }
}

fn device(name: &str) -> DeviceId {
    DeviceId::new("P", name).unwrap()
}

#[test]
fn nothing_is_limited_and_nobody_counted_unless_somebody_says_so() {
    let protection = Protection::new(Config::default());
    for number in 0..10_000 {
        let name = format!("d{number}");
        let who = who("192.0.2.7:1", &name);
        assert!(protection.enter(who.peer).unwrap().is_none());
        protection.check(None, &who).unwrap();
        let quota = protection
            .admit(&who, &device(&name), false, &mut None)
            .unwrap();
        assert!(quota.is_none());
    }
}

#[test]
fn a_source_has_places_and_a_rate_of_its_own() {
    let protection = Protection::new(Config {
        source_connections_max: 2,
        source_connects_per_s: 3,
        connects_per_s: 5,
        ..Config::default()
    });
    let enter = |address: &str| protection.enter(Some(address.parse().unwrap()));
    let held = [enter("192.0.2.7:1"), enter("192.0.2.7:2")].map(|place| place.unwrap().unwrap());
    assert_eq!(enter("192.0.2.7:3").unwrap_err(), Reason::SourceConnections);
    let other = enter("192.0.2.8:1").unwrap().unwrap();
    let taken = |source: &Source| {
        let check = |_: &u32| {
            protection
                .check(Some(source), &who("192.0.2.7:1", "x"))
                .is_ok()
        };
        (0..100).filter(check).count()
    };
    assert_eq!(taken(&held[0]), 3);
    assert_eq!(taken(&held[1]), 0, "of the same address");
    assert_eq!(taken(&other), 2, "what is left of the node's");
    let refused = protection.check(None, &who("192.0.2.9:1", "x"));
    assert_eq!(refused, Err(Reason::ConnectRate));
    drop(held);
    assert!(enter("192.0.2.7:3").is_ok());
}

#[test]
fn logins_that_fail_are_blocked_and_no_others() {
    let protection = Protection::new(Config {
        logins: Logins {
            address_failures_max: 100,
            username_failures_max: 0,
            client_id_failures_max: 3,
            ..Logins::default()
        },
        ..Config::default()
    });
    let (one, other) = (who("192.0.2.7:1", "P&D"), who("192.0.2.7:2", "P&E"));
    (0..2).for_each(|_| protection.denied(&one));
    // A login that is right clears what its client identifier failed before.
    protection
        .admit(&one, &device("D"), false, &mut None)
        .unwrap();
    (0..2).for_each(|_| protection.denied(&one));
    protection.check(None, &one).unwrap();
    protection.denied(&one);
    assert_eq!(protection.check(None, &one), Err(Reason::Blocked));
    protection.check(None, &other).unwrap();
    assert!(protection.lift(Kind::ClientId, "P&D"));
    protection.check(None, &one).unwrap();
    (0..100).for_each(|_| protection.denied(&other));
    let third = who("192.0.2.7:3", "P&F");
    assert_eq!(protection.check(None, &third), Err(Reason::Blocked));
    protection.check(None, &who("192.0.2.8:1", "P&F")).unwrap();
    let kinds: Vec<Kind> = protection.bans().iter().map(|ban| ban.kind).collect();
    assert_eq!(kinds, [Kind::Address, Kind::ClientId]);
}

#[test]
fn an_operator_blocks_and_lifts_an_address_of_a_network() {
    let protection = Protection::new(Config::default());
    let time = Duration::from_secs(60);
    protection.ban(Kind::Address, "2001:db8::5", time);
    let blocked = who("[2001:db8::1234:1]:1", "x");
    assert_eq!(protection.check(None, &blocked), Err(Reason::Blocked));
    assert!(protection.lift(Kind::Address, "2001:db8::7"));
    protection.check(None, &blocked).unwrap();
    protection.ban(Kind::Device, "P/D", time);
    let refused = protection.admit(&blocked, &device("D"), true, &mut None);
    assert_eq!(refused.unwrap_err(), Reason::Blocked);
}

#[test]
fn a_device_that_connects_all_the_time_has_to_wait() {
    let protection = Protection::new(Config {
        flapping: Flapping {
            connects_max: 3,
            ..Flapping::default()
        },
        ..Config::default()
    });
    let admit = |name| protection.admit(&who("192.0.2.7:1", "x"), &device(name), true, &mut None);
    (0..3).for_each(|_| drop(admit("D").unwrap()));
    assert_eq!(admit("D").unwrap_err(), Reason::Flapping);
    admit("E").unwrap();
    assert_eq!(protection.bans()[0].value, "P/D");
}

#[test]
fn a_product_has_so_many_places_and_a_connected_device_takes_its_own() {
    let limits = |connections_max| ProductLimits {
        connections_max,
        ..ProductLimits::default()
    };
    let protection = Protection::new(Config {
        products: limits(1),
        product: [("Q".to_owned(), limits(0))].into(),
        ..Config::default()
    });
    let who = who("192.0.2.7:1", "x");
    let held = protection
        .admit(&who, &device("D"), false, &mut None)
        .unwrap()
        .unwrap();
    let refused = protection.admit(&who, &device("E"), false, &mut None);
    assert_eq!(refused.unwrap_err(), Reason::ProductConnections);
    assert!(
        protection
            .admit(&who, &device("D"), true, &mut None)
            .unwrap()
            .is_some()
    );
    let other = DeviceId::new("Q", "D").unwrap();
    assert!(
        protection
            .admit(&who, &other, false, &mut None)
            .unwrap()
            .is_none()
    );
    drop(held);
    assert!(
        protection
            .admit(&who, &device("E"), false, &mut None)
            .is_ok()
    );
}

#[test]
fn what_a_connack_says_is_what_it_may_say() {
    for (reason, code, return_code) in [
        (Reason::Blocked, 0x8A, 5),
        (Reason::ConnectRate, 0x9F, 3),
        (Reason::Flapping, 0x9F, 3),
        (Reason::ProductConnections, 0x97, 3),
    ] {
        assert_eq!(reason.connack().value(), code);
        assert_eq!(reason.connack().connect_return_code(), return_code);
    }
}
