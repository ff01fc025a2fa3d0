use gristmill_guest::testing::{Host, Run, job};
use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;

const RED: Rgb<u8> = Rgb([255, 0, 0]);
const BLUE: Rgb<u8> = Rgb([0, 0, 255]);

/// The upper half red, the lower half blue.
fn flag(width: u32, height: u32) -> DynamicImage {
    RgbImage::from_fn(width, height, |_, y| if y < height / 2 { RED } else { BLUE }).into()
}

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).expect("memory takes everything");
    bytes.into_inner()
}

fn run(body: Vec<u8>, entries: &[(&str, &str)]) -> Run {
    let job = entries.iter().fold(job("resize-image").body(body), |job, (name, value)| job.meta(name, value));
    Host::new().run(resize, job)
}

fn decoded(run: &Run) -> (DynamicImage, &str) {
    let Some(result) = run.result() else { panic!("a picture: {run:?}") };
    let picture = image::load_from_memory(&result.data).expect("a picture");
    (picture, result.content_type.as_deref().unwrap_or_default())
}

#[test]
fn every_format_comes_out_smaller_and_named() {
    for (format, name, mime) in [
        (ImageFormat::Jpeg, "jpeg", "image/jpeg"),
        (ImageFormat::Png, "png", "image/png"),
        (ImageFormat::WebP, "webp", "image/webp"),
    ] {
        let kept = run(encoded(&flag(640, 400), format), &[]);
        let (picture, content_type) = decoded(&kept);
        assert_eq!((picture.width(), picture.height(), content_type), (320, 200, mime));

        let changed = run(encoded(&flag(640, 400), ImageFormat::Png), &[("height", "50"), ("format", name)]);
        let (picture, content_type) = decoded(&changed);
        assert_eq!((picture.width(), picture.height(), content_type), (80, 50, mime));
    }
}

#[test]
fn a_picture_that_fits_is_not_enlarged() {
    let run = run(encoded(&flag(100, 40), ImageFormat::Png), &[("width", "1000")]);
    assert_eq!(decoded(&run).0, flag(100, 40));
}

#[test]
fn a_picture_is_turned_upright_and_fitted_as_it_is_then_seen() {
    // Orientation 6: turn by 90 degrees clockwise. What was the upper half is then the right one.
    const EXIF: &[u8] = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let mut jpeg = encoded(&flag(640, 400), ImageFormat::Jpeg);
    jpeg.splice(2..2, EXIF.iter().copied());

    let run = run(jpeg, &[("width", "100"), ("format", "png")]);
    let picture = decoded(&run).0.to_rgb8();
    assert_eq!(picture.dimensions(), (100, 160));
    let [left, right] = [10, 90].map(|x| picture.get_pixel(x, 80).0);
    assert!(left[2] > 200 && right[0] > 200, "left {left:?}, right {right:?}");
}

#[test]
fn transparency_becomes_white_in_a_jpeg() {
    let clear = DynamicImage::from(RgbaImage::from_pixel(16, 16, Rgba([0, 0, 0, 0])));
    let run = run(encoded(&clear, ImageFormat::Png), &[("format", "jpeg")]);
    assert_eq!(decoded(&run).0.to_rgb8().get_pixel(8, 8), &Rgb([255, 255, 255]));
}

#[test]
fn what_is_no_picture_is_rejected() {
    let jpeg = encoded(&flag(64, 64), ImageFormat::Jpeg);
    let png = encoded(&flag(64, 64), ImageFormat::Png);
    let broken = [
        b"not a picture".to_vec(),
        Vec::new(),
        png[..png.len() / 2].to_vec(),
        jpeg[..20].to_vec(),
        jpeg[..jpeg.len() - 2].to_vec(),
    ];
    for body in broken {
        let run = run(body.clone(), &[]);
        let failure = run.failure().unwrap_or_else(|| panic!("{} bytes must not decode", body.len()));
        assert_eq!((failure.code(), failure.is_retry()), ("bad-image", false));
        assert!(!failure.message().is_empty());
    }
}

#[test]
fn a_pixel_bomb_is_refused_by_its_header() {
    // A PNG of 100,000 x 100,000 pixels with the data of one.
    let mut bomb = encoded(&flag(1, 1), ImageFormat::Png);
    bomb[16..24].copy_from_slice(&[0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0]);
    let checksum = crc32(&bomb[12..29]).to_be_bytes();
    bomb[29..33].copy_from_slice(&checksum);
    let run = run(bomb, &[]);
    let failure = run.failure().expect("10 billion pixels are too many");
    assert_eq!((failure.code(), failure.is_retry()), ("image-too-large", false));
    assert!(failure.message().starts_with("100000x100000 pixels"), "{failure:?}");
}

#[test]
fn the_size_limit_is_the_operators_choice_and_holds_at_its_edge() {
    let body = encoded(&flag(10, 10), ImageFormat::Png);
    let with = |limit| Host::new().config("max-decoded-bytes", limit).run(resize, job("t").body(body.clone()));
    assert!(with("300").failure().is_none());
    assert_eq!(with("299").failure().map(Failure::code), Some("image-too-large"));
}

/// The checksum of a PNG chunk (ISO 3309).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
