//! nats-server is away for long under the load of many devices (G-BOUND): the gateway's memory stays below what its configuration
//! allows and does not grow while it waits, and traffic resumes at once.
//!
//! Each device has 80 KiB in flight, far more than the gateway may take from it meanwhile, so all of them are held back; some send
//! on and on, whatever is answered.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::fleet::{Fleet, WINDOW};
use super::rig::{Rig, topic};
use super::support::{DemoDevice, Protocol, eventually, lasting, packet, soak};

/// Devices that send on and on.
const FLOODERS: usize = 20;
const PAYLOAD_BYTES: usize = 4 << 10;
/// Bytes that may wait for the stream, for each device.
const POOL_BYTES: u64 = 8 << 10;
/// What a device that is held back may have in the gateway: read ahead, and the read that went beyond it.
const READ_AHEAD_BYTES: u64 = 4 << 10;
const READ_BYTES: u64 = 16 << 10;
/// For what does not come from messages: tasks that begin, logs, connections to nats-server that fail.
const ALLOWANCE_MIB: u64 = 16;
const RESUMED_MAX: Duration = Duration::from_secs(2);
/// So much of the rate before is there again within that time; on a machine with nothing else to do, a third to a half. Both
/// are judged in a soak only: over single seconds, what else the machine does decides.
const RESUMED_SHARE_MIN: f64 = 0.15;
/// Each device has by then got an answer to something: to that end what waited for all of them is stored first.
const EVERY_DEVICE_MAX: Duration = Duration::from_secs(10);

#[tokio::test]
async fn memory_is_flat_while_nats_server_stands_still() {
    let mut site = Site::start("nats-server paused for long").await;
    site.rig.nats.pause().await;
    let waited = site.wait().await;
    let back = Instant::now();
    site.rig.nats.resume();
    Box::pin(site.finish(back, &waited)).await;
}

#[tokio::test]
async fn memory_is_flat_while_nats_server_is_gone() {
    let mut site = Site::start("nats-server gone for long").await;
    site.rig.nats.kill9().await;
    let waited = site.wait().await;
    site.rig.nats.restart().await;
    Box::pin(site.finish(Instant::now(), &waited)).await;
}

/// The servers and the devices under load.
struct Site {
    test: &'static str,
    rig: Rig,
    fleet: Fleet,
    flooders: Vec<Flooder>,
    outage: Duration,
    /// Memory of the gateway under load, at most, in MiB.
    before: u64,
    /// PUBACKs a second under load.
    rate: f64,
}

/// Memory of the gateway while it waited, in MiB.
struct Waited {
    /// When everything that fits was in.
    full: u64,
    /// At the end.
    end: u64,
    /// At most.
    highest: u64,
}

impl Site {
    async fn start(test: &'static str) -> Self {
        let (devices, outage) = match soak() {
            Some(outage) => (5_000, outage),
            None => (500, Duration::from_secs(5)),
        };
        let pool_bytes = devices as u64 * POOL_BYTES;
        let rig = Rig::of(
            devices,
            &[
                (
                    "JETWAY_PUBLISHER_INFLIGHT_BYTES_MAX",
                    &pool_bytes.to_string(),
                ),
                (
                    "JETWAY_CONNECTION_READ_AHEAD_BYTES_MAX",
                    &READ_AHEAD_BYTES.to_string(),
                ),
            ],
        )
        .await;
        let (flooders, fleet) = rig.devices.split_at(FLOODERS);
        let fleet = Fleet::start(rig.gateway.mqtt(), fleet, PAYLOAD_BYTES).await;
        let mut connected = Vec::new();
        for device in flooders {
            connected.push(Flooder::connect(&rig, device).await);
        }
        let (more, started) = ((devices * WINDOW) as u64, Instant::now());
        fleet.pubacks_more(more).await;
        let rate = more as f64 / started.elapsed().as_secs_f64();
        let (_, before) = rig.gateway_mib();
        Self {
            test,
            rig,
            fleet,
            flooders: connected,
            outage,
            before,
            rate,
        }
    }

    /// Lets the outage last.
    async fn wait(&mut self) -> Waited {
        let gone = Instant::now();
        let flooders = self.flooders.drain(..).map(Flooder::flood);
        // Dropped, and so ended, with the outage.
        let _flooding: JoinSet<()> = flooders.collect();
        eventually("devices are held back", async || {
            match self.rig.gateway.metric("jetway_uplink_held_total").await {
                0.0 => Err("none is".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        lasting((self.outage / 4).saturating_sub(gone.elapsed())).await;
        let (full, _) = self.rig.gateway_mib();
        let answered = self.fleet.pubacks();
        lasting(self.outage.saturating_sub(gone.elapsed())).await;
        let (end, highest) = self.rig.gateway_mib();
        // Refusals count as well: after the retry budget there may be some.
        let told = self.fleet.pubacks() - answered;
        println!(
            "{}: {told} answers in the last three quarters of the outage",
            self.test
        );
        Waited { full, end, highest }
    }

    async fn finish(self, back: Instant, waited: &Waited) {
        let Self {
            test, rig, fleet, ..
        } = self;
        let (tenths, all) = fleet.goes_on(back, RESUMED_MAX).await;
        let first = (1..).zip(&tenths).find(|(_, pubacks)| **pubacks > 0);
        let first = first.map_or(all, |(tenths, _)| Duration::from_millis(100 * tenths));
        // In the second that ends when traffic must have resumed.
        let resumed = tenths[10..20].iter().sum::<u64>() as f64;

        let devices = rig.devices.len() as u64;
        let ceiling = self.before
            + ((devices * (POOL_BYTES + READ_AHEAD_BYTES + READ_BYTES)) >> 20)
            + ALLOWANCE_MIB;
        let Waited { full, end, highest } = *waited;
        println!(
            "{test}: {devices} devices, {:?}; RSS {} MiB at most before, {full} MiB when full, {end} MiB at the end, {highest} MiB at most, \
             ceiling {ceiling} MiB; first PUBACK after {first:.1?}, every device after {all:.1?}; {:.0} PUBACKs/s before, and \
             {resumed:.0} PUBACKs/s in the second that ends 2 s after its return; in tenths of seconds {tenths:?}",
            self.outage, self.before, self.rate
        );
        let (verdict, _) = rig.judge(fleet).await;
        verdict.hold(test);
        assert!(highest <= ceiling, "{highest} MiB above {ceiling} MiB");
        assert!(end <= full + ALLOWANCE_MIB, "{end} MiB after {full} MiB");
        assert!(all <= EVERY_DEVICE_MAX, "{all:?} until every device");
        if soak().is_some() {
            assert!(first <= RESUMED_MAX, "{first:?} until the first PUBACK");
            assert!(
                resumed >= self.rate * RESUMED_SHARE_MIN,
                "{resumed} PUBACKs/s after {} PUBACKs/s",
                self.rate
            );
        } else {
            // Within the retry budget nobody is told anything.
            let (lost, refused) = (verdict.connections_lost, verdict.refused);
            assert_eq!((lost, refused), (0, 0), "devices only wait");
        }
    }
}

/// A connection whose device does not care for answers.
struct Flooder {
    socket: TcpStream,
    publish: Vec<u8>,
}

impl Flooder {
    async fn connect(rig: &Rig, device: &DemoDevice) -> Self {
        let mut socket = TcpStream::connect(rig.gateway.mqtt()).await.unwrap();
        let connect = packet::connect(Protocol::V311, &device.credentials, 60);
        socket.write_all(&connect).await.unwrap();
        let mut connack = [0; 4];
        socket.read_exact(&mut connack).await.unwrap();
        assert_eq!(connack, [0x20, 2, 0, 0], "{} is let in", device.name);
        let payload = format!("{:.<PAYLOAD_BYTES$}", format!("{} 0 0 ", device.name));
        Self {
            socket,
            publish: packet::publish(Protocol::V311, &topic(device), Some(1), payload.as_bytes()),
        }
    }

    /// Sends as long as the connection lasts.
    async fn flood(mut self) {
        while self.socket.write_all(&self.publish).await.is_ok() {}
    }
}
