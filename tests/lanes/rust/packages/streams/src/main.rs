//! A program of wstd, which exports the handler by itself.

use wstd::http::{Body, Error, Request, Response, StatusCode};
use wstd::time::Duration;

#[wstd::http_server]
async fn main(request: Request<Body>) -> Result<Response<Body>, Error> {
    match request.uri().path() {
        "/echo" => Ok(Response::new(request.into_body())),
        "/slow" => {
            wstd::task::sleep(Duration::from_millis(20)).await;
            Ok(Response::new("late".to_owned().into()))
        }
        "/pending" => std::future::pending().await,
        "/error" => Err(anyhow::anyhow!("no luck")),
        "/panic" => panic!("no luck"),
        _ => Ok(Response::builder().status(StatusCode::NOT_FOUND).body(().into())?),
    }
}
