//! Stands for the runner in tests: set `state`, call `run`, and look at `state`.

const std = @import("std");
const gristmill = @import("gristmill.zig");

pub const Line = struct { level: gristmill.Level, message: []const u8, fields: []const gristmill.Pair };

pub const State = struct {
    /// What the runner knows and grants.
    now: u64 = 1_767_225_600_000,
    cancelled: bool = false,
    /// How enqueueing is refused, such as `error.EnqueueDenied`.
    enqueue_error: ?gristmill.EnqueueError = null,
    checkpoint_error: ?gristmill.CheckpointError = null,
    settings: []const gristmill.Pair = &.{},
    secrets: []const gristmill.Pair = &.{},
    /// Of the job.
    key: ?[]const u8 = null,
    /// Of the key: before a run, and after it what a completed attempt left.
    kept: ?[]const u8 = null,
    /// The most bytes that it may have.
    kept_limit: usize = 65_536,
    /// To the first requests, one after the other: an answer, or an error such as `error.HttpTimeout`.
    answers: []const gristmill.HttpError!gristmill.Response = &.{},
    /// To all others; null grants none.
    response: ?gristmill.Response = null,

    /// What the handler did.
    enqueued: std.ArrayList(gristmill.NewJob) = .empty,
    requests: std.ArrayList(gristmill.Request) = .empty,
    lines: std.ArrayList(Line) = .empty,
    checkpoint: ?[]const u8 = null,
    progress: ?u32 = null,
};

pub var state: State = .{};

var arena: std.heap.ArenaAllocator = .init(std.testing.allocator);

/// One attempt at a job with this body, at the topic `test`. All memory is good until `reset`.
pub fn run(comptime handler: anytype, body: []const u8, attempt: u32) gristmill.Ending {
    const before = state.kept;
    const ending = gristmill.attempt(handler, arena.allocator(), .{
        .id = "01K00000000000000000000000",
        .tenant = "default",
        .topic = "test",
        .body = .{ .data = body },
        .key = state.key,
        .attempt = attempt,
        .max_attempts = 5,
        .enqueued_at = state.now,
        .due_at = state.now,
        .deadline = state.now + 30_000,
    });
    if (ending != .complete) state.kept = before;
    return ending;
}

/// Forgets everything, also what was granted.
pub fn reset() void {
    state = .{};
    _ = arena.reset(.free_all);
}

fn copy(data: []const u8) []const u8 {
    return arena.allocator().dupe(u8, data) catch @panic("out of memory");
}

fn copyPairs(pairs: []const gristmill.Pair) []const gristmill.Pair {
    const list = arena.allocator().alloc(gristmill.Pair, pairs.len) catch @panic("out of memory");
    for (list, pairs) |*to, pair| to.* = .{ .name = copy(pair.name), .value = copy(pair.value) };
    return list;
}

fn find(pairs: []const gristmill.Pair, name: []const u8) ?[]const u8 {
    for (pairs) |pair| {
        if (std.mem.eql(u8, pair.name, name)) return pair.value;
    }
    return null;
}

pub fn now() u64 {
    return state.now;
}

pub fn fuelRemaining() u64 {
    return 1_000_000_000_000;
}

pub fn isCancelled() bool {
    return state.cancelled;
}

pub fn checkpoint(bytes: []const u8) gristmill.CheckpointError!void {
    if (state.checkpoint_error) |cause| return cause;
    state.checkpoint = copy(bytes);
}

pub fn getState() gristmill.StateError!?[]const u8 {
    if (state.key == null) return error.NoKey;
    return state.kept;
}

pub fn setState(bytes: ?[]const u8) gristmill.StateError!void {
    if (state.key == null) return error.NoKey;
    if (bytes) |some| if (some.len > state.kept_limit) return error.StateTooLarge;
    state.kept = if (bytes) |some| copy(some) else null;
}

pub fn progress(basis_points: u32, _: ?[]const u8) void {
    state.progress = basis_points;
}

pub fn enqueue(job: gristmill.NewJob, problem: *[]const u8) gristmill.EnqueueError![]const u8 {
    if (state.enqueue_error) |cause| {
        problem.* = "the fake was told to refuse";
        return cause;
    }
    const after = arena.allocator().alloc([]const u8, job.after_jobs.len) catch @panic("out of memory");
    for (after, job.after_jobs) |*to, id| to.* = copy(id);
    var kept = job;
    kept.after_jobs = after;
    state.enqueued.append(arena.allocator(), kept) catch @panic("out of memory");
    return std.fmt.allocPrint(arena.allocator(), "01K1{d:0>22}", .{state.enqueued.items.len}) catch @panic("out of memory");
}

pub fn send(request: gristmill.Request, problem: *[]const u8) gristmill.HttpError!gristmill.Response {
    const at = state.requests.items.len;
    state.requests.append(arena.allocator(), request) catch @panic("out of memory");
    problem.* = "the fake answers no requests";
    if (at < state.answers.len) return state.answers[at];
    return state.response orelse error.HttpDenied;
}

pub fn log(level: gristmill.Level, message: []const u8, fields: []const gristmill.Pair) void {
    const line: Line = .{ .level = level, .message = copy(message), .fields = copyPairs(fields) };
    state.lines.append(arena.allocator(), line) catch @panic("out of memory");
}

pub fn config(name: []const u8) ?[]const u8 {
    return find(state.settings, name);
}

pub fn secret(name: []const u8) ?[]const u8 {
    return find(state.secrets, name);
}
