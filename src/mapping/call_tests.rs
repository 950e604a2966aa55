//! What a request from a service becomes: the topic, the token and the answer that it waits for.

use super::*;
use crate::mapping::Settings;

fn request(handle: &str, headers: &[(&str, &str)], payload: &str) -> Message {
    let mut all = Headers::default();
    for (name, value) in headers {
        all.push(*name, *value);
    }
    Message {
        subject: format!("device.rpc.mqtt.{handle}.P.D%2E1").into(),
        headers: all,
        payload: Bytes::copy_from_slice(payload.as_bytes()),
    }
}

fn mapping() -> Mapping {
    Mapping::load(&Settings::default(), None).unwrap()
}

fn topics(call: &Call, version: Version) -> Vec<String> {
    let publishes = call.publishes(version);
    publishes
        .iter()
        .map(|publish| publish.topic.to_string())
        .collect()
}

fn uplink(topic: &str, payload: &str) -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: topic.into(),
        packet_id: None,
        properties: crate::mqtt::PublishProperties::default(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
    }
}

#[test]
fn requests_have_a_filter_of_their_own_which_no_downlink_matches() {
    assert_eq!(mapping().calls().as_deref(), Some("device.rpc.mqtt.*.*.*"));
    let open = Settings {
        profile: crate::mapping::Profile::Open,
        ..Settings::default()
    };
    assert_eq!(Mapping::load(&open, None).unwrap().calls(), None);
}

#[test]
fn a_thing_model_method_is_answered_by_its_token_on_the_same_handle_and_type() {
    let mapping = mapping();
    let payload = r#"{"method":"action","msgToken":"t1"}"#;
    let call = mapping.call(&request("thing", &[], payload), "7").unwrap();
    for version in [Version::V3_1_1, Version::V5] {
        let expected = ["$thing/down/action/P/D.1", "$rpc/down/7/P/D.1"];
        assert_eq!(topics(&call, version), expected);
    }
    for (topic, payload, expected) in [
        ("$thing/up/action/P/D.1", r#"{"msgToken":"t1"}"#, true),
        ("$thing/up/action/P/D.1", r#"{"msgToken":"t2"}"#, false),
        ("$thing/up/action/P/D.1", "t1", false),
        ("$thing/up/property/P/D.1", r#"{"msgToken":"t1"}"#, false),
        ("$ota/up/action/P/D.1", r#"{"msgToken":"t1"}"#, false),
        ("$thing/up/action/P/other", r#"{"msgToken":"t1"}"#, false),
        ("$rpc/up/7/P/D.1", "anything", true),
        ("$rpc/up/8/P/D.1", "anything", false),
    ] {
        let address = mapping.address(topic).unwrap();
        let answers = call.is_answered_by(&address, &uplink(topic, payload));
        assert_eq!(answers, expected, "{topic} {payload}");
    }
}

#[test]
fn only_mqtt_5_can_answer_on_another_topic_what_has_no_token() {
    let call = mapping().call(&request("ota", &[("Jw-Type", "x")], ""), "7");
    let call = call.unwrap();
    assert_eq!(topics(&call, Version::V3_1_1), ["$rpc/down/7/P/D.1"]);
    let publishes = call.publishes(Version::V5);
    assert_eq!(&*publishes[0].topic, "$ota/down/x/P/D.1");
    for publish in publishes {
        let properties = publish.properties;
        assert_eq!(
            properties.response_topic.as_deref(),
            Some("$rpc/up/7/P/D.1")
        );
        assert_eq!(properties.correlation_data.as_deref(), Some(&b"7"[..]));
        assert_eq!(publish.qos, QoS::AtMostOnce);
    }
}

#[test]
fn a_request_of_the_handle_rpc_has_its_own_topic_whatever_it_says() {
    let headers = [("Jw-Topic", "$rpc/down/1/P/D.1"), ("Nats-TTL", "1")];
    let call = mapping().call(&request("rpc", &headers, "x"), "7").unwrap();
    assert!(
        topics(&call, Version::V5)
            .iter()
            .all(|topic| topic == "$rpc/down/7/P/D.1")
    );
    assert_eq!(topics(&call, Version::V3_1_1), ["$rpc/down/7/P/D.1"]);
}

#[test]
fn what_is_wrong_in_a_request_is_named() {
    let mapping = mapping();
    let fault = |handle: &str, headers: &[(&str, &str)]| {
        let call = mapping.call(&request(handle, headers, ""), "7");
        call.expect_err("it is wrong").to_string()
    };
    assert!(fault("none", &[]).contains("device.rpc.mqtt.none.P.D%2E1"));
    assert!(fault("thing", &[("Jw-Qos", "3")]).contains("Jw-Qos"));
    assert!(fault("thing", &[("Jw-Timeout-Ms", "1s")]).contains("Jw-Timeout-Ms"));
}
