//! The rules: each takes the tree and returns its offenders as `path:line: what was found; what was expected`.
//!
//! The tables are the rules' content. A new arrow between modules is a line here and a line in ARCHITECTURE.md.

use super::source::{File, code, imports, tags_in, words};

/// A layer's name, its modules, and the layers it may import from. A module may always import itself.
type Layer = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// `a::b` is a part of `a` with a rule of its own. Modules of the `root` layer may import everything.
const LAYERS: &[Layer] = &[
    (
        "word",
        &["access", "device", "event", "message", "mqtt"],
        &["word"],
    ),
    ("delivery", &["delivery"], &["word"]),
    (
        "service",
        &["tasks", "telemetry", "schema", "database"],
        &[],
    ),
    (
        "pure",
        &["session", "mapping", "auth::acl", "auth::credentials"],
        &["word"],
    ),
    ("catalogue", &["catalogue"], &["word", "service", "pure"]),
    (
        "meaning",
        &["thing", "position"],
        &["word", "pure", "meaning"],
    ),
    (
        "edge",
        &[
            "net",
            "auth",
            "jetstream",
            "broker",
            "outbox::store",
            "registry",
        ],
        &["word", "delivery", "service", "catalogue"],
    ),
    (
        "login steps",
        &["auth::step"],
        &["word", "service", "edge", "pure", "catalogue"],
    ),
    ("routing", &["router"], &["word", "edge"]),
    (
        "dead letters",
        &["dlq"],
        &["word", "service", "pure", "edge"],
    ),
    (
        "flow",
        &[
            "uplink",
            "downlink",
            "status",
            "topology",
            "ownership",
            "protection",
            "events",
            "gps",
            "outbox",
            "consumer",
            "health",
        ],
        &[
            "word",
            "delivery",
            "service",
            "catalogue",
            "pure",
            "meaning",
            "edge",
            "routing",
            "dead letters",
        ],
    ),
    (
        "over flows",
        &["expiry", "rpc", "jobs"],
        &[
            "word",
            "service",
            "pure",
            "meaning",
            "edge",
            "routing",
            "dead letters",
            "flow",
        ],
    ),
    (
        "task",
        &["connection"],
        &[
            "word",
            "catalogue",
            "service",
            "pure",
            "edge",
            "routing",
            "dead letters",
            "flow",
            "over flows",
        ],
    ),
    ("root", &["gateway", "config", "admin", "cli"], &[]),
];

/// Layers without side effects, `mqtt` among them, and what their code must not name.
const PURE: &[&str] = &[
    "access",
    "mqtt",
    "event",
    "session",
    "mapping",
    "auth::acl",
    "auth::attempt",
    "auth::credentials",
    "auth::registration",
    "thing",
    "position",
];
const IMPURE: &[&str] = &["async", "tokio", "tracing", "Instant::now", "SystemTime"];

/// Top-level entries; what starts with a dot belongs to a tool.
const TOP_LEVEL: &[&str] = &[
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "benches",
    "deploy",
    "proto",
    "src",
    "subjects",
    "target",
    "tests",
];

/// A text, the path prefix and suffix where it is forbidden, the one file that may have it, and what to write instead.
const FORBIDDEN: &[(&str, &str, &str, &str, &str)] = &[
    (
        concat!("TO", "DO"),
        "",
        "",
        "",
        "finish it, or file an issue",
    ),
    (
        concat!("FIX", "ME"),
        "",
        "",
        "",
        "finish it, or file an issue",
    ),
    (
        concat!("#[ig", "nore"),
        "",
        ".rs",
        "",
        "a test that always runs, or no test",
    ),
    (
        concat!("sle", "ep("),
        "tests/",
        ".rs",
        "tests/support/wait.rs",
        "support::eventually, which waits on a condition",
    ),
    (
        concat!("use crate", "::{"),
        "src/",
        ".rs",
        "",
        "one `use crate::module::..` per module",
    ),
    (
        concat!("super::su", "per::"),
        "src/",
        ".rs",
        "",
        "the path from `crate::`",
    ),
];

const FILE_NAMES: &[&str] = &[
    "utils", "util", "common", "helpers", "types", "manager", "misc",
];
const FILE_LINES_MAX: usize = 500;
const CONTENTS_PAGE_LINES_MAX: usize = 80;

/// The layer of a module path: that of its longest prefix in the table, and that prefix.
fn layer(path: &str) -> Option<(&'static Layer, &'static str)> {
    let within = |module: &str| {
        path == module
            || path
                .strip_prefix(module)
                .is_some_and(|rest| rest.starts_with("::"))
    };
    let all = LAYERS
        .iter()
        .flat_map(|layer| layer.1.iter().map(move |module| (layer, *module)));
    all.filter(|(_, module)| within(module))
        .max_by_key(|(_, module)| module.len())
}

pub(crate) fn layering(files: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    let roots = ["src/main.rs", "src/lib.rs"];
    for file in files
        .iter()
        .filter(|file| file.is_source() && !roots.contains(&file.path.as_str()))
    {
        let module = file.module();
        let Some((from, own)) = layer(&module) else {
            offences.push(format!(
                "{}:1: module `{module}` has no layer in tests/tidy/rules.rs",
                file.path
            ));
            continue;
        };
        for (number, line) in file.production() {
            for path in imports(file, line) {
                let Some((to, target)) = layer(&path) else {
                    continue;
                };
                let allowed = target == own
                    || target.starts_with(&format!("{own}::"))
                    || from.0 == "root"
                    || from.2.contains(&to.0);
                if !allowed {
                    offences.push(format!(
                        "{}:{number}: `{own}` ({}) imports `{target}` ({}); it may import {:?}",
                        file.path, from.0, to.0, from.2
                    ));
                }
            }
        }
    }
    offences
}

pub(crate) fn purity(files: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    let pure = |file: &&File| {
        file.is_source() && layer(&file.module()).is_some_and(|(_, own)| PURE.contains(&own))
    };
    for file in files.iter().filter(pure) {
        for (number, line) in file.production() {
            let code = code(line);
            for word in IMPURE
                .iter()
                .filter(|word| words(&code, word).next().is_some())
            {
                offences.push(format!(
                    "{}:{number}: `{word}` in a pure module; time and I/O are arguments and results",
                    file.path
                ));
            }
        }
    }
    offences
}

pub(crate) fn sizes(files: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let contents_page = file.path.starts_with("src/") && file.path.ends_with("/mod.rs");
        let max = if contents_page {
            CONTENTS_PAGE_LINES_MAX
        } else {
            FILE_LINES_MAX
        };
        let count = file.text.lines().count();
        if count > max {
            offences.push(format!(
                "{}:{count}: {count} lines, at most {max} are allowed",
                file.path
            ));
        }
    }
    offences
}

pub(crate) fn headers_and_names(files: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        if !file.text.starts_with("//!") {
            offences.push(format!(
                "{}:1: expected a `//!` header that says what the file does",
                file.path
            ));
        }
        if file
            .path
            .split(['/', '.'])
            .any(|part| FILE_NAMES.contains(&part))
        {
            offences.push(format!("{}:1: name it after what is in it", file.path));
        }
    }
    offences
}

pub(crate) fn forbidden(files: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for (text, prefix, suffix, except, instead) in FORBIDDEN {
        let applies = |file: &&File| {
            file.path.starts_with(prefix) && file.path.ends_with(suffix) && file.path != *except
        };
        for file in files.iter().filter(applies) {
            for (number, _) in file.lines().filter(|(_, line)| line.contains(text)) {
                offences.push(format!(
                    "{}:{number}: `{text}`; expected {instead}",
                    file.path
                ));
            }
        }
    }
    offences
}

pub(crate) fn tags(files: &[File]) -> Vec<String> {
    let tested: Vec<&str> = files
        .iter()
        .flat_map(File::tests)
        .flat_map(|(_, line)| tags_in(line))
        .collect();
    let mut offences = Vec::new();
    for file in files {
        for (number, line) in file.production() {
            for tag in tags_in(line).filter(|tag| !tested.contains(tag)) {
                offences.push(format!("{}:{number}: no test is tagged [{tag}]", file.path));
            }
        }
    }
    offences
}

pub(crate) fn dependencies(files: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    let mut in_dependencies = false;
    for (number, line) in files
        .iter()
        .filter(|file| file.path == "Cargo.toml")
        .flat_map(File::lines)
    {
        if line.starts_with('[') {
            in_dependencies = line.trim_end().ends_with("dependencies]");
        } else if in_dependencies && line.contains('=') && !line.contains("# ") {
            offences.push(format!(
                "Cargo.toml:{number}: expected a comment that says what it is for: {line}"
            ));
        }
    }
    offences
}

pub(crate) fn top_level(files: &[File]) -> Vec<String> {
    let mut offences: Vec<String> = files
        .iter()
        .map(|file| file.path.split('/').next().unwrap_or_default())
        .filter(|entry| !entry.starts_with('.') && !TOP_LEVEL.contains(entry))
        .map(|entry| {
            format!("{entry}:1: does not belong at the top level; allowed are {TOP_LEVEL:?}")
        })
        .collect();
    offences.dedup();
    offences
}

/// `file::function` of `src/THREATS.md`.
pub(crate) fn threats(files: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    let page = files.iter().filter(|file| file.path == "src/THREATS.md");
    for (number, line) in page.flat_map(File::lines) {
        let named = line.split('`').filter_map(|part| part.split_once(".rs::"));
        for (path, function) in named {
            let path = format!("{path}.rs");
            let is_there =
                |file: &File| file.path == path && file.text.contains(&format!("fn {function}("));
            if !files.iter().any(is_there) {
                offences.push(format!(
                    "src/THREATS.md:{number}: `{function}` is not in {path}"
                ));
            }
        }
    }
    offences
}
