//! `wasi:clocks`. The clock of a run starts at 1. It is that of the last call of the host, and a nanosecond later at each
//! look: a program may wait for the time to pass, as SpiderMonkey does between two collections of a full heap.

use crate::guest::{store_bytes, store8, store32, store64};
use crate::handles::{self, Resource};
use crate::{export, host, state};

const SECOND: u64 = 1_000_000_000;
/// A guest that looks at the clock without any other call of the host gets a new time after so many looks.
const MAX_LOOKS: u32 = 64;

pub struct Clock {
    now: u64,
    looks: u32,
    /// Unix time at the start in nanoseconds.
    pub wall: u64,
}

impl Clock {
    pub const fn new() -> Self {
        Self { now: 1, looks: 0, wall: 0 }
    }
}

/// Sets the time of the run, as the host returned it.
pub fn set(now: u64) {
    let clock = &mut state().clock;
    clock.now = clock.now.max(now);
    clock.looks = 0;
}

/// Returns the time of the last call of the host, for waits.
pub fn known() -> u64 {
    state().clock.now
}

/// Returns the time.
pub fn look() -> u64 {
    let clock = &mut state().clock;
    clock.now += 1;
    clock.looks += 1;
    if clock.looks >= MAX_LOOKS {
        set(host::now());
    }
    known()
}

/// Asks the host for the time.
pub fn ask() -> u64 {
    set(host::now());
    known()
}

export! {
    "wasi:clocks/monotonic-clock#now"
    fn monotonic_now() -> u64 {
        look()
    }

    "wasi:clocks/monotonic-clock#resolution"
    fn monotonic_resolution() -> u64 {
        1
    }

    "wasi:clocks/monotonic-clock#subscribe-instant"
    fn subscribe_instant(when: u64) -> u32 {
        handles::insert(Resource::Timer(when))
    }

    "wasi:clocks/monotonic-clock#subscribe-duration"
    fn subscribe_duration(duration: u64) -> u32 {
        handles::insert(Resource::Timer(ask().saturating_add(duration)))
    }

    "wasi:clocks/wall-clock#now"
    fn wall_now(result: u32) {
        let now = state().clock.wall.wrapping_add(look());
        store64(result, now / SECOND);
        store32(result + 8, (now % SECOND) as u32);
    }

    "wasi:clocks/wall-clock#resolution"
    fn wall_resolution(result: u32) {
        store64(result, 0);
        store32(result + 8, 1);
    }

    "wasi:clocks/timezone#display"
    fn timezone_display(_seconds: u64, _nanoseconds: u32, result: u32) {
        store32(result, 0);
        store_bytes(result + 4, b"UTC");
        store8(result + 12, 0);
    }

    "wasi:clocks/timezone#utc-offset"
    fn timezone_offset(_seconds: u64, _nanoseconds: u32) -> u32 {
        0
    }
}
