//! `wasi:io/poll` and `wasi:clocks/monotonic-clock`: waiting.

use std::time::Duration;

use super::area::Area;
use super::{import, memory, resource};

import! { "wasi:io/poll@0.2.4":
    "[resource-drop]pollable" = fn pollable_drop(pollable: u32);
    "[method]pollable.block" = fn pollable_block(pollable: u32);
    "poll" = fn poll(pollables: *const u32, count: usize, result: *mut u8);
}

import! { "wasi:clocks/monotonic-clock@0.2.4":
    "subscribe-duration" = fn subscribe_duration(nanoseconds: u64) -> u32;
}

resource!(
    /// An event of the host to wait for.
    Pollable,
    pollable_drop
);

impl Pollable {
    /// Return a pollable that is ready after this time.
    pub(crate) fn after(duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(unsafe { subscribe_duration(nanoseconds) })
    }

    /// Wait until this is ready.
    pub(crate) fn block(&self) {
        unsafe { pollable_block(self.0) }
    }

    /// Wait until one of the two is ready. Returns whether it is this one.
    pub(crate) fn before(&self, other: &Self) -> bool {
        let both = [self.0, other.0];
        let mut area = Area::new();
        let ready: Vec<u32> = unsafe {
            poll(both.as_ptr(), both.len(), area.pointer());
            memory::list(area.word(0), area.word(4))
        };
        ready.contains(&0)
    }
}
