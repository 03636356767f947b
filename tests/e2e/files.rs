use std::time::Duration;

use svc_guest::{files, Request, Response, Result};

fn handle(request: Request) -> Result<Response> {
    let key = request.decoded_path()[1..].to_owned();
    match (request.method(), request.query()) {
        ("PUT", _) => {
            let file = files::put(&key, "video/mp4", request.into_body());
            Ok(match file {
                Ok(file) => Response::text(file.size.to_string()).with_status(201),
                Err(error) => Response::text(error.to_string()).with_status(400),
            })
        }
        ("DELETE", _) => {
            files::remove(&key)?;
            Ok(Response::empty(200))
        }
        (_, "list") => {
            let page = files::list("", "/", "")?;
            Ok(Response::text(format!("{} [{}]", page.files.len(), page.prefixes.join(" "))))
        }
        (_, "sign") => Ok(Response::text(files::sign(&key, "PUT", Duration::from_secs(60), 10)?)),
        (_, "get") => Ok(match files::get_range(&key, 1, 3)? {
            Some(mut response) => Response::bytes(response.bytes()?),
            None => Response::text("none").with_status(404),
        }),
        _ => Ok(files::response(&key)),
    }
}

svc_guest::handler!(handle);
