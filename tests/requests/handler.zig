//! Sends the request that its body names, such as `GET http://…`; the result is what came back.
const std = @import("std");
const gristmill = @import("gristmill");

pub const panic = gristmill.panic;
comptime {
    gristmill.exportHandler(handle);
}

fn handle(arena: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    const space = std.mem.indexOfScalar(u8, job.body.data, ' ').?;
    var request: gristmill.Request = .{ .method = job.body.data[0..space], .url = job.body.data[space + 1 ..], .redirects = 1 };
    if (std.mem.eql(u8, request.method, "POST")) {
        request.headers = &.{ .{ .name = "x-kept", .value = "1" }, .{ .name = "x-kept", .value = "2" } };
        request.body = "hello";
        request.timeout = 20_000;
    }
    if (std.mem.eql(u8, request.method, "SLOW")) {
        request.method = "GET";
        request.timeout = 50;
    }
    const answer = try gristmill.send(request);
    const said = try std.fmt.allocPrint(arena, "{d} {s} {s}", .{ answer.status, answer.header("X-A") orelse "", answer.body });
    return gristmill.complete(.text(said));
}
