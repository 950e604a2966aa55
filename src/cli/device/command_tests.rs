//! `jetway device` as typed, against a real SQLite file.

use clap::Parser;
use tempfile::TempDir;

use super::*;
use crate::auth::{Attempt, Authenticator, authenticate};
use crate::catalogue::Catalogue;
use crate::database;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// What a command line prints, or its error with its causes.
async fn run(folder: &TempDir, line: &str) -> Result<String, String> {
    let url = format!("sqlite://{}/state/jetway.db", folder.path().display());
    let words = ["device"].into_iter().chain(line.split_whitespace());
    let line = Line::try_parse_from(words.chain(["--database", &url]))
        .map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let done = execute(line.args, &mut out).await;
    assert!(done.map_err(|error| format!("{error:#}"))?);
    Ok(String::from_utf8(out).unwrap())
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

#[tokio::test]
async fn added_devices_can_log_in_with_what_was_printed() {
    let folder = folder();
    let printed = run(&folder, "add p d --count 3 --json --method hmacsha1")
        .await
        .unwrap();
    let url = format!("sqlite://{}/state/jetway.db", folder.path().display());
    let config = database::Config {
        url,
        ..database::Config::default()
    };
    let devices = Catalogue::open(&config).await.unwrap();
    let authenticator =
        Authenticator::new(&authenticate::Config::default(), devices, None).unwrap();
    let lines: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    for (n, line) in lines.iter().enumerate() {
        let field = |name: &str| line[name].as_str().unwrap();
        assert_eq!(
            (field("product"), field("name")),
            ("p", format!("d{n}").as_str())
        );
        assert!(field("password").ends_with(";hmacsha1"));
        let attempt = Attempt {
            username: Some(field("username")),
            password: Some(field("password").as_bytes()),
            ..Attempt::of(field("client_id"))
        };
        let accepted = authenticator.authenticate(&attempt).await.unwrap();
        assert_eq!(accepted.device.id.name(), field("name"));
    }
}

#[tokio::test]
async fn credentials_are_what_add_printed() {
    let folder = folder();
    let added = run(&folder, "add p d --secret AAECAwQFBgcICQoLDA0ODxAREhM=")
        .await
        .unwrap();
    let fields: Vec<&str> = added.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!(
        fields[..4],
        ["p", "d", "AAECAwQFBgcICQoLDA0ODxAREhM=", "p&d"]
    );
    assert_eq!(
        added.lines().next().unwrap().split('\t').count(),
        fields.len()
    );
    assert_eq!(run(&folder, "credentials p d").await.unwrap(), added);
    let sha1 = run(&folder, "credentials p d --method hmacsha1")
        .await
        .unwrap();
    assert!(sha1.ends_with(";hmacsha1\n"));
}

#[tokio::test]
async fn ls_prints_no_secret() {
    let folder = folder();
    run(&folder, "add q z").await.unwrap();
    run(&folder, "add p d --count 2").await.unwrap();
    let all = "p\td0\tenabled\np\td1\tenabled\nq\tz\tenabled\n";
    assert_eq!(run(&folder, "ls").await.unwrap(), all);
    assert_eq!(run(&folder, "ls q").await.unwrap(), "q\tz\tenabled\n");
}

#[tokio::test]
async fn errors_name_the_argument_and_what_was_expected() {
    let folder = folder();
    run(&folder, "add p d").await.unwrap();
    let cases: [(&str, &[&str]); 8] = [
        (
            "add p d",
            &[
                "PRODUCT NAME",
                "expected a new device",
                "p/d exists already",
            ],
        ),
        (
            "add p e --secret abc",
            &["--secret", "expected standard base64"],
        ),
        ("add p e --count 0", &["--count", "1..=1000000"]),
        ("add p e/f", &["PRODUCT NAME", "deviceName", "'/'"]),
        ("add p e&f", &["PRODUCT NAME", "e&f", "'&'"]),
        (
            "add p e --method md5",
            &["--method", "expected hmacsha256 or hmacsha1"],
        ),
        (
            "credentials p gone",
            &["PRODUCT NAME", "no device p/gone", "device add"],
        ),
        ("credentials p a+b", &["PRODUCT NAME", "deviceName", "'+'"]),
    ];
    for (line, parts) in cases {
        let error = run(&folder, line).await.expect_err(line);
        for part in parts {
            assert!(error.contains(part), "{line}: {error}");
        }
    }
    assert_eq!(run(&folder, "ls").await.unwrap(), "p\td\tenabled\n");
}

#[tokio::test]
async fn a_database_of_another_kind_is_refused() {
    let line = Line::try_parse_from(["device", "ls", "--database", "oracle://h/db"]).unwrap();
    let error = execute(line.args, &mut Vec::new()).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.starts_with("--database: database URL: expected sqlite:, postgres: or mysql:"),
        "{text}"
    );
}

#[tokio::test]
async fn devices_are_shown_changed_and_removed() {
    let folder = folder();
    let added = run(&folder, "add p d").await.unwrap();
    let secret = added.lines().nth(1).unwrap().split('\t').nth(2).unwrap();
    run(&folder, "add p e").await.unwrap();
    for (line, state) in [
        ("disable p d", "disabled"),
        ("enable p d", "enabled"),
        ("set-state p d disabled", "disabled"),
        ("block p d", "blocked"),
    ] {
        assert_eq!(run(&folder, line).await.unwrap(), "", "{line}");
        let listed = run(&folder, "ls p").await.unwrap();
        assert_eq!(listed, format!("p\td\t{state}\np\te\tenabled\n"));
    }
    let blocked = run(&folder, "ls --state blocked --json").await.unwrap();
    let blocked: serde_json::Value = serde_json::from_str(&blocked).unwrap();
    assert_eq!(
        (&blocked["name"], &blocked["state"]),
        (&"d".into(), &"blocked".into())
    );
    let shown = run(&folder, "show p d").await.unwrap();
    assert!(
        shown.starts_with("device\tp/d\nstate\tblocked\ncreated\t20"),
        "{shown}"
    );
    assert!(shown.contains("\nactivated\tnever\n"), "{shown}");
    assert!(!shown.contains(secret));
    let shown = run(&folder, "show p d --json").await.unwrap();
    assert!(shown.contains(r#""activated_at_ms":null"#), "{shown}");
    assert!(!shown.contains(secret));
    assert!(shown.contains(r#""certificates":[]"#), "{shown}");

    let given = "ICEiIyQlJicoKSorLC0uLzAxMjM=";
    let set = run(&folder, &format!("set-secret p d --secret {given}"))
        .await
        .unwrap();
    assert_eq!(set, run(&folder, "credentials p d").await.unwrap());
    assert!(set.contains(given));
    let random = run(&folder, "set-secret p d --json").await.unwrap();
    assert!(!random.contains(given) && random.contains("secret"));

    run(&folder, "remove p d").await.unwrap();
    assert_eq!(run(&folder, "ls").await.unwrap(), "p\te\tenabled\n");
    for line in ["enable p d", "remove p d", "show p d", "set-secret p d"] {
        let error = run(&folder, line).await.unwrap_err();
        assert_eq!(error, "PRODUCT NAME: there is no device p/d", "{line}");
    }
    let error = run(&folder, "set-state p e asleep").await.unwrap_err();
    assert!(
        error.contains("expected enabled, disabled or blocked"),
        "{error}"
    );
}

#[tokio::test]
async fn secrets_are_resealed_with_a_key_of_the_configuration() {
    let folder = folder();
    run(&folder, "add p d --count 3").await.unwrap();
    let error = run(&folder, "reseal").await.unwrap_err();
    assert!(
        error.contains("[catalogue] keys: expected a key to seal with"),
        "{error}"
    );
    let keys = folder.path().join("keys");
    std::fs::write(
        &keys,
        "# of this year\nk1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
    )
    .unwrap();
    let config = folder.path().join("jetway.toml");
    std::fs::write(&config, format!("[catalogue]\nkeys_file = {keys:?}\n")).unwrap();
    let before = run(&folder, "credentials p d1").await.unwrap();
    let with_keys =
        async |line: &str| run(&folder, &format!("{line} --config {}", config.display())).await;
    assert_eq!(
        with_keys("reseal").await.unwrap(),
        "3 resealed with key k1, 0 failed\n"
    );
    assert_eq!(
        with_keys("reseal").await.unwrap(),
        "0 resealed with key k1, 0 failed\n"
    );
    assert_eq!(with_keys("credentials p d1").await.unwrap(), before);
    let error = run(&folder, "credentials p d1").await.err().unwrap();
    assert!(error.contains("sealed with the key \"k1\""), "{error}");
}
