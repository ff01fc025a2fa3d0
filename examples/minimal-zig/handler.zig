const std = @import("std");
const gristmill = @import("gristmill");
pub const panic = gristmill.panic;

comptime {
    gristmill.exportHandler(greet);
}

pub fn greet(arena: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    const Body = struct { name: []const u8 };
    const body = try job.json(Body, arena) orelse return gristmill.reject("bad-payload", "the body is no JSON with a name");
    gristmill.info("greet", .{ .name = body.name });
    return gristmill.complete(try .json(arena, .{ .hello = body.name }));
}
