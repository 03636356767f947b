//! Sends records to the telemetry Door: in batches, as OTLP/HTTP in JSON.
//!
//! Records are batched. The batch is sent before any operation that can end the program or take long:
//! failures in this crate, waits and calls to other servers.

use std::cell::RefCell;
use std::mem;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::abi::poll::Pollable;
use crate::client;
use crate::json::Value;

/// The maximum size of a batch in bytes.
const FULL: usize = 8 << 10;

/// The maximum age of a batch, measured when a record is added.
const OLD: Duration = Duration::from_millis(20);

const HEAD: &str = "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[";
const TAIL: &str = "]}]}]}";

thread_local! {
    static BATCH: RefCell<Batch> =
        const { RefCell::new(Batch { door: Door::Unwanted, records: String::new(), since: None }) };
}

/// The destination of records. The environment is read at the first record: most runs have none, and reading is slow.
enum Door {
    Unwanted,
    Unknown,
    Absent,
    At(String),
}

struct Batch {
    door: Door,
    records: String,
    since: Option<Instant>,
}

/// Send records to the Door from now on, if there is one.
pub(crate) fn open() {
    BATCH.with_borrow_mut(|batch| {
        if !matches!(batch.door, Door::At(_)) {
            batch.door = Door::Unknown;
        }
    });
}

/// Return whether records are sent to the Door.
pub(crate) fn is_open() -> bool {
    BATCH.with_borrow_mut(|batch| {
        if matches!(batch.door, Door::Unknown) {
            batch.door = find();
        }
        matches!(batch.door, Door::At(_))
    })
}

fn find() -> Door {
    match std::env::var("SVC_TELEMETRY_ENDPOINT") {
        Ok(endpoint) if !endpoint.is_empty() => Door::At(format!("{}/v1/logs", endpoint.trim_end_matches('/'))),
        _ => Door::Absent,
    }
}

/// Add a record to the batch; `severity` is a SeverityNumber of OpenTelemetry.
pub(crate) fn add(severity: u8, message: &str, values: &[(&str, &dyn Value)]) {
    let record = record(SystemTime::now(), severity, message, values);
    let due = BATCH.with_borrow_mut(|batch| {
        if !batch.records.is_empty() {
            batch.records.push(',');
        }
        batch.records.push_str(&record);
        let since = *batch.since.get_or_insert_with(Instant::now);
        batch.records.len() >= FULL || since.elapsed() >= OLD
    });
    if due || severity >= 17 {
        flush();
    }
}

/// Send the batch. The Door has received it when this returns; its response is ignored.
pub(crate) fn flush() {
    let batch = BATCH.with_borrow_mut(|batch| {
        batch.since = None;
        match &batch.door {
            Door::At(url) if !batch.records.is_empty() => Some((url.clone(), mem::take(&mut batch.records))),
            _ => None,
        }
    });
    if let Some((url, records)) = batch {
        // A closed stream is not an error here.
        let _ = client::post(url).json(format!("{HEAD}{records}{TAIL}")).start();
    }
}

/// Wait, and send the batch first if it could become too old.
pub(crate) fn block(ready: &Pollable) {
    if BATCH.with_borrow(|batch| batch.since.is_some()) && !ready.before(&Pollable::after(OLD)) {
        flush();
    }
    ready.block();
}

fn record(time: SystemTime, severity: u8, message: &str, values: &[(&str, &dyn Value)]) -> String {
    let ns = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut json = format!("{{\"timeUnixNano\":\"{ns}\",\"severityNumber\":{severity},\"body\":{{\"stringValue\":");
    message.write_json(&mut json);
    json.push_str("},\"attributes\":[");
    for (index, (name, value)) in values.iter().enumerate() {
        json.push_str(if index > 0 { ",{\"key\":" } else { "{\"key\":" });
        name.write_json(&mut json);
        json.push_str(",\"value\":");
        any_value(&mut json, *value);
        json.push('}');
    }
    json.push_str("]}");
    json
}

/// Write a value as an AnyValue; its kind is detected from its JSON.
fn any_value(json: &mut String, value: &dyn Value) {
    let mut plain = String::new();
    value.write_json(&mut plain);
    let kind = match plain.as_bytes().first() {
        Some(b'"') => "stringValue",
        Some(b't' | b'f') => "boolValue",
        Some(b'-' | b'0'..=b'9') if plain.parse::<i64>().is_ok() => {
            plain = format!("\"{plain}\"");
            "intValue"
        }
        Some(b'-' | b'0'..=b'9') => "doubleValue",
        _ => {
            json.push_str("{}");
            return;
        }
    };
    json.push_str(&format!("{{\"{kind}\":{plain}}}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_log_record_of_otlp() {
        let values: [(&str, &dyn Value); 6] =
            [("a", &"x\""), ("b", &true), ("c", &-7), ("d", &0.5), ("e", &None::<u8>), ("f", &u64::MAX)];
        let time = UNIX_EPOCH + Duration::from_nanos(1_800_000_000_000_000_001);
        assert_eq!(
            record(time, 9, "two\nlines", &values),
            concat!(
                "{\"timeUnixNano\":\"1800000000000000001\",\"severityNumber\":9,",
                "\"body\":{\"stringValue\":\"two\\nlines\"},\"attributes\":[",
                "{\"key\":\"a\",\"value\":{\"stringValue\":\"x\\\"\"}},",
                "{\"key\":\"b\",\"value\":{\"boolValue\":true}},",
                "{\"key\":\"c\",\"value\":{\"intValue\":\"-7\"}},",
                "{\"key\":\"d\",\"value\":{\"doubleValue\":0.5}},",
                "{\"key\":\"e\",\"value\":{}},",
                "{\"key\":\"f\",\"value\":{\"doubleValue\":18446744073709551615}}]}"
            )
        );
    }
}
