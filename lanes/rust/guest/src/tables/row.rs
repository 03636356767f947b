//! Rows, and conversion of rows to types.

use std::fmt;

use super::value::{write_object, FromValue, Value};
use crate::error::{ErrorKind, HostError, Result};

/// A row: column names and values, in the statement's order. `Display` writes it as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row(pub(super) Vec<(String, Value)>);

impl Row {
    /// The value of a column, as a type.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the column does not exist, or the value has another type.
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T, HostError> {
        converted(name, self.value(name).cloned())
    }

    /// The value of a column, moved out of the row, which then has null.
    ///
    /// # Errors
    ///
    /// As for [`Row::get`].
    pub fn take<T: FromValue>(&mut self, name: &str) -> Result<T, HostError> {
        let name = name.strip_prefix("r#").unwrap_or(name);
        let value = self.0.iter_mut().find(|(known, _)| known == name);
        converted(name, value.map(|(_, value)| std::mem::replace(value, Value::Null)))
    }

    /// The value of a column.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> + '_ {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

fn converted<T: FromValue>(name: &str, value: Option<Value>) -> Result<T, HostError> {
    let converted = value.ok_or_else(|| "is not in the row".to_owned()).and_then(T::from_value);
    converted.map_err(|error| HostError::new(ErrorKind::Invalid, format!("column {name} {error}")))
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = String::new();
        write_object(&self.0, &mut json);
        f.write_str(&json)
    }
}

/// Write rows as a JSON array, for a [`Response::json`](crate::Response::json) for instance.
pub fn to_json(rows: &[Row]) -> String {
    let mut json = String::from("[");
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        write_object(&row.0, &mut json);
    }
    json.push(']');
    json
}

/// A type that rows convert to; `row!` defines such structs.
pub trait FromRow: Sized {
    /// Convert a row.
    ///
    /// # Errors
    ///
    /// If a column is missing or has another type.
    fn from_row(row: Row) -> Result<Self, HostError>;
}

impl FromRow for Row {
    fn from_row(row: Row) -> Result<Self, HostError> {
        Ok(row)
    }
}

/// Define a struct whose fields are columns.
///
/// ```
/// use std::time::SystemTime;
/// use svc_guest::tables;
///
/// tables::row! {
///     /// A user.
///     #[derive(Debug, Clone)]
///     pub struct User {
///         pub id: i64,
///         pub name: String,
///         pub email: Option<String>,
///         pub created_at: SystemTime,
///     }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __row {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident {
            $($(#[$of_field:meta])* $seen:vis $field:ident : $type:ty),* $(,)?
        }
    ) => {
        $(#[$about])*
        $visible struct $name {
            $($(#[$of_field])* $seen $field: $type),*
        }

        impl $crate::tables::FromRow for $name {
            fn from_row(mut row: $crate::tables::Row) -> $crate::Result<Self, $crate::HostError> {
                ::std::result::Result::Ok(Self {
                    $($field: row.take(::std::stringify!($field))?),*
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;

    tables::row! {
        #[derive(Debug, PartialEq)]
        struct Note {
            id: i64,
            r#type: Option<String>,
            done: bool,
        }
    }

    fn row(values: &[(&str, Value)]) -> Row {
        Row(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    #[test]
    fn a_row_becomes_a_struct() {
        let found =
            row(&[("done", Value::Integer(1)), ("type", Value::Null), ("id", Value::Integer(i64::MIN))]);
        assert_eq!(Note::from_row(found).unwrap(), Note { id: i64::MIN, r#type: None, done: true });
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let found = row(&[("id", Value::Text("x".into()))]);
        assert_eq!(
            Note::from_row(found.clone()).unwrap_err().to_string(),
            "column id is a text, not an integer"
        );
        assert_eq!(found.get::<String>("name").unwrap_err().to_string(), "column name is not in the row");
        let large = row(&[("id", Value::Integer(300))]);
        assert_eq!(
            large.get::<u8>("id").unwrap_err().to_string(),
            "column id is 300, which u8 does not hold"
        );
    }

    #[test]
    fn rows_are_json() {
        let found = row(&[("id", Value::Integer(1)), ("b", Value::Blob(vec![1])), ("x\"", Value::Real(1.0))]);
        assert_eq!(to_json(&[found, Row::default()]), r#"[{"id":1,"b":"AQ==","x\"":1.0},{}]"#);
    }
}
