//! Marks: empty messages in a stream that keeps the last one of each subject. Set, taken away, and asked for by filter.
//!
//! A mark that is taken away leaves nothing behind. All questions go to the stream's leader, whose answer is never stale.

use serde_json::{Value, json};

use super::provision::{self, refused};
use super::{Error, Link};

/// Sets the mark; nothing changes if it is set.
///
/// # Errors
/// [`Error::Request`] when the server does not answer, [`Error::Stream`] when it refuses.
pub async fn set(link: &Link, stream: &str, subject: &str) -> Result<(), Error> {
    let answer = provision::request(link, subject, &Value::Null).await?;
    unless_refused(stream, &answer)
}

/// Takes the mark away; nothing changes if it is not set.
///
/// # Errors
/// As [`set`].
pub async fn clear(link: &Link, stream: &str, subject: &str) -> Result<(), Error> {
    let purge = format!("$JS.API.STREAM.PURGE.{stream}");
    let answer = provision::request(link, &purge, &json!({ "filter": subject })).await?;
    unless_refused(stream, &answer)
}

/// Whether a mark is set whose subject matches `filter`.
///
/// # Errors
/// As [`set`].
pub async fn any(link: &Link, stream: &str, filter: &str) -> Result<bool, Error> {
    const NO_MESSAGE: u64 = 10_037;
    let get = format!("$JS.API.STREAM.MSG.GET.{stream}");
    let body = json!({ "seq": 1, "next_by_subj": filter });
    let answer = provision::request(link, &get, &body).await?;
    let code = answer.get("error").and_then(|error| error.get("err_code"));
    if code.and_then(Value::as_u64) == Some(NO_MESSAGE) {
        return Ok(false);
    }
    unless_refused(stream, &answer).map(|()| true)
}

fn unless_refused(stream: &str, answer: &Value) -> Result<(), Error> {
    match answer.get("error") {
        None => Ok(()),
        Some(error) => Err(refused(stream, error)),
    }
}
