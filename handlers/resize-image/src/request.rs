//! What the producer asks for, in the job's metadata.

use gristmill_guest::{Failure, Job};
use image::ImageFormat;

/// The longer side, if the producer names neither `width` nor `height`.
const DEFAULT_SIDE: u32 = 320;

/// Bounds that the picture is fitted into, in pixels of the upright picture.
#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    /// `u32::MAX` if only the height matters.
    pub(crate) width: u32,
    /// `u32::MAX` if only the width matters.
    pub(crate) height: u32,
    /// `None` for the format of the picture itself.
    pub(crate) format: Option<ImageFormat>,
}

impl Request {
    /// Rejects an entry that cannot be read: a producer's typing error should not give a picture of some other size.
    pub(crate) fn of(job: &Job) -> Result<Self, Failure> {
        let (width, height) = match (side(job, "width")?, side(job, "height")?) {
            (None, None) => (DEFAULT_SIDE, DEFAULT_SIDE),
            (width, height) => (width.unwrap_or(u32::MAX), height.unwrap_or(u32::MAX)),
        };
        Ok(Self { width, height, format: job.meta("format").map(format).transpose()? })
    }
}

fn side(job: &Job, name: &str) -> Result<Option<u32>, Failure> {
    match job.meta_parsed(name)? {
        Some(0) => Err(Failure::reject("bad-metadata", format!("metadata {name} = 0: must be at least 1"))),
        side => Ok(side),
    }
}

fn format(name: &str) -> Result<ImageFormat, Failure> {
    match name {
        "jpeg" | "jpg" => Ok(ImageFormat::Jpeg),
        "png" => Ok(ImageFormat::Png),
        "webp" => Ok(ImageFormat::WebP),
        _ => Err(Failure::reject("bad-metadata", format!("metadata format = `{name}`: use jpeg, png or webp"))),
    }
}

#[cfg(test)]
mod tests {
    use gristmill_guest::testing::job;

    use super::*;

    #[test]
    fn one_bound_leaves_the_other_open_and_none_means_a_thumbnail() {
        let request = |entries: &[(&str, &str)]| {
            let job = entries.iter().fold(job("t"), |job, (name, value)| job.meta(name, value));
            Request::of(&job.build())
        };
        let bounds = |width, height| Ok(Request { width, height, format: None });
        assert_eq!(request(&[]), bounds(320, 320));
        assert_eq!(request(&[("width", "640")]), bounds(640, u32::MAX));
        assert_eq!(request(&[("height", "1"), ("width", "2")]), bounds(2, 1));
        for bad in [("width", "0"), ("height", "-1"), ("width", "wide"), ("format", "gif")] {
            let failure = request(&[bad]).expect_err("must not be read");
            assert!(failure.code() == "bad-metadata" && failure.message().contains(bad.0), "{failure:?}");
        }
    }
}
