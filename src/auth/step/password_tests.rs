//! Passwords of applications: right, wrong, of users that come and go, and many at once.

use argon2::PasswordHasher as _;
use futures_util::future::join_all;
use tempfile::TempDir;

use super::*;

/// A cheap hash of this password.
fn hash(password: &str) -> String {
    let params = Params::new(64, 1, 1, None).unwrap();
    let hash = Argon2::from(params).hash_password_with_salt(password.as_bytes(), b"salt of eight");
    hash.unwrap().to_string()
}

fn user(name: &str, password: &str) -> String {
    let hash = hash(password);
    format!("[[user]]\nname = {name:?}\nhash = {hash:?}\nproduct = \"app\"\ndevice = {name:?}\n")
}

struct Bench {
    folder: TempDir,
    step: Password,
}

impl Bench {
    fn new(users: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("users.toml");
        std::fs::write(&file, users).unwrap();
        let config = Config {
            file,
            ..Config::default()
        };
        assert_eq!(config.validate(), Vec::<String>::new());
        Self {
            step: Password::new(&config).unwrap(),
            folder,
        }
    }

    fn write(&self, users: &str) {
        std::fs::write(self.folder.path().join("users.toml"), users).unwrap();
    }

    async fn ask(&self, now: Instant, client_id: &str, username: &str, password: &str) -> Verdict {
        let attempt = Attempt {
            username: Some(username),
            password: Some(password.as_bytes()),
            ..Attempt::of(client_id)
        };
        self.step.ask(now, &attempt).await.unwrap()
    }
}

fn accepted(name: &str) -> Verdict {
    Verdict::Accept(Decision::of(DeviceId::new("app", name).unwrap()))
}

const WRONG: Verdict = Verdict::Deny(Denied::Refused(Refusal::Password));

#[tokio::test]
async fn a_password_is_right_or_wrong_or_of_nobody_here() {
    let bench = Bench::new(&[user("a", "one"), user("b", "two")].concat());
    let now = Instant::now();
    assert_eq!(bench.ask(now, "app&a", "a", "one").await, accepted("a"));
    assert_eq!(bench.ask(now, "app&b", "b", "two").await, accepted("b"));
    for password in ["two", "", "One", "one\0"] {
        assert_eq!(bench.ask(now, "app&a", "a", password).await, WRONG);
    }
    // G22
    for client_id in ["app&b", "p&a", "", "register&app&a"] {
        let verdict = bench.ask(now, client_id, "a", "one").await;
        assert!(
            matches!(
                verdict,
                Verdict::Deny(Denied::Refused(Refusal::OtherDevice(..)))
            ),
            "{client_id}"
        );
    }
    assert_eq!(
        bench.ask(now, "app&c", "c", "one").await,
        Verdict::Pass(None)
    );
    let without = bench.step.ask(now, &Attempt::of("app&a")).await.unwrap();
    assert_eq!(without, Verdict::Pass(None));
}

#[tokio::test]
async fn users_come_and_go_with_the_file() {
    let bench = Bench::new(&user("a", "one"));
    let now = Instant::now();
    assert_eq!(
        bench.ask(now, "app&b", "b", "two").await,
        Verdict::Pass(None)
    );
    bench.write(&[user("b", "two"), user("c", "three")].concat());
    let later = now + CHECK_INTERVAL;
    assert_eq!(bench.ask(later, "app&b", "b", "two").await, accepted("b"));
    assert_eq!(
        bench.ask(later, "app&a", "a", "one").await,
        Verdict::Pass(None)
    );
    bench.write("[[user]]\nname = 1\n");
    let last = later + CHECK_INTERVAL;
    assert_eq!(bench.ask(last, "app&c", "c", "three").await, accepted("c"));
}

#[tokio::test]
async fn many_logins_at_once_are_all_answered_and_the_same_one_is_hashed_once() {
    let names: Vec<String> = (0..20).map(|n| format!("u{n}")).collect();
    let users: String = names.iter().map(|name| user(name, "pw")).collect();
    let bench = Bench::new(&users);
    let now = Instant::now();
    let logins = (0..200).map(|n| {
        let (bench, name) = (&bench, &names[n % 20]);
        async move {
            let client_id = format!("app&{name}");
            (bench.ask(now, &client_id, name, "pw").await, accepted(name))
        }
    });
    for (verdict, expected) in join_all(logins).await {
        assert_eq!(verdict, expected);
    }
}

#[test]
fn a_file_that_cannot_be_used_is_a_fault_without_its_hashes() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("users.toml");
    let config = Config {
        file: file.clone(),
        ..Config::default()
    };
    assert!(config.validate()[0].starts_with("file: "));
    let good = user("a", "one");
    let dear = "$argon2id$v=19$m=1048576,t=1,p=1$c2FsdG9mZWlnaHQ$Gm4rrsvJZ0GTqJbTtFlFpw";
    for (text, expected) in [
        ("[[user]]\nname = \"x\"\n".to_owned(), "missing field"),
        (
            good.replace("$argon2id", "$scrypt"),
            "user \"a\": hash: expected $argon2id",
        ),
        (
            good.replace(&hash("one"), "one"),
            "user \"a\": hash: expected $argon2id",
        ),
        (
            good.replace(&hash("one"), dear),
            "user \"a\": hash: expected $argon2id",
        ),
        (
            good.replace("\"app\"", "\"a/b\""),
            "user \"a\": productID holds",
        ),
        (good.repeat(2), "user \"a\": expected once"),
    ] {
        std::fs::write(&file, text).unwrap();
        let faults = config.validate();
        assert!(faults[0].contains(expected), "{faults:?}");
        assert!(!faults[0].contains("c2FsdG"), "{faults:?}");
    }
}
