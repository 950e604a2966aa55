//! The trace of one handling: that of the message, with a span of its own (W3C Trace Context).

use std::fmt;

use crate::telemetry;

/// A trace as `traceparent` says it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trace {
    /// 32 hex digits.
    pub(super) trace_id: String,
    /// 16 hex digits; nothing if the trace comes from no header.
    pub(super) parent_id: Option<String>,
    /// 16 hex digits: this handling.
    pub(super) span_id: String,
    /// 2 hex digits.
    flags: String,
}

impl Trace {
    /// Goes on with the trace of the header; without one that can be gone on with, with that of the envelope, and else
    /// with one of its own.
    pub(super) fn resume(header: Option<&str>, trace_id: &str) -> Self {
        let span_id = format!("{:016x}", telemetry::random_u64());
        if let Some((trace, parent, flags)) = header.and_then(read) {
            return Self {
                trace_id: trace.to_owned(),
                parent_id: Some(parent.to_owned()),
                span_id,
                flags: flags.to_owned(),
            };
        }
        let trace_id = match is_id(trace_id, 32) {
            true => trace_id.to_owned(),
            false => format!("{:016x}{span_id}", telemetry::random_u64()),
        };
        Self {
            trace_id,
            parent_id: None,
            span_id,
            flags: "01".to_owned(),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{}", self.trace_id, self.span_id, self.flags)
    }
}

/// Trace id, parent id and flags. What a later version has behind them is left out, as the specification says.
fn read(header: &str) -> Option<(&str, &str, &str)> {
    let mut parts = header.split('-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let more = parts.next().is_some();
    let known = is_hex(version, 2) && version != "ff" && !(version == "00" && more);
    (known && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2))
        .then_some((trace, parent, flags))
}

fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const OTHER: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn a_trace_goes_on_with_a_span_of_its_own() {
        let header = format!("00-{TRACE}-00f067aa0ba902b7-00");
        let trace = Trace::resume(Some(&header), OTHER);
        assert_eq!(trace.trace_id, TRACE);
        assert_eq!(trace.parent_id.as_deref(), Some("00f067aa0ba902b7"));
        let next = trace.to_string();
        assert_ne!(next, header);
        assert_eq!(read(&next).unwrap().0, TRACE);
        assert!(next.ends_with("-00"), "{next}");
    }

    #[test]
    fn without_a_header_it_is_that_of_the_envelope_or_a_new_one() {
        for header in [None, Some(""), Some("00-x-y-z"), Some("ff-4-5-6")] {
            assert_eq!(Trace::resume(header, OTHER).trace_id, OTHER);
        }
        for bad in ["", &"0".repeat(32), &"X".repeat(32)] {
            let trace = Trace::resume(None, bad);
            assert!(is_id(&trace.trace_id, 32) && trace.parent_id.is_none());
        }
    }
}
