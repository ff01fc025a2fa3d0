//! The contract of wit/job.wit by hand: the component model's canonical ABI. An extern struct lies in memory as the ABI
//! wants a record; a string or list is its address and length, an option a byte and the value.

const std = @import("std");
const gristmill = @import("gristmill.zig");

const List = extern struct {
    ptr: ?[*]const u8 = null,
    len: usize = 0,

    /// The address of an empty slice may be any; the host wants one within the memory.
    fn of(data: []const u8) List {
        return if (data.len == 0) .{} else .{ .ptr = data.ptr, .len = data.len };
    }

    fn slice(list: List) []const u8 {
        return if (list.ptr) |ptr| ptr[0..list.len] else "";
    }
};

const OptionList = extern struct {
    some: bool = false,
    list: List = .{},

    fn of(data: ?[]const u8) OptionList {
        return if (data) |some| .{ .some = true, .list = .of(some) } else .{};
    }

    fn slice(option: OptionList) ?[]const u8 {
        return if (option.some) option.list.slice() else null;
    }
};

const OptionU64 = extern struct {
    some: bool = false,
    value: u64 = 0,

    fn of(value: ?u64) OptionU64 {
        return if (value) |some| .{ .some = true, .value = some } else .{};
    }
};

const Payload = extern struct {
    data: List = .{},
    content_type: OptionList = .{},

    fn of(payload: gristmill.Payload) Payload {
        return .{ .data = .of(payload.data), .content_type = .of(payload.content_type) };
    }
};

const OptionPayload = extern struct {
    some: bool = false,
    payload: Payload = .{},

    fn of(payload: ?gristmill.Payload) OptionPayload {
        return if (payload) |some| .{ .some = true, .payload = .of(some) } else .{};
    }
};

const Pair = extern struct { name: List, value: List };
const PairList = extern struct { ptr: ?[*]const Pair = null, len: usize = 0 };
const TextList = extern struct { ptr: ?[*]const List = null, len: usize = 0 };

const Job = extern struct {
    id: List,
    tenant: List,
    topic: List,
    body: Payload,
    metadata: PairList,
    key: OptionList,
    attempt: u32,
    max_attempts: u32,
    enqueued_at: u64,
    due_at: u64,
    deadline: u64,
    checkpoint: OptionList,
};

const NewJob = extern struct {
    topic: List,
    body: Payload,
    metadata: PairList,
    key: OptionList,
    not_before: OptionU64,
    unique: OptionList,
    priority: u8,
    unique_window: OptionU64,
};

/// The two parameters of `enqueue-linked`: what does not fit into registers lies in memory like a record.
const Linked = extern struct { job: NewJob, links: Links };
const Links = extern struct { after: TextList, after_failed: u8, batch: OptionList, open: bool };

/// result<outcome, failure>
const Ending = extern struct {
    failed: bool = false,
    second: bool align(8) = false, // snoozed, or rejected
    case: extern union { result: OptionPayload, snooze: u64, failure: Failure } align(8) = .{ .result = .{} },
};

const Failure = extern struct { code: List, message: List, context: OptionPayload, after: OptionU64 };

/// result<string, linked-error>
const Enqueued = extern struct {
    failed: bool = false,
    case: extern union { id: List, cause: u8 } align(8) = .{ .id = .{} },
    said: extern union { limit: u64, problem: List } align(8) = .{ .limit = 0 },
};

/// result<_, checkpoint-error>
const Checkpointed = extern struct { failed: bool = false, unavailable: bool align(8) = false, limit: u64 = 0 };

/// result<option<list<u8>>, state-error>, or result<_, state-error>
const State = extern struct {
    failed: bool = false,
    case: extern union { state: OptionList, cause: u8 } align(8) = .{ .state = .{} },
    _: u32 = 0,

    fn check(answer: State) gristmill.StateError!void {
        if (answer.failed) return switch (answer.case.cause) {
            0 => error.NoKey,
            1 => error.StateTooLarge,
            else => error.StateUnavailable,
        };
    }
};

/// result<response, http-error>
const Answered = extern struct {
    failed: bool = false,
    case: extern union {
        response: extern struct { status: u16, headers: PairList, body: List, url: List },
        refusal: extern struct { kind: u8, said: extern union { text: List, number: u64 } align(8) },
    } align(8) = .{ .refusal = .{ .kind = 0, .said = .{ .number = 0 } } },
};

comptime {
    std.debug.assert(@sizeOf(Answered) == 40 and @offsetOf(Answered, "case") == 8);
    std.debug.assert(@sizeOf(Job) == 112 and @offsetOf(Job, "attempt") == 64 and @offsetOf(Job, "checkpoint") == 96);
    std.debug.assert(@sizeOf(NewJob) == 96 and @offsetOf(NewJob, "priority") == 76);
    std.debug.assert(@sizeOf(Links) == 28 and @offsetOf(Links, "batch") == 12 and @offsetOf(Linked, "links") == 96);
    std.debug.assert(@sizeOf(Ending) == 72 and @offsetOf(Ending, "case") == 16 and @offsetOf(Failure, "after") == 40);
    std.debug.assert(@sizeOf(Enqueued) == 24 and @sizeOf(Checkpointed) == 24 and @sizeOf(State) == 24);
}

const imports = struct {
    extern "gristmill:job/context@0.1.0" fn now() u64;
    extern "gristmill:job/context@0.1.0" fn @"fuel-remaining"() u64;
    extern "gristmill:job/context@0.1.0" fn @"is-cancelled"() bool;
    extern "gristmill:job/context@0.1.0" fn checkpoint(state: ?[*]const u8, len: usize, answer: *Checkpointed) void;
    extern "gristmill:job/context@0.1.0" fn progress(basis_points: u32, some: bool, note: ?[*]const u8, len: usize) void;
    extern "gristmill:job/queue@0.1.0" fn @"enqueue-linked"(linked: *const Linked, answer: *Enqueued) void;
    const of_key = struct {
        extern "gristmill:job/state@0.1.0" fn get(answer: *State) void;
        extern "gristmill:job/state@0.1.0" fn set(some: bool, value: ?[*]const u8, len: usize, answer: *State) void;
    };
    extern "gristmill:job/http@0.1.0" fn send(
        method: ?[*]const u8,
        method_len: usize,
        url: ?[*]const u8,
        url_len: usize,
        headers: ?[*]const Pair,
        header_count: usize,
        has_body: bool,
        body: ?[*]const u8,
        body_len: usize,
        has_timeout: bool,
        timeout: u64,
        redirects: u32,
        answer: *Answered,
    ) void;
    extern "gristmill:job/log@0.1.0" fn emit(level: u32, message: ?[*]const u8, len: usize, fields: ?[*]const Pair, count: usize) void;
    extern "gristmill:job/log@0.1.0" fn enabled(level: u32) bool;
    extern "gristmill:job/config@0.1.0" fn get(name: ?[*]const u8, len: usize, answer: *OptionList) void;
    extern "gristmill:job/config@0.1.0" fn secret(name: ?[*]const u8, len: usize, answer: *OptionList) void;
};

/// All memory of an attempt: the host's, the handler's, ours.
var arena: std.heap.ArenaAllocator = .init(std.heap.wasm_allocator);

/// A handler has no way to go on without memory; the host sees that it was refused.
fn alloc(comptime T: type, count: usize) []T {
    return arena.allocator().alloc(T, count) catch @trap();
}

pub fn exportHandler(comptime handler: anytype) void {
    const exports = struct {
        fn handle(wire: *const Job) callconv(.c) *const Ending {
            const ending = alloc(Ending, 1);
            ending[0] = write(gristmill.attempt(handler, arena.allocator(), read(wire)));
            return &ending[0];
        }

        /// Called once the host has read the ending.
        fn postHandle(_: *const Ending) callconv(.c) void {
            _ = arena.reset(.retain_capacity);
        }

        /// Where the host puts what it hands over.
        fn realloc(old: [*]const u8, old_size: usize, _: usize, size: usize) callconv(.c) [*]u8 {
            if (size == 0) return @ptrFromInt(8); // aligned, and within the memory
            const memory = arena.allocator().alignedAlloc(u8, .@"8", size) catch @trap();
            const kept = @min(old_size, size);
            @memcpy(memory[0..kept], old[0..kept]);
            return memory.ptr;
        }
    };
    @export(&exports.handle, .{ .name = "gristmill:job/handler@0.1.0#handle" });
    @export(&exports.postHandle, .{ .name = "cabi_post_gristmill:job/handler@0.1.0#handle" });
    @export(&exports.realloc, .{ .name = "cabi_realloc" });
}

fn read(wire: *const Job) gristmill.Job {
    return .{
        .id = wire.id.slice(),
        .tenant = wire.tenant.slice(),
        .topic = wire.topic.slice(),
        .body = .{ .data = wire.body.data.slice(), .content_type = wire.body.content_type.slice() },
        .metadata = readPairs(wire.metadata),
        .key = wire.key.slice(),
        .attempt = wire.attempt,
        .max_attempts = wire.max_attempts,
        .enqueued_at = wire.enqueued_at,
        .due_at = wire.due_at,
        .deadline = wire.deadline,
        .checkpoint = wire.checkpoint.slice(),
    };
}

fn readPairs(list: PairList) []const gristmill.Pair {
    const pairs = alloc(gristmill.Pair, list.len);
    for (pairs, 0..) |*pair, i| {
        const from = list.ptr.?[i];
        pair.* = .{ .name = from.name.slice(), .value = from.value.slice() };
    }
    return pairs;
}

fn write(ending: gristmill.Ending) Ending {
    return switch (ending) {
        .complete => |result| .{ .case = .{ .result = .of(result) } },
        .snooze => |wait| .{ .second = true, .case = .{ .snooze = wait } },
        .retry => |failure| .{ .failed = true, .case = .{ .failure = writeFailure(failure) } },
        .reject => |failure| .{ .failed = true, .second = true, .case = .{ .failure = writeFailure(failure) } },
    };
}

fn writeFailure(failure: gristmill.Failure) Failure {
    return .{
        .code = .of(failure.code),
        .message = .of(failure.message),
        .context = .of(failure.context),
        .after = .of(failure.after),
    };
}

fn writePairs(pairs: []const gristmill.Pair) PairList {
    if (pairs.len == 0) return .{};
    const list = alloc(Pair, pairs.len);
    for (list, pairs) |*to, pair| to.* = .{ .name = .of(pair.name), .value = .of(pair.value) };
    return .{ .ptr = list.ptr, .len = list.len };
}

pub fn now() u64 {
    return imports.now();
}

pub fn fuelRemaining() u64 {
    return imports.@"fuel-remaining"();
}

pub fn isCancelled() bool {
    return imports.@"is-cancelled"();
}

pub fn checkpoint(state: []const u8) gristmill.CheckpointError!void {
    var answer: Checkpointed = .{};
    const list: List = .of(state);
    imports.checkpoint(list.ptr, list.len, &answer);
    if (answer.failed) return if (answer.unavailable) error.CheckpointUnavailable else error.CheckpointTooLarge;
}

pub fn getState() gristmill.StateError!?[]const u8 {
    var answer: State = .{};
    imports.of_key.get(&answer);
    try answer.check();
    return answer.case.state.slice();
}

pub fn setState(state: ?[]const u8) gristmill.StateError!void {
    var answer: State = .{};
    const option: OptionList = .of(state);
    imports.of_key.set(option.some, option.list.ptr, option.list.len, &answer);
    try answer.check();
}

pub fn progress(basis_points: u32, note: ?[]const u8) void {
    const text: OptionList = .of(note);
    imports.progress(basis_points, text.some, text.list.ptr, text.list.len);
}

/// `problem` is what the runner said of the links.
pub fn enqueue(job: gristmill.NewJob, problem: *[]const u8) gristmill.EnqueueError![]const u8 {
    var answer: Enqueued = .{};
    const after = alloc(List, job.after_jobs.len);
    for (after, job.after_jobs) |*to, id| to.* = .of(id);
    imports.@"enqueue-linked"(&.{
        .job = .{
            .topic = .of(job.topic),
            .body = .of(job.body),
            .metadata = writePairs(job.metadata),
            .key = .of(job.key),
            .not_before = .of(job.not_before),
            .unique = .of(job.unique),
            .priority = @intFromEnum(job.priority),
            .unique_window = .of(job.unique_window),
        },
        .links = .{
            .after = if (after.len == 0) .{} else .{ .ptr = after.ptr, .len = after.len },
            .after_failed = @intFromEnum(job.after_failed),
            .batch = .of(job.batch),
            .open = job.open,
        },
    }, &answer);
    if (!answer.failed) return answer.case.id.slice();
    return switch (answer.case.cause) {
        0 => error.EnqueueDenied,
        1 => error.EnqueueTooLarge,
        2 => error.EnqueueTooMany,
        3 => error.UnknownTopic,
        else => {
            problem.* = answer.said.problem.slice();
            return error.InvalidLinks;
        },
    };
}

/// `problem` is what the runner said in place of an answer.
pub fn send(request: gristmill.Request, problem: *[]const u8) gristmill.HttpError!gristmill.Response {
    var answer: Answered = .{};
    const method: List = .of(request.method);
    const url: List = .of(request.url);
    const headers = writePairs(request.headers);
    const body: OptionList = .of(request.body);
    const timeout: OptionU64 = .of(request.timeout);
    imports.send(
        method.ptr,
        method.len,
        url.ptr,
        url.len,
        headers.ptr,
        headers.len,
        body.some,
        body.list.ptr,
        body.list.len,
        timeout.some,
        timeout.value,
        request.redirects,
        &answer,
    );
    if (!answer.failed) {
        const response = answer.case.response;
        return .{
            .status = response.status,
            .headers = readPairs(response.headers),
            .body = response.body.slice(),
            .url = response.url.slice(),
        };
    }
    const refusal = answer.case.refusal;
    switch (refusal.kind) {
        2 => return error.HttpTimeout,
        3 => return error.HttpTooLarge,
        4 => return error.HttpTooMany,
        else => problem.* = refusal.said.text.slice(),
    }
    return switch (refusal.kind) {
        0 => error.HttpDenied,
        1 => error.HttpInvalid,
        else => error.HttpUnreachable,
    };
}

pub fn log(level: gristmill.Level, message: []const u8, fields: []const gristmill.Pair) void {
    const text: List = .of(message);
    const list = writePairs(fields);
    imports.emit(@intFromEnum(level), text.ptr, text.len, list.ptr, list.len);
}

pub fn logEnabled(level: gristmill.Level) bool {
    return imports.enabled(@intFromEnum(level));
}

pub fn config(name: []const u8) ?[]const u8 {
    var answer: OptionList = .{};
    const text: List = .of(name);
    imports.get(text.ptr, text.len, &answer);
    return answer.slice();
}

pub fn secret(name: []const u8) ?[]const u8 {
    var answer: OptionList = .{};
    const text: List = .of(name);
    imports.secret(text.ptr, text.len, &answer);
    return answer.slice();
}
