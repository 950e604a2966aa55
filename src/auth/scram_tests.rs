//! The exchange of RFC 7677, every fault of a client by name, and clients that send anything.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::auth::credentials;

const PASSWORD: &str = "pencil";
const NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

/// The example of RFC 7677 §3, whose server this is. Its user name `user` is no device: it is signed and not parsed.
const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

/// A change to a client-final-message.
type Edit = fn(String) -> String;

fn device() -> DeviceId {
    DeviceId::new("p", "d").unwrap()
}

/// The keys of the example: made once, whatever the tests do with them.
fn keys() -> Keys {
    static KEYS: std::sync::OnceLock<Keys> = std::sync::OnceLock::new();
    KEYS.get_or_init(|| Keys::derive(PASSWORD, &decoded(SALT).unwrap(), 4_096))
        .clone()
}

fn server_of(device: DeviceId, account: Account) -> Server {
    let challenge = Challenge {
        nonce: NONCE.to_owned(),
        salt: decoded(SALT).unwrap(),
        iterations: 4_096,
    };
    Server::new(device, account, keys(), challenge)
}

fn server() -> Server {
    server_of(device(), Account::Enabled([].into()))
}

fn answer(step: Result<Step, Denied>) -> String {
    match step {
        Ok(Step::Continue(data)) => String::from_utf8(data.into()).unwrap(),
        other => panic!("expected a challenge, got {other:?}"),
    }
}

/// The client's side: the client-final-message that these make.
fn client_final(bare: &str, server_first: &str, unproved: &str) -> String {
    let salted = salted(PASSWORD.as_bytes(), &decoded(SALT).unwrap(), 4_096);
    let key = hmac(&salted, b"Client Key");
    let signed = format!("{bare},{server_first},{unproved}");
    let signature = hmac(&Sha256::digest(key), signed.as_bytes());
    let proof: Vec<u8> = key
        .iter()
        .zip(signature)
        .map(|(key, sign)| key ^ sign)
        .collect();
    format!("{unproved},p={}", STANDARD.encode(proof))
}

/// A whole exchange; `edit` changes the client-final-message, which is signed before or behind that.
fn run(
    server: &mut Server,
    first: &str,
    header: &str,
    edit: impl Fn(String) -> String,
    sign_edited: bool,
) -> Result<Step, Denied> {
    let server_first = answer(server.step(first.as_bytes()));
    let bare = first.splitn(3, ',').nth(2).unwrap();
    let nonce = server_first.strip_prefix("r=").unwrap();
    let nonce = nonce.split(',').next().unwrap();
    let unproved = format!("c={},r={nonce}", STANDARD.encode(header));
    let last = if sign_edited {
        client_final(bare, &server_first, &edit(unproved))
    } else {
        edit(client_final(bare, &server_first, &unproved))
    };
    server.step(last.as_bytes())
}

#[test]
fn the_example_of_rfc_7677_is_proved() {
    let mut server = server();
    server.state = State::Challenged(Challenged {
        header: "n,,".to_owned(),
        nonce: format!("{CLIENT_NONCE}{NONCE}"),
        signed: format!("n=user,r={CLIENT_NONCE},{SERVER_FIRST}"),
    });
    let step = server.step(CLIENT_FINAL.as_bytes()).unwrap();
    let Step::Done { device: who, data } = step else {
        panic!("expected the end, got {step:?}");
    };
    assert_eq!((who.id, who.scope), (device(), Scope::Full));
    assert_eq!(data, SERVER_FINAL);
    // And its server-first-message is the one that the client gets here.
    let mut server = server_of(device(), Account::Enabled([].into()));
    let first = format!("n,,n=p&d,r={CLIENT_NONCE}");
    assert_eq!(answer(server.step(first.as_bytes())), SERVER_FIRST);
}

#[test]
fn a_client_may_say_the_same_in_other_ways() {
    let plain = "n,,n=p&d,r=c";
    let cases = [
        (plain, "n,,", ""),
        ("y,,n=p&d,r=c", "y,,", ""),
        ("n,a=p&d,n=p&d,r=c", "n,a=p&d,", ""),
        ("n,,n=p&d,r=c,x=1,Y=e=f", "n,,", ""),
        (plain, "n,,", ",x=ü,p=2"),
    ];
    for (first, header, extensions) in cases {
        let edit = |unproved| unproved + extensions;
        let step = run(&mut server(), first, header, edit, true);
        assert!(matches!(step, Ok(Step::Done { .. })), "{first}: {step:?}");
    }
}

#[test]
fn a_client_may_wait_to_be_asked_for_its_first_message() {
    let mut server = server();
    assert_eq!(server.step(b"").unwrap(), Step::Continue(Bytes::new()));
    let step = run(&mut server, "n,,n=p&d,r=c", "n,,", |last| last, true);
    assert!(matches!(step, Ok(Step::Done { .. })), "{step:?}");
}

#[test]
fn names_with_separators_and_without_product_are_the_client_ids() {
    let escaped = DeviceId::new("p=,", "=2C").unwrap();
    let legacy = DeviceId::new("ABCDEFGHIJK", "dévice").unwrap();
    for (device, name) in [
        (escaped, "p=3D=2C&=3D2C"),
        (legacy.clone(), "ABCDEFGHIJKdévice"),
        (legacy, "ABCDEFGHIJK&dévice"),
    ] {
        let mut server = server_of(device, Account::Enabled([].into()));
        let step = run(
            &mut server,
            &format!("n,,n={name},r=c"),
            "n,,",
            |last| last,
            true,
        );
        assert!(matches!(step, Ok(Step::Done { .. })), "{name}: {step:?}");
    }
}

#[test]
fn each_fault_of_the_first_message_has_its_name() {
    let long = format!("n,,n=p&d,r={}", "c".repeat(MESSAGE_BYTES_MAX));
    let header = Error::Malformed("n,,");
    let escape = Error::Malformed("=2C or =3D in a name");
    let graphic = Error::Malformed("a nonce of printable ASCII");
    let extension = Error::Malformed("<letter>=<value>");
    let cases: [(&[u8], Error); 34] = [
        (b"n", header.clone()),
        (b"n,", header.clone()),
        (b"N,,n=p&d,r=c", header.clone()),
        (b",,n=p&d,r=c", header.clone()),
        (b"n=p&d,r=c", header),
        (b"p=tls-unique,,n=p&d,r=c", Error::ChannelBinding),
        (b"n,p&d,n=p&d,r=c", Error::Malformed("a=")),
        (b"n,a=,n=p&d,r=c", Error::Malformed("a=")),
        (b"n,a=p=26d,n=p&d,r=c", escape.clone()),
        (b"n,a=p&other,n=p&d,r=c", Error::Mismatch),
        (b"n,,", Error::Malformed("n=")),
        (b"n,,r=c", Error::Malformed("n=")),
        (b"n,,r=c,n=p&d", Error::Malformed("n=")),
        (b"n,,n=,r=c", Error::Malformed("n=")),
        (b"n,,N=p&d,r=c", Error::Malformed("n=")),
        (b"n,,n=p&d=,r=c", escape.clone()),
        (b"n,,n=p&d=2c,r=c", escape.clone()),
        (b"n,,n=p=26d,r=c", escape),
        (b"n,,m=1,n=p&d,r=c", Error::Extension),
        (b"n,,n=p&other,r=c", Error::Mismatch),
        (b"n,,n=q&d,r=c", Error::Mismatch),
        (b"n,,n=user,r=c", Error::Mismatch),
        (b"n,,n=register&p&d,r=c", Error::Mismatch),
        (b"n,,n=p&d;12010126;JTWAY;4102444800,r=c", Error::Mismatch),
        (b"n,,n=p&d", Error::Malformed("r=")),
        (b"n,,n=p&d,r=", Error::Malformed("r=")),
        (b"n,,n=p&d,c=r", Error::Malformed("r=")),
        (b"n,,n=p&d,r=a b", graphic.clone()),
        ("n,,n=p&d,r=ü".as_bytes(), graphic),
        (b"n,,n=p&d,r=c,", extension.clone()),
        (b"n,,n=p&d,r=c,1=x", extension),
        (b"n,,n=p&d,r=c\0", Error::Malformed("UTF-8 without NUL")),
        (b"n,,n=p&\xff,r=c", Error::Malformed("UTF-8 without NUL")),
        (long.as_bytes(), Error::Malformed("at most 4096 bytes")),
    ];
    for (message, error) in cases {
        let mut server = server();
        let shown = String::from_utf8_lossy(message);
        assert_eq!(server.step(message), Err(error.into()), "{shown}");
        // Nothing follows a fault, not even what would have been right.
        let step = server.step(b"n,,n=p&d,r=c");
        assert_eq!(step, Err(Error::Over.into()), "{shown}");
    }
    let mut server = server();
    answer(server.step(b""));
    let again = server.step(b"");
    assert_eq!(again, Err(Error::Malformed("n,,").into()));
}

#[test]
fn each_fault_of_the_final_message_has_its_name() {
    let proof = Error::Malformed("p=<base64 of 32 bytes>");
    let nonce = Error::Malformed("r=");
    // What is edited before it is signed is a client's mistake, behind it a forgery.
    let cases: [(Edit, bool, Error); 18] = [
        (|_| String::new(), false, proof.clone()),
        (|last| last.replace(",p=", ",P="), false, proof.clone()),
        (|last| last.replace(",p=", ",p=A"), false, proof.clone()),
        (|last| last.replace('=', "*"), false, proof.clone()),
        (|last| last + ",x=1", false, proof.clone()),
        (|last| last + ",p=AAAA", false, proof),
        (
            |last| last.replace("c=biws,", ""),
            true,
            Error::Malformed("c="),
        ),
        (
            |last| last.replace("biws", ""),
            true,
            Error::Malformed("c="),
        ),
        (
            |last| last.replace("biws", "biw"),
            true,
            Error::Malformed("c=<base64>"),
        ),
        (
            |last| last.replace("biws", "eSws"),
            true,
            Error::ChannelBinding,
        ),
        (
            |last| last.replace("biws", "biwsAA=="),
            true,
            Error::ChannelBinding,
        ),
        (|last| last.replace("r=", "R="), true, nonce.clone()),
        (|_| "c=biws".to_owned(), true, nonce),
        (|_| "c=biws,r=c".to_owned(), true, Error::Nonce),
        (|last| last + "0", true, Error::Nonce),
        (
            |last| last + ",",
            true,
            Error::Malformed("<letter>=<value>"),
        ),
        (|last| last.replace(",p=", ",x=1,p="), false, Error::Proof),
        (
            |last| {
                format!(
                    "{},p={}",
                    last.split(",p=").next().unwrap(),
                    STANDARD.encode([0; 32])
                )
            },
            false,
            Error::Proof,
        ),
    ];
    for (number, (edit, sign_edited, error)) in cases.into_iter().enumerate() {
        let mut server = server();
        let step = run(&mut server, "n,,n=p&d,r=c", "n,,", edit, sign_edited);
        assert_eq!(step, Err(error.into()), "case {number}");
        assert_eq!(server.step(b""), Err(Error::Over.into()), "case {number}");
    }
    // A client that could bind says so to the end.
    let step = run(&mut server(), "y,,n=p&d,r=c", "n,,", |last| last, true);
    assert_eq!(step, Err(Error::ChannelBinding.into()));
}

#[test]
fn a_proof_is_worth_what_the_account_is() {
    let secret = Denied::Credentials(credentials::Error::Secret);
    let right: Edit = |last| last;
    let other_nonce: Edit = |last| last.replace("r=c", "r=d");
    // Added behind the signature, which does not cover it.
    let tampered: Edit = |last| last.replace(",p=", ",x=1,p=");
    let proof = Denied::from(Error::Proof);
    for (account, by_right, by_wrong) in [
        (Account::Shut(Denied::Blocked), Denied::Blocked, proof),
        (
            Account::Unprovable(Denied::UnknownDevice),
            Denied::UnknownDevice,
            Denied::UnknownDevice,
        ),
        (Account::Unprovable(secret.clone()), secret.clone(), secret),
    ] {
        let mut server = server_of(device(), account);
        let mut outcome = |edit: Edit, sign_edited| {
            server.state = State::Begun;
            run(&mut server, "n,,n=p&d,r=c", "n,,", edit, sign_edited)
        };
        assert_eq!(outcome(right, true), Err(by_right));
        assert_eq!(outcome(tampered, false), Err(by_wrong));
        assert_eq!(outcome(other_nonce, true), Err(Error::Nonce.into()));
    }
}

proptest! {
    #[test]
    fn messages_of_any_bytes_prove_nothing(messages in prop::collection::vec(message(), 1..4)) {
        let mut server = server();
        for message in messages {
            if let Ok(Step::Done { .. }) = server.step(&message) {
                panic!("{:?} is a proof", String::from_utf8_lossy(&message));
            }
        }
    }

    #[test]
    fn a_proof_with_one_bit_changed_proves_nothing(at in any::<Index>(), bit in 0_u8..8) {
        let mut server = server();
        let edit = |last: String| {
            let mut bytes = last.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            String::from_utf8(bytes).unwrap_or_default()
        };
        let step = run(&mut server, "n,,n=p&d,r=c", "n,,", edit, false);
        prop_assert!(step.is_err());
    }
}

/// Anything, and pieces of messages in any order.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "n", "y", "p=", "a=", "n=", "r=", "c=", "m=", "x=", ",", ",,", "n,,", "=2C", "=3D", "p&d",
        "n=p&d", "c=biws", "r=c", NONCE, ",p=", "AAAA", "ü", "\0",
    ]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes()),
        Just(b"n,,n=p&d,r=c".to_vec()),
    ]
}
