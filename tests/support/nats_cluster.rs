//! Three real nats-servers in one cluster on 127.0.0.1, each with a store of its own, gone when dropped.
//!
//! A replicated stream lives on all three; one of them leads it, and a message is stored once two of them have it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_nats::Request;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::backend::Backend;
use super::http;
use super::nats_server::binary;
use super::port::free_ports;
use super::wait::{eventually, within};

/// Servers, and the replicas that a stream may have.
pub const SERVERS: usize = 3;

/// The three; a server is named by its place, 0 to 2.
pub struct NatsCluster {
    servers: Vec<Server>,
    binary: PathBuf,
    state_dir: TempDir,
}

struct Server {
    client: SocketAddr,
    http: SocketAddr,
    /// `None` while it is killed.
    child: Option<Child>,
}

impl NatsCluster {
    /// Starts them on free ports and returns when a stream with three replicas can be made.
    pub async fn start() -> Self {
        let state_dir = tempfile::tempdir().unwrap();
        let ports = free_ports::<{ 3 * SERVERS }>();
        let ports = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let (clients, rest) = ports.split_at(SERVERS);
        let (https, routes) = rest.split_at(SERVERS);
        let urls: Vec<_> = routes.iter().map(|at| format!("nats://{at}")).collect();
        let mut servers = Vec::new();
        for (index, (client, http)) in clients.iter().zip(https).enumerate() {
            let folder = state_dir.path().join(name(index));
            fs::create_dir(&folder).unwrap();
            let config = json!({
                "server_name": name(index),
                "listen": client.to_string(),
                "http": http.to_string(),
                "jetstream": { "store_dir": folder.join("jetstream") },
                "cluster": { "name": "cluster", "listen": routes[index].to_string(), "routes": urls },
            });
            fs::write(folder.join("nats-server.conf"), config.to_string()).unwrap();
            servers.push(Server {
                client: *client,
                http: *http,
                child: None,
            });
        }
        let mut cluster = Self {
            servers,
            binary: binary().await,
            state_dir,
        };
        for index in 0..SERVERS {
            cluster.spawn(index);
        }
        cluster.ready().await;
        cluster
    }

    /// All three URLs, separated by commas, as the gateway takes them.
    pub fn url(&self) -> String {
        let urls: Vec<_> = (0..SERVERS).map(|index| self.url_of(index)).collect();
        urls.join(",")
    }

    /// The URL of one of them.
    pub fn url_of(&self, index: usize) -> String {
        format!("nats://{}", self.servers[index].client)
    }

    /// Connected to this server.
    pub async fn backend(&self, index: usize) -> Backend {
        Backend::connect(&self.url_of(index)).await
    }

    /// Which server leads the stream, once there is one that the asked server knows of.
    pub async fn leader(&self, stream: &str, asked: usize) -> usize {
        let backend = self.backend(asked).await;
        eventually(&format!("{stream} has a leader"), async || {
            let info = info(&backend, stream).await?;
            place(&info["cluster"]["leader"]).ok_or_else(|| info.to_string())
        })
        .await
    }

    /// Hands the lead of the stream to that server, and returns when it has it.
    pub async fn lead(&self, stream: &str, index: usize) {
        let backend = self.backend(index).await;
        let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.{stream}");
        let body = json!({ "placement": { "preferred": name(index) } }).to_string();
        eventually(&format!("{} leads {stream}", name(index)), async || {
            let leader = place(&info(&backend, stream).await?["cluster"]["leader"]);
            if leader == Some(index) {
                return Ok(());
            }
            let answer = ask(&backend, &subject, body.clone()).await;
            Err(format!("{leader:?} leads; {answer:?}"))
        })
        .await;
    }

    /// Waits until all replicas of the stream have all of it.
    pub async fn whole(&self, stream: &str) {
        let backend = self.backend(0).await;
        eventually(
            &format!("all of {stream}'s replicas are whole"),
            async || {
                let info = info(&backend, stream).await?;
                let replicas = info["cluster"]["replicas"]
                    .as_array()
                    .map_or(&[][..], |all| all);
                let current = replicas.iter().filter(|one| one["current"] == true).count();
                match current {
                    2 => Ok(()),
                    _ => Err(info["cluster"].to_string()),
                }
            },
        )
        .await;
    }

    /// Which server the client of this name is connected to.
    pub async fn server_of(&self, client: &str) -> usize {
        eventually(&format!("{client} is connected"), async || {
            for (index, server) in self.servers.iter().enumerate() {
                let (_, body) = http::get(server.http, "/connz").await;
                let connz: Value =
                    serde_json::from_str(&body).map_err(|error| error.to_string())?;
                let connections = connz["connections"].as_array().unwrap();
                if connections.iter().any(|one| one["name"] == client) {
                    return Ok(index);
                }
            }
            Err("on no server".to_owned())
        })
        .await
    }

    /// Kills it as a crash would; returns when it is gone.
    pub async fn kill9(&mut self, index: usize) {
        let mut child = self.servers[index].child.take().expect("it runs");
        within("nats-server to be gone", child.kill())
            .await
            .unwrap();
    }

    /// Starts one that was killed, on its ports and store; returns when it listens.
    pub async fn restart(&mut self, index: usize) {
        self.spawn(index);
        drop(self.backend_when_up(index).await);
    }

    /// Stops its process (SIGSTOP): its connections stay open and nothing is answered.
    pub fn pause(&self, index: usize) {
        self.signal(index, Signal::STOP);
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self, index: usize) {
        self.signal(index, Signal::CONT);
    }

    fn signal(&self, index: usize, signal: Signal) {
        let id = self.servers[index].child.as_ref().and_then(Child::id);
        let id = i32::try_from(id.expect("it runs")).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    fn spawn(&mut self, index: usize) {
        let folder = self.state_dir.path().join(name(index));
        let log = folder.join("nats-server.log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(&self.binary)
            .arg("--config")
            .arg(folder.join("nats-server.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.servers[index].child = Some(child);
    }

    async fn backend_when_up(&self, index: usize) -> Backend {
        let url = self.url_of(index);
        eventually("nats-server listens", async || {
            let connected = async_nats::connect(&url).await;
            connected.map(drop).map_err(|error| error.to_string())
        })
        .await;
        self.backend(index).await
    }

    /// The servers have found each other when one of them can place three replicas.
    async fn ready(&self) {
        let backend = self.backend_when_up(0).await;
        let config = json!({ "name": "PROBE", "subjects": ["probe"], "num_replicas": SERVERS });
        eventually("a stream with three replicas", async || {
            let subject = "$JS.API.STREAM.CREATE.PROBE";
            let answer = backend
                .client
                .request(subject, config.to_string().into())
                .await;
            let answer = answer.map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
            match answer["error"].is_null() {
                true => Ok(()),
                false => Err(answer.to_string()),
            }
        })
        .await;
        backend.request("$JS.API.STREAM.DELETE.PROBE", "").await;
    }
}

impl Drop for NatsCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for index in 0..SERVERS {
                let log = self
                    .state_dir
                    .path()
                    .join(name(index))
                    .join("nats-server.log");
                let log = fs::read_to_string(log).unwrap_or_default();
                eprintln!("--- log of nats-server {}:\n{log}---", name(index));
            }
        }
    }
}

fn name(index: usize) -> String {
    format!("server-{index}")
}

fn place(leader: &Value) -> Option<usize> {
    (0..SERVERS).find(|index| leader == &name(*index))
}

async fn info(backend: &Backend, stream: &str) -> Result<Value, String> {
    ask(
        backend,
        &format!("$JS.API.STREAM.INFO.{stream}"),
        String::new(),
    )
    .await
}

/// A request of the JetStream API; without a leader nobody answers it.
async fn ask(backend: &Backend, subject: &str, body: String) -> Result<Value, String> {
    let request = Request::new()
        .payload(body.into())
        .timeout(Some(Duration::from_millis(300)));
    let answer = backend
        .client
        .send_request(subject.to_owned(), request)
        .await;
    let answer = answer.map_err(|error| error.to_string())?;
    serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())
}
