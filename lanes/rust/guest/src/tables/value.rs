//! The values of rows.

use std::fmt;
use std::time::SystemTime;

use super::{base64, time};
use crate::json::Value as _;

/// A value of a row. A json column has the value of its document; a timestamp is a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// null
    Null,
    /// A boolean.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// A text, or a timestamp: ISO 8601 in UTC.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// An array of a json column.
    Array(Vec<Value>),
    /// An object of a json column, in its order.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The member of an object; `None` also for other values.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Real(_) => "a real",
            Self::Text(_) => "a text",
            Self::Blob(_) => "a blob",
            Self::Array(_) => "a JSON array",
            Self::Object(_) => "a JSON object",
        }
    }
}

/// As JSON, with bytes as base64.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = String::new();
        self.write_json(&mut json);
        f.write_str(&json)
    }
}

impl crate::json::Value for Value {
    fn write_json(&self, json: &mut String) {
        match self {
            Self::Null => json.push_str("null"),
            Self::Boolean(value) => value.write_json(json),
            Self::Integer(value) => value.write_json(json),
            Self::Real(value) => value.write_json(json),
            Self::Text(value) => value.write_json(json),
            Self::Blob(value) => base64::encode(value).write_json(json),
            Self::Array(items) => {
                json.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        json.push(',');
                    }
                    item.write_json(json);
                }
                json.push(']');
            }
            Self::Object(members) => write_object(members, json),
        }
    }
}

pub(super) fn write_object(members: &[(String, Value)], json: &mut String) {
    json.push('{');
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        name.write_json(json);
        json.push(':');
        value.write_json(json);
    }
    json.push('}');
}

/// A type that values of rows convert to: integers, `f64`, `bool`, `String`, `Vec<u8>`, [`SystemTime`] for a
/// timestamp, [`Value`], and an option of these, with null as `None`.
pub trait FromValue: Sized {
    /// Convert it.
    ///
    /// # Errors
    ///
    /// A text that completes the name of the column.
    fn from_value(value: Value) -> Result<Self, String>;
}

fn unfit<T>(value: &Value, wanted: &str) -> Result<T, String> {
    Err(format!("is {}, not {wanted}", value.kind()))
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, String> {
                match value {
                    Value::Integer(value) => {
                        <$type>::try_from(value).map_err(|_| format!("is {value}, which {} does not hold", stringify!($type)))
                    }
                    other => unfit(&other, "an integer"),
                }
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

impl FromValue for f64 {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Real(value) => Ok(value),
            Value::Integer(value) => Ok(value as f64),
            other => unfit(&other, "a real"),
        }
    }
}

impl FromValue for bool {
    /// Results of SQL comparisons are 0 and 1.
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Boolean(value) => Ok(value),
            Value::Integer(value @ (0 | 1)) => Ok(value == 1),
            other => unfit(&other, "a boolean"),
        }
    }
}

impl FromValue for String {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Text(value) => Ok(value),
            other => unfit(&other, "a text"),
        }
    }
}

impl FromValue for Vec<u8> {
    /// A blob that is computed, not read from a column, is base64.
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Blob(value) => Ok(value),
            Value::Text(text) => base64::decode(&text).ok_or_else(|| "is a text, not a blob".to_owned()),
            other => unfit(&other, "a blob"),
        }
    }
}

impl FromValue for SystemTime {
    fn from_value(value: Value) -> Result<Self, String> {
        match &value {
            Value::Text(text) => time::read(text).ok_or_else(|| format!("is \"{text}\", not a timestamp")),
            other => unfit(other, "a timestamp"),
        }
    }
}

impl FromValue for Value {
    fn from_value(value: Value) -> Result<Self, String> {
        Ok(value)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}
