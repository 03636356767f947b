//! `fields` of `wasi:http/types`: header fields.

use super::area::Area;
use super::{import, memory, resource};

import! { "wasi:http/types@0.2.4":
    "[resource-drop]fields" = fn fields_drop(fields: u32);
    "[static]fields.from-list" = fn fields_from_list(entries: *const Entry, count: usize, result: *mut u8);
    "[method]fields.entries" = fn fields_entries(fields: u32, result: *mut u8);
}

resource!(Fields, fields_drop);

/// A `tuple<field-name, field-value>`: pointer and length of each.
#[repr(C)]
struct Entry {
    name: *const u8,
    name_length: usize,
    value: *const u8,
    value_length: usize,
}

/// Why header fields were refused.
pub(crate) enum HeaderError {
    Syntax,
    Forbidden,
    Immutable,
}

impl Fields {
    /// Create fields, in one call.
    pub(crate) fn from_list(list: &[(String, Vec<u8>)]) -> Result<Self, HeaderError> {
        let entries: Vec<Entry> = list
            .iter()
            .map(|(name, value)| Entry {
                name: name.as_ptr(),
                name_length: name.len(),
                value: value.as_ptr(),
                value_length: value.len(),
            })
            .collect();
        let mut area = Area::new();
        unsafe { fields_from_list(entries.as_ptr(), entries.len(), area.pointer()) };
        match (area.case(0), area.case(4)) {
            (0, _) => Ok(Self(area.word(4))),
            (_, 0) => Err(HeaderError::Syntax),
            (_, 1) => Err(HeaderError::Forbidden),
            _ => Err(HeaderError::Immutable),
        }
    }

    /// Return every field, in order; names are lower-case.
    pub(crate) fn entries(&self) -> Vec<(String, Vec<u8>)> {
        let mut area = Area::new();
        unsafe {
            fields_entries(self.0, area.pointer());
            memory::list::<[u32; 4]>(area.word(0), area.word(4))
                .into_iter()
                .map(|[name, name_length, value, value_length]| {
                    (memory::string(name, name_length), memory::list(value, value_length))
                })
                .collect()
        }
    }
}
