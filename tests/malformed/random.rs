//! Bytes that look random and are the same for the same seed.

/// A xorshift generator; the seed must not be 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    /// Fewer than `end` of them.
    pub(crate) fn bytes(&mut self, end: usize) -> Vec<u8> {
        let count = self.below(end);
        (0..count).map(|_| self.next().to_be_bytes()[0]).collect()
    }

    /// The same bytes with one to four bits flipped.
    pub(crate) fn flip(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] ^= 1 << self.below(8);
        }
        bytes
    }
}
