//! Bindings to the canonical ABI of the WASI 0.2 interfaces that this crate uses.
//!
//! The only module with `unsafe`. Its exports are safe: owned resources that are dropped once, and values
//! without pointers. `world.bin` declares the same functions with their types for the component.

mod area;
mod error_code;
pub(crate) mod fields;
pub(crate) mod incoming;
mod memory;
pub(crate) mod outgoing;
pub(crate) mod poll;
pub(crate) mod streams;

/// The types of all imports and exports. `handler!` stores it in the section that the component linker reads.
pub const WORLD: &[u8; include_bytes!("world.bin").len()] = include_bytes!("world.bin");

/// Declare functions of an interface. Programs for other targets compile too, so that tests of code that
/// does not call the host run natively.
macro_rules! import {
    ($interface:literal: $($name:literal = fn $function:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        #[cfg(target_arch = "wasm32")]
        #[link(wasm_import_module = $interface)]
        unsafe extern "C" {
            $(#[link_name = $name] fn $function($($argument: $type),*) $(-> $result)?;)*
        }
        $(
            #[cfg(not(target_arch = "wasm32"))]
            unsafe fn $function($(_: $type),*) $(-> $result)? {
                panic!(concat!($interface, " ", $name, " can only be called in a component"))
            }
        )*
    };
}

/// Declare a resource: a handle of the host, which is released when it is dropped.
macro_rules! resource {
    ($(#[$attribute:meta])* $type:ident, $drop:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub(crate) struct $type(u32);

        #[allow(dead_code)]
        impl $type {
            /// Take over a resource that the host passed.
            pub(crate) fn from_handle(handle: u32) -> Self {
                Self(handle)
            }

            /// Pass ownership of the resource to the host.
            pub(crate) fn into_handle(self) -> u32 {
                core::mem::ManuallyDrop::new(self).0
            }
        }

        impl Drop for $type {
            fn drop(&mut self) {
                unsafe { $drop(self.0) }
            }
        }
    };
}

use {import, resource};
