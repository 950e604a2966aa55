//! The gateway, the operator's commands and a service with the permissions of `deploy/nats/nats-server.conf`, word for word; and what is
//! said where one is missing.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, jetstream};
use tempfile::TempDir;

use crate::exercise::command;
use crate::site::{PRODUCT, SECRET};
use crate::support::{
    Gateway, Program, Protocol, RunOptions, Server, eventually, free_ports, jetway,
    nats_server_binary, within,
};
use crate::trace::{Subjects, TRACE};

pub(crate) const CONFIG: &str = include_str!("../../deploy/nats/nats-server.conf");
pub(crate) const PRODUCTS: &str = include_str!("../../deploy/nats/product-accounts.conf");
const PASSWORDS: [(&str, &str); 5] = [
    ("JETWAY_NATS_OPERATOR", "operators"),
    ("JETWAY_NATS_GATEWAY", "gateways"),
    ("JETWAY_NATS_SERVICE", "services"),
    ("JETWAY_NATS_P", "Ps"),
    ("JETWAY_NATS_Q", "Qs"),
];

/// A nats-server with a configuration; its port.
pub(crate) async fn nats(config: &str) -> (Server, u16) {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let [port] = free_ports();
    let file = folder.path().join("nats-server.conf");
    std::fs::write(&file, config).unwrap();
    std::fs::write(folder.path().join("product-accounts.conf"), PRODUCTS).unwrap();
    let store = folder.path().join("jetstream");
    let program = Program {
        name: "nats-server",
        stop: "KILL",
        command: vec![
            nats_server_binary().await.into(),
            "-c".into(),
            file.into(),
            "-a".into(),
            "127.0.0.1".into(),
            "-p".into(),
            port.to_string().into(),
            "-sd".into(),
            store.into(),
        ],
        environment: PASSWORDS.map(|(name, value)| (name, value.into())).into(),
    };
    (Server::start(folder, program), port)
}

pub(crate) fn url(user: &str, port: u16) -> String {
    format!("nats://{user}:{user}s@127.0.0.1:{port}")
}

/// Also services decide about logins.
const CHAIN: (&str, &str) = ("JETWAY_AUTH_CHAIN", "['device', 'nats']");

/// A gateway with all its roles, and one device; and its nats-server, where the operator has made the streams.
pub(crate) struct Permitted {
    pub(crate) gateway: Gateway,
    pub(crate) server: Server,
    pub(crate) port: u16,
    state: TempDir,
}

impl Permitted {
    /// What a command prints that an operator gives.
    pub(crate) fn operate(&self, command: &[&str]) -> String {
        let servers = [
            ("JETWAY_NATS_URL", &*url("operator", self.port)),
            ("JETWAY_DATABASE_URL", &*database_url(&self.state)),
        ];
        jetway(command, &servers)
    }
}

fn database_url(state: &TempDir) -> String {
    format!("sqlite:{}", state.path().join("jetway.db").display())
}

pub(crate) fn options(port: u16, state: &TempDir) -> RunOptions {
    let database_url = database_url(state);
    let add = [
        "device", "add", PRODUCT, "d", "--secret", SECRET, "--count", "1",
    ];
    jetway(&add, &[("JETWAY_DATABASE_URL", &database_url)]);
    RunOptions {
        nats_url: url("gateway", port),
        database_url,
        ..RunOptions::default()
    }
}

async fn start(config: &str, setting: (&str, &str)) -> Permitted {
    let (server, port) = nats(&format!("{config}{TRACE}")).await;
    apply(port, &[setting]).await;
    let state = tempfile::tempdir().unwrap();
    let mut options = options(port, &state);
    options.environment = vec![(setting.0.to_owned(), setting.1.to_owned())];
    Permitted {
        gateway: Gateway::run(options).await,
        server,
        port,
        state,
    }
}

/// The streams and durables, made by the operator.
pub(crate) async fn apply(port: u16, settings: &[(&str, &str)]) {
    let nats = url("operator", port);
    eventually("the server listens", async || {
        let connected = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        connected.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let settings = [&[("JETWAY_NATS_URL", &*nats)], settings].concat();
    jetway(&["streams", "apply"], &settings);
}

pub(crate) async fn client(user: &str, port: u16) -> Client {
    let options = ConnectOptions::with_user_and_password(user.to_owned(), format!("{user}s"));
    let connected = options.connect(format!("127.0.0.1:{port}")).await;
    connected.unwrap()
}

#[tokio::test]
async fn everything_works_with_these_permissions_nothing_is_denied_and_each_is_needed() {
    let site = start(CONFIG, CHAIN).await;
    let service = client("service", site.port).await;
    site.serve_devices(&service).await;
    site.give_up_and_replay(&service).await;
    site.ask_the_operators_port().await;
    site.relay_again().await;
    site.fill_a_window().await;
    for command in [&["streams", "plan"][..], &["dlq", "ls"], &["bans", "ls"]] {
        site.operate(command);
    }
    for user in ["gateway", "operator", "service"] {
        let allowed = Subjects::allowed(CONFIG, user);
        eventually(&format!("{user} needs each permission"), async || {
            let used = Subjects::used(&site.server.log(), user);
            match allowed.unneeded(&used) {
                none if none.is_empty() => Ok(()),
                unneeded => Err(format!("{unneeded:?}")),
            }
        })
        .await;
    }
    drop(site.gateway);
    assert_eq!(denied(&site.server), Vec::<String>::new());
}

/// What is otherwise with the open profile.
const OPEN: [(&str, &str); 4] = [
    (
        r#""device.up.>", "device.down.>""#,
        r#""device.up.>", "mqtt.>", "mqtt_held.>""#,
    ),
    (
        r#""$JS.API.STREAM.MSG.DELETE.DEVICE_DOWN""#,
        r#""$JS.API.STREAM.PURGE.MQTT""#,
    ),
    (
        r#""$JS.API.CONSUMER.CREATE.>","#,
        r#""$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.MSG.NEXT.MQTT.*", "$JS.API.CONSUMER.DELETE.MQTT.*","#,
    ),
    (r#""device.down.>", "device.rpc.>""#, r#""mqtt.>""#),
];

#[tokio::test]
async fn the_open_profile_works_with_its_permissions() {
    let mut config = CONFIG.to_owned();
    for (device, open) in OPEN {
        assert!(config.contains(device), "{device}");
        config = config.replace(device, open);
    }
    let site = start(&config, ("JETWAY_PROFILE", "open")).await;
    site.serve_clients(&client("service", site.port).await)
        .await;
    let allowed = Subjects::allowed(&config, "gateway");
    let used = Subjects::used(&site.server.log(), "gateway");
    let unneeded = allowed.unneeded(&used);
    for (_, open) in &OPEN[..3] {
        for entry in open.split('"').skip(1).step_by(2) {
            assert!(!unneeded.contains(&entry), "{entry}");
        }
    }
    drop(site.gateway);
    assert_eq!(denied(&site.server), Vec::<String>::new());
}

/// What the nats-server denied, in its own words.
pub(crate) fn denied(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(" Violation - "));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn what_is_missing_is_named() {
    for (permission, what) in [
        ("\"$JS.API.STREAM.INFO.*\", ", "$JS.API.STREAM.INFO."),
        ("\"$KV.jetway_nodes.>\", ", "$KV.jetway_nodes."),
        ("\"$JS.API.DIRECT.GET.>\"", "$JS.API.DIRECT.GET."),
    ] {
        assert!(CONFIG.contains(permission), "{permission}");
        let (_server, port) = nats(&CONFIG.replacen(permission, "", 1)).await;
        apply(port, &[]).await;
        let state = tempfile::tempdir().unwrap();
        let RunOptions {
            nats_url,
            database_url,
            ..
        } = options(port, &state);
        let environment = [
            ("JETWAY_NATS_URL", nats_url.as_str()),
            ("JETWAY_NATS_REQUEST_TIMEOUT_MS", "1000"),
            ("JETWAY_DATABASE_URL", database_url.as_str()),
            ("JETWAY_MQTT_LISTEN", "127.0.0.1:0"),
            ("JETWAY_HTTP_LISTEN", "127.0.0.1:0"),
        ];
        let mut gateway = tokio::process::Command::new(env!("CARGO_BIN_EXE_jetway"));
        gateway
            .arg("run")
            .env_clear()
            .envs(environment)
            .kill_on_drop(true);
        let ended = within("the start to fail", gateway.output()).await.unwrap();
        let code = ended.status.code();
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(code, Some(1), "{printed}");
        let last = printed.lines().find(|line| line.starts_with("jetway: "));
        let last = last.unwrap_or_default();
        assert!(last.contains("not permitted"), "{printed}");
        assert!(last.contains(what), "{printed}");
    }
}

#[tokio::test]
async fn a_service_may_not_do_what_is_the_gateways() {
    let (server, port) = nats(CONFIG).await;
    apply(port, &[]).await;
    let service = client("service", port).await;
    let jetstream = jetstream::new(service.clone());
    for subject in ["device.up.mqtt.thing.P.d0", "$KV.jetway_sessions.P.d0"] {
        let stored = jetstream.publish(subject, "x".into()).await.unwrap();
        eventually(&format!("{subject} is denied"), async || {
            let denied = denied(&server);
            match denied.iter().any(|line| line.contains(subject)) {
                true => Ok(()),
                false => Err(format!("{denied:?}")),
            }
        })
        .await;
        let answered = tokio::time::timeout(Duration::from_millis(500), stored.into_future());
        assert!(!matches!(answered.await, Ok(Ok(_))), "{subject}");
    }
}

#[tokio::test]
async fn the_gateway_publishes_nothing_for_a_service_that_is_not_for_services() {
    let site = start(CONFIG, CHAIN).await;
    let service = client("service", site.port).await;
    // The gateway may publish there, the service may not.
    let forbidden = "$JS.API.STREAM.MSG.DELETE.DLQ";
    let nobody = "device.rpc.mqtt.rpc.P.nobody";
    let asked = service.publish_with_reply(nobody, forbidden, "question".into());
    asked.await.unwrap();
    let mut device = site.device(Protocol::V5).await;
    assert_eq!(device.subscribe("$thing/down/property/P/d0").await, 1);
    for headers in [&[("Jw-Receipt", forbidden)][..], &[]] {
        command(&service, "device.down.mqtt.thing.P.d0", headers).await;
    }
    assert_eq!(device.next().await.payload, "down");
    site.wait_for_dead_letter("downlink").await;
    let refused = service.request(nobody, "question".into()).await.unwrap();
    assert!(
        refused
            .headers
            .is_some_and(|headers| headers.get("Jw-Error").is_some())
    );
    assert!(!Subjects::used(&site.server.log(), "gateway").has_published(forbidden));
}
