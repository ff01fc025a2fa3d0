//! What a handler of Gristmill, the job runner, is written with.
//!
//! A handler is one function. It gets a job and says how the attempt ended; an error is a retry, with the code `error`.
//!
//!     const gristmill = @import("gristmill");
//!     pub const panic = gristmill.panic;
//!     comptime {
//!         gristmill.exportHandler(handle);
//!     }
//!     fn handle(arena: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
//!         gristmill.info("order", .{ .id = job.id });
//!         return gristmill.complete(try .json(arena, .{ .paid = true }));
//!     }
//!
//! Memory of the arena, and all that these functions return, is freed together when the attempt is over.

const builtin = @import("builtin");
const std = @import("std");
const Allocator = std.mem.Allocator;

/// The runner. A test has `fake` in its place.
const contract = @import("contract.zig");
const is_component = builtin.cpu.arch.isWasm();

/// Stands for the runner in tests.
pub const fake = @import("fake.zig");

/// Bytes and the format they are in: a media type such as `application/json`; null means opaque octets.
pub const Payload = struct {
    data: []const u8 = "",
    content_type: ?[]const u8 = null,

    /// Any value as `std.json` writes it.
    pub fn json(arena: Allocator, value: anytype) Allocator.Error!Payload {
        return .{ .data = try std.json.Stringify.valueAlloc(arena, value, .{}), .content_type = "application/json" };
    }

    pub fn text(data: []const u8) Payload {
        return .{ .data = data, .content_type = "text/plain; charset=utf-8" };
    }
};

/// An entry of a job's metadata, or a field of a log line.
pub const Pair = struct { name: []const u8, value: []const u8 };

/// All that a handler may observe about its input. Times are milliseconds since 1970 by the store's clock.
pub const Job = struct {
    /// A ULID, 26 characters; the same on every attempt.
    id: []const u8,
    tenant: []const u8,
    topic: []const u8,
    body: Payload,
    /// In order; names may repeat.
    metadata: []const Pair = &.{},
    /// Jobs of the topic with the same key run one at a time and in order.
    key: ?[]const u8 = null,
    /// 1 on the first delivery.
    attempt: u32,
    max_attempts: u32,
    enqueued_at: u64,
    due_at: u64,
    /// The hard limit of this attempt.
    deadline: u64,
    /// What an earlier attempt saved with `checkpoint`.
    checkpoint: ?[]const u8 = null,

    /// The body as JSON: a struct, or `std.json.Value`. Of equal names the last counts, and unknown ones are ignored.
    /// Null if it is no JSON, does not fit, or is nested more than 128 deep: the parser of a struct recurses.
    pub fn json(job: Job, comptime T: type, arena: Allocator) Allocator.Error!?T {
        if (nestedDeeper(job.body.data, 128)) return null;
        const options: std.json.ParseOptions = .{ .duplicate_field_behavior = .use_last, .ignore_unknown_fields = true };
        return std.json.parseFromSliceLeaky(T, arena, job.body.data, options) catch |cause| switch (cause) {
            error.OutOfMemory => error.OutOfMemory,
            else => null,
        };
    }

    /// The first value of this name in the metadata.
    pub fn meta(job: Job, name: []const u8) ?[]const u8 {
        for (job.metadata) |pair| {
            if (std.mem.eql(u8, pair.name, name)) return pair.value;
        }
        return null;
    }
};

fn nestedDeeper(data: []const u8, limit: usize) bool {
    var depth: usize = 0;
    var quoted = false;
    var i: usize = 0;
    while (i < data.len) : (i += 1) switch (data[i]) {
        '"' => quoted = !quoted,
        '\\' => if (quoted) {
            i += 1;
        },
        '[', '{' => if (!quoted) {
            depth += 1;
            if (depth > limit) return true;
        },
        ']', '}' => if (!quoted) {
            depth -|= 1;
        },
        else => {},
    };
    return false;
}

/// How an attempt ended.
pub const Ending = union(enum) {
    /// Done. The payload, if any, is kept as the job's result.
    complete: ?Payload,
    /// Neither finished nor failed: run this job again after so many milliseconds. The attempt does not count.
    snooze: u64,
    /// Another try may help.
    retry: Failure,
    /// Another try would end the same: to the dead letters at once.
    reject: Failure,
};

pub const Failure = struct {
    /// Stable and for machines, such as `upstream-timeout`.
    code: []const u8,
    /// For people.
    message: []const u8,
    /// Anything worth keeping with the attempt.
    context: ?Payload = null,
    /// Of a retry: after so many milliseconds, instead of the topic's backoff.
    after: ?u64 = null,
};

pub fn complete(result: ?Payload) Ending {
    return .{ .complete = result };
}

pub fn retry(code: []const u8, message: []const u8) Ending {
    return .{ .retry = .{ .code = code, .message = message } };
}

pub fn reject(code: []const u8, message: []const u8) Ending {
    return .{ .reject = .{ .code = code, .message = message } };
}

/// `trace`, `debug`, `info`, `warn`, `err`.
pub const Level = contract.Level;

/// Writes a line to the job's log. The runner adds tenant, topic, job and attempt. `fields` is a struct of texts.
pub fn log(level: Level, message: []const u8, fields: anytype) void {
    const names = comptime std.meta.fieldNames(@TypeOf(fields));
    var pairs: [names.len]Pair = undefined;
    inline for (names, &pairs) |name, *pair| pair.* = .{ .name = name, .value = @field(fields, name) };
    if (is_component) contract.log.emit(level, message, &pairs) else fake.log(level, message, &pairs);
}

pub fn debug(message: []const u8, fields: anytype) void {
    if (!is_component or contract.log.enabled(.debug)) log(.debug, message, fields);
}

pub fn info(message: []const u8, fields: anytype) void {
    log(.info, message, fields);
}

pub fn warn(message: []const u8, fields: anytype) void {
    log(.warn, message, fields);
}

pub fn err(message: []const u8, fields: anytype) void {
    log(.err, message, fields);
}

/// Which of a topic's ready jobs come first: `high`, `normal`, `low`. Low ones wait longer, but not for ever.
pub const Priority = contract.Priority;

/// A follow-up job of the same tenant.
pub const NewJob = struct {
    topic: []const u8,
    body: Payload = .{},
    metadata: []const Pair = &.{},
    /// Jobs of the topic with the same key run one at a time and in order.
    key: ?[]const u8 = null,
    /// When it becomes due, in milliseconds since 1970; at once if null.
    not_before: ?u64 = null,
    /// One job per topic and value: until it is done, or for the window, in milliseconds.
    unique: ?[]const u8 = null,
    priority: Priority = .normal,
    unique_window: ?u64 = null,
    /// Ids of jobs that have to end first, such as that of the job that runs, or what `enqueue` returned before.
    after_jobs: []const []const u8 = &.{},
    /// What becomes of it if one of those was not done.
    after_failed: AfterFailed = .dead,
    /// Id of a job that waits, and waits for this one, too.
    batch: ?[]const u8 = null,
    /// It waits until `gristmill job seal` or the HTTP API seals it, and all jobs that have it as their batch have ended.
    open: bool = false,
};

/// `dead`: it is dead, too; or `run`.
pub const AfterFailed = contract.AfterFailed;

pub const EnqueueError = error{ EnqueueDenied, EnqueueTooLarge, EnqueueTooMany, UnknownTopic, InvalidLinks };

/// What is wrong with the links that the runner refused last, or with the topic.
var enqueue_problem: []const u8 = "";

/// Hands a follow-up job to the runner and returns the id that it will have. Nothing is visible to anyone until the handler
/// returns, and then only if the attempt did not fail. A refused job leaves the others as they are. An error that the handler returns
/// rejects the job if another try would end the same, and else retries it; its code is `enqueue-failed`.
pub fn enqueue(job: NewJob) EnqueueError![]const u8 {
    if (!is_component) return fake.enqueue(job, &enqueue_problem);
    const links: contract.Links = .{
        .after = job.after_jobs,
        .after_failed = job.after_failed,
        .batch = job.batch,
        .open = job.open,
    };
    return switch (contract.queue.enqueueLinked(job, links)) {
        .ok => |id| id,
        .err => |cause| switch (cause) {
            .denied => error.EnqueueDenied,
            .too_large => error.EnqueueTooLarge,
            .too_many => error.EnqueueTooMany,
            .unknown_topic => {
                const words = [_][]const u8{ "there is no topic `", job.topic, "` to enqueue to; name it under `topics` in the manifest" };
                enqueue_problem = std.mem.concat(contract.arena.allocator(), u8, &words) catch words[0];
                return error.UnknownTopic;
            },
            .invalid_links => |problem| {
                enqueue_problem = problem;
                return error.InvalidLinks;
            },
        },
    };
}

/// A request over HTTP, to a host that the manifest grants this topic.
pub const Request = struct {
    method: []const u8 = "GET",
    /// Absolute, without user, password and fragment.
    url: []const u8,
    /// Names may repeat. `host`, `content-length`, `connection` and their like are the runner's to set.
    headers: []const Pair = &.{},
    body: ?[]const u8 = null,
    /// Milliseconds for all of it, redirects included. Null, or more than the topic is granted: what it is granted.
    timeout: ?u64 = null,
    /// To follow, 20 at most. Otherwise a redirect is an answer like any other.
    redirects: u32 = 0,
};

/// A whole answer, whatever its status.
pub const Response = struct {
    status: u16,
    /// Names in lower case, in order; they may repeat.
    headers: []const Pair = &.{},
    body: []const u8 = "",
    /// Where the answer came from.
    url: []const u8 = "",

    /// The first value of this header, in whatever case it is asked for.
    pub fn header(response: Response, name: []const u8) ?[]const u8 {
        for (response.headers) |pair| {
            if (std.ascii.eqlIgnoreCase(pair.name, name)) return pair.value;
        }
        return null;
    }
};

pub const HttpError = error{ HttpDenied, HttpInvalid, HttpTimeout, HttpTooLarge, HttpTooMany, HttpUnreachable };

/// What the runner said of the last request that got no answer.
var http_problem: []const u8 = "";

/// Sends a request and waits for the whole answer. An error that the handler returns rejects the job if another try would end
/// the same, and else retries it; its code is such as `http-denied`. A component that calls this imports `gristmill:job/http`, and
/// runs only in topics that grant requests.
pub fn send(request: Request) HttpError!Response {
    if (!is_component) return fake.send(request, &http_problem);
    const cause = switch (contract.http.send(request)) {
        .ok => |response| return response,
        .err => |cause| cause,
    };
    switch (cause) {
        .denied, .invalid, .@"unreachable" => |problem| http_problem = problem,
        else => {},
    }
    return switch (cause) {
        .denied => error.HttpDenied,
        .invalid => error.HttpInvalid,
        .timeout => error.HttpTimeout,
        .too_large => error.HttpTooLarge,
        .too_many => error.HttpTooMany,
        .@"unreachable" => error.HttpUnreachable,
    };
}

/// What an error that a handler returned makes of the attempt.
fn failed(cause: anyerror) Ending {
    return switch (cause) {
        error.HttpDenied => reject("http-denied", http_problem),
        error.HttpInvalid => reject("http-invalid", http_problem),
        error.HttpTimeout => retry("http-timeout", "no answer in time"),
        error.HttpTooLarge => reject("http-too-large", "the request or its answer is larger than the topic is granted"),
        error.HttpTooMany => reject("http-too-many", "the attempt has sent as many requests as the topic is granted"),
        error.HttpUnreachable => retry("http-unreachable", http_problem),
        error.EnqueueDenied => reject("enqueue-failed", "the manifest does not let this topic enqueue to that one"),
        error.EnqueueTooLarge => reject("enqueue-failed", "the body is larger than that topic accepts"),
        error.EnqueueTooMany => reject("enqueue-failed", "one attempt may not enqueue so many jobs"),
        error.UnknownTopic => retry("enqueue-failed", enqueue_problem),
        error.InvalidLinks => reject("enqueue-failed", enqueue_problem),
        error.CheckpointTooLarge => reject("checkpoint-failed", "the checkpoint is larger than the topic allows"),
        error.CheckpointUnavailable => retry("checkpoint-failed", "the checkpoint cannot be saved now"),
        error.NoKey => reject("no-key", "the job has no key, so it has no state: push it with one"),
        error.StateTooLarge => reject("state-too-large", "the state is larger than the topic allows"),
        error.StateUnavailable => retry("state-unavailable", "the state cannot be read now"),
        else => retry("error", @errorName(cause)),
    };
}

/// The store's clock, in milliseconds since 1970.
pub fn now() u64 {
    return if (is_component) contract.context.now() else fake.now();
}

/// What this attempt may still spend; about one unit an instruction.
pub fn fuelRemaining() u64 {
    return if (is_component) contract.context.fuelRemaining() else fake.fuelRemaining();
}

/// Whether the job was cancelled or the runner is ending. Who never asks is stopped at the deadline.
pub fn isCancelled() bool {
    return if (is_component) contract.context.isCancelled() else fake.isCancelled();
}

pub const CheckpointError = error{ CheckpointTooLarge, CheckpointUnavailable };

/// Saves a state durably: the next attempt finds it in the job's `checkpoint`. An error that the handler returns has the code
/// `checkpoint-failed`, and rejects the job if the state is too large.
pub fn checkpoint(state: []const u8) CheckpointError!void {
    if (!is_component) return fake.checkpoint(state);
    return switch (contract.context.checkpoint(state)) {
        .ok => {},
        .err => |cause| switch (cause) {
            .too_large => error.CheckpointTooLarge,
            .unavailable => error.CheckpointUnavailable,
        },
    };
}

/// The job has no key; the state is larger than the topic allows; the store did not answer.
pub const StateError = error{ NoKey, StateTooLarge, StateUnavailable };

/// What earlier jobs of this job's key left; null if there is nothing. After `setState`, what that said. Of the jobs of a key one runs at a
/// time. A component that uses it imports gristmill:job/state, and runs only in topics with state = true.
pub fn getState() StateError!?[]const u8 {
    if (!is_component) return fake.getState();
    return switch (contract.state.get()) {
        .ok => |state| state,
        .err => |cause| stateError(cause),
    };
}

/// Has the state be these bytes once the job has completed, or not at all; null deletes it. The last call counts.
pub fn setState(bytes: ?[]const u8) StateError!void {
    if (!is_component) return fake.setState(bytes);
    return switch (contract.state.set(bytes)) {
        .ok => {},
        .err => |cause| stateError(cause),
    };
}

fn stateError(cause: contract.StateError) StateError {
    return switch (cause) {
        .no_key => error.NoKey,
        .too_large => error.StateTooLarge,
        .unavailable => error.StateUnavailable,
    };
}

/// For people who watch: 0 to 10000 (basis points) and a short note.
pub fn progress(basis_points: u32, note: ?[]const u8) void {
    if (is_component) contract.context.progress(basis_points, note) else fake.progress(basis_points, note);
}

/// A setting that the manifest grants this topic; null if it does not.
pub fn config(name: []const u8) ?[]const u8 {
    return if (is_component) contract.config.get(name) else fake.config(name);
}

/// A secret that the manifest grants this topic; null if it does not.
pub fn secret(name: []const u8) ?[]const u8 {
    return if (is_component) contract.config.secret(name) else fake.secret(name);
}

/// One attempt: what the handler returns, or its error as a retry; as a reject, where another try would end the same. Without memory it ends in a trap, for which the runner
/// knows the reason.
pub fn attempt(comptime handler: anytype, arena: Allocator, job: Job) Ending {
    return handler(arena, job) catch |cause| {
        if (@as(anyerror, cause) == error.OutOfMemory) @panic("out of memory");
        return failed(cause);
    };
}

/// Makes the module a component's: to be called in a `comptime` block. Does nothing in a test.
pub fn exportHandler(comptime handler: anytype) void {
    if (!is_component) return;
    contract.exportMemory();
    contract.handler.exportHandle(struct {
        fn handle(job: Job) contract.Result(contract.Outcome, contract.Failure) {
            return switch (attempt(handler, contract.arena.allocator(), job)) {
                .complete => |result| .{ .ok = .{ .complete = result } },
                .snooze => |wait| .{ .ok = .{ .snooze = wait } },
                .retry => |failure| .{ .err = .{ .retry = .{ .value0 = detail(failure), .value1 = failure.after } } },
                .reject => |failure| .{ .err = .{ .reject = detail(failure) } },
            };
        }

        fn detail(failure: Failure) contract.FailureDetail {
            return .{ .code = failure.code, .message = failure.message, .context = failure.context };
        }
    }.handle);
}

/// A panic is a line of the log, and a trap.
pub const panic = if (is_component) std.debug.FullPanic(logPanic) else std.debug.FullPanic(std.debug.defaultPanic);

fn logPanic(message: []const u8, _: ?usize) noreturn {
    err("panic", .{ .cause = message });
    @trap();
}
