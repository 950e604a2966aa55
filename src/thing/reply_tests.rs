//! Which requests are answered, and how.

use crate::thing::asked_tests::*;

#[test]
fn a_request_is_answered_as_the_platform_does_where_the_product_wants_it() {
    let property = Asked {
        model: Some(MODEL),
        ..PLAIN
    };
    let event = Asked {
        type_: "event",
        ..property
    };
    let ntp = Asked {
        handle: "ext",
        type_: "ntp",
        ..property
    };
    let posted = r#"{"method":"eventPost","msgToken":"e1","eventID":"low","params":{"v":2.9}}"#;
    let bad = r#"{"method":"report","msgToken":"t1","params":{"temp":99},"sys":{"retMsg":true}}"#;
    for (asked, request, place, expected) in [
        (
            &property,
            REPORT,
            "thing/property",
            r#"{"method":"reportReply","msgToken":"t1","code":200}"#,
        ),
        (
            &property,
            PACK,
            "thing/property",
            r#"{"method":"packReportReply","msgToken":"t2","code":200}"#,
        ),
        (
            &event,
            posted,
            "thing/event",
            r#"{"method":"eventReply","msgToken":"e1","code":200}"#,
        ),
        (
            &property,
            bad,
            "thing/property",
            r#"{"method":"reportReply","msgToken":"t1","code":100006,"msg":"found 99, expected a float from -40 to 85 ℃ in steps of 0.5"}"#,
        ),
        (
            &property,
            r#"{"method":"report","params":{"temp":1},"sys":{"retMsg":true}}"#,
            "thing/property",
            r#"{"method":"reportReply","code":200,"msg":"ok"}"#,
        ),
        (
            &property,
            r#"{"method":"packReport"}"#,
            "thing/property",
            r#"{"method":"packReportReply","code":200}"#,
        ),
        (
            &ntp,
            r#"{"method":"getNtp","msgToken":"n1","timestamp":5}"#,
            "ext/ntp",
            r#"{"method":"getNtpReply","msgToken":"n1","code":200,"data":{"deviceSendTime":5,"serverRecvTime":1754000000500}}"#,
        ),
    ] {
        let reply = (place.to_owned(), expected.to_owned());
        assert_eq!(asked.reply(request), Some(reply), "{request}");
    }
}

#[test]
fn nobody_is_answered_who_does_not_want_it_or_could_not_be_read() {
    let property = Asked {
        model: Some(MODEL),
        ..PLAIN
    };
    assert_eq!(
        property.reply(r#"{"method":"report","params":{"temp":1},"sys":{"noAsk":true}}"#),
        None
    );
    assert_eq!(property.reply("{"), None);
    let silent = Asked {
        model: Some(r#"{"reply":["ntp"]}"#),
        ..PLAIN
    };
    assert_eq!(silent.reply(REPORT), None);
}
