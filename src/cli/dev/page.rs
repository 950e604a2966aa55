//! What `jetway dev` prints once it runs: where everything is, and what a newcomer does next, with lines to paste.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::seed::Seed;

/// Where everything is.
pub(super) struct Places<'a> {
    pub(super) mqtt: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) nats: &'a str,
}

impl Places<'_> {
    fn head(&self) -> String {
        let Self { mqtt, http, nats } = self;
        format!(
            "Jetway is running: MQTT {mqtt}, NATS {nats}, HTTP http://{http} (/readyz, /metrics)"
        )
    }

    /// For the device profile: what the demo device sends and gets.
    pub(super) fn device(&self, device: &Seed) -> String {
        let (host, port) = (self.mqtt.ip(), self.mqtt.port());
        let Seed {
            product,
            name,
            credentials,
            ..
        } = device;
        format!(
            "
{head}

1. Watch what devices send, in a second terminal. A report comes twice, as it is stored and live on its handle's subject:
   {jetway} tail 'device.up.>' --nats {nats}

2. Report a property as the demo device, in a third one (mosquitto_pub is in the package mosquitto-clients):
   mosquitto_pub -h {host} -p {port} -q 1 -i '{client_id}' \\
     -u '{username}' \\
     -P '{password}' \\
     -t '$thing/up/property/{product}/{name}' \\
     -m '{{\"method\":\"report\",\"msgToken\":\"1\",\"params\":{{\"temp\":21.5}}}}'

3. Listen as the device, there:
   mosquitto_sub -h {host} -p {port} -q 1 -i '{client_id}' \\
     -u '{username}' \\
     -P '{password}' \\
     -t '$thing/down/+/{product}/{name}' -v

4. Send it a command, in a fourth one:
   {jetway} send {product} {name} '{{\"method\":\"control\",\"msgToken\":\"2\",\"params\":{{\"power\":1}}}}' --nats {nats}

A device has one connection: a second one takes over. Ctrl-C stops everything.
",
            head = self.head(),
            nats = self.nats,
            jetway = program(),
            client_id = credentials.client_id,
            username = credentials.username,
            password = credentials.password,
        )
    }

    /// For the open profile: two clients and a service.
    pub(super) fn open(&self) -> String {
        format!(
            "
{head}

Anybody may connect, and use any topic. mosquitto_pub and mosquitto_sub are in the package mosquitto-clients.

1. Subscribe as one client, in a second terminal:
   mosquitto_sub -h {host} -p {port} -q 1 -i listener -t 'demo/#' -v

2. Publish as another one, in a third one:
   mosquitto_pub -h {host} -p {port} -q 1 -t demo/temperature -m 21.5

3. Watch the same as a service, through NATS:
   {jetway} tail 'mqtt.>' --nats {nats}

A client identifier has one connection: a second one takes over. Ctrl-C stops everything.
",
            head = self.head(),
            host = self.mqtt.ip(),
            port = self.mqtt.port(),
            nats = self.nats,
            jetway = program(),
        )
    }
}

/// This program, as a shell in the same folder finds it.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("jetway"));
    let folder = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(folder).unwrap_or(&path);
    path.display().to_string()
}
