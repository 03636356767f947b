//! A handler of the bare interfaces, which ends in several ways without a complete response.

use wasi::exports::http::incoming_handler::Guest;
use wasi::http::types::*;

struct Api;

impl Guest for Api {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        match path.as_str() {
            "/nothing" => return,
            "/trap" => deep::fall(),
            "/recursion" => println!("{}", deep::er(1)),
            "/poll" => drop(wasi::io::poll::poll(&[])),
            "/error" => return ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some("no luck".into())))),
            "/abort" => return ResponseOutparam::set(out, Err(ErrorCode::ConnectionTerminated)),
            _ => {}
        }
        let response = OutgoingResponse::new(Fields::new());
        let body = response.body().unwrap();
        ResponseOutparam::set(out, Ok(response));
        let stream = body.write().unwrap();
        stream.blocking_write_and_flush(b"wasi").unwrap();
        drop(stream);
        if path != "/unfinished" {
            OutgoingBody::finish(body, None).unwrap();
        }
    }
}

mod deep {
    #[inline(never)]
    pub fn fall() {
        core::arch::wasm32::unreachable()
    }

    #[inline(never)]
    pub fn er(n: u64) -> u64 {
        std::hint::black_box(er(n + 1)) + 1
    }
}

wasi::http::proxy::export!(Api);
