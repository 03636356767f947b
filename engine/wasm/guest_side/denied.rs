//! `wasi:sockets` and `wasi:filesystem`: denied. Guests use `wasi:http/outgoing-handler` instead.

use crate::export;
use crate::guest::{store_empty, store8};
use crate::handles::{self, Resource, borrow, own};

/// Position of `access-denied` in the error codes of `wasi:sockets`.
const ACCESS_DENIED: u32 = 1;

fn deny(result: u32) {
    store8(result, 1);
    store8(result + 4, ACCESS_DENIED);
}

/// Traps: no handle has a type that the guest cannot hold.
fn drop_none(handle: u32) {
    handles::lookup(handle);
    handles::wrong_type(handle);
}

export! {
    "wasi:sockets/instance-network#instance-network"
    fn instance_network() -> u32 {
        handles::insert(Resource::Network(()))
    }

    "wasi:sockets/tcp-create-socket#create-tcp-socket"
    fn create_tcp_socket(_family: u32, result: u32) {
        deny(result);
    }

    "wasi:sockets/udp-create-socket#create-udp-socket"
    fn create_udp_socket(_family: u32, result: u32) {
        deny(result);
    }

    "wasi:sockets/ip-name-lookup#resolve-addresses"
    fn resolve_addresses(network: u32, _name: u32, _size: u32, result: u32) {
        borrow!(network, Network);
        deny(result);
    }

    "wasi:filesystem/preopens#get-directories"
    fn get_directories(result: u32) {
        store_empty(result, 4);
    }

    "drop#network"
    fn network_drop(handle: u32) {
        own!(handle, Network);
    }

    "drop#tcp-socket"
    fn tcp_socket_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#udp-socket"
    fn udp_socket_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#incoming-datagram-stream"
    fn incoming_datagram_stream_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#outgoing-datagram-stream"
    fn outgoing_datagram_stream_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#resolve-address-stream"
    fn resolve_address_stream_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#descriptor"
    fn descriptor_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#directory-entry-stream"
    fn directory_entry_stream_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#terminal-input"
    fn terminal_input_drop(handle: u32) {
        drop_none(handle);
    }

    "drop#terminal-output"
    fn terminal_output_drop(handle: u32) {
        drop_none(handle);
    }
}
