const std = @import("std");
const gristmill = @import("gristmill");
pub const panic = gristmill.panic;

comptime {
    gristmill.exportHandler(link);
}

fn link(_: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    const Request = enum { fan, gather, wrong };
    switch (std.meta.stringToEnum(Request, job.body.data) orelse return gristmill.reject("bad", "as requested")) {
        .fan => {
            const batch = try gristmill.enqueue(.{
                .topic = job.topic,
                .body = .text("gather"),
                .after_jobs = &.{job.id},
                .after_failed = .run,
                .open = true,
            });
            const bad = try gristmill.enqueue(.{ .topic = job.topic, .body = .text("bad"), .batch = batch });
            _ = try gristmill.enqueue(.{ .topic = job.topic, .body = .text("good"), .after_jobs = &.{bad}, .batch = batch });
            return gristmill.complete(.text(batch));
        },
        .gather => return gristmill.complete(.text(job.meta("predecessors").?)),
        .wrong => return gristmill.complete(.text(try gristmill.enqueue(.{ .topic = job.topic, .batch = "no id!" }))),
    }
}
