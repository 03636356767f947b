//! A minimal JSON encoder (RFC 8259) for records and small responses.

use std::fmt::Write;

/// Return a text as a JSON string, quotes included.
///
/// ```
/// let name = "Jürgen \"J\"\n";
/// assert_eq!(format!("{{\"hello\":{}}}", svc_guest::quote(name)), r#"{"hello":"Jürgen \"J\"\n"}"#);
/// ```
#[must_use]
pub fn quote(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    text.write_json(&mut json);
    json
}

/// A value of a record.
pub trait Value {
    /// Append it as JSON.
    fn write_json(&self, json: &mut String);
}

impl Value for str {
    fn write_json(&self, json: &mut String) {
        json.push('"');
        for character in self.chars() {
            match character {
                '"' => json.push_str("\\\""),
                '\\' => json.push_str("\\\\"),
                '\n' => json.push_str("\\n"),
                '\r' => json.push_str("\\r"),
                '\t' => json.push_str("\\t"),
                '\0'..='\u{1f}' | '\u{7f}' => write!(json, "\\u{:04x}", u32::from(character)).unwrap_or_default(),
                other => json.push(other),
            }
        }
        json.push('"');
    }
}

impl Value for String {
    fn write_json(&self, json: &mut String) {
        self.as_str().write_json(json);
    }
}

impl Value for char {
    fn write_json(&self, json: &mut String) {
        self.encode_utf8(&mut [0; 4]).write_json(json);
    }
}

impl<T: Value + ?Sized> Value for &T {
    fn write_json(&self, json: &mut String) {
        (**self).write_json(json);
    }
}

impl<T: Value> Value for Option<T> {
    fn write_json(&self, json: &mut String) {
        match self {
            Some(value) => value.write_json(json),
            None => json.push_str("null"),
        }
    }
}

/// Numbers without a JSON form (infinities, not-a-number) are `null`.
macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn write_json(&self, json: &mut String) {
                if self.is_finite() {
                    write!(json, "{self:?}").unwrap_or_default();
                } else {
                    json.push_str("null");
                }
            }
        }
    )*};
}

macro_rules! plain {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn write_json(&self, json: &mut String) {
                write!(json, "{self}").unwrap_or_default();
            }
        }
    )*};
}

floats!(f32 f64);
plain!(bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: impl Value) -> String {
        let mut json = String::new();
        value.write_json(&mut json);
        json
    }

    #[test]
    fn values_are_json() {
        assert_eq!(json("a\"\\\n\r\t\u{1}ü\u{7f}"), r#""a\"\\\n\r\t\u0001ü\u007f""#);
        assert_eq!([json(7_u8), json(-1_i64), json(true), json('"')], ["7", "-1", "true", "\"\\\"\""]);
        assert_eq!([json(1.0), json(1.5e-9), json(f64::NAN)], ["1.0", "1.5e-9", "null"]);
        assert_eq!([json(Some("x")), json(None::<u8>)], ["\"x\"", "null"]);
    }
}
