//! A route for each of several well-known crates.

use axum::extract::{Json, Path, Query};
use axum::routing::get;
use axum::Router;
use http_body_util::BodyExt;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use svc_guest::{Request, Response, Result};
use tower::ServiceExt;

fn handle(mut request: Request) -> Result<Response> {
    Ok(match request.path() {
        "/json" => {
            let item: Item = serde_json::from_slice(&request.bytes()?)?;
            Response::json(serde_json::to_string(&item)?)
        }
        "/anyhow" => Response::text(settings("x")?),
        "/thiserror" => Response::text(load("x")?),
        "/status" => match load("x") {
            Err(Failure::Settings(_)) => Response::text("no settings").with_status(422),
            done => Response::text(done?),
        },
        "/jwt" => tokens(&request.text()?)?,
        "/tera" => page(request.parameter("name").unwrap_or_default())?,
        path if path.starts_with("/axum") => axum(&mut request)?,
        _ => Response::empty(404),
    })
}

#[derive(Debug, Deserialize, Serialize)]
struct Item {
    id: u32,
    name: String,
}

fn settings(text: &str) -> anyhow::Result<String> {
    use anyhow::Context;
    let number: u32 = text.parse().context("the port")?;
    Ok(number.to_string())
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the settings are not valid")]
    Settings(#[from] std::num::ParseIntError),
    #[error(transparent)]
    Host(#[from] svc_guest::HostError),
}

fn load(text: &str) -> Result<String, Failure> {
    Ok(text.parse::<u32>()?.to_string())
}

fn axum(request: &mut Request) -> Result<Response> {
    let router = Router::new()
        .route("/axum/items/{id}", get(show).post(create))
        .route("/axum/fail", get(|| async { panic!("in a handler") as String }));
    let mut sent = axum::http::Request::builder().method(request.method()).uri(request.target());
    for (name, value) in request.headers().iter() {
        sent = sent.header(name, value);
    }
    let sent = sent.body(axum::body::Body::from(request.bytes()?))?;
    futures::executor::block_on(async {
        let (head, body) = router.oneshot(sent).await?.into_parts();
        let mut response = Response::bytes(body.collect().await?.to_bytes()).with_status(head.status.as_u16());
        for (name, value) in &head.headers {
            response = response.with_added_header(name.as_str(), value.as_bytes());
        }
        Ok(response)
    })
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn show(Path(id): Path<u32>, Query(named): Query<Named>) -> Json<Item> {
    Json(Item { id, name: named.name })
}

async fn create(Path(id): Path<u32>, Json(item): Json<Item>) -> (axum::http::StatusCode, Json<Item>) {
    (axum::http::StatusCode::CREATED, Json(Item { id, ..item }))
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Claims {
    sub: String,
    exp: u64,
}

/// The body has private and public keys in PEM: of RSA, P-256 and Ed25519, separated by lines of a dash.
fn tokens(keys: &str) -> Result<Response> {
    let keys: Vec<&[u8]> = keys.split("\n-\n").map(str::as_bytes).collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let claims = Claims { sub: "ada".into(), exp: now + 60 };
    let mut text = String::new();
    for (algorithm, private, public) in [
        (Algorithm::HS256, EncodingKey::from_secret(b"secret"), DecodingKey::from_secret(b"secret")),
        (Algorithm::RS256, EncodingKey::from_rsa_pem(keys[0])?, DecodingKey::from_rsa_pem(keys[1])?),
        (Algorithm::ES256, EncodingKey::from_ec_pem(keys[2])?, DecodingKey::from_ec_pem(keys[3])?),
        (Algorithm::EdDSA, EncodingKey::from_ed_pem(keys[4])?, DecodingKey::from_ed_pem(keys[5])?),
    ] {
        let token = jsonwebtoken::encode(&Header::new(algorithm), &claims, &private)?;
        let read = jsonwebtoken::decode::<Claims>(&token, &public, &Validation::new(algorithm))?;
        let forged = jsonwebtoken::decode::<Claims>(&format!("{token}A"), &public, &Validation::new(algorithm));
        text += &format!("{algorithm:?} {} {}\n", read.claims == claims, forged.is_err());
    }
    Ok(Response::text(text))
}

fn page(name: String) -> Result<Response> {
    let mut templates = tera::Tera::default();
    templates.add_raw_template("page.html", "<h1>{{ name | upper }}</h1>{% for n in numbers %}{{ n }} {% endfor %}")?;
    let mut context = tera::Context::new();
    context.insert("name", &name);
    context.insert("numbers", &[1, 2]);
    if name == "broken" {
        templates.add_raw_template("broken.html", "{{ name")?;
    }
    Ok(Response::html(templates.render("page.html", &context)?))
}

svc_guest::handler!(handle);
