//! Headers as proxies send them, and everything that is none.

use super::*;

/// What was read, and what is left for the next layer; `None`: refused.
async fn read(bytes: &[u8]) -> Option<(Option<SocketAddr>, Vec<u8>)> {
    let mut socket = bytes;
    let announced = read_header(&mut socket).await.ok()?;
    Some((announced, socket.to_vec()))
}

fn binary(version_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    let header = [version_command, family, length[0], length[1]];
    [&SIGNATURE, header.as_slice(), rest].concat()
}

const IPV4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0xD4, 0x31, 0x07, 0x5B];

fn ipv6() -> Vec<u8> {
    let source: Ipv6Addr = "2001:db8::7".parse().unwrap();
    [
        &source.octets(),
        [0; 16].as_slice(),
        &[0xD4, 0x31, 0x07, 0x5B],
    ]
    .concat()
}

#[tokio::test]
async fn the_announced_address_is_read_and_nothing_behind_it() {
    let v4 = Some("192.0.2.7:54321");
    let v6 = Some("[2001:db8::7]:54321");
    let longest = format!("PROXY UNKNOWN {}", "f".repeat(LINE_BYTES_MAX - 16));
    let with_extension = [IPV4.as_slice(), &[0x04, 0, 1, 0]].concat();
    let cases: [(Vec<u8>, Option<&str>); 13] = [
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 54321 1883".to_vec(), v4),
        (b"PROXY TCP6 2001:db8::7 ::1 54321 1883".to_vec(), v6),
        (b"PROXY UNKNOWN".to_vec(), None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2".to_vec(), None),
        (longest.into_bytes(), None),
        (binary(0x21, 0x11, &IPV4), v4),
        (binary(0x21, 0x11, &with_extension), v4),
        (binary(0x21, 0x21, &ipv6()), v6),
        (binary(0x21, 0x00, &[]), None),
        (binary(0x21, 0x31, &[0; 216]), None),
        (binary(0x20, 0x00, &[]), None),
        (binary(0x20, 0x11, &IPV4), None),
        (binary(0x20, 0x00, &[0; EXTENSIONS_BYTES_MAX]), None),
    ];
    for (mut header, address) in cases {
        if header.starts_with(b"PROXY") {
            header.extend(b"\r\n");
        }
        let address = address.map(|text| text.parse().unwrap());
        let expected = Some((address, b"\x10next".to_vec()));
        let found = read(&[&header, b"\x10next".as_slice()].concat()).await;
        assert_eq!(found, expected, "{}", header.escape_ascii());
        // A header that is cut anywhere is none.
        for end in 0..header.len() {
            assert_eq!(read(&header[..end]).await, None);
        }
    }
}

#[tokio::test]
async fn everything_else_is_refused() {
    let too_long = format!("PROXY UNKNOWN {}", "f".repeat(LINE_BYTES_MAX));
    let cases: [&[u8]; 20] = [
        b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0padding",
        b"proxy TCP4 192.0.2.7 10.0.0.1 54321 1883",
        b"PROXY  TCP4 192.0.2.7 10.0.0.1 54321 1883",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 54321",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 54321 1883 7",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 54321 1883 ",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 1883",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 +4321 1883",
        b"PROXY TCP4 192.0.2.7 nowhere 54321 1883",
        b"PROXY TCP4 2001:db8::7 ::1 54321 1883",
        b"PROXY TCP6 192.0.2.7 10.0.0.1 54321 1883",
        b"PROXY UDP4 192.0.2.7 10.0.0.1 54321 1883",
        b"PROXY TCP4 192.0.2.\xff7 10.0.0.1 5 1883",
        too_long.as_bytes(),
        &binary(0x11, 0x11, &IPV4),
        &binary(0x31, 0x11, &IPV4),
        &binary(0x22, 0x11, &IPV4),
        &binary(0x21, 0x12, &IPV4),
        &binary(0x21, 0x11, &IPV4[..11]),
        &binary(0x21, 0x00, &[0; EXTENSIONS_BYTES_MAX + 1]),
    ];
    for case in cases {
        let mut bytes = case.to_vec();
        bytes.extend(b"\r\n");
        assert_eq!(read(&bytes).await, None, "{}", case.escape_ascii());
    }
}
