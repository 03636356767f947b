//! The table of the resources that the guest holds. A handle is an index of the table, from 1.

use crate::list::List;
use crate::bodies::{IncomingBody, OutgoingBody};
use crate::error_codes::ErrorCode;
use crate::fields::Fields;
use crate::input::{Input, InputStream};
use crate::outgoing::{Future, IncomingResponse, OutgoingRequest, RequestOptions};
use crate::output::{Output, OutputStream};
use crate::requests::{IncomingRequest, OutgoingResponse};
use crate::shared::Shared;
use crate::text::Sentence;
use alloc::boxed::Box;
use alloc::rc::Rc;

const MAX_HANDLES: usize = 65_536;

/// What a handle refers to. A pollable has a variant for each kind of source.
pub enum Resource {
    /// Unused; the index of the next unused one.
    Vacant(u32),
    Error(Rc<ErrorCode>),
    Fields(Box<Fields>),
    IncomingRequest(IncomingRequest),
    ResponseOutparam(()),
    OutgoingResponse(Box<OutgoingResponse>),
    OutgoingRequest(Box<OutgoingRequest>),
    RequestOptions(Box<RequestOptions>),
    IncomingResponse(Box<IncomingResponse>),
    IncomingBody(IncomingBody),
    OutgoingBody(OutgoingBody),
    InputStream(InputStream),
    OutputStream(OutputStream),
    FutureIncomingResponse(Shared<Future>),
    FutureTrailers(Trailers),
    Network(()),
    /// A pollable that becomes ready at an instant.
    Timer(u64),
    PollInput(Shared<Input>),
    PollEnd(Shared<Input>),
    PollOutput(Shared<Output>),
    PollFuture(Shared<Future>),
}

const _: () = assert!(size_of::<Resource>() == 16, "65,536 resources take 1 MiB");

/// The trailers of a body: always empty, available at its end.
pub struct Trailers {
    pub input: Shared<Input>,
    pub consumed: bool,
}

/// The table, in chunks, so that it grows without a copy.
pub struct Handles {
    chunks: List<List<Resource>>,
    vacant: u32,
    held: usize,
}

const CHUNK: usize = 64;

impl Handles {
    pub const fn new() -> Self {
        Self { chunks: List::new(), vacant: 0, held: 0 }
    }

    #[inline]
    fn get(&mut self, index: u32) -> Option<&mut Resource> {
        let index = index as usize;
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// Replaces an entry of the table and returns what it was.
    fn replace(&mut self, index: u32, resource: Resource) -> Resource {
        match self.get(index) {
            Some(entry) => core::mem::replace(entry, resource),
            None => crate::broken(),
        }
    }

    /// Adds an entry and returns its index.
    fn push(&mut self, resource: Resource) -> u32 {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(List::with_capacity(CHUNK));
        }
        let full = self.chunks.len() - 1;
        let Some(last) = self.chunks.last_mut() else { crate::broken() };
        last.push(resource);
        (full * CHUNK + last.len() - 1) as u32
    }
}

fn handles() -> &'static mut Handles {
    &mut crate::state().handles
}

/// Returns a new handle. Traps if the guest holds too many.
pub fn insert(resource: Resource) -> u32 {
    let handles = handles();
    if handles.held >= MAX_HANDLES {
        crate::trap(b"it holds more than 65536 resources (streams, fields, pollables) at once");
    }
    handles.held += 1;
    let vacant = handles.vacant;
    match handles.get(vacant) {
        Some(Resource::Vacant(next)) if vacant != 0 => {
            handles.vacant = *next;
            handles.replace(vacant, resource);
            vacant
        }
        Some(_) => handles.push(resource),
        None => {
            handles.push(Resource::Vacant(0));
            handles.push(resource)
        }
    }
}

/// The handle that all pollables of a stream share, and how many of them the guest holds: some guests drop none.
#[derive(Default)]
pub struct Subscription {
    handle: u32,
    held: u64,
}

impl Subscription {
    /// Adds a pollable and returns its handle. `resource` makes that of the first one.
    pub fn add(&mut self, resource: impl FnOnce() -> Resource) -> u32 {
        if self.held == 0 {
            self.handle = insert(resource());
        }
        self.held += 1;
        self.handle
    }

    /// Removes a pollable. Returns whether it was the last one.
    fn remove(&mut self) -> bool {
        self.held -= 1;
        self.held == 0
    }
}

/// Drops a pollable.
pub fn drop_pollable(handle: u32) {
    let last = match lookup(handle) {
        Resource::PollInput(input) => input.get().subscription.remove(),
        Resource::PollOutput(output) => output.get().subscription.remove(),
        _ => true,
    };
    if last {
        remove(handle);
    }
}

/// Returns the resource of a handle. Traps if there is none.
#[inline]
pub fn lookup(handle: u32) -> &'static mut Resource {
    match handles().get(handle) {
        None | Some(Resource::Vacant(_)) => unknown(handle),
        Some(resource) => resource,
    }
}

/// Removes the resource of a valid handle and returns it.
pub fn remove(handle: u32) -> Resource {
    let handles = handles();
    let next = handles.vacant;
    handles.vacant = handle;
    handles.held -= 1;
    handles.replace(handle, Resource::Vacant(next))
}

#[cold]
#[inline(never)]
fn unknown(handle: u32) -> ! {
    Sentence::new().text(b"unknown handle index ").number(handle.into()).trap()
}

#[cold]
#[inline(never)]
pub fn wrong_type(handle: u32) -> ! {
    Sentence::new().text(b"handle index ").number(handle.into()).text(b" used with the wrong type").trap()
}

/// Returns the resource of a handle, which must have the given type.
macro_rules! borrow {
    ($handle:expr, $type:ident) => {
        match $crate::handles::lookup($handle) {
            $crate::handles::Resource::$type(resource) => resource,
            _ => $crate::handles::wrong_type($handle),
        }
    };
}

/// Takes the resource of a handle, which must have the given type.
macro_rules! own {
    ($handle:expr, $type:ident) => {{
        let handle: u32 = $handle;
        if !matches!($crate::handles::lookup(handle), $crate::handles::Resource::$type(_)) {
            $crate::handles::wrong_type(handle);
        }
        match $crate::handles::remove(handle) {
            $crate::handles::Resource::$type(resource) => resource,
            _ => $crate::handles::wrong_type(handle),
        }
    }};
}

pub(crate) use {borrow, own};

/// Returns the number of children of a resource: headers of a message, the stream of a body.
fn children(parent: u32) -> &'static mut u32 {
    match lookup(parent) {
        Resource::IncomingRequest(message) => &mut message.children,
        Resource::OutgoingResponse(message) => &mut message.children,
        Resource::OutgoingRequest(message) => &mut message.children,
        Resource::IncomingResponse(message) => &mut message.children,
        Resource::IncomingBody(body) => &mut body.children,
        Resource::OutgoingBody(body) => &mut body.children,
        _ => wrong_type(parent),
    }
}

/// Counts a child of a resource.
pub fn attach(parent: u32) {
    *children(parent) += 1;
}

/// Counts a child less, if there is a parent.
pub fn detach(parent: u32) {
    if parent != 0 {
        *children(parent) -= 1;
    }
}

/// Traps with a sentence if a resource has children.
pub fn check_childless(children: u32, sentence: &[u8]) {
    if children != 0 {
        crate::trap(sentence);
    }
}
