const std = @import("std");
const gristmill = @import("gristmill");
pub const panic = gristmill.panic;

comptime {
    gristmill.exportHandler(count);
}

fn deep(before: *const volatile u32) u32 {
    var here: u32 = before.* +% 1;
    const place: *volatile u32 = &here;
    return deep(place) +% place.*;
}

fn count(arena: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    const body = job.body.data;
    if (std.mem.eql(u8, body, "progress")) {
        gristmill.progress(5000, "half");
        return gristmill.complete(null);
    }
    if (std.mem.eql(u8, body, "crash")) @panic("on purpose");
    if (std.mem.eql(u8, body, "deep")) return gristmill.complete(.text(try std.fmt.allocPrint(arena, "{d}", .{deep(&@as(u32, 0))})));
    while (std.mem.eql(u8, body, "hoard")) _ = try arena.alloc(u8, 1 << 20);
    if (std.mem.eql(u8, body, "large")) try gristmill.checkpoint(&@as([2000]u8, @splat(0)));
    const before = if (try gristmill.getState()) |state| try std.fmt.parseInt(u32, state, 10) else 0;
    const seen = try std.fmt.allocPrint(arena, "{d}", .{before + 1});
    try gristmill.setState(seen);
    if (std.mem.eql(u8, body, "fail") and job.attempt == 1) return gristmill.retry("later", "after the state was set");
    return gristmill.complete(.text(seen));
}
