//! A job decodes an image and stores a smaller one. Doing that twice is harmless: it stores the same file again.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder, ImageReader, ImageResult, Limits};
use svc_guest::tables::{self, params};
use svc_guest::{files, log, Request, Response, Result};

const SIDE: u32 = 640;
const QUALITY: u8 = 82;
/// Memory for a decoded image, such as one of 100 megapixels. memory_limit_mb in svc.toml is larger.
const MAX_BYTES: u64 = 320 << 20;

fn handle(request: Request) -> Result<Response> {
    let id = request.path().strip_prefix("/resize/").and_then(|id| id.parse::<i64>().ok());
    let (Some(id), Some(_)) = (id, request.header("x-svc-job")) else { return Ok(Response::empty(404)) };
    let Some(mut file) = files::get(&format!("originals/{id}"))? else {
        return Ok(Response::empty(204)); // Removed meanwhile.
    };
    match smaller(file.bytes()?) {
        Ok((jpeg, width, height)) => {
            files::put(&format!("thumbs/{id}"), "image/jpeg", Cursor::new(jpeg))?;
            let update = "update items set state = 'ready', width = $2, height = $3 where id = $1";
            tables::exec(update, params![id, i64::from(width), i64::from(height)])?;
            log::info!("resized", item = id, width = width, height = height);
            Ok(Response::empty(204))
        }
        Err(error) => {
            let update = "update items set state = 'failed', error = $2 where id = $1";
            tables::exec(update, params![id, error.to_string()])?;
            Ok(Response::text(error.to_string()).with_status(422)) // No further try: the bytes stay what they are.
        }
    }
}

/// Return a JPEG that fits into a square, upright, and the size of the original.
fn smaller(bytes: Vec<u8>) -> ImageResult<(Vec<u8>, u32, u32)> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    let (width, height) = (image.width(), image.height());
    if width.max(height) > SIDE {
        image = image.thumbnail(SIDE, SIDE);
    }
    let mut jpeg = Vec::new();
    image.to_rgb8().write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, QUALITY))?;
    Ok((jpeg, width, height))
}

svc_guest::handler!(handle);
