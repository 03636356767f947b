//! One route for each thing that a test asks of the guest library.
use std::io::{self, Write};
use std::time::Duration;

use svc_guest::{client, log, quote, sleep, Error, Event, Request, Response, Result};

fn handle(mut request: Request) -> Result<Response> {
    let path = request.path().to_owned();
    Ok(match path.as_str() {
        "/seen" => Response::json(format!(
            "[{},{},{},{},{}]",
            quote(request.method()),
            quote(request.target()),
            quote(&request.decoded_path()),
            quote(request.header("X-Tést").or(request.header("HOST")).unwrap_or("none")),
            quote(&request.parameter("name").unwrap_or_default()),
        )),
        "/env" => Response::text(std::env::var("SVC_REQUEST_ID")?),
        "/whole" => Response::bytes(request.bytes()?),
        "/stream" => Response::stream(move |out| {
            io::copy(request.body(), out)?;
            Ok(())
        }),
        "/large" => Response::bytes(vec![b'x'; 200_000]),
        "/empty" => Response::empty(204),
        "/made" => Response::see_other("/").with_added_header("set-cookie", "a=1").with_added_header("set-cookie", "b=2"),
        "/events" => Response::events(|events| {
            events.comment("hello")?;
            for n in 1..=3 {
                events.send(&Event::data(format!("line {n}\nmore")).id(n.to_string()).name("tick"))?;
                sleep(Duration::from_millis(5));
            }
            Ok(())
        }),
        "/forever" => Response::events(|events| loop {
            events.send(&Event::data("x"))?;
            sleep(Duration::from_millis(1));
        }),
        "/pieces" => Response::stream(|out| {
            write!(out, "{} and {}", 1, 2)?;
            sleep(Duration::from_millis(500));
            Ok(write!(out, " end")?)
        }),
        "/panic" => panic!("no {}", "luck"),
        "/fail" => return Err(Error::from("x".parse::<u32>().unwrap_err()).context("no number")),
        "/question" => {
            let number: u32 = "x".parse()?;
            Response::text(number.to_string())
        }
        "/late-fail" => Response::stream(|out| {
            out.write_all(b"begun")?;
            Err("too late".into())
        }),
        "/late-panic" => Response::stream(|out| {
            out.write_all(b"begun")?;
            panic!("much too late")
        }),
        "/status" => Response::empty(99),
        "/header" => Response::empty(200).with_header("x-bad", "a\nb"),
        "/memory" => {
            let all: Vec<Vec<u8>> = (0..1000).map(|n| vec![n as u8; 1 << 20]).collect();
            Response::text(all.len().to_string())
        }
        "/log" => {
            log::warn!("{path} was asked", n = 7, name = "Jürgen \"J\"", none = None::<&str>);
            print!("printed");
            eprintln!("plain");
            Response::empty(200)
        }
        "/fetch" => {
            let mut answer = client::post(request.parameter("url").unwrap_or_default())
                .header("x-a", "b")
                .json("{\"n\":1}")
                .send()?;
            let text = answer.text()?;
            Response::text(format!("{} {} {text}", answer.status(), answer.header("X-Kind").unwrap_or("-")))
        }
        "/upload" => {
            let url = request.parameter("url").unwrap_or_default();
            let mut answer = client::put(url)
                .stream(move |out| {
                    io::copy(request.body(), out)?;
                    Ok(())
                })
                .send()?;
            let body = answer.text()?;
            Response::text(body)
        }
        "/several" => {
            let url = request.parameter("url").unwrap_or_default();
            let answers = client::all((1..=5).map(|n| client::get(format!("{url}/{n}"))));
            let texts = answers.into_iter().map(|answer| answer?.text()).collect::<Result<Vec<_>, _>>()?;
            Response::text(texts.join(","))
        }
        "/impatient" => {
            let url = request.parameter("url").unwrap_or_default();
            let error = client::get(url).timeout(Duration::from_millis(20)).send().unwrap_err();
            Response::text(format!("{:?}", error.kind()))
        }
        "/any-error" => return Err(load("x").unwrap_err())?,
        _ => Response::text("not found\n").with_status(404),
    })
}

/// An error as a crate defines one.
#[derive(Debug)]
struct Unloaded(Box<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for Unloaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the settings cannot be loaded\nfrom two lines")
    }
}

impl std::error::Error for Unloaded {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

fn load(text: &str) -> Result<u32, Unloaded> {
    text.parse().map_err(|error: std::num::ParseIntError| Unloaded(io::Error::other(error).into()))
}

svc_guest::handler!(handle);
