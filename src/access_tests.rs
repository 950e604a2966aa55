//! What rules say, about ordinary devices and about those whose names look like patterns.

use proptest::prelude::*;

use super::*;

fn rule(text: &str) -> Rule {
    let mut words = text.splitn(3, ' ');
    let mut next = || words.next().unwrap();
    Rule {
        effect: next().parse().unwrap(),
        action: next().parse().unwrap(),
        filter: next().parse().unwrap(),
    }
}

fn of_product(rules: Rules, client_id: &str) -> Option<Arc<Access>> {
    Access::of(rules, BTreeMap::new(), Rules::default(), client_id)
}

fn says(rules: &[&str], product: &str, name: &str, action: Action, asked: &str) -> Option<Effect> {
    let rules: Vec<_> = rules.iter().map(|text| rule(text)).collect();
    let rules = Rules::try_from(rules).unwrap();
    let client_id = format!("{product}&{name}");
    let access = of_product(rules, &client_id).unwrap();
    let device = DeviceId::new(product, name).unwrap();
    access.says(&device, action, asked)
}

const PUB: Action = Action::Publish;
const SUB: Action = Action::Subscribe;
const ALLOW: Option<Effect> = Some(Effect::Allow);
const DENY: Option<Effect> = Some(Effect::Deny);

#[test]
fn a_denial_goes_before_what_is_allowed_in_whichever_order() {
    let (deny, allow) = ("deny publish $a/x/#", "allow both $a/+/P");
    for rules in [[deny, allow], [allow, deny]] {
        assert_eq!(says(&rules, "P", "N", PUB, "$a/x/P"), DENY);
        assert_eq!(says(&rules, "P", "N", PUB, "$a/y/P"), ALLOW);
        assert_eq!(says(&rules, "P", "N", SUB, "$a/x/P"), ALLOW, "to receive");
        assert_eq!(says(&rules, "P", "N", PUB, "$b/y/P"), None);
    }
    assert!(of_product(Rules::default(), "P&N").is_none());
}

#[test]
fn placeholders_are_the_connected_devices_levels() {
    let rules = ["allow publish $a/{productID}/{deviceName}/{clientID}"];
    for (asked, expected) in [
        ("$a/P/N/P&N", ALLOW),
        ("$a/P/N/P&M", None),
        ("$a/P/M/P&N", None),
        ("$a/Q/N/P&N", None),
        ("$a/P/N", None),
        ("$a/P/N/P&N/", None),
        ("$a/{productID}/{deviceName}/{clientID}", None),
    ] {
        assert_eq!(says(&rules, "P", "N", PUB, asked), expected, "{asked}");
    }
}

#[test]
fn g23_a_filter_is_covered_only_as_a_whole() {
    for (filter, asked, covered) in [
        ("a/b", "a/b", true),
        ("a/b", "a/+", false),
        ("a/b", "a/#", false),
        ("a/b", "+/b", false),
        ("a/+", "a/+", true),
        ("a/+", "a/b", true),
        ("a/+", "a/#", false),
        ("a/+", "a", false),
        ("a/+", "a/b/c", false),
        ("a/#", "a/#", true),
        ("a/#", "a/+/c", true),
        ("a/#", "a", true),
        ("a/#", "#", false),
        ("a/#", "+/b", false),
        ("a/+/c", "a/+/c", true),
        ("a/+/c", "a/b/#", false),
        ("a//c", "a//c", true),
        ("a//c", "a/b/c", false),
    ] {
        let rules = [&*format!("allow subscribe {filter}")];
        let said = says(&rules, "P", "N", SUB, asked).is_some();
        assert_eq!(said, covered, "{filter} {asked}");
    }
}

#[test]
fn g22_names_that_look_like_patterns_are_names() {
    let rules = ["allow both $a/{productID}/{deviceName}/x"];
    for (product, name, asked, expected) in [
        ("$thing", "{clientID}", "$a/$thing/{clientID}/x", ALLOW),
        (
            "$thing",
            "{clientID}",
            "$a/$thing/$thing&{clientID}/x",
            None,
        ),
        ("*", ">", "$a/*/>/x", ALLOW),
        ("*", ">", "$a/P/N/x", None),
        ("..", "%2B", "$a/../%2B/x", ALLOW),
        ("..", "%2B", "$a/../+/x", None),
        ("é", " ", "$a/é/ /x", ALLOW),
        ("P", "N", "$a/P/+/x", None),
        ("P", "N", "$a/+/N/x", None),
    ] {
        assert_eq!(says(&rules, product, name, SUB, asked), expected, "{asked}");
    }
    // A name with a wildcard or a slash is none; a client identifier with one covers no filter.
    for name in ["+", "#", "a/b", "a+", ""] {
        assert!(DeviceId::new("P", name).is_err(), "{name}");
    }
    let device = DeviceId::new("P", "N").unwrap();
    let rules = Rules::try_from(vec![rule("allow both $a/{clientID}/x")]).unwrap();
    for (client_id, asked) in [("+", "$a/+/x"), ("#", "$a/#"), ("a/b", "$a/a/b/x")] {
        let access = of_product(rules.clone(), client_id).unwrap();
        assert_eq!(access.says(&device, SUB, asked), None, "{client_id}");
    }
}

#[test]
fn rules_of_a_sub_devices_product_deny_with_its_names_and_allow_nothing() {
    let behind = [
        "deny publish $a/{productID}/{deviceName}/{clientID}",
        "deny publish $c/{productID}/{deviceName}",
        "allow both $b/#",
        "deny subscribe $b/x/#",
    ];
    let behind = Rules::try_from(behind.map(rule).to_vec()).unwrap();
    let own = Rules::try_from(vec![rule("deny both $d/{deviceName}")]).unwrap();
    let behind = BTreeMap::from([("S".to_owned(), behind)]);
    let access = Access::of(Rules::default(), behind, own, "G&g").unwrap();
    for (product, name, action, asked, expected) in [
        ("S", "s", PUB, "$a/S/s/G&g", true),
        ("S", "s", PUB, "$a/S/s/S&s", false),
        ("S", "s", PUB, "$a/G/g/G&g", false),
        ("S", "s", SUB, "$a/S/s/G&g", false),
        ("S", "s", PUB, "$c/S/s", true),
        ("S", "t", PUB, "$c/S/s", false),
        ("S", "{deviceName}", PUB, "$c/S/{deviceName}", true),
        ("S", "s", SUB, "$b/x/y", true),
        ("S", "s", PUB, "$b/x/y", false),
        ("T", "s", SUB, "$b/x/y", false),
        ("S", "s", PUB, "$d/s", false),
    ] {
        let device = DeviceId::new(product, name).unwrap();
        assert_eq!(access.denies(&device, action, asked), expected, "{asked}");
        assert_eq!(access.says(&device, SUB, "$b/x/y"), None, "not its own");
    }
}

#[test]
fn what_is_no_filter_of_a_rule_is_refused() {
    for good in [
        "a",
        "$thing/#",
        "a/+/b",
        "a/{clientID}",
        "a//b",
        "$thing/up/é /+",
    ] {
        assert!(good.parse::<Filter>().is_ok(), "{good}");
    }
    let long = "a".repeat(FILTER_BYTES_MAX + 1);
    for bad in [
        "",
        "#",
        "+/a",
        "{productID}/a",
        "$share/g/a",
        "a/#/b",
        "a/b+",
        "a/#b",
        "a/{productID}x",
        "a/{ProductID}",
        "a/{}",
        "a/}",
        "a\0",
        &long,
    ] {
        assert!(bad.parse::<Filter>().is_err(), "{bad}");
    }
    let one = rule("deny both a");
    assert!(Rules::try_from(vec![one.clone(); RULES_MAX]).is_ok());
    assert!(Rules::try_from(vec![one; RULES_MAX + 1]).is_err());
}

#[test]
fn a_rule_is_read_as_it_is_written() {
    let text = r#"{"effect":"deny","action":"both","filter":"$thing/up/{clientID}/#"}"#;
    let read: Rule = serde_json::from_str(text).unwrap();
    assert_eq!(read, rule("deny both $thing/up/{clientID}/#"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    for wrong in [
        text.replace("deny", "refuse"),
        text.replace("both", "all"),
        text.replace("$thing", "#"),
        text.replace("\"}", r#"","more":1}"#),
    ] {
        assert!(serde_json::from_str::<Rule>(&wrong).is_err(), "{wrong}");
    }
}

proptest! {
    // G22, G23: whatever the names are, what is covered is matched level by level.
    #[test]
    fn nothing_is_covered_that_names_another_device(
        product in "[^/+#\u{0}]{1,9}", name in "[^/+#\u{0}]{1,9}", other in "[^/\u{0}]{1,9}",
    ) {
        prop_assume!(other != name);
        let rules = ["allow both $a/+/{productID}/{deviceName}"];
        for asked in [format!("$a/x/{product}/{other}"), format!("$a/x/{product}/{name}/{other}")] {
            prop_assert_eq!(says(&rules, &product, &name, SUB, &asked), None);
        }
        let own = format!("$a/x/{product}/{name}");
        prop_assert_eq!(says(&rules, &product, &name, PUB, &own), ALLOW);
    }
}
