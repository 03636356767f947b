//! `wasi:io/poll`, and all waits.

use crate::list::{Bytes, List};
use crate::guest::{self, store_list};
use crate::handles::{self, Resource, Trailers, borrow, own};
use crate::input::Input;
use crate::outgoing::Future;
use crate::output::Output;
use crate::shared::Shared;
use crate::text::push_decimal;
use crate::{clocks, export, host, output, state};

/// Maximum number of pollables in one call.
const MAX_POLLABLES: u32 = 16_384;
const NEVER: u64 = u64::MAX;

/// What a wait waits for.
#[derive(Clone)]
pub enum Source {
    /// Bytes, the end or an error of an input.
    Input(Shared<Input>),
    /// The end of an input.
    End(Shared<Input>),
    /// Room of an output.
    Output(Shared<Output>),
    /// The response to a request.
    Future(Shared<Future>),
}

impl Source {
    /// Returns whether the source is ready, as far as known. What was ready stays ready.
    fn is_ready(&self) -> bool {
        match self {
            Self::Input(input) => input.get().is_ready(),
            Self::End(input) => input.get().has_ended(),
            Self::Output(output) => output.get().is_ready(),
            Self::Future(future) => future.get().is_ready(),
        }
    }

    /// Returns the mark of sources that are a part of the question already.
    fn asked(&self) -> &mut bool {
        match self {
            Self::Input(input) => &mut input.get().asked[0],
            Self::End(input) => &mut input.get().asked[1],
            Self::Output(output) => &mut output.get().asked,
            Self::Future(future) => &mut future.get().asked,
        }
    }

    /// Appends the source as the host reads it.
    fn push_to(&self, text: &mut Bytes) {
        let (letter, channel) = match self {
            Self::Input(input) => (b'r', input.get().channel()),
            Self::End(input) => (b'e', input.get().channel()),
            Self::Output(output) => (b'w', output.get().channel()),
            Self::Future(future) => (b'f', future.get().channel),
        };
        text.push(letter);
        push_decimal(text, channel.into());
        text.push(b' ');
    }

    /// Stores the host's answer.
    fn set(&self, answer: u8) {
        match (self, answer) {
            (_, b'0') => {}
            (Self::Output(output), b'x') => output.get().close(),
            (Self::Output(output), _) => output.get().ask(),
            (Self::Input(input), _) => input.get().readable = true,
            (Self::End(input), _) => input.get().at_end = true,
            (Self::Future(future), _) => future.get().available = true,
        }
    }
}

/// Asks the host which sources are ready; waits for one of them if there is a deadline.
///
/// The host also reports whether the client has disconnected.
fn ask(sources: &[Source], deadline: Option<u64>) {
    let mut text = List::with_capacity(32);
    let mut distinct = List::with_capacity(sources.len() + 1);
    for source in sources {
        if !core::mem::replace(source.asked(), true) {
            if let Source::Output(output) = source {
                output.get().prepare_wait();
            }
            source.push_to(&mut text);
            distinct.push(source.clone());
        }
    }
    if let Some(output) = state().response.as_ref().filter(|output| output.get().is_open()) {
        let response = Source::Output(output.clone());
        if !*response.asked() {
            text.push(b'|');
            response.push_to(&mut text);
            distinct.push(response);
        }
    }
    let answers = host::ask(&text, deadline);
    let answers = Bytes::from(answers.bytes());
    if answers.len() != distinct.len() {
        crate::malformed();
    }
    for (source, answer) in distinct.iter().zip(answers.iter()) {
        *source.asked() = false;
        source.set(*answer);
    }
}

/// Waits until one of the sources is ready.
pub fn wait(sources: &[Source]) {
    wait_until(sources, NEVER);
}

fn wait_until(sources: &[Source], deadline: u64) {
    output::flush_response();
    ask(sources, Some(deadline));
}

/// Returns whether a source is ready now.
pub fn is_ready(source: &Source) -> bool {
    if !source.is_ready() {
        ask(core::slice::from_ref(source), None);
    }
    source.is_ready()
}

/// A pollable: a source, or an instant.
enum Pollable {
    Timer(u64),
    Source(Source),
}

impl Pollable {
    fn of(handle: u32) -> Self {
        match handles::lookup(handle) {
            Resource::Timer(when) => Self::Timer(*when),
            Resource::PollInput(input) => Self::Source(Source::Input(input.clone())),
            Resource::PollEnd(input) => Self::Source(Source::End(input.clone())),
            Resource::PollOutput(output) => Self::Source(Source::Output(output.clone())),
            Resource::PollFuture(future) => Self::Source(Source::Future(future.clone())),
            _ => handles::wrong_type(handle),
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Self::Timer(when) => clocks::known() >= *when,
            Self::Source(source) => source.is_ready(),
        }
    }
}

/// Waits until one of the pollables is ready, and learns which others are.
fn settle(pollables: &[Pollable]) {
    clocks::look();
    loop {
        let found = pollables.iter().any(Pollable::is_ready);
        let mut sources = List::new();
        let mut deadline = NEVER;
        for pollable in pollables {
            match pollable {
                Pollable::Source(source) if !source.is_ready() => sources.push(source.clone()),
                Pollable::Timer(when) => deadline = deadline.min(*when),
                _ => {}
            }
        }
        if found {
            if !sources.is_empty() {
                ask(&sources, None);
            }
            return;
        }
        wait_until(&sources, deadline);
    }
}

fn pollables(list: &[u32]) -> List<Pollable> {
    let mut result = List::with_capacity(list.len());
    for handle in list {
        result.push(Pollable::of(*handle));
    }
    result
}

export! {
    "wasi:io/poll#[method]pollable.ready"
    fn pollable_ready(handle: u32) -> u32 {
        let ready = match Pollable::of(handle) {
            Pollable::Timer(when) => clocks::known() >= when || clocks::ask() >= when,
            Pollable::Source(source) => is_ready(&source),
        };
        ready.into()
    }

    "wasi:io/poll#[method]pollable.block"
    fn pollable_block(handle: u32) {
        settle(&pollables(&[handle]));
    }

    "wasi:io/poll#poll"
    fn poll(list: u32, count: u32, result: u32) {
        if count == 0 {
            crate::trap(b"poll of an empty list, a wait without an end");
        }
        if count > MAX_POLLABLES {
            crate::trap(b"poll was called with more than 16384 pollables");
        }
        let pollables = pollables(&guest::words(list, count));
        settle(&pollables);
        let mut positions = List::with_capacity(pollables.len().min(64));
        for (position, pollable) in pollables.iter().enumerate() {
            if pollable.is_ready() {
                positions.push(position as u32);
            }
        }
        let ready = guest::allocate(4, 4 * positions.len());
        guest::give_words(&positions, ready);
        store_list(result, ready, positions.len());
    }

    "drop#pollable"
    fn pollable_drop(handle: u32) {
        Pollable::of(handle);
        handles::drop_pollable(handle);
    }

    "wasi:http/types#[method]future-trailers.subscribe"
    fn trailers_subscribe(trailers: u32) -> u32 {
        let Trailers { input, .. } = borrow!(trailers, FutureTrailers);
        handles::insert(Resource::PollEnd(input.clone()))
    }

    "drop#future-trailers"
    fn trailers_drop(handle: u32) {
        own!(handle, FutureTrailers);
    }
}
