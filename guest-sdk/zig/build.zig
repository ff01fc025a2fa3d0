//! The package for `zig build` of other projects: `b.dependency("gristmill", .{}).module("gristmill")`.

const std = @import("std");

pub fn build(b: *std.Build) void {
    _ = b.addModule("gristmill", .{ .root_source_file = b.path("gristmill.zig") });
}
