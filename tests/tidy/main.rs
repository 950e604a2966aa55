//! The rules of the tree that no compiler checks: who may import whom, file sizes, words, tags, the top level.
//!
//! One test holds the tree to all rules and reports every offender at once. The other feeds each rule what it must
//! catch, and what it must not: a rule that cannot fail is no rule.

mod rules;
mod source;

use std::fmt::Write as _;

use rules::{
    dependencies, forbidden, headers_and_names, layering, purity, sizes, tags, threats, top_level,
};
use source::{File, tree};

/// A rule's name, the rule, and a tree of one file that breaks it: its path and text, and the line of the offence.
type Rule = (
    &'static str,
    fn(&[File]) -> Vec<String>,
    &'static [(&'static str, &'static str, usize)],
);

const RULES: &[Rule] = &[
    (
        "layering",
        layering,
        &[
            (
                "src/session/machine.rs",
                "//! x\nuse crate::auth::Error;\n",
                2,
            ),
            (
                "src/auth/acl.rs",
                "fn f() { crate::auth::authenticate::open() }\n",
                1,
            ),
            (
                "src/uplink/mod.rs",
                "use super::connection::Connection;\n",
                1,
            ),
            (
                "src/uplink/mod.rs",
                "\n\npub use crate::config::Config;\n",
                3,
            ),
            ("src/net/mod.rs", "use crate::registry::Registry;\n", 1),
            ("src/novel.rs", "", 1),
        ],
    ),
    (
        "purity",
        purity,
        &[
            ("src/mqtt/codec.rs", "//! x\npub async fn read() {}\n", 2),
            ("src/mapping/rule.rs", "use tokio::time;\n", 1),
            ("src/auth/acl.rs", "let now = Instant::now();\n", 1),
            ("src/session/machine.rs", "tracing::info!(\"//\");\n", 1),
        ],
    ),
    (
        "headers and names",
        headers_and_names,
        &[
            ("benches/codec.rs", "use x;\n//! late\n", 1),
            ("src/net/utils.rs", "//! x\n", 1),
        ],
    ),
    (
        "forbidden",
        forbidden,
        &[
            ("deploy/x.sh", concat!("# TO", "DO later"), 1),
            ("src/net/mod.rs", concat!("\nuse crate", "::{a, b};"), 2),
            (
                "tests/gateway/main.rs",
                concat!("sle", "ep(second).await;"),
                1,
            ),
            ("src/a/b/c.rs", concat!("use super::su", "per::d;"), 1),
            ("src/a.rs", concat!("#[ig", "nore]"), 1),
        ],
    ),
    (
        "tags",
        tags,
        &[
            ("src/mqtt/codec.rs", "//! x\n// [MQTT-1.2.3-4]\n", 2),
            (
                "src/mqtt/codec.rs",
                "// [MQTT-1.2.3-4]\n#[cfg(test)]\nmod tests {\n// [MQTT-1.2.3-5]\n}\n",
                1,
            ),
        ],
    ),
    (
        "dependencies",
        dependencies,
        &[("Cargo.toml", "[dev-dependencies]\nx = \"1\"\n", 2)],
    ),
    (
        "threats",
        threats,
        &[("src/THREATS.md", "\n| x | `tests/a.rs::held` |\n", 2)],
    ),
    ("top level", top_level, &[("scripts/x.sh", "", 1)]),
];

/// What no rule objects to although it looks like what they look for.
const INNOCENT: &[(&str, &str)] = &[
    (
        "src/session/machine.rs",
        "//! Never [`crate::auth`].\nlet x = \"crate::auth tokio\"; // tokio\nuse crate::mqtt::Packet;\n",
    ),
    (
        "src/auth/mod.rs",
        "//! x\nuse crate::auth::acl::Acl;\nuse super::device;\n",
    ),
    (
        "src/mqtt/codec.rs",
        "//! [MQTT-1.2.3-4]\n#[cfg(test)]\nmod tests {\n    // [MQTT-1.2.3-4]\n    use tokio::net;\n}\n",
    ),
    (
        "src/mqtt/topic.rs",
        "//! x\nlet asynchronous = '\"'; let b = '\"';\n#[cfg(test)]\nmod tests;\n",
    ),
    ("src/gateway.rs", "//! x\nuse crate::config::Config;\n"),
    (
        "Cargo.toml",
        "[package]\nname = \"x\"\n[dependencies]\nx = \"1\" # to have it\n",
    ),
];

fn file(path: &str, text: &str) -> File {
    File {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn the_tree_is_tidy() {
    let files = tree();
    let mut report = String::new();
    for (name, rule, _) in RULES
        .iter()
        .chain([&("sizes", sizes as fn(&[File]) -> _, &[] as &[_])])
    {
        for offence in rule(&files) {
            writeln!(report, "{name}: {offence}").expect("a String takes every write");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn each_rule_catches_its_examples_and_nothing_innocent() {
    for (name, rule, examples) in RULES {
        for (path, text, line) in *examples {
            let offences = rule(&[file(path, text)]);
            let place = match *name {
                "top level" => "scripts:1: ".to_owned(),
                _ => format!("{path}:{line}: "),
            };
            assert!(
                matches!(offences.as_slice(), [offence] if offence.starts_with(&place)),
                "{name}: {path}: {offences:?}"
            );
        }
        let innocent: Vec<File> = INNOCENT
            .iter()
            .map(|(path, text)| file(path, text))
            .collect();
        assert_eq!(rule(&innocent), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn sizes_have_limits() {
    let lines = |path: &str, count: usize| sizes(&[file(path, &"x\n".repeat(count))]);
    for (path, max) in [
        ("src/a/b.rs", 500),
        ("tests/a.rs", 500),
        ("src/a/mod.rs", 80),
        ("tests/support/mod.rs", 500),
    ] {
        assert_eq!(lines(path, max), Vec::<String>::new());
        assert_eq!(lines(path, max + 1).len(), 1, "{path}");
    }
}
