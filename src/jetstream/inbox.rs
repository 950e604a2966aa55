//! Where one shard's answers come, and how what it sends is named. Pure.
//!
//! The server tells the open batches of a stream apart by name alone, whoever sent them: a name must be unique among all shards of
//! all gateways, or one shard's batch is committed, and answered, by what another one stored.

/// One shard's subjects for answers: `_jw.ack.<shard>.<shard>-<batch>.…`.
#[derive(Debug)]
pub(super) struct Inbox {
    /// 16 hexadecimal digits: unique among all shards that publish into the stream, of this gateway and of others.
    shard: Box<str>,
}

impl Inbox {
    const PREFIX: &str = "_jw.ack";

    pub(super) fn new(shard: u64) -> Self {
        Self {
            shard: format!("{shard:016x}").into(),
        }
    }

    /// What to subscribe to.
    pub(super) fn filter(&self) -> String {
        format!("{}.{}.>", Self::PREFIX, self.shard)
    }

    /// The name of a batch.
    pub(super) fn name(&self, batch: u64) -> String {
        format!("{}-{batch}", self.shard)
    }

    /// What the reply subjects of a batch begin with, with the dot.
    pub(super) fn start(&self, batch: u64) -> String {
        format!("{}.{}.{}.", Self::PREFIX, self.shard, self.name(batch))
    }

    /// What follows that in the subject of an answer; `None` when it belongs to another batch or is no answer.
    pub(super) fn behind_start<'s>(&self, batch: u64, subject: &'s str) -> Option<&'s str> {
        let subject = subject.strip_prefix(Self::PREFIX)?.strip_prefix('.')?;
        let (shard, subject) = subject.split_once('.')?;
        let (name, rest) = subject.split_once('.')?;
        let (sender, number) = name.split_once('-')?;
        let is_ours = (shard, sender) == (&self.shard, &self.shard) && number.parse() == Ok(batch);
        is_ours.then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_other_batches_are_told_apart() {
        let inbox = Inbox::new(0xA);
        let reply = |shard, batch| Inbox::new(shard).start(batch) + "1.x";
        assert_eq!(inbox.behind_start(7, &reply(0xA, 7)), Some("1.x"));
        assert_eq!(inbox.behind_start(7, &reply(0xA, 6)), None);
        assert_eq!(inbox.behind_start(7, &reply(0xB, 7)), None);
        assert_eq!(inbox.behind_start(7, "_jw.ack.000000000000000a"), None);
        assert_ne!(Inbox::new(1).name(7), Inbox::new(2).name(7));
        assert!(Inbox::new(u64::MAX).name(u64::MAX).len() <= 64);
    }
}
