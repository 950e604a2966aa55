//! What an XXL-JOB admin and its executors say to each other, as JSON. Without I/O.
//!
//! Fields that are missing or null have their defaults, and unknown ones are passed over: versions differ in both.

use serde::{Deserialize, Deserializer, Serialize};

pub(super) const OK: u16 = 200;
pub(super) const FAILED: u16 = 500;
/// The header of the access token.
pub(super) const TOKEN: &str = "xxl-job-access-token";

/// The answer to everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) msg: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(super) content: Option<LogPart>,
}

impl Answer {
    pub(super) fn ok() -> Self {
        Self {
            code: OK,
            msg: None,
            content: None,
        }
    }

    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self {
            code: FAILED,
            msg: Some(why.into()),
            content: None,
        }
    }
}

/// What to do with a trigger while the job's last one runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockStrategy {
    /// It waits for its turn.
    Serial,
    /// It is refused.
    DiscardLater,
    /// What runs and what waits is killed for it.
    CoverEarly,
}

impl BlockStrategy {
    /// Serial for every other word, as it is the default there.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "DISCARD_LATER" => Self::DiscardLater,
            "COVER_EARLY" => Self::CoverEarly,
            _ => Self::Serial,
        }
    }
}

fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `/run`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trigger {
    pub(super) job_id: i64,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) executor_handler: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) executor_params: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) executor_block_strategy: String,
    /// Seconds; none if not more than 0.
    #[serde(default, deserialize_with = "nullable")]
    pub(super) executor_timeout: i64,
    pub(super) log_id: i64,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) log_date_time: i64,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) glue_type: String,
}

/// `/idleBeat` and `/kill`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfJob {
    pub(super) job_id: i64,
}

/// `/log`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfLog {
    pub(super) log_id: i64,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) from_line_num: i64,
}

/// The content of the answer to `/log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogPart {
    pub(super) from_line_num: i64,
    /// Less than the first one if there is none.
    pub(super) to_line_num: i64,
    pub(super) log_content: String,
    pub(super) is_end: bool,
}

/// `api/registry` and `api/registryRemove`
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Registration<'a> {
    pub(super) registry_group: &'a str,
    pub(super) registry_key: &'a str,
    pub(super) registry_value: &'a str,
}

/// One of those that `api/callback` is told.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Told<'a> {
    pub(super) log_id: i64,
    /// So it is spelt there.
    pub(super) log_date_tim: i64,
    pub(super) handle_code: i64,
    pub(super) handle_msg: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_read_with_what_it_lacks_and_what_nobody_knows() {
        let text = r#"{"jobId":1,"executorHandler":"demoJobHandler","executorParams":null,
            "executorBlockStrategy":"COVER_EARLY","executorTimeout":0,"logId":7,"logDateTime":1586629003729,
            "glueType":"BEAN","glueSource":"xxx","glueUpdatetime":1586629003727,"broadcastIndex":0,
            "broadcastTotal":0,"somethingNew":[1]}"#;
        let trigger: Trigger = serde_json::from_str(text).unwrap();
        assert_eq!((trigger.job_id, trigger.log_id), (1, 7));
        assert_eq!(trigger.executor_params, "");
        assert_eq!(trigger.log_date_time, 1_586_629_003_729);
        let trigger: Trigger = serde_json::from_str(r#"{"jobId":1,"logId":2}"#).unwrap();
        assert_eq!(trigger.executor_handler, "");
        for bad in ["", "[]", "{}", r#"{"jobId":"x","logId":1}"#, "\u{0}"] {
            assert!(serde_json::from_str::<Trigger>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_told_has_the_names_that_the_admin_reads() {
        let told = Told {
            log_id: 1,
            log_date_tim: 2,
            handle_code: 200,
            handle_msg: "m",
        };
        assert_eq!(
            json(&told),
            r#"{"logId":1,"logDateTim":2,"handleCode":200,"handleMsg":"m"}"#
        );
        let registration = Registration {
            registry_group: "EXECUTOR",
            registry_key: "jetway",
            registry_value: "http://h:1/",
        };
        assert_eq!(
            json(&registration),
            r#"{"registryGroup":"EXECUTOR","registryKey":"jetway","registryValue":"http://h:1/"}"#
        );
        let part = LogPart {
            from_line_num: 1,
            to_line_num: 0,
            log_content: String::new(),
            is_end: true,
        };
        let answer = Answer {
            content: Some(part),
            ..Answer::ok()
        };
        assert_eq!(
            json(&answer),
            r#"{"code":200,"msg":null,"content":{"fromLineNum":1,"toLineNum":0,"logContent":"","isEnd":true}}"#
        );
        assert_eq!(json(&Answer::ok()), r#"{"code":200,"msg":null}"#);
    }

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }
}
