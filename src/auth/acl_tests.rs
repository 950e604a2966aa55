//! The full matrix of who may publish and subscribe what, from topic text to decision.

use super::*;
use crate::access::Rules;
use crate::device::DeviceId;
use crate::mapping::{Mapping, Profile, Settings};

fn device(scope: Scope, product: &str, name: &str, subs: &[(&str, &str)]) -> Device {
    let subs = subs
        .iter()
        .map(|(product, name)| DeviceId::new(product, name).unwrap());
    Device {
        id: DeviceId::new(product, name).unwrap(),
        scope,
        sub_devices: subs.collect(),
        access: None,
    }
}

fn check(device: &Device, rows: &[(Action, &str, Result<(), Denied>)]) {
    let profile = match device.scope {
        Scope::Open => Profile::Open,
        Scope::Full | Scope::Register => Profile::Device,
    };
    let settings = Settings {
        profile,
        ..Settings::default()
    };
    let mapping = Mapping::load(&settings, None).unwrap();
    for (action, topic, expected) in rows {
        let address = mapping.address(topic);
        let decided = authorize(device, *action, address.as_ref());
        assert_eq!(decided, *expected, "{} {action:?} {topic}", device.id);
    }
}

const PUB: Action = Action::Publish;
const SUB: Action = Action::Subscribe;
const ALLOW: Result<(), Denied> = Ok(());

#[test]
fn g23_a_device_has_its_own_topics() {
    let device = device(Scope::Full, "P1", "N1", &[]);
    check(
        &device,
        &[
            (PUB, "$thing/up/property/P1/N1", ALLOW),
            (PUB, "$thing/down/property/P1/N1", Err(Denied::Direction)),
            (SUB, "$thing/down/property/P1/N1", ALLOW),
            (SUB, "$thing/up/property/P1/N1", Err(Denied::Direction)),
            (SUB, "$thing/down/+/P1/N1", ALLOW),
            (SUB, "$thing/down/property/custom/P1/N1", ALLOW),
            (SUB, "$thing/down/#", Err(Denied::Unmapped)),
            (SUB, "$thing/down/property/P1/+", Err(Denied::Unmapped)),
            (SUB, "$thing/down/property/+/N1", Err(Denied::Unmapped)),
            (SUB, "$thing/down/property/P1/#", Err(Denied::Unmapped)),
            (SUB, "$thing/+/property/P1/N1", Err(Denied::Unmapped)),
            (SUB, "+/down/property/P1/N1", Err(Denied::Unmapped)),
            (SUB, "#", Err(Denied::Unmapped)),
            (
                SUB,
                "$share/g/$thing/down/property/P1/N1",
                Err(Denied::Unmapped),
            ),
            (PUB, "$thing/up/property/P2/N2", Err(Denied::OtherDevice)),
            (SUB, "$thing/down/property/P2/N2", Err(Denied::OtherDevice)),
            (PUB, "$thing/up/P1/N1", Err(Denied::Unmapped)), // W-S1
            (PUB, "$ext/up/register/P1/N1", ALLOW),
            (PUB, "$rpc/up/17/P1/N1", ALLOW),
            (SUB, "$rpc/down/+/P1/N1", ALLOW),
            (PUB, "$rpc/down/17/P1/N1", Err(Denied::Direction)),
            (PUB, "other/topic", Err(Denied::Unmapped)),
        ],
    );
}

#[test]
fn every_handle_is_held_to_its_direction() {
    let device = device(Scope::Full, "P1", "N1", &[]);
    for handle in [
        "thing", "ota", "shadow", "gateway", "config", "log", "ext", "rpc",
    ] {
        let (up, down) = (
            format!("${handle}/up/x/P1/N1"),
            format!("${handle}/down/x/P1/N1"),
        );
        check(
            &device,
            &[
                (PUB, &up, ALLOW),
                (SUB, &up, Err(Denied::Direction)),
                (SUB, &down, ALLOW),
                (PUB, &down, Err(Denied::Direction)),
            ],
        );
    }
}

#[test]
fn a_gateway_acts_for_bound_sub_devices() {
    let gateway = device(Scope::Full, "G", "g", &[("S", "s")]);
    check(
        &gateway,
        &[
            (PUB, "$thing/up/property/G/g", ALLOW),
            (PUB, "$thing/up/property/S/s", ALLOW),
            (SUB, "$thing/down/action/S/s", ALLOW),
            (SUB, "$thing/down/+/S/s", ALLOW),
            (PUB, "$thing/down/property/S/s", Err(Denied::Direction)),
            (SUB, "$thing/up/property/S/s", Err(Denied::Direction)),
            (PUB, "$thing/up/property/U/u", Err(Denied::OtherDevice)),
            (SUB, "$thing/down/property/U/u", Err(Denied::OtherDevice)),
            (PUB, "$thing/up/property/S/g", Err(Denied::OtherDevice)),
            (PUB, "$thing/up/property/G/s", Err(Denied::OtherDevice)),
            (SUB, "$thing/down/property/S/+", Err(Denied::Unmapped)),
        ],
    );
}

#[test]
fn without_a_secret_only_registration() {
    let device = device(Scope::Register, "P1", "N1", &[]);
    check(
        &device,
        &[
            (PUB, "$ext/up/register/P1/N1", ALLOW),
            (SUB, "$ext/down/register/P1/N1", ALLOW),
            (PUB, "$ext/up/register/x/P1/N1", ALLOW),
            (PUB, "$ext/down/register/P1/N1", Err(Denied::Direction)),
            (PUB, "$ext/up/ntp/P1/N1", Err(Denied::RegisterOnly)),
            (PUB, "$thing/up/property/P1/N1", Err(Denied::RegisterOnly)),
            (PUB, "$thing/up/register/P1/N1", Err(Denied::RegisterOnly)),
            (SUB, "$ext/down/+/P1/N1", Err(Denied::RegisterOnly)),
            (PUB, "$rpc/up/register/P1/N1", Err(Denied::RegisterOnly)),
            (PUB, "$ext/up/register/P2/N2", Err(Denied::OtherDevice)),
            (PUB, "$ext/up/P1/N1", Err(Denied::Unmapped)), // W-S1
        ],
    );
}

#[test]
fn without_a_secret_no_sub_device() {
    // W-S2
    let gateway = device(Scope::Register, "G", "g", &[("S", "s")]);
    check(
        &gateway,
        &[
            (PUB, "$thing/up/property/S/s", Err(Denied::OtherDevice)),
            (SUB, "$thing/down/property/S/s", Err(Denied::OtherDevice)),
            (PUB, "$ext/up/register/S/s", Err(Denied::OtherDevice)),
            (PUB, "$ext/up/register/G/g", ALLOW),
        ],
    );
}

fn held_to(device: Device, rules: &str, behind: &[(&str, &str)]) -> Device {
    let read = |text| serde_json::from_str::<Rules>(text).unwrap();
    let behind = behind.iter();
    let behind = behind.map(|(product, rules)| ((*product).to_owned(), read(rules)));
    Device {
        access: Access::of(read(rules), behind.collect(), Rules::default(), "P1&N1"),
        ..device
    }
}

const RULES: &str = r#"[
    {"effect": "allow", "action": "both", "filter": "$thing/+/property/{productID}/N2"},
    {"effect": "allow", "action": "both", "filter": "$thing/+/property/P2/N2"},
    {"effect": "deny", "action": "publish", "filter": "$thing/up/event/{productID}/{deviceName}"},
    {"effect": "deny", "action": "both", "filter": "$ota/#"},
    {"effect": "allow", "action": "both", "filter": "$ota/#"}
]"#;

#[test]
fn g23_rules_add_topics_of_the_product_and_take_away_whatever_they_deny() {
    let device = held_to(device(Scope::Full, "P1", "N1", &[("S", "s")]), RULES, &[]);
    check(
        &device,
        &[
            (PUB, "$thing/up/property/P1/N1", ALLOW),
            (PUB, "$thing/up/property/P1/N2", ALLOW),
            (SUB, "$thing/down/property/P1/N2", ALLOW),
            (SUB, "$thing/up/property/P1/N2", Err(Denied::Direction)),
            (SUB, "$thing/down/+/P1/N2", Err(Denied::OtherDevice)),
            (PUB, "$thing/up/property/P1/N3", Err(Denied::OtherDevice)),
            (PUB, "$thing/up/property/P2/N2", Err(Denied::OtherDevice)),
            (PUB, "$thing/up/event/P1/N1", Err(Denied::Rule)),
            (PUB, "$thing/up/event/S/s", ALLOW),
            (SUB, "$thing/down/event/P1/N1", ALLOW),
            (PUB, "$ota/up/report/P1/N1", Err(Denied::Rule)),
            (PUB, "$ota/up/report/S/s", Err(Denied::Rule)),
            (SUB, "$ota/down/+/P1/N1", Err(Denied::Rule)),
        ],
    );
}

#[test]
fn g23_a_gateway_is_held_to_the_rules_of_a_sub_devices_product() {
    let behind = r#"[
        {"effect": "deny", "action": "publish", "filter": "$thing/up/event/{productID}/{deviceName}"},
        {"effect": "deny", "action": "subscribe", "filter": "$thing/down/action/#"},
        {"effect": "allow", "action": "both", "filter": "$thing/+/property/{productID}/other"},
        {"effect": "allow", "action": "both", "filter": "$ota/#"}
    ]"#;
    let subs = [("S", "s"), ("P1", "near"), ("T", "t")];
    let gateway = device(Scope::Full, "P1", "N1", &subs);
    let gateway = held_to(gateway, RULES, &[("S", behind), ("P1", RULES)]);
    check(
        &gateway,
        &[
            (PUB, "$thing/up/property/S/s", ALLOW),
            (PUB, "$thing/up/event/S/s", Err(Denied::Rule)),
            (SUB, "$thing/down/event/S/s", ALLOW),
            (SUB, "$thing/down/action/S/s", Err(Denied::Rule)),
            // A filter that selects more is granted: each delivery is asked for.
            (SUB, "$thing/down/+/S/s", ALLOW),
            (SUB, "$thing/down/action/P1/N1", ALLOW),
            (PUB, "$thing/up/event/T/t", ALLOW),
            // What is allowed there widens nothing, and goes behind what the gateway's own rules deny.
            (PUB, "$thing/up/property/S/other", Err(Denied::OtherDevice)),
            (PUB, "$ota/up/report/S/s", Err(Denied::Rule)),
            // Of the gateway's own product, with the sub-device's name.
            (PUB, "$thing/up/event/P1/near", Err(Denied::Rule)),
            (PUB, "$thing/up/property/P1/near", ALLOW),
            (PUB, "$thing/up/event/P1/far", Err(Denied::OtherDevice)),
        ],
    );
    let none = device(Scope::Full, "P1", "N1", &subs);
    check(&none, &[(PUB, "$thing/up/event/S/s", ALLOW)]);
}

#[test]
fn rules_give_nothing_to_who_only_registers() {
    let rules = RULES.replace("$thing/+/property/{productID}/N2", "$ext/#");
    let device = held_to(device(Scope::Register, "P1", "N1", &[]), &rules, &[]);
    check(
        &device,
        &[
            (PUB, "$ext/up/register/P1/N1", ALLOW),
            (PUB, "$ext/up/ntp/P1/N1", Err(Denied::RegisterOnly)),
            (PUB, "$ext/up/register/P1/N2", Err(Denied::OtherDevice)),
        ],
    );
}

#[test]
fn g22_names_are_compared_exactly() {
    let device = device(Scope::Full, "P1.a*", "N>%2E", &[]);
    check(
        &device,
        &[
            (PUB, "$thing/up/property/P1.a*/N>%2E", ALLOW),
            (
                PUB,
                "$thing/up/property/P1.ab/N>%2E",
                Err(Denied::OtherDevice),
            ),
            (
                PUB,
                "$thing/up/property/P1.a*/N>.",
                Err(Denied::OtherDevice),
            ),
            (
                PUB,
                "$thing/up/property/p1.a*/N>%2E",
                Err(Denied::OtherDevice),
            ),
            (
                PUB,
                "$thing/up/property/P1.a* /N>%2E",
                Err(Denied::OtherDevice),
            ),
        ],
    );
}

#[test]
fn an_open_client_has_all_topics_but_those_of_the_server() {
    // [MQTT-4.7.2-1]
    let client = Device {
        id: DeviceId::open("anybody").unwrap(),
        scope: Scope::Open,
        sub_devices: [].into(),
        access: None,
    };
    check(
        &client,
        &[
            (PUB, "a", ALLOW),
            (PUB, "/", ALLOW),
            (PUB, "a/$b", ALLOW),
            (PUB, "$SYS/a", Err(Denied::Reserved)),
            (PUB, "$thing/up/property/P1/N1", Err(Denied::Reserved)),
            (SUB, "#", ALLOW),
            (SUB, "+/a", ALLOW),
            (SUB, "$SYS/#", ALLOW),
            (SUB, "$share/g/a/+", ALLOW),
        ],
    );
}
