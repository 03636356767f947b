//! `wasi:cli`: environment, exit, standard streams.

use crate::list::List;
use crate::guest::{self, store_list, store8};
use crate::handles::{self, Resource};
use crate::input::{Input, InputStream};
use crate::output::{Output, OutputStream};
use crate::shared::Shared;
use crate::text::take;
use crate::{export, host, output, state};

/// Status of an exit that only says that the program failed.
const FAILED: u32 = 256;

fn standard_output(stream: u32) -> u32 {
    let output = Shared::new(Output::printed(stream));
    handles::insert(Resource::OutputStream(OutputStream { output, parent: 0, permit: 0 }))
}

fn exit(status: u32) -> ! {
    output::flush_response();
    host::exit(status)
}

export! {
    "wasi:cli/environment#get-environment"
    fn get_environment(result: u32) {
        let mut rest = state().environment;
        let count = rest.iter().filter(|byte| **byte == 0).count() / 2;
        if count == 0 {
            return guest::store_empty(result, 4);
        }
        let list = guest::allocate(4, 16 * count);
        let mut words = List::with_capacity(4 * count);
        for _ in 0..2 * count {
            let text = take(&mut rest);
            words.extend(&[guest::give(text), text.len() as u32]);
        }
        guest::give_words(&words, list);
        store_list(result, list, count);
    }

    "wasi:cli/environment#get-arguments"
    fn get_arguments(result: u32) {
        guest::store_empty(result, 4);
    }

    "wasi:cli/environment#initial-cwd"
    fn initial_cwd(result: u32) {
        store8(result, 0);
    }

    "wasi:cli/exit#exit"
    fn exit_with_result(failed: u32) {
        exit(if failed == 0 { 0 } else { FAILED })
    }

    "wasi:cli/exit#exit-with-code"
    fn exit_with_code(status: u32) {
        exit(status & 0xff)
    }

    "wasi:cli/stdin#get-stdin"
    fn get_stdin() -> u32 {
        let input = Shared::new(Input::ended());
        handles::insert(Resource::InputStream(InputStream { input, parent: 0 }))
    }

    "wasi:cli/stdout#get-stdout"
    fn get_stdout() -> u32 {
        standard_output(1)
    }

    "wasi:cli/stderr#get-stderr"
    fn get_stderr() -> u32 {
        standard_output(2)
    }

    "wasi:cli/terminal-stdin#get-terminal-stdin"
    fn get_terminal_stdin(result: u32) {
        store8(result, 0);
    }

    "wasi:cli/terminal-stdout#get-terminal-stdout"
    fn get_terminal_stdout(result: u32) {
        store8(result, 0);
    }

    "wasi:cli/terminal-stderr#get-terminal-stderr"
    fn get_terminal_stderr(result: u32) {
        store8(result, 0);
    }
}
