const std = @import("std");
const gristmill = @import("gristmill.zig");
pub const panic = gristmill.panic;

comptime {
    gristmill.exportHandler(count);
}

fn count(arena: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    if (std.mem.eql(u8, job.body.data, "large")) try gristmill.checkpoint(&@as([2000]u8, @splat(0)));
    const before = if (try gristmill.getState()) |state| try std.fmt.parseInt(u32, state, 10) else 0;
    const seen = try std.fmt.allocPrint(arena, "{d}", .{before + 1});
    try gristmill.setState(seen);
    if (std.mem.eql(u8, job.body.data, "fail") and job.attempt == 1) return gristmill.retry("later", "after the state was set");
    return gristmill.complete(.text(seen));
}
