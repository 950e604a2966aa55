//! What is declared and what the server holds, compared.

use serde_json::Value;

/// A key that the server holds otherwise than it is declared.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Difference {
    /// The key, of the JetStream API.
    pub key: String,
    /// As declared.
    pub wanted: Value,
    /// As found; null where the server says nothing.
    pub actual: Value,
}

/// The keys that we declare and the server holds otherwise.
pub(super) fn differences(wanted: &Value, actual: &Value) -> Vec<Difference> {
    let Value::Object(wanted) = wanted else {
        return Vec::new();
    };
    let differs = |(key, wanted): (&String, &Value)| {
        let actual = actual.get(key).unwrap_or(&Value::Null);
        (!covers(wanted, actual)).then(|| Difference {
            key: key.clone(),
            wanted: wanted.clone(),
            actual: actual.clone(),
        })
    };
    wanted.iter().filter_map(differs).collect()
}

/// Whether the server's value says what we asked for; it leaves out defaults and adds keys of its own.
fn covers(wanted: &Value, actual: &Value) -> bool {
    match (wanted, actual) {
        (Value::Object(wanted), Value::Object(actual)) => wanted
            .iter()
            .all(|(key, wanted)| covers(wanted, actual.get(key).unwrap_or(&Value::Null))),
        (Value::Array(wanted), Value::Array(actual)) => {
            wanted.len() == actual.len()
                && wanted
                    .iter()
                    .zip(actual)
                    .all(|(wanted, actual)| covers(wanted, actual))
        }
        (Value::Bool(false) | Value::Null, Value::Null) => true,
        (Value::Number(wanted), Value::Null) => wanted.as_i64() == Some(0),
        (Value::String(wanted), Value::Null) => wanted.is_empty(),
        (Value::Null, Value::String(actual)) => actual.is_empty(),
        (wanted, actual) => wanted == actual,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_declared_keys_count_as_drift() {
        let wanted = json!({"name": "UP", "subjects": ["up.>"], "max_age": 0, "sealed": false});
        let actual =
            json!({"name": "UP", "subjects": ["up.>"], "metadata": {"_nats.ver": "2.15.0"}});
        assert_eq!(differences(&wanted, &actual), []);
        let actual = json!({"name": "UP", "subjects": ["up.>", "x"], "max_age": 5});
        let keys: Vec<String> = differences(&wanted, &actual)
            .into_iter()
            .map(|difference| difference.key)
            .collect();
        assert_eq!(keys, ["max_age", "subjects"]);
    }
}
