//! A TCP proxy that fails on command: between the gateway and a nats-server that stays alive.
//!
//! It works on bytes and knows no protocol. Each connection has a link up (to the server) and a link down (to the client);
//! a fault changes what the links of the connections of that moment do. Connections made later are whole.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Pieces that the link up keeps while it is held or delayed; then the client's writes wait.
const PIECES_MAX: usize = 4_096;

/// What the links of one connection do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Forward.
    Whole,
    /// The link up keeps what it is given.
    Held,
    /// The client sees the end of its connection; the link up goes on with what it has and is given.
    HalfClosed,
    /// The client is cut off; the link up keeps what it has.
    Severed,
    /// The client is cut off; the link up gives what it has to the server.
    Released,
    /// Both ends are cut off, and what was under way is lost.
    Cut,
}

struct Connection {
    stage: watch::Sender<Stage>,
    /// Bytes that the link up keeps.
    kept: Arc<AtomicUsize>,
    /// Bytes that the link up still gives while it is held.
    last: Arc<AtomicUsize>,
}

/// A running proxy; its connections end when it is dropped.
pub struct FaultProxy {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Connection>>>,
    delay: watch::Sender<Duration>,
    refuses: Arc<AtomicBool>,
    _accepting: JoinSet<()>,
}

impl FaultProxy {
    /// A proxy on a free port.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<Mutex<Vec<Connection>>>::default();
        let (delay, delayed) = watch::channel(Duration::ZERO);
        let mut accepting = JoinSet::new();
        let known = Arc::clone(&connections);
        let refuses = Arc::<AtomicBool>::default();
        let is_refused = Arc::clone(&refuses);
        accepting.spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                if is_refused.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(server).await else {
                    continue;
                };
                let (stage, staged) = watch::channel(Stage::Whole);
                let (kept, last) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
                known.lock().unwrap().push(Connection {
                    stage,
                    kept: Arc::clone(&kept),
                    last: Arc::clone(&last),
                });
                links.spawn(run(client, server, staged, (kept, last), delayed.clone()));
                while links.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            connections,
            delay,
            refuses,
            _accepting: accepting,
        }
    }

    /// `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// Cuts both ends off; what was under way is lost.
    pub fn cut(&self) {
        self.change(Stage::Cut);
    }

    /// Ends the direction to the client only; what the client still sends reaches the server until it closes too.
    pub fn half_close(&self) {
        self.change(Stage::HalfClosed);
    }

    /// From now on what clients send is kept. They notice nothing.
    pub fn hold(&self) {
        self.change(Stage::Held);
    }

    /// The same, once so many bytes more of each connection have passed.
    pub fn hold_after(&self, bytes: usize) {
        for connection in &*self.connections.lock().unwrap() {
            connection.last.store(bytes, Ordering::Relaxed);
        }
        self.change(Stage::Held);
    }

    /// Cuts clients off, while the server's ends stay open and what was kept stays kept.
    pub fn sever(&self) {
        self.change(Stage::Severed);
    }

    /// Gives the server what was kept of connections that are severed or held.
    pub fn release(&self) {
        for connection in &*self.connections.lock().unwrap() {
            connection.stage.send_if_modified(|stage| {
                let next = match *stage {
                    Stage::Severed => Stage::Released,
                    Stage::Held => Stage::Whole,
                    other => other,
                };
                std::mem::replace(stage, next) != next
            });
        }
    }

    /// Bytes that the links up have taken and not given, of connections that are held.
    pub fn kept(&self) -> usize {
        self.kept_in(&[Stage::Held])
    }

    /// The same, of connections whose clients are cut off.
    pub fn stragglers(&self) -> usize {
        self.kept_in(&[Stage::Severed, Stage::Released])
    }

    fn kept_in(&self, stages: &[Stage]) -> usize {
        let connections = self.connections.lock().unwrap();
        let kept = connections
            .iter()
            .filter(|one| stages.contains(&one.stage.borrow()))
            .map(|one| one.kept.load(Ordering::Relaxed));
        kept.sum()
    }

    /// From now on new connections end at once, or live again.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// What clients send takes so much longer.
    pub fn delay(&self, delay: Duration) {
        self.delay.send_replace(delay);
    }

    /// Connections that are past a cut or a release stay so.
    fn change(&self, next: Stage) {
        for connection in &*self.connections.lock().unwrap() {
            connection.stage.send_if_modified(|stage| {
                let lives = matches!(stage, Stage::Whole | Stage::Held);
                if lives {
                    *stage = next;
                }
                lives
            });
        }
    }
}

async fn run(
    client: TcpStream,
    server: TcpStream,
    stage: watch::Receiver<Stage>,
    (kept, last): (Arc<AtomicUsize>, Arc<AtomicUsize>),
    delay: watch::Receiver<Duration>,
) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (pieces, queue) = mpsc::channel(PIECES_MAX);
    let mut cut = stage.clone();
    // An error of one link is the end of its socket, which the others see themselves.
    let links = async {
        tokio::join!(
            take(from_client, pieces, stage.clone(), &kept, delay),
            give(queue, to_server, stage.clone(), &kept, &last),
            down(from_server, to_client, stage.clone()),
        )
    };
    tokio::select! {
        _ended = links => {}
        _cut = cut.wait_for(|stage| *stage == Stage::Cut) => {}
    }
}

/// The link up, from the client into the queue; each piece with the time at which it is due.
async fn take(
    mut client: OwnedReadHalf,
    pieces: mpsc::Sender<(Instant, Vec<u8>)>,
    mut stage: watch::Receiver<Stage>,
    kept: &AtomicUsize,
    delay: watch::Receiver<Duration>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            biased;
            _severed = stage.wait_for(|now| matches!(now, Stage::Severed | Stage::Released)) => return Ok(()),
            read = client.read(&mut buffer) => read?,
        };
        if read == 0 {
            return Ok(());
        }
        kept.fetch_add(read, Ordering::Relaxed);
        let due = Instant::now() + *delay.borrow();
        if pieces.send((due, buffer[..read].to_vec())).await.is_err() {
            return Ok(());
        }
    }
}

/// The link up, from the queue to the server; it ends the direction behind the last piece.
async fn give(
    mut queue: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut server: OwnedWriteHalf,
    mut stage: watch::Receiver<Stage>,
    kept: &AtomicUsize,
    last: &AtomicUsize,
) -> io::Result<()> {
    while let Some((due, piece)) = queue.recv().await {
        timeout_at(due, std::future::pending::<()>()).await.ok();
        let is_held = *stage.borrow() == Stage::Held;
        let passes = match is_held {
            true => last.load(Ordering::Relaxed).min(piece.len()),
            false => 0,
        };
        last.fetch_sub(passes, Ordering::Relaxed);
        for part in [&piece[..passes], &piece[passes..]] {
            if !part.is_empty() {
                server.write_all(part).await?;
                kept.fetch_sub(part.len(), Ordering::Relaxed);
            }
            let flows = |now: &Stage| !matches!(now, Stage::Held | Stage::Severed);
            stage.wait_for(flows).await.ok();
        }
    }
    server.shutdown().await
}

/// The link down; once the client is cut off, what comes is thrown away.
async fn down(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    mut stage: watch::Receiver<Stage>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let whole = |now: &Stage| matches!(now, Stage::Whole | Stage::Held);
    loop {
        let read = tokio::select! {
            biased;
            _broken = stage.wait_for(|now| !whole(now)) => break,
            read = server.read(&mut buffer) => read?,
        };
        if read == 0 {
            return client.shutdown().await;
        }
        client.write_all(&buffer[..read]).await?;
    }
    client.shutdown().await.ok();
    drop(client);
    while server.read(&mut buffer).await? > 0 {}
    Ok(())
}
