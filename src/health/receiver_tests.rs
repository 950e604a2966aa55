//! The forms of notifications against what the robots' makers document.

use super::*;
use crate::health::alarm::Scope;

fn sender() -> Sender {
    Sender {
        environment: "production".to_owned(),
        region: "eu-1".to_owned(),
        node: "n1".to_owned(),
    }
}

fn alarm(event: &str) -> Alarm {
    Alarm {
        rule: "JetwayDeadLetters".to_owned(),
        scope: Scope::Cluster,
        task: "durable".to_owned(),
        event: event.to_owned(),
        reason: "max_deliveries".to_owned(),
        retries: Some(4),
        trace_id: "0123456789abcdef0123456789abcdef".to_owned(),
        detail: "3 dead letters".to_owned(),
        count: 3,
    }
}

fn news(event: &str, count: usize) -> News {
    News {
        firing: vec![alarm(event); count],
        over: Vec::new(),
    }
}

fn body(form: &Form, news: &News) -> Value {
    let body = form.body(&sender(), news, 1_599_360_473_000);
    serde_json::from_slice(&body).unwrap()
}

const FEISHU: Form = Form::Feishu { secret: None };

#[test]
fn every_form_says_all_that_an_alarm_has_to_say() {
    for form in [Form::Webhook, FEISHU, Form::Wecom] {
        let text = body(&form, &news("device.property.reported", 1)).to_string();
        for part in [
            "production",
            "eu-1",
            "n1",
            "durable",
            "device.property.reported",
            "max_deliveries",
            "4",
            "0123456789abcdef0123456789abcdef",
            "3 dead letters",
        ] {
            assert!(text.contains(part), "{form:?}: no {part} in {text}");
        }
    }
}

#[test]
fn robots_get_their_own_envelopes() {
    let feishu = body(&FEISHU, &news("e", 1));
    assert_eq!(feishu["msg_type"], "text");
    assert!(feishu["content"]["text"].is_string());
    assert_eq!(feishu.get("sign"), None);
    let wecom = body(&Form::Wecom, &news("e", 1));
    assert_eq!(wecom["msgtype"], "markdown");
    assert!(wecom["markdown"]["content"].is_string());
}

#[test]
fn feishu_notifications_are_signed_with_the_second() {
    let secret = Some("demo".to_owned());
    let signed = body(&Form::Feishu { secret }, &news("e", 1));
    assert_eq!(signed["timestamp"], "1599360473");
    // Computed with Python: base64(hmac.new(b"1599360473\ndemo", digestmod=sha256).digest()).
    assert_eq!(
        signed["sign"],
        "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8="
    );
}

#[test]
fn a_long_notification_is_cut_to_what_the_robot_takes_and_says_so() {
    for (form, max) in [(FEISHU, 20_000), (Form::Wecom, 4_096)] {
        // What JSON escapes, and what takes three bytes.
        for event in ["\"\\".repeat(200), "设备".repeat(200)] {
            let body = form.body(&sender(), &news(&event, 1_000), 0);
            let value: Value = serde_json::from_slice(&body).unwrap();
            let text = value.pointer("/content/text");
            let text = text.or_else(|| value.pointer("/markdown/content")).unwrap();
            let text = text.as_str().unwrap();
            assert!(text.starts_with("Jetway: 1000 firing, 0 over"));
            assert!(text.ends_with(" more"), "{text}");
            let size = if form == FEISHU {
                body.len()
            } else {
                text.len()
            };
            assert!(size <= max, "{form:?}: {size}");
        }
    }
}

#[test]
fn nothing_that_a_device_calls_itself_is_obeyed_by_a_robot() {
    let event = "<at user_id=\"all\"></at><@all>[here](http://x)\r\nFIRING **all** `x`";
    for form in [FEISHU, Form::Wecom] {
        let value = body(&form, &news(event, 1)).to_string();
        for obeyed in ["<at", "<@", "[here]", "**", "\\r", "`"] {
            assert!(!value.contains(obeyed), "{obeyed} in {value}");
        }
    }
}

#[test]
fn a_robot_refuses_with_a_code() {
    let refused = r#"{"code":11232,"msg":"frequency limited"}"#.as_bytes();
    let accepted = r#"{"code":0,"msg":"success","StatusCode":0}"#.as_bytes();
    assert!(FEISHU.accepted(200, refused).is_err());
    assert_eq!(FEISHU.accepted(200, accepted), Ok(()));
    assert!(FEISHU.accepted(500, accepted).is_err());
    let accepted = r#"{"errcode":0,"errmsg":"ok"}"#.as_bytes();
    assert_eq!(Form::Wecom.accepted(200, accepted), Ok(()));
    let refused = r#"{"errcode":45009,"errmsg":"api freq out of limit"}"#.as_bytes();
    assert!(Form::Wecom.accepted(200, refused).is_err());
    assert!(Form::Wecom.accepted(200, b"<html>").is_err());
    assert_eq!(Form::Webhook.accepted(204, b""), Ok(()));
    assert!(Form::Webhook.accepted(302, b"").is_err());
}
