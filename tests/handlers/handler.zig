//! What the tests of all languages ask for, by the body: a batch of jobs, a request over HTTP, the state of a key and bad ends.
const std = @import("std");
const gristmill = @import("gristmill");
pub const panic = gristmill.panic;

comptime {
    gristmill.exportHandler(handle);
}

fn handle(arena: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    const body = job.body.data;
    if (std.meta.stringToEnum(Link, body)) |asked| return link(job, asked);
    if (std.mem.indexOfScalar(u8, body, ' ')) |space| return request(arena, body, space);
    return count(arena, job);
}

const Link = enum { fan, gather, wrong, bad, good };

fn link(job: gristmill.Job, asked: Link) !gristmill.Ending {
    switch (asked) {
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
        .bad, .good => return gristmill.reject("bad", "as requested"),
    }
}

/// Sends the request that the body names, such as `GET http://…`; the result is what came back.
fn request(arena: std.mem.Allocator, body: []const u8, space: usize) !gristmill.Ending {
    var asked: gristmill.Request = .{ .method = body[0..space], .url = body[space + 1 ..], .redirects = 1 };
    if (std.mem.eql(u8, asked.method, "POST")) {
        asked.headers = &.{ .{ .name = "x-kept", .value = "1" }, .{ .name = "x-kept", .value = "2" } };
        asked.body = "hello";
        asked.timeout = 20_000;
    }
    if (std.mem.eql(u8, asked.method, "SLOW")) {
        asked.method = "GET";
        asked.timeout = 50;
    }
    const answer = try gristmill.send(asked);
    const said = try std.fmt.allocPrint(arena, "{d} {s} {s}", .{ answer.status, answer.header("X-A") orelse "", answer.body });
    return gristmill.complete(.text(said));
}

fn deep(before: *const volatile u32) u32 {
    var here: u32 = before.* +% 1;
    const place: *volatile u32 = &here;
    return deep(place) +% place.*;
}

/// Counts the jobs of a key in its state.
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
