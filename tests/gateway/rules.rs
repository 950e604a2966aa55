//! Rules of products: what they take away and what they add, at SUBSCRIBE, at PUBLISH, at delivery and for Wills, while devices are
//! connected.

use serde_json::json;

use crate::site::{BOTH, Registered, SECRET, Site};
use crate::sub_devices::{id, operator};
use crate::support::{Connect, Device, Protocol, Publish, eventually, http};

const NOT_AUTHORIZED: u8 = 0x87;
const OWN: &str = "$thing/down/property/{productID}/{deviceName}";

/// The SUBACK code of what is not allowed.
fn refused(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::V311 => 0x80,
        Protocol::V5 => NOT_AUTHORIZED,
    }
}

/// `jetway product rule VERB PRODUCT EFFECT ACTION FILTER`, which gateways are told of.
fn rule(site: &Site, verb: &str, product: &str, rule: [&str; 3]) {
    operator(
        site,
        &[&["product", "rule", verb, product][..], &rule].concat(),
    );
}

/// Devices of a product of their own.
fn devices<const COUNT: usize>(
    site: &Site,
    product: &str,
    names: [&str; COUNT],
) -> [Registered; COUNT] {
    names.map(|name| {
        site.add_device(&[product, name, "--secret", SECRET]);
        Registered::new(product, name)
    })
}

/// Subscribes again and again until the answer is this one.
async fn answered(device: &mut Device, filter: &str, expected: u8) {
    eventually(filter, async || match device.subscribe(filter).await {
        code if code == expected => Ok(()),
        code => Err(format!("answered with {code:#x}, not {expected:#x}")),
    })
    .await;
}

fn product(name: &str, protocol: Protocol) -> String {
    format!("{name}-{protocol:?}")
}

#[tokio::test]
async fn g23_what_a_rule_denies_ends_at_once_and_is_refused() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let product = product("denied", protocol);
        let [who, neighbour] = devices(&site, &product, ["d", "n"]);
        let mut device = site.connect(protocol, &who).await;
        let [property, service] =
            ["property", "service"].map(|kind| who.topic(&format!("$thing/down/{kind}")));
        for filter in [&property, &service] {
            assert_eq!(device.subscribe(filter).await, 1);
        }
        assert_eq!(
            device
                .publish_acked(&who.topic("$thing/up/event"), "1")
                .await,
            0
        );

        rule(
            &site,
            "add",
            &product,
            ["deny", "publish", "$thing/up/event/#"],
        );
        rule(&site, "add", &product, ["deny", "subscribe", OWN]);
        answered(&mut device, &property, refused(protocol)).await;
        let subject = who.subject("device.down.thing");
        for kind in ["property", "service"] {
            backend.publish(&subject, &[("Jw-Type", kind)], kind).await;
        }
        assert_eq!(device.next().await.text(), "service", "{protocol:?}");
        // A filter that selects more than is denied is granted, and what is denied is left out when it comes.
        let all = who.topic("$thing/down/+");
        assert_eq!(device.subscribe(&all).await, 1);
        for kind in ["property", "event"] {
            backend.publish(&subject, &[("Jw-Type", kind)], kind).await;
        }
        assert_eq!(device.next().await.text(), "event", "{protocol:?}");
        // 3.1.1 has no word for it: acknowledged, and stored nowhere.
        let code = device
            .publish_acked(&who.topic("$thing/up/event"), "2")
            .await;
        let told = (protocol == Protocol::V5).then_some(NOT_AUTHORIZED);
        assert_eq!(code, told.unwrap_or_default());
        assert_eq!(device.publish_acked(&who.reports(), "3").await, 0);
        let stored = who.stored_count(&backend, 2).await;
        let texts: Vec<_> = stored.iter().map(|stored| stored.text()).collect();
        assert_eq!(texts, ["1", "3"]);
        // A Will is refused with the CONNECT that brings it.
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &neighbour.credentials);
        connect.will = Some(Publish::new(&neighbour.topic("$thing/up/event"), "gone"));
        assert!(Device::connect_with(connect).await.is_err());

        rule(&site, "rm", &product, ["deny", "subscribe", OWN]);
        answered(&mut device, &property, 1).await;
        backend
            .publish(&subject, &[("Jw-Type", "property")], "again")
            .await;
        assert_eq!(device.next().await.text(), "again");
    }
}

#[tokio::test]
async fn g23_what_a_rule_adds_is_delivered_until_it_is_removed() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let product = product("added", protocol);
        let [who, other] = devices(&site, &product, ["d", "display"]);
        let [foreign] = devices(&site, &format!("{product}-2"), ["display"]);
        let mut device = site.connect(protocol, &who).await;
        let filter = other.topic("$thing/down/property");
        assert_eq!(device.subscribe(&filter).await, refused(protocol));

        let added = ["allow", "both", "$thing/+/property/{productID}/display"];
        let anywhere = ["allow", "both", "$thing/+/property/+/display"];
        for rules in [added, anywhere] {
            rule(&site, "add", &product, rules);
        }
        answered(&mut device, &filter, 1).await;
        for wider in [
            other.topic("$thing/down/+"),
            other.topic("$thing/up/property"),
            foreign.topic("$thing/down/property"),
            format!("$thing/down/property/{product}/+"),
        ] {
            assert_eq!(device.subscribe(&wider).await, refused(protocol), "{wider}");
        }
        let subject = other.subject("device.down.thing");
        // What it may not have stays for the device that it is for.
        for kind in ["service", "property"] {
            backend.publish(&subject, &[("Jw-Type", kind)], kind).await;
        }
        assert_eq!(device.next().await.text(), "property", "{protocol:?}");
        assert_eq!(device.publish_acked(&other.reports(), "shown").await, 0);
        assert_eq!(other.stored_count(&backend, 1).await[0].text(), "shown");
        let mut display = site.connect(protocol, &other).await;
        assert_eq!(
            display.subscribe(&other.topic("$thing/down/service")).await,
            1
        );
        backend
            .publish(&subject, &[("Jw-Type", "service")], "later")
            .await;
        assert_eq!(display.next().await.text(), "later");

        for rules in [added, anywhere] {
            rule(&site, "rm", &product, rules);
        }
        answered(&mut device, &filter, refused(protocol)).await;
        let before = other.stored(&backend).await.len();
        device.publish_acked(&other.reports(), "not any more").await;
        assert_eq!(device.publish_acked(&who.reports(), "{}").await, 0);
        assert_eq!(other.stored(&backend).await.len(), before);
    }
}

#[tokio::test]
async fn g23_a_gateway_device_is_no_way_around_the_rules_of_a_sub_devices_product() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let [who] = devices(&site, &product("ahead", protocol), ["g"]);
        let product = product("behind", protocol);
        let [sub, unbound] = devices(&site, &product, ["s", "other"]);
        let event = "$thing/up/event/{productID}/{deviceName}";
        let denied = ["deny", "publish", event];
        let allowed = ["allow", "both", "$thing/+/property/{productID}/other"];
        rule(&site, "add", &product, allowed);
        rule(&site, "add", &product, denied);
        rule(&site, "add", &product, ["deny", "subscribe", OWN]);
        let filter = sub.topic("$thing/down/property");
        let mut direct = site.connect(protocol, &sub).await;
        answered(&mut direct, &filter, refused(protocol)).await;
        direct.disconnect().await;

        // The rules are known: they come with a sub-device that is bound later.
        let mut device = site.connect(protocol, &who).await;
        operator(&site, &["binding", "add", &id(&who), &id(&sub)]);
        answered(&mut device, &sub.topic("$thing/down/+"), 1).await;
        assert_eq!(device.subscribe(&filter).await, refused(protocol));
        let told = (protocol == Protocol::V5).then_some(NOT_AUTHORIZED);
        let told = told.unwrap_or_default();
        let event = sub.topic("$thing/up/event");
        assert_eq!(device.publish_acked(&event, "1").await, told);
        assert_eq!(device.publish_acked(&sub.reports(), "2").await, 0);
        device.publish_acked(&unbound.reports(), "nothing").await;
        assert_eq!(
            device
                .publish_acked(&who.topic("$thing/up/event"), "3")
                .await,
            0
        );
        let subject = sub.subject("device.down.thing");
        for kind in ["property", "service"] {
            backend.publish(&subject, &[("Jw-Type", kind)], kind).await;
        }
        assert_eq!(device.next().await.text(), "service", "{protocol:?}");

        rule(&site, "rm", &product, denied);
        rule(&site, "rm", &product, ["deny", "subscribe", OWN]);
        answered(&mut device, &filter, 1).await;
        assert_eq!(device.publish_acked(&event, "4").await, 0);
        backend
            .publish(&subject, &[("Jw-Type", "property")], "again")
            .await;
        assert_eq!(device.next().await.text(), "again");
        rule(&site, "add", &product, denied);
        rule(&site, "add", &product, ["deny", "subscribe", OWN]);
        answered(&mut device, &filter, refused(protocol)).await;
        assert_eq!(device.publish_acked(&event, "5").await, told);
        let stored = sub.stored_count(&backend, 2).await;
        let texts: Vec<_> = stored.iter().map(|stored| stored.text()).collect();
        assert_eq!(
            (texts, unbound.stored(&backend).await.len()),
            (vec!["2", "4"], 0)
        );
    }
}

#[tokio::test]
async fn g10_a_will_for_a_sub_device_is_held_to_the_rules_of_its_product() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let [who] = devices(&site, &product("will", protocol), ["g"]);
        let product = product("will-behind", protocol);
        let [sub] = devices(&site, &product, ["s"]);
        operator(&site, &["binding", "add", &id(&who), &id(&sub)]);
        let connect = async |topic: String, text: &'static str| {
            let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
            connect.will = Some(Publish::new(&topic, text));
            Device::connect_with(connect).await
        };
        drop(connect(sub.reports(), "gone").await.unwrap());
        assert_eq!(sub.stored_count(&backend, 1).await[0].text(), "gone");

        let mut device = connect(sub.reports(), "withheld").await.unwrap();
        let own = "$thing/+/property/{productID}/{deviceName}";
        rule(&site, "add", &product, ["deny", "both", own]);
        answered(
            &mut device,
            &sub.topic("$thing/down/property"),
            refused(protocol),
        )
        .await;
        drop(device);
        assert!(connect(sub.reports(), "refused").await.is_err());
        // Behind all that the earlier connection owes.
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "back").await, 0);
        assert_eq!(sub.stored(&backend).await.len(), 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn g22_hostile_names_widen_no_rule() {
    let site = Site::shared().await;
    let product = "{clientID}.$thing";
    let names = ["*", ">", "a.b", "{deviceName}", "$thing", "\u{1F600} "];
    let all = devices(&site, product, names);
    for (effect, filter) in [
        ("allow", "$thing/up/property/{productID}/{deviceName}"),
        ("allow", "$thing/up/{clientID}/{productID}/{deviceName}"),
        ("deny", "$thing/up/event/{productID}/{deviceName}"),
        ("deny", "$ota/up/report/+/{clientID}"),
    ] {
        rule(&site, "add", product, [effect, "publish", filter]);
    }
    for (at, who) in all.iter().enumerate() {
        let mut device = eventually("the rules are there", async || {
            let mut device = Box::pin(site.connect(Protocol::V5, who)).await;
            match device
                .publish_acked(&who.topic("$thing/up/event"), "{}")
                .await
            {
                NOT_AUTHORIZED => Ok(device),
                code => Err(format!("{code:#x}")),
            }
        })
        .await;
        assert_eq!(device.publish_acked(&who.reports(), "own").await, 0);
        assert_eq!(
            device
                .publish_acked(&who.topic("$ota/up/report"), "{}")
                .await,
            0
        );
        for other in all.iter().enumerate().filter(|(other, _)| *other != at) {
            let topic = other.1.reports();
            assert_eq!(
                device.publish_acked(&topic, "{}").await,
                NOT_AUTHORIZED,
                "{topic}"
            );
        }
    }
}

#[tokio::test]
async fn rules_are_added_listed_and_removed_over_http() {
    let site = Site::start(&[]).await;
    let second = site.further_gateway().await;
    let [who] = devices(&site, "h", ["d"]);
    let mut device = Device::connect(Protocol::V5, second.mqtt(), &who.credentials).await;
    let address = site.gateway.ready.http;
    let ask = async |method, path: &str, body: &str| {
        let (status, body) = http::send(address, method, path, body).await;
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        (status, json)
    };
    let denied = json!({"effect": "deny", "action": "publish", "filter": "$thing/up/#"});
    let text = denied.to_string();
    let (status, added) = ask("POST", "/products/h/rules", &text).await;
    assert_eq!((status, &added["told"]), (201, &json!(true)), "{added}");
    let (_, listed) = ask("GET", "/products/h/rules", "").await;
    assert_eq!(listed, json!({ "rules": [denied] }));
    let gone = "/products/h/rules?effect=deny&action=publish&filter=%24thing/up/%23";
    // At another gateway than the one that is asked.
    eventually("the rule counts", async || {
        match device.publish_acked(&who.reports(), "{}").await {
            NOT_AUTHORIZED => Ok(()),
            code => Err(format!("{code:#x}")),
        }
    })
    .await;
    let wide = text.replace("$thing/up/#", "#");
    for (method, path, body, expected, said) in [
        (
            "POST",
            "/products/h/rules",
            &*text,
            409,
            "this rule already",
        ),
        ("POST", "/products/none/rules", &*text, 404, "product none"),
        ("POST", "/products/h/rules", &*wide, 400, "first level"),
        ("POST", "/products/h/rules", "{}", 400, "missing field"),
        ("GET", "/products/none/rules", "", 404, "product none"),
        (
            "DELETE",
            "/products/none/rules?effect=deny&action=both&filter=a",
            "",
            404,
            "rule deny",
        ),
        (
            "DELETE",
            "/products/h/rules?effect=deny",
            "",
            400,
            "action: expected",
        ),
        ("DELETE", "/products/h/rules?id=1", "", 400, "id: unknown"),
    ] {
        let (status, answer) = ask(method, path, body).await;
        assert_eq!(status, expected, "{method} {path}: {answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(said), "{method} {path}: {error}");
    }
    assert_eq!(ask("DELETE", gone, "").await.0, 200);
    assert_eq!(ask("DELETE", gone, "").await.0, 404);
    eventually("the rule counts no more", async || {
        match device.publish_acked(&who.reports(), "{}").await {
            0 => Ok(()),
            code => Err(format!("{code:#x}")),
        }
    })
    .await;
}
