//! Which rows an operator means. Every condition that is given must hold.

use uuid::Uuid;

use crate::event;

/// Conditions; the default is all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// One of these numbers; empty for any.
    pub ids: Vec<i64>,
    /// Its state.
    pub status: Option<Status>,
    /// Its event's identity.
    pub event_id: Option<Uuid>,
    /// Its event's name, such as `gps.report.created`.
    pub event: Option<String>,
    /// What it is about: `<productID>/<deviceName>` of a device.
    pub aggregate: Option<String>,
    /// Written at this time or later, Unix milliseconds of the database's clock.
    pub since_ms: Option<i64>,
    /// Written before this time.
    pub until_ms: Option<i64>,
}

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// To be published.
    Pending,
    /// In the hands of a relay.
    Sending,
    /// Published.
    Published,
    /// Its attempts are used up.
    Dead,
}

impl Status {
    /// All of them, with their words.
    const ALL: [(Self, &str); 4] = [
        (Self::Pending, "pending"),
        (Self::Sending, "sending"),
        (Self::Published, "published"),
        (Self::Dead, "dead"),
    ];

    /// As the table has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(status, _)| *status == self);
        found.map_or("", |(_, word)| word)
    }

    /// The one of this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, own)| *own == word);
        found.map(|(status, _)| *status)
    }
}

impl Filter {
    /// The names of the conditions, as [`set`](Self::set) takes them.
    pub const KEYS: [&str; 7] = [
        "id",
        "status",
        "event_id",
        "event",
        "aggregate",
        "since",
        "until",
    ];

    /// Adds a condition given as text; whether there is one of this name. An empty text is no condition.
    ///
    /// `id` is a number, and may be given several times; `since` and `until` are RFC 3339 or an age such as `90s`, `10m`, `2h`, `7d`.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn set(&mut self, key: &str, value: &str, now_ms: u64) -> Result<bool, String> {
        if !Self::KEYS.contains(&key) {
            return Ok(false);
        }
        if value.is_empty() {
            return Ok(true);
        }
        let wrong = |expected: &str| format!("{key}: found {value:?}, expected {expected}");
        match key {
            "id" => {
                let id = value.parse().map_err(|_e| wrong("the number of a row"))?;
                self.ids.push(id);
            }
            "status" => {
                let status = Status::of(value);
                let expected = "pending, sending, published or dead";
                self.status = Some(status.ok_or_else(|| wrong(expected))?);
            }
            "event_id" => self.event_id = Some(value.parse().map_err(|_e| wrong("a UUID"))?),
            "event" => self.event = Some(value.to_owned()),
            "aggregate" => self.aggregate = Some(value.to_owned()),
            _ => {
                let at = event::moment(value, now_ms).and_then(|at| i64::try_from(at).ok());
                let expected = "RFC 3339 or an age such as 90s, 10m, 2h, 7d";
                let at = at.ok_or_else(|| wrong(expected))?;
                match key {
                    "since" => self.since_ms = Some(at),
                    _ => self.until_ms = Some(at),
                }
            }
        }
        Ok(true)
    }

    /// Whether it has no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
