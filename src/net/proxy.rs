//! The header of the PROXY protocol, version 1 (text) and 2 (binary): who a proxy's connection really is from.
//!
//! A listener that expects it takes nothing else, because an address that may be forged is worse than none. No byte behind
//! the header is read. Extensions (TLVs) are skipped; nothing in them is believed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::Error;

/// The first bytes of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The shortest header is this line; whatever a version, so many bytes of its header are there.
const BYTES_MIN: usize = b"PROXY UNKNOWN\r\n".len();
/// The longest line of version 1, with its end.
const LINE_BYTES_MAX: usize = 107;
/// Most bytes of addresses and extensions in version 2.
const EXTENSIONS_BYTES_MAX: usize = 4 * 1024;

/// Reads the header and not a byte more: the announced source address, or none if the proxy speaks for itself or does
/// not know.
pub(super) async fn read_header(
    socket: &mut (impl AsyncRead + Unpin),
) -> Result<Option<SocketAddr>, Error> {
    let mut start = [0; BYTES_MIN];
    socket.read_exact(&mut start).await?;
    if start.starts_with(&SIGNATURE) {
        read_binary(socket, &start).await
    } else if start.starts_with(b"PROXY ") {
        read_line(socket, &start).await
    } else {
        Err(Error::Proxy("expected one, found something else"))
    }
}

async fn read_line(
    socket: &mut (impl AsyncRead + Unpin),
    start: &[u8],
) -> Result<Option<SocketAddr>, Error> {
    // Byte by byte, because what is behind the line belongs to the next layer.
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_BYTES_MAX {
            return Err(Error::Proxy("expected a line of at most 107 bytes"));
        }
        line.push(socket.read_u8().await?);
    }
    let line = line.strip_suffix(b"\r\n").unwrap_or_default();
    parse_line(line).ok_or(Error::Proxy(
        "expected PROXY TCP4|TCP6 source destination ports",
    ))
}

/// A line without its end: an address, or none for `UNKNOWN`; `None` is a fault.
fn parse_line(line: &[u8]) -> Option<Option<SocketAddr>> {
    let mut words = str::from_utf8(line)
        .ok()?
        .strip_prefix("PROXY ")?
        .split(' ');
    let source = match words.next()? {
        // Whatever follows is to be ignored.
        "UNKNOWN" => return Some(None),
        "TCP4" => addresses::<Ipv4Addr>(&mut words)?,
        "TCP6" => addresses::<Ipv6Addr>(&mut words)?,
        _ => return None,
    };
    let (source_port, _destination_port) = (port(words.next()?)?, port(words.next()?)?);
    match words.next() {
        None => Some(Some(SocketAddr::new(source, source_port))),
        Some(_) => None,
    }
}

/// The source; the destination must be an address too.
fn addresses<'a, A: FromStr + Into<IpAddr>>(
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<IpAddr> {
    let source: A = words.next()?.parse().ok()?;
    let _destination: A = words.next()?.parse().ok()?;
    Some(source.into())
}

/// Decimal digits alone: the standard parser takes a sign too.
fn port(word: &str) -> Option<u16> {
    match word.bytes().all(|byte| byte.is_ascii_digit()) {
        true => word.parse().ok(),
        false => None,
    }
}

async fn read_binary(
    socket: &mut (impl AsyncRead + Unpin),
    start: &[u8],
) -> Result<Option<SocketAddr>, Error> {
    let [version_command, family, length_high] = *start
        .strip_prefix(&SIGNATURE)
        .and_then(|rest| rest.first_chunk())
        .unwrap_or(&[0; 3]);
    let length_low = socket.read_u8().await?;
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    if length > EXTENSIONS_BYTES_MAX {
        return Err(Error::Proxy("expected at most 4096 bytes of version 2"));
    }
    let mut rest = vec![0; length];
    socket.read_exact(&mut rest).await?;
    match (version_command, family) {
        // LOCAL: the proxy itself, such as its health check.
        (0x20, _) => Ok(None),
        (0x21, 0x11) => address::<4, 12>(&rest).map(Some),
        (0x21, 0x21) => address::<16, 36>(&rest).map(Some),
        // Unspecified, or a Unix socket at the proxy: a peer without an address.
        (0x21, 0x00 | 0x31) => Ok(None),
        (0x20..=0x2F, _) => Err(Error::Proxy("expected LOCAL, or PROXY of a stream")),
        _ => Err(Error::Proxy("expected version 2")),
    }
}

/// The source of `BYTES` bytes of addresses and ports, each address `ADDRESS` bytes long.
fn address<const ADDRESS: usize, const BYTES: usize>(rest: &[u8]) -> Result<SocketAddr, Error>
where
    [u8; ADDRESS]: Into<IpAddr>,
{
    let parse = || {
        let addresses = rest.first_chunk::<BYTES>()?;
        let source: [u8; ADDRESS] = *addresses.first_chunk()?;
        let (_, ports) = addresses.split_at_checked(2 * ADDRESS)?;
        let port = u16::from_be_bytes(*ports.first_chunk()?);
        Some(SocketAddr::new(source.into(), port))
    };
    parse().ok_or(Error::Proxy(
        "expected the addresses and ports of its family",
    ))
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
