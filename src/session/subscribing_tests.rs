//! What a session subscribes to, and what a message is delivered with.

use std::num::NonZeroU32;

use super::*;

#[test]
fn suback_grants_exactly_what_is_delivered() {
    // [MQTT-3.8.4-1], [MQTT-3.8.4-3], [MQTT-3.8.4-6]
    let now = Instant::now();
    for (version, denied, quota, shared) in [
        (Version::V5, "0x87", "0x97", "0x9e"),
        (Version::V3_1_1, "0x80", "0x80", "0x80"),
    ] {
        let mut session = session(version, now);
        let mut ask = |filter: &str, qos, allowed: bool| {
            session
                .handle_packet(now, Packet::Subscribe(subscribe(filter, qos)))
                .unwrap();
            let Some(Output::Authorize(asked)) = session.poll_output() else {
                panic!("not asked");
            };
            session.handle_authorized(asked, |_| match allowed {
                true => Ok(0),
                false => Err(DENIED),
            });
            outputs(&mut session).join("; ")
        };
        assert_eq!(ask("a", QoS::AtMostOnce, true), "SUBACK 0x00; fetch a");
        assert_eq!(
            ask("d", QoS::AtLeastOnce, false),
            format!("SUBACK {denied}")
        );
        assert_eq!(ask("b", QoS::ExactlyOnce, true), "SUBACK 0x02; fetch b");
        assert_eq!(ask("c", QoS::AtLeastOnce, true), format!("SUBACK {quota}"));
        assert_eq!(
            ask("b", QoS::AtMostOnce, true),
            "detach b; SUBACK 0x00; fetch b",
            "replaced, not added"
        );
        assert_eq!(
            ask("$share/g/a", QoS::AtLeastOnce, true),
            format!("SUBACK {shared}")
        );
    }
}

#[test]
fn a_suback_explains_each_kind_of_refusal_once() {
    let now = Instant::now();
    let mut session = session(Version::V5, now);
    let mut asked = subscribe("a", QoS::AtMostOnce);
    for filter in ["no/1", "$share/g/a", "no/2"] {
        asked
            .filters
            .extend(subscribe(filter, QoS::AtMostOnce).filters);
    }
    session.handle_authorized(asked, |filter| match filter.as_str().starts_with("no") {
        true => Err(DENIED),
        false => Ok(0),
    });
    let Some(Output::Send(Packet::Suback(suback))) = session.poll_output() else {
        panic!("no SUBACK");
    };
    let expected = "topic of another device; shared subscriptions are not available";
    assert_eq!(suback.reason_string.as_deref(), Some(expected));
    assert_eq!(suback.reasons.len(), 4);
}

/// Filter, QoS and Subscription Identifier, 0 for none.
type Asked = (&'static str, QoS, u32);

/// A session with these subscriptions, made one after the other.
fn identified(subscriptions: &[Asked]) -> Session {
    let mut config = config();
    config.subscriptions_max = subscriptions.len();
    let agreement = agree(&connect(Version::V5), &config).unwrap();
    let mut session = Session::new(
        agreement,
        &Arc::new(config),
        start(None, false),
        Instant::now(),
    );
    for (filter, qos, identifier) in subscriptions {
        let mut asked = subscribe(filter, *qos);
        asked.identifier = NonZeroU32::new(*identifier);
        let filter = asked.filters[0].filter.clone();
        session.handle_authorized(asked, |_| Ok(0));
        session.handle_retained(&filter, Vec::new());
    }
    outputs(&mut session);
    session
}

/// QoS and Subscription Identifiers of what is delivered on the topic `a/b`.
fn delivered(session: &mut Session) -> (QoS, Vec<u32>) {
    let mut message = downlink(QoS::AtLeastOnce, 1);
    message.publish.topic = "a/b".into();
    let delivered = session.handle_downlink(message);
    assert!(matches!(delivered, Delivered::Sent(_)), "{delivered:?}");
    let Some(Output::Send(Packet::Publish(publish))) = session.poll_output() else {
        panic!("nothing is delivered");
    };
    assert_eq!(
        session.poll_output(),
        None,
        "overlapping filters deliver once"
    );
    let identifiers = publish.properties.subscription_identifiers;
    let mut identifiers: Vec<_> = identifiers.into_iter().map(NonZeroU32::get).collect();
    identifiers.sort_unstable();
    (publish.qos, identifiers)
}

#[test]
fn a_delivery_has_the_identifiers_of_all_filters_that_match_and_their_highest_qos() {
    // [MQTT-3.3.4-2], [MQTT-3.3.4-3], [MQTT-3.3.4-4]
    const Q0: QoS = QoS::AtMostOnce;
    const Q1: QoS = QoS::AtLeastOnce;
    let cases: [(&[Asked], QoS, &[u32]); 5] = [
        (&[("a/b", Q1, 0)], Q1, &[]),
        (&[("a/b", Q0, 268_435_455)], Q0, &[268_435_455]),
        (
            &[("a/b", Q0, 1), ("a/+", Q1, 2), ("#", Q0, 0), ("c", Q1, 3)],
            Q1,
            &[1, 2],
        ),
        (&[("a/b", Q0, 7), ("a/+", Q0, 7)], Q0, &[7, 7]),
        // [MQTT-3.8.4-3]
        (&[("a/b", Q1, 1), ("a/b", Q0, 2)], Q0, &[2]),
    ];
    for (subscriptions, qos, identifiers) in cases {
        let mut session = identified(subscriptions);
        let found = delivered(&mut session);
        assert_eq!(found, (qos, identifiers.to_vec()), "{subscriptions:?}");
    }
    let mut replaced = identified(&[("a/b", Q1, 1), ("a/b", Q1, 0)]);
    assert_eq!(delivered(&mut replaced), (Q1, vec![]), "and by none");
}

/// A stored session that knows of no subscription.
fn stored(now: Instant) -> Session {
    let agreement = agree(&connect(Version::V5), &config()).unwrap();
    Session::new(agreement, &Arc::new(config()), start(None, true), now)
}

#[test]
fn nothing_before_the_first_subscription_concerns_the_session() {
    let mut session = stored(Instant::now());
    session.handle_authorized(subscribe("a", QoS::AtMostOnce), |_| Ok(5));
    assert_eq!(session.taken(), 5);
    session.handle_authorized(subscribe("b", QoS::AtMostOnce), |_| Ok(9));
    assert_eq!(session.taken(), 5, "some of that may be on its way");
    session.skip_to(7);
    session.skip_to(6);
    assert_eq!(session.record().taken, 7);
}

#[test]
fn a_device_that_goes_on_subscribing_is_held_back_while_the_store_is_slow() {
    let mut session = stored(Instant::now());
    let mut ask = |qos| session.handle_authorized(subscribe("a", qos), |_| Ok(0));
    for _ in 0..8 {
        ask(QoS::AtMostOnce);
        ask(QoS::AtLeastOnce);
    }
    assert_eq!(outputs(&mut session).last().unwrap(), "save");
    assert!(!session.may_read());
    session.handle_saved();
    outputs(&mut session);
    assert!(!session.may_read(), "their retained messages are not read");
    let filter = subscribe("a", QoS::AtMostOnce).filters.remove(0).filter;
    for _ in 0..16 {
        session.handle_retained(&filter, Vec::new());
    }
    assert!(session.may_read());
}

#[test]
fn a_filter_that_is_there_twice_gets_its_retained_messages_once() {
    let mut session = stored(Instant::now());
    let mut asked = subscribe("a", QoS::AtMostOnce);
    asked.filters.push(asked.filters[0].clone());
    session.handle_authorized(asked, |_| Ok(0));
    outputs(&mut session);
    session.handle_saved();
    assert_eq!(outputs(&mut session), ["SUBACK 0x00 0x00", "fetch a"]);
}
