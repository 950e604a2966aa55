//! The gateway, the operator's commands and a service with the permissions of `deploy/nats/nats-server.conf`, word for word; and what is
//! said where one is missing.

use std::time::Duration;

use async_nats::jetstream::{self, AckKind};
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt as _;
use tempfile::TempDir;

use crate::site::{PRODUCT, SECRET, Site};
use crate::support::{
    Connect, Device, Gateway, Program, Protocol, Publish, RunOptions, Server, eventually,
    free_ports, jetway, nats_server_binary, within,
};

const CONFIG: &str = include_str!("../../deploy/nats/nats-server.conf");
const PASSWORDS: [(&str, &str); 3] = [
    ("JETWAY_NATS_OPERATOR", "operators"),
    ("JETWAY_NATS_GATEWAY", "gateways"),
    ("JETWAY_NATS_SERVICE", "services"),
];

const REPORT: &str = r#"{"method":"report","msgToken":"t1","params":{"temp":21.50}}"#;

/// A nats-server with a configuration; its port.
pub(crate) async fn nats(config: &str) -> (Server, u16) {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let [port] = free_ports();
    let file = folder.path().join("nats-server.conf");
    std::fs::write(&file, config).unwrap();
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

fn url(user: &str, port: u16) -> String {
    format!("nats://{user}:{user}s@127.0.0.1:{port}")
}

/// A gateway with all its roles, and one device; and its nats-server, where the operator has made the streams.
struct Permitted {
    gateway: Gateway,
    server: Server,
    port: u16,
    state: TempDir,
}

impl Permitted {
    /// What a command prints that an operator gives.
    fn operate(&self, command: &[&str]) -> String {
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

async fn start() -> Permitted {
    let (server, port) = nats(CONFIG).await;
    apply(port).await;
    let state = tempfile::tempdir().unwrap();
    Permitted {
        gateway: Gateway::run(options(port, &state)).await,
        server,
        port,
        state,
    }
}

/// The streams and durables, made by the operator.
async fn apply(port: u16) {
    let nats = url("operator", port);
    eventually("the server listens", async || {
        let connected = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        connected.map(drop).map_err(|error| error.to_string())
    })
    .await;
    jetway(&["streams", "apply"], &[("JETWAY_NATS_URL", &nats)]);
}

async fn service(port: u16) -> Client {
    let options = ConnectOptions::with_user_and_password("service".into(), "services".into());
    let connected = options.connect(format!("127.0.0.1:{port}")).await;
    connected.unwrap()
}

#[tokio::test]
async fn everything_works_with_these_permissions_and_nothing_is_denied() {
    let site = start().await;
    let service = service(site.port).await;
    let mut live = service.subscribe("device.up.thing.>").await.unwrap();
    let mut receipts = service.subscribe("receipt.d0").await.unwrap();
    service.flush().await.unwrap();
    for protocol in [Protocol::V311, Protocol::V5] {
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &Site::device(0));
        connect.clean = false;
        // It is told to try again until the gateway has heard that it may.
        let mut device = eventually("the device is let in", async || {
            let connected = Box::pin(Device::connect_with(connect.clone())).await;
            connected.map_err(|closed| closed.error)
        })
        .await;
        assert_eq!(device.publish_acked(&Site::topic(0), REPORT).await, 0);
        let exactly_once = Publish {
            qos: 2,
            ..Publish::new(&Site::topic(0), REPORT)
        };
        device.publish(exactly_once);
        assert_eq!(device.acked().await.unwrap().reason, 0);
        within("the live copy", live.next()).await.unwrap();
        let filter = "$thing/down/property/P/d0";
        assert_eq!(device.subscribe(filter).await, 1);
        let mut headers = async_nats::HeaderMap::new();
        for (name, value) in [("Jw-Type", "property"), ("Jw-Receipt", "receipt.d0")] {
            headers.insert(name, value);
        }
        let subject = "device.down.thing.P.d0";
        let sent = service.publish_with_headers(subject, headers, "down".into());
        sent.await.unwrap();
        assert_eq!(device.next().await.payload, "down");
        within("a receipt", receipts.next()).await.unwrap();
        assert_eq!(device.subscribe("$rpc/down/+/P/d0").await, 1);
        let asked = service.request("device.rpc.mqtt.rpc.P.d0", "question".into());
        let answered = async {
            let topic = device.next().await.topic.replace("/down/", "/up/");
            assert_eq!(device.publish_acked(&topic, "answer").await, 0);
        };
        assert_eq!(tokio::join!(asked, answered).0.unwrap().payload, "answer");
        site.operate(&["device", "block", PRODUCT, "d0"]);
        device.closed().await;
        site.operate(&["device", "enable", PRODUCT, "d0"]);
    }
    // A durable of the operator's, read by a service that may do nothing else there.
    let durable = jetstream::new(service.clone());
    let durable: jetstream::consumer::PullConsumer = durable
        .get_consumer_from_stream("iot-core", "DEVICE_UP")
        .await
        .unwrap();
    let mut messages = durable.fetch().max_messages(4).messages().await.unwrap();
    for _ in 0..4 {
        let message = within("an uplink", messages.next()).await.unwrap().unwrap();
        message.ack_with(AckKind::Ack).await.unwrap();
    }
    let (status, body) = site.gateway.get("/readyz").await;
    assert_eq!(status, 200, "{body}");
    let (status, _) = site.gateway.get("/bans").await;
    assert_eq!(status, 200);
    // What a device did is told by all its roles.
    eventually("events are stored", async || {
        match site.gateway.metric("jetway_events_stored_total").await {
            0.0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    for command in [&["streams", "plan"][..], &["dlq", "ls"], &["bans", "ls"]] {
        site.operate(command);
    }
    drop(site.gateway);
    assert_eq!(denied(&site.server), Vec::<String>::new());
}

/// What the nats-server denied, in its own words.
fn denied(server: &Server) -> Vec<String> {
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
        apply(port).await;
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
    apply(port).await;
    let service = service(port).await;
    let jetstream = jetstream::new(service.clone());
    for subject in ["device.up.mqtt.thing.P.d0", "$KV.jetway_sessions.P.d0"] {
        let stored = jetstream.publish(subject, "x".into()).await.unwrap();
        let answered = tokio::time::timeout(Duration::from_millis(500), stored.into_future());
        assert!(!matches!(answered.await, Ok(Ok(_))), "{subject}");
        let is_denied = denied(&server).iter().any(|line| line.contains(subject));
        assert!(is_denied, "{subject}");
    }
}
