//! Names and fields: what a stream's keys are called, and a message as the fields of an entry.

use crate::message::{Headers, Message};

/// Field and value, in the order of an entry.
pub(super) type Fields = Vec<(String, Vec<u8>)>;

/// Of fields that are headers, before the header's name.
const HEADER: &str = "h:";
/// A sequence is the entry's milliseconds, and its number among those of one millisecond in so many bits.
const NUMBER_BITS: u32 = 20;

/// The keys of one stream.
pub(super) struct Keys {
    pub(super) stream: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, stream: &str) -> Self {
        Self {
            stream: format!("{prefix}:{{{stream}}}"),
        }
    }

    pub(super) fn id(&self, id: uuid::Uuid) -> String {
        format!("{}:id:{id}", self.stream)
    }

    pub(super) fn durables(&self) -> String {
        format!("{}:durables", self.stream)
    }

    pub(super) fn dead(&self, durable: &str) -> String {
        format!("{}:dead:{durable}", self.stream)
    }
}

/// Field and value, one after the other.
pub(super) fn fields(message: &Message) -> Vec<Vec<u8>> {
    let mut fields = vec![
        b"subject".to_vec(),
        message.subject.as_bytes().to_vec(),
        b"payload".to_vec(),
        message.payload.to_vec(),
    ];
    for (name, value) in message.headers.iter() {
        fields.push(format!("{HEADER}{name}").into_bytes());
        fields.push(value.as_bytes().to_vec());
    }
    fields
}

/// The message of an entry; none if it is none of ours. A field that Redis or we added otherwise is not the message's.
pub(super) fn message(fields: &[(String, Vec<u8>)]) -> Option<Message> {
    let field = |name: &str| {
        let mut found = fields.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value)
    };
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).ok();
    let mut headers = Headers::default();
    for (key, value) in fields {
        if let Some(name) = key.strip_prefix(HEADER) {
            headers.push(name, text(value)?);
        }
    }
    Some(Message {
        subject: text(field("subject")?)?.into(),
        headers,
        payload: field("payload")?.clone().into(),
    })
}

/// The number of an entry that its id says, and when it was stored in Unix milliseconds; it rises as ids do.
pub(super) fn sequence(id: &str) -> Option<(u64, u64)> {
    let (ms, number) = id.split_once('-')?;
    let (ms, number): (u64, u64) = (ms.parse().ok()?, number.parse().ok()?);
    let fits = number < 1 << NUMBER_BITS && ms < 1 << (u64::BITS - NUMBER_BITS);
    fits.then_some((ms << NUMBER_BITS | number, ms))
}
