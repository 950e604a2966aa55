//! Ports of 127.0.0.1 that a test program has for itself, also while no server of its listens there: before one starts, and
//! while one is killed.
//!
//! Each is held by a socket that is bound with SO_REUSEADDR and never listens. Linux gives its port to nobody who asks for any
//! port; a server that names the port, and sets the same option, gets it.

use std::sync::{Mutex, PoisonError};

use tokio::net::TcpSocket;

static HELD: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());

/// Ports that nobody has, all different; they stay so for everybody who does not know them.
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.push(socket);
        port
    })
}
