//! Topic names and topic filters (§4.7, §4.8.2): validity and matching.
//!
//! Topics are compared byte by byte: nothing is normalised, and empty levels count. // [MQTT-4.7.3-4]
//! `$share/` begins a shared subscription in both versions, although 3.1.1 does not know them.

use std::fmt;

use bytestring::ByteString;

use super::Error;
use super::reader::Reader;

/// The longest topic name or filter in bytes of UTF-8. // [MQTT-4.7.3-3]
const BYTES_MAX: usize = 65_535;

const SHARE: &str = "$share/";

/// A valid topic name: 1 to 65,535 bytes of UTF-8 without U+0000 and without wildcards.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicName(ByteString);

impl TopicName {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<ByteString> for TopicName {
    type Error = Error;

    fn try_from(text: ByteString) -> Result<Self, Error> {
        check_name(&text).map_err(|expected| Error::malformed("topic", "name", expected))?;
        Ok(Self(text))
    }
}

impl From<TopicName> for ByteString {
    fn from(name: TopicName) -> Self {
        name.0
    }
}

/// A valid topic filter: 1 to 65,535 bytes of UTF-8 without U+0000, wildcards only where they may be, and behind
/// a leading `$share/` a share name and a filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicFilter(ByteString);

impl TopicFilter {
    /// The text, with `$share/name/` if it is shared.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it matches a topic name; a shared one by the filter behind its share name.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        let filter = self.topics();
        // [MQTT-4.7.2-1]
        if topic.starts_with('$') && filter.starts_with(['+', '#']) {
            return false;
        }
        let mut levels = topic.split('/');
        for level in filter.split('/') {
            match (level, levels.next()) {
                // `#` stands for any number of levels, none included: `a/#` matches `a`.
                ("#", _) => return true,
                ("+", Some(_)) => {}
                (level, Some(name)) if level == name => {}
                _ => return false,
            }
        }
        levels.next().is_none()
    }

    /// What it says about topics: of a shared subscription, the filter behind the share name.
    #[must_use]
    pub fn topics(&self) -> &str {
        share(&self.0).map_or(&*self.0, |(_, filter)| filter)
    }

    /// The name of a shared subscription's group.
    #[must_use]
    pub fn share_name(&self) -> Option<&str> {
        share(&self.0).map(|(name, _)| name)
    }

    /// Whether it is a shared subscription: `$share/name/filter`.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.starts_with(SHARE)
    }

    /// Reads the filter of a SUBSCRIBE or UNSUBSCRIBE.
    pub(super) fn read(packet: &mut Reader) -> Result<Self, Error> {
        let text = packet.string("topic filter")?;
        check_filter(&text).map_err(|expected| packet.malformed("topic filter", expected))?;
        Ok(Self(text))
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<ByteString> for TopicFilter {
    type Error = Error;

    fn try_from(text: ByteString) -> Result<Self, Error> {
        check_filter(&text).map_err(|expected| Error::malformed("topic", "filter", expected))?;
        Ok(Self(text))
    }
}

/// Checks a topic name, or says what was expected.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    check_text(name)?;
    // [MQTT-4.7.0-1]
    if name.contains(['+', '#']) {
        return Err("no wildcard");
    }
    Ok(())
}

fn check_filter(filter: &str) -> Result<(), &'static str> {
    check_text(filter)?;
    if !filter.starts_with(SHARE) {
        return check_levels(filter);
    }
    // [MQTT-4.8.2-1], [MQTT-4.8.2-2]
    match share(filter) {
        Some((name, filter)) if !name.is_empty() && !filter.is_empty() => {
            if name.contains(['+', '#']) {
                return Err("no wildcard in the share name");
            }
            check_levels(filter)
        }
        _ => Err("a share name and a filter behind $share/"),
    }
}

/// Checks where the wildcards of a filter are.
fn check_levels(filter: &str) -> Result<(), &'static str> {
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        // [MQTT-4.7.1-1], [MQTT-4.7.1-2]
        if level.len() > 1 && level.contains(['+', '#']) {
            return Err("a wildcard to be a whole level");
        }
        if level == "#" && levels.peek().is_some() {
            return Err("# to be the last level");
        }
    }
    Ok(())
}

/// What names and filters have in common.
fn check_text(text: &str) -> Result<(), &'static str> {
    match text.len() {
        0 => Err("at least one character"), // [MQTT-4.7.3-1]
        1..=BYTES_MAX if text.as_bytes().contains(&0) => Err("no U+0000"), // [MQTT-4.7.3-2]
        1..=BYTES_MAX => Ok(()),
        _ => Err("at most 65,535 bytes"),
    }
}

/// The share name and the filter of a shared subscription.
fn share(filter: &str) -> Option<(&str, &str)> {
    filter.strip_prefix(SHARE)?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Result<TopicFilter, Error> {
        TopicFilter::try_from(ByteString::from(text))
    }

    #[test]
    fn names() {
        // [MQTT-4.7.0-1], [MQTT-4.7.3-1], [MQTT-4.7.3-2], [MQTT-4.7.3-3]
        let longest = "a".repeat(65_535);
        for good in [
            "a", "/", "//", "a b", "$SYS", "$share/x", "\u{feff}", &longest,
        ] {
            assert!(
                TopicName::try_from(ByteString::from(good)).is_ok(),
                "{good}"
            );
        }
        let too_long = "a".repeat(65_536);
        for bad in ["", "a/+", "#", "a#b", "a\0", &too_long] {
            let error = TopicName::try_from(ByteString::from(bad)).unwrap_err();
            assert!(
                error.to_string().starts_with("topic name: expected "),
                "{error}"
            );
        }
    }

    #[test]
    fn filters() {
        // [MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.8.2-1], [MQTT-4.8.2-2]
        for good in [
            "a",
            "/",
            "+",
            "#",
            "+/+",
            "a/+/b",
            "a/#",
            "/+",
            "$share",
            "$shared/x",
            "$share/g/a",
            "$share/g/#",
            "$share/g//",
        ] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a+",
            "+a",
            "a/b+",
            "a/+b/c",
            "#/a",
            "a#",
            "a/#b",
            "##",
            "a\0",
            "$share/",
            "$share/g",
            "$share//a",
            "$share/g/",
            "$share/g+/a",
            "$share/#/a",
            "$share/g/a+",
            "$share/+/a",
        ] {
            assert!(filter(bad).is_err(), "{bad}");
        }
        assert!(filter("$share/g/a").unwrap().is_shared());
        assert!(!filter("$share").unwrap().is_shared());
    }

    #[test]
    fn matching() {
        // [MQTT-4.7.2-1], [MQTT-4.7.3-4]
        let cases = "a=a a!b a!A a!a/ a!/a a/b=a/b a/#=a a/#=a/b a/#=a/ a/#=a/b/c a/#!ab #=a #=a/b #=/ \
            #!$SYS #!$SYS/a +!$SYS +/a!$SYS/a $SYS/#=$SYS/a $SYS/#=$SYS $SYS/+=$SYS/a \
            +=a +!a/b +!/a +/+=/a /+=/a +/+!a a/+=a/ a/+!a a/+/c=a/b/c a/+/c!a/b/d a/+/c=a//c \
            $share/g/a=a $share/g/a!$share/g/a $share/g/#=b $share/g/#!$SYS $share/g/$SYS/#=$SYS/a";
        for case in cases.split_whitespace() {
            let (text, topic, expected) = match case.split_once('=') {
                Some((text, topic)) => (text, topic, true),
                None => {
                    let (text, topic) = case.split_once('!').unwrap();
                    (text, topic, false)
                }
            };
            assert_eq!(filter(text).unwrap().matches(topic), expected, "{case}");
        }
    }
}
