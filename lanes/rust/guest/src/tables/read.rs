//! A JSON parser (RFC 8259) for responses of the tables.

use super::value::Value;

/// SQLite's limit for JSON is 1000.
const DEPTH: usize = 1100;

/// Parse a document; `None` for invalid JSON.
pub(crate) fn document(text: &str) -> Option<Value> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    (reader.at == text.len()).then_some(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Skip spaces and this character. Returns whether the character was found.
    fn sign(&mut self, sign: u8) -> bool {
        self.space();
        let found = self.byte() == Some(sign);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.space();
        match self.byte()? {
            b'"' => self.string().map(Value::Text),
            b'{' if depth < DEPTH => self.object(depth + 1),
            b'[' if depth < DEPTH => self.array(depth + 1),
            b't' => self.word("true", Value::Boolean(true)),
            b'f' => self.word("false", Value::Boolean(false)),
            b'n' => self.word("null", Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        found.then_some(value)
    }

    fn number(&mut self) -> Option<Value> {
        let rest = &self.text.as_bytes()[self.at..];
        let length =
            rest.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let end = self.at + length.count();
        let digits = &self.text[self.at..end];
        self.at = end;
        match digits.parse() {
            Ok(whole) => Some(Value::Integer(whole)),
            Err(_) => digits.parse().ok().map(Value::Real),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        self.at += 1;
        if self.sign(b']') {
            return Some(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.sign(b']') {
                return Some(Value::Array(items));
            }
            if !self.sign(b',') {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut members = Vec::new();
        self.at += 1;
        if self.sign(b'}') {
            return Some(Value::Object(members));
        }
        loop {
            self.space();
            let name = (self.byte()? == b'"').then(|| self.string()).flatten()?;
            if !self.sign(b':') {
                return None;
            }
            members.push((name, self.value(depth)?));
            if self.sign(b'}') {
                return Some(Value::Object(members));
            }
            if !self.sign(b',') {
                return None;
            }
        }
    }

    /// Read a string from its quote on; most have no escapes.
    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut read = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))?;
            read.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes()[end] {
                b'"' => return Some(read),
                b'\\' => read.push(self.escaped()?),
                _ => return None,
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let sign = self.byte()?;
        self.at += 1;
        Some(match sign {
            b'"' | b'\\' | b'/' => char::from(sign),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.coded(),
            _ => return None,
        })
    }

    /// Read the digits after `\u`; a lone surrogate becomes U+FFFD.
    fn coded(&mut self) -> Option<char> {
        let first = self.digits()?;
        if (0xd800..0xdc00).contains(&first) && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.digits()?;
            if (0xdc00..0xe000).contains(&second) {
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
            self.at = back;
        }
        Some(char::from_u32(first).unwrap_or('\u{fffd}'))
    }

    fn digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(digits, 16).ok())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Value {
        Value::Text(value.to_owned())
    }

    #[test]
    fn every_kind_is_read() {
        let read = document(" {\"a\" : [1, -2.5e3, true,false ,null],\"b\":{},\"c\":[ ]}\n").unwrap();
        let list = vec![
            Value::Integer(1),
            Value::Real(-2500.0),
            Value::Boolean(true),
            Value::Boolean(false),
            Value::Null,
        ];
        assert_eq!(read.get("a"), Some(&Value::Array(list)));
        assert_eq!(read.get("b"), Some(&Value::Object(Vec::new())));
        assert_eq!(read.get("c"), Some(&Value::Array(Vec::new())));
    }

    #[test]
    fn every_integer_of_64_bits_is_exact() {
        for value in [i64::MIN, i64::MAX, 9_007_199_254_740_993] {
            assert_eq!(document(&value.to_string()), Some(Value::Integer(value)));
        }
        assert_eq!(document("9223372036854775808"), Some(Value::Real(9_223_372_036_854_775_808.0)));
        assert_eq!(document("1e999"), Some(Value::Real(f64::INFINITY)));
        assert_eq!(document("1.0"), Some(Value::Real(1.0)));
    }

    #[test]
    fn strings_are_unescaped() {
        assert_eq!(
            document(r#""ü \"\\\/\b\f\n\r\t\u00fc\ud83d\ude00\u0000""#),
            Some(text("ü \"\\/\u{8}\u{c}\n\r\tü😀\0"))
        );
        assert_eq!(document(r#""\ud83dx\ude00\ud83d\u0041""#), Some(text("\u{fffd}x\u{fffd}\u{fffd}A")));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "tru",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u+123\"",
            "1 2",
            "-",
            "{1:2}",
            "\"\n\"",
        ] {
            assert_eq!(document(bad), None, "{bad}");
        }
        assert_eq!(document(&"[".repeat(100_000)), None);
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert!(document(&deep).is_some());
    }
}
