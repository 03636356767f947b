//! Parsing of responses of the tables.

use super::base64;
use super::read::document;
use super::row::Row;
use super::value::Value;
use super::{Arrays, Outcome};

const UNREADABLE: &str = "the response of the tables cannot be read";

/// The rows of a query.
pub(super) fn rows(text: &str) -> Result<Vec<Row>, &'static str> {
    outcome(text).map(|outcome| outcome.rows)
}

/// The result of one statement.
pub(super) fn outcome(text: &str) -> Result<Outcome, &'static str> {
    document(text).and_then(one).ok_or(UNREADABLE)
}

/// The results of the statements of a batch.
pub(super) fn outcomes(text: &str) -> Result<Vec<Outcome>, &'static str> {
    let Some(Value::Object(members)) = document(text) else { return Err(UNREADABLE) };
    for (name, value) in members {
        if let ("results", Value::Array(all)) = (name.as_str(), value) {
            return all.into_iter().map(one).collect::<Option<_>>().ok_or(UNREADABLE);
        }
    }
    Err(UNREADABLE)
}

/// The rows of a query as lists of values.
pub(super) fn arrays(text: &str) -> Result<Arrays, &'static str> {
    document(text).and_then(lists).ok_or(UNREADABLE)
}

fn lists(value: Value) -> Option<Arrays> {
    let Value::Object(members) = value else { return None };
    let mut arrays = Arrays::default();
    let mut blobs = Vec::new();
    for (name, value) in members {
        let Value::Array(items) = value else { continue };
        match name.as_str() {
            "columns" => arrays.columns = items.into_iter().map(text).collect::<Option<_>>()?,
            "rows" => arrays.rows = items.into_iter().map(list).collect::<Option<_>>()?,
            "blobs" => blobs = items,
            _ => {}
        }
    }
    for index in blobs {
        let Value::Integer(index) = index else { return None };
        for row in &mut arrays.rows {
            decode(row.get_mut(usize::try_from(index).ok()?)?)?;
        }
    }
    Some(arrays)
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn one(value: Value) -> Option<Outcome> {
    let Value::Object(members) = value else { return None };
    let mut outcome = Outcome::default();
    let mut blobs = Vec::new();
    for (name, value) in members {
        match (name.as_str(), value) {
            ("changes", Value::Integer(changes)) => outcome.changes = u64::try_from(changes).ok()?,
            ("last_id", Value::Integer(id)) => outcome.last_id = id,
            ("rows", Value::Array(rows)) => {
                outcome.rows = rows.into_iter().map(row).collect::<Option<_>>()?
            }
            ("blobs", Value::Array(names)) => blobs = names,
            _ => {}
        }
    }
    for name in blobs {
        let Value::Text(name) = name else { return None };
        outcome.rows.iter_mut().try_for_each(|row| unpack(row, &name))?;
    }
    Some(outcome)
}

/// Decode a column whose texts are base64.
fn unpack(row: &mut Row, name: &str) -> Option<()> {
    row.0.iter_mut().filter(|(known, _)| known == name).try_for_each(|(_, value)| decode(value))
}

fn decode(value: &mut Value) -> Option<()> {
    if let Value::Text(text) = &*value {
        *value = Value::Blob(base64::decode(text)?);
    }
    Some(())
}

fn row(value: Value) -> Option<Row> {
    match value {
        Value::Object(members) => Some(Row(members)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_parsed() {
        assert_eq!(rows(r#"{"rows":[{"id":1},{"id":2}]}"#).unwrap()[1].get::<i64>("id").unwrap(), 2);
        let blobs = rows(r#"{"rows":[{"d":"AP8Q"},{"d":null}],"blobs":["d"]}"#).unwrap();
        assert_eq!(blobs[0].get::<Vec<u8>>("d").unwrap(), [0, 255, 16]);
        assert_eq!(blobs[1].get::<Option<Vec<u8>>>("d").unwrap(), None);
        let all =
            outcomes(r#"{"results":[{"changes":1,"last_id":7,"rows":[]},{"rows":[{"a":null}]}]}"#).unwrap();
        assert_eq!((all[0].changes, all[0].last_id, all[1].rows.len()), (1, 7, 1));
    }

    #[test]
    fn arrays_are_read() {
        let text = r#"{"rows":[[1,"AA==",2],[3,null,4]],"columns":["id","d","id"],"blobs":[1]}"#;
        let all = arrays(text).unwrap();
        assert_eq!(all.columns, ["id", "d", "id"]);
        assert_eq!(all.rows[0], [Value::Integer(1), Value::Blob(vec![0]), Value::Integer(2)]);
        assert_eq!(all.rows[1][1], Value::Null);
        for bad in
            ["[]", r#"{"rows":[1]}"#, r#"{"rows":[[1]],"blobs":[1]}"#, r#"{"rows":[["?"]],"blobs":[0]}"#]
        {
            assert_eq!(arrays(bad), Err(UNREADABLE), "{bad}");
        }
    }

    #[test]
    fn an_invalid_response_is_an_error() {
        for bad in ["", "[]", "{\"rows\":[1]}", "{\"changes\":-1}", r#"{"rows":[{"d":"?"}],"blobs":["d"]}"#] {
            assert_eq!(outcome(bad), Err(UNREADABLE), "{bad}");
        }
        assert_eq!(outcomes("{}"), Err(UNREADABLE));
    }
}
