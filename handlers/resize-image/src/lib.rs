//! Makes a picture smaller: JPEG, PNG or WebP in, any of them out, turned upright by its EXIF orientation.
//!
//! A real piece of work in a sandbox. The picture comes from outside, so the decoder runs on hostile bytes: what it can
//! reach is this job's memory, and what it can cost is this job's fuel.

mod request;

use std::io::Cursor;

use gristmill_guest::{Failure, Job, OrFail, Payload, config, handler, log};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};

use request::Request;

handler!(resize);

/// Bytes of decoded pixels that a picture may have, unless the setting `max-decoded-bytes` says otherwise: 11 megapixels
/// of RGB, and half of a topic's default memory.
const MAX_DECODED_BYTES: u64 = 32 << 20;

/// The body is the picture; the metadata is the `Request`. The result is the smaller picture.
pub fn resize(job: Job) -> Result<Payload, Failure> {
    let request = Request::of(&job)?;
    let (mut decoder, format) = open(job.bytes())?;
    refuse_bomb(&decoder)?;
    refuse_half_a_jpeg(job.bytes(), format)?;

    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).or_reject("bad-image")?;
    let (from_width, from_height) = (picture.width(), picture.height());

    let small = shrink(picture, &request, orientation);
    let (width, height) = (small.width(), small.height());
    log::info("resized", &[("from", &format!("{from_width}x{from_height}")), ("to", &format!("{width}x{height}"))]);

    encode(small, request.format.unwrap_or(format))
}

/// Reads the header and no more.
fn open(bytes: &[u8]) -> Result<(impl ImageDecoder, ImageFormat), Failure> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().or_reject("bad-image")?;
    let format = reader
        .format()
        .ok_or_else(|| Failure::reject("bad-image", "the body begins like no picture: send a JPEG, PNG or WebP"))?;
    Ok((reader.into_decoder().or_reject("bad-image")?, format))
}

/// A few hundred bytes can claim to be billions of pixels: check the claim before allocating memory for it.
fn refuse_bomb(decoder: &impl ImageDecoder) -> Result<(), Failure> {
    let most = config::get_parsed("max-decoded-bytes")?.unwrap_or(MAX_DECODED_BYTES);
    let decoded = decoder.total_bytes();
    if decoded <= most {
        return Ok(());
    }
    let (width, height) = decoder.dimensions();
    let message = format!("{width}x{height} pixels are {decoded} bytes when decoded, more than the {most} allowed");
    Err(Failure::reject("image-too-large", message))
}

/// The JPEG decoder fills up with grey what a broken upload left out; a half-grey thumbnail is useless.
fn refuse_half_a_jpeg(bytes: &[u8], format: ImageFormat) -> Result<(), Failure> {
    // End of image, ITU-T T.81 table B.1. It may be followed by anything, but cannot occur within the scan data.
    const END: [u8; 2] = [0xff, 0xd9];
    if format == ImageFormat::Jpeg && !bytes.windows(2).rev().any(|pair| pair == END) {
        return Err(Failure::reject("bad-image", "the JPEG is cut short: it has no end-of-image marker"));
    }
    Ok(())
}

/// Fits the picture into the bounds, keeping its proportions; one that fits already keeps its size.
///
/// Scales first and turns after: turning copies the picture, and the small one is cheaper to copy.
fn shrink(picture: DynamicImage, request: &Request, orientation: Orientation) -> DynamicImage {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};

    let lies_on_its_side = matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH);
    let (width, height) =
        if lies_on_its_side { (request.height, request.width) } else { (request.width, request.height) };

    let fits = picture.width() <= width && picture.height() <= height;
    let mut small = if fits { picture } else { picture.thumbnail(width, height) };
    small.apply_orientation(orientation);
    small
}

fn encode(picture: DynamicImage, format: ImageFormat) -> Result<Payload, Failure> {
    // JPEG knows no transparency; left alone, what was transparent would show whatever colour lies under it.
    let picture = if format == ImageFormat::Jpeg && picture.color().has_alpha() { on_white(&picture) } else { picture };
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).or_reject("not-encodable")?;
    Ok(Payload::new(bytes.into_inner(), format.to_mime_type()))
}

fn on_white(picture: &DynamicImage) -> DynamicImage {
    let mut pixels = picture.to_rgba8();
    for pixel in pixels.pixels_mut() {
        let [red, green, blue, alpha] = pixel.0.map(u16::from);
        let over = |colour: u16| u8::try_from((colour * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX);
        pixel.0 = [over(red), over(green), over(blue), u8::MAX];
    }
    DynamicImage::ImageRgba8(pixels).to_rgb8().into()
}

#[cfg(test)]
mod tests;
