//! WASI 0.2 inside a component: the functions that a guest's core modules import, in the canonical ABI.
//!
//! The library has a memory of its own and reaches the guest's by functions of a generated module (`guest.rs`). It does
//! by itself what needs no other process, and calls the host for the rest (`host.rs`), as rarely as possible. One
//! instance serves one request.

#![no_std]
#![no_main]

extern crate alloc;

mod bodies;
mod cli;
mod clocks;
mod denied;
mod error_codes;
mod fields;
mod guest;
mod handles;
mod host;
mod input;
mod list;
mod memory;
mod outgoing;
mod output;
mod poll;
mod random;
mod requests;
mod shared;
mod text;

use clocks::Clock;
use handles::{Handles, Resource};
use input::Input;
use list::Bytes;
use output::Output;
use random::Random;
use requests::IncomingRequest;
use shared::Shared;
use text::{decimal, take};

/// What the library does at the moment.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// The head of the request is not known.
    New,
    Running,
    /// The guest allocates memory, and must not call.
    Allocating,
    /// The run ends with an error.
    Trapping,
}

/// The state of the run.
struct State {
    clock: Clock,
    random: Random,
    handles: Handles,
    method: &'static [u8],
    scheme: &'static [u8],
    authority: &'static [u8],
    target: &'static [u8],
    fields: &'static [u8],
    environment: &'static [u8],
    /// The body of the request, since the head is known.
    input: Option<Shared<Input>>,
    /// The body of the response, since the guest has set it.
    response: Option<Shared<Output>>,
    /// Number of the latest channel.
    channels: u32,
    /// Requests and responses that the guest has not sent.
    unsent: u32,
    /// Size of the fields that the guest holds.
    fields_bytes: usize,
    /// Number of bytes that were read ahead, over all channels.
    ahead_bytes: usize,
    /// The name of a function that is not available, as far as it was passed.
    unavailable: Bytes,
}

static mut PHASE: Phase = Phase::New;
static mut STATE: State = State {
    clock: Clock::new(),
    random: Random::new(),
    handles: Handles::new(),
    method: &[],
    scheme: &[],
    authority: &[],
    target: &[],
    fields: &[],
    environment: &[],
    input: None,
    response: None,
    channels: 0,
    unsent: 0,
    fields_bytes: 0,
    ahead_bytes: 0,
    unavailable: Bytes::new(),
};

/// Returns the state. No reference to a part of it may live across a call that uses the same part.
#[inline(always)]
fn state() -> &'static mut State {
    unsafe { &mut *(&raw mut STATE) }
}

#[inline(always)]
fn set_phase(phase: Phase) {
    unsafe { PHASE = phase }
}

fn is_trapping() -> bool {
    unsafe { PHASE == Phase::Trapping }
}

impl State {
    /// Returns the body of the request.
    fn input(&self) -> &Shared<Input> {
        match &self.input {
            Some(input) => input,
            None => malformed(),
        }
    }

    /// Stores the head of the request: texts that end with 0, fields, and variables.
    fn begin(&mut self, mut head: &'static [u8]) {
        self.clock.wall = decimal(take(&mut head));
        self.random.seed(take(&mut head));
        let ended = take(&mut head) == b"1";
        self.method = take(&mut head);
        self.scheme = take(&mut head);
        self.authority = take(&mut head);
        self.target = take(&mut head);
        let size = decimal(take(&mut head)) as usize;
        let Some((fields, environment)) = head.split_at_checked(size) else { malformed() };
        self.fields = fields;
        self.environment = environment;
        let input = if ended { Input::ended() } else { Input::new(0) };
        self.input = Some(Shared::new(input));
    }
}

/// Prepares a call of the guest.
#[inline(always)]
fn enter() {
    if unsafe { PHASE } != Phase::Running {
        enter_first();
    }
}

#[cold]
#[inline(never)]
fn enter_first() {
    if unsafe { PHASE } == Phase::Allocating {
        trap(b"a host function was called during an allocation");
    }
    set_phase(Phase::Running);
    state().begin(host::begin());
}

/// Returns the number of a new channel.
fn new_channel() -> u32 {
    let channels = &mut state().channels;
    *channels += 1;
    *channels
}

/// Ends the run with an error; the text names the broken rule. What was written is sent before.
#[cold]
#[inline(never)]
fn trap(text: &[u8]) -> ! {
    if !is_trapping() {
        set_phase(Phase::Trapping);
        output::flush_response();
    }
    host::trap(text)
}

/// Ends the run because the library is wrong.
#[cold]
#[inline(always)]
fn broken() -> ! {
    core::arch::wasm32::unreachable()
}

/// Ends the run because a text of the host has another form than expected.
#[cold]
#[inline(never)]
fn malformed() -> ! {
    trap(b"the host returned a malformed text")
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    broken()
}

/// Exports functions under names that Rust does not allow.
macro_rules! export {
    ($($name:literal fn $function:ident($($parameter:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {
        $(#[unsafe(export_name = $name)]
        extern "C" fn $function($($parameter: $type),*) $(-> $result)? {
            $crate::enter();
            $body
        })*
    };
}

use export;

/// Answers the request with this head; returns the size of all memories in pages.
#[unsafe(export_name = "svc-run")]
extern "C" fn run(head: *const u8, size: usize) -> u32 {
    state().begin(unsafe { core::slice::from_raw_parts(head, size) });
    set_phase(Phase::Running);
    let request = IncomingRequest { children: 0, consumed: false };
    let request = handles::insert(Resource::IncomingRequest(request));
    let outparam = handles::insert(Resource::ResponseOutparam(()));
    guest::handle(request, outparam);
    output::flush_response();
    guest::pages()
}

export! {
    "unavailable"
    fn unavailable(part: u64) {
        let part = part.to_le_bytes();
        let size = part.iter().position(|byte| *byte == 0).unwrap_or(part.len());
        state().unavailable.extend(list::part(&part, 0, size));
    }

    "unavailable_end"
    fn unavailable_end() {
        let name = core::mem::take(&mut state().unavailable);
        text::Sentence::new().text(&name).text(b" is not available").trap()
    }
}
