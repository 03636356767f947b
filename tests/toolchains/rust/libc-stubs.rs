//! What std for wasm32-wasip2 may refer to and Debian's older wasi-libc does not have: threads, sockets and
//! names. Each of them says "not supported", which is what the newer libc says of threads as well.
#![no_std]
#![feature(thread_local)]

const ENOTSUP: i32 = 58;
const EAI_FAIL: i32 = -4;

extern "C" {
    #[thread_local]
    static mut errno: i32;
}

/// Define functions with as many word-sized arguments as std declares: the linker compares signatures.
macro_rules! stubs {
    ($($name:ident($($argument:ident)*) => $result:expr;)*) => {
        $(
            #[no_mangle]
            pub unsafe extern "C" fn $name($($argument: i32),*) -> i32 {
                $(let _ = $argument;)*
                $result
            }
        )*
    };
}

unsafe fn refused() -> i32 {
    errno = ENOTSUP;
    -1
}

stubs! {
    pthread_attr_init(a) => 0;
    pthread_attr_destroy(a) => 0;
    pthread_attr_setstacksize(a b) => 0;
    pthread_create(a b c d) => ENOTSUP;
    pthread_detach(a) => ENOTSUP;
    pthread_join(a b) => ENOTSUP;
    socket(a b c) => refused();
    connect(a b c) => refused();
    bind(a b c) => refused();
    listen(a b) => refused();
    getsockname(a b c) => refused();
    getpeername(a b c) => refused();
    setsockopt(a b c d e) => refused();
    sendto(a b c d e f) => refused();
    recvfrom(a b c d e f) => refused();
    sendmsg(a b c) => refused();
    recvmsg(a b c) => refused();
    dup(a) => refused();
    getaddrinfo(a b c d) => EAI_FAIL;
}

#[no_mangle]
pub unsafe extern "C" fn freeaddrinfo(_list: i32) {}

#[no_mangle]
pub unsafe extern "C" fn gai_strerror(_code: i32) -> *const u8 {
    c"name resolution is not supported".as_ptr().cast()
}
