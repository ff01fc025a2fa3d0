//! The contract of wit/job.wit by the component model's canonical ABI. Generated: `cargo run -p gristmill-guest-abi` in Gristmill's
//! repository writes it anew.

const std = @import("std");
const sdk = @import("gristmill.zig");

/// All memory of an attempt: the host's, the handler's, ours.
pub var arena: std.heap.ArenaAllocator = .init(std.heap.wasm_allocator);

const Address = [*]u8;

/// A handler has no way to go on without memory; the host sees that it was refused.
fn block(size: usize) Address {
    if (size == 0) return @ptrFromInt(8); // aligned, and within the memory
    return (arena.allocator().alignedAlloc(u8, .@"8", size) catch @trap()).ptr;
}

/// Where the host puts what it hands over.
fn realloc(old: Address, old_size: usize, _: usize, size: usize) callconv(.c) Address {
    const memory = block(size);
    const kept = @min(old_size, size);
    @memcpy(memory[0..kept], old[0..kept]);
    return memory;
}

pub fn exportMemory() void {
    @export(&realloc, .{ .name = "cabi_realloc" });
}

fn load(comptime T: type, at: Address) T {
    return @as(*align(1) const T, @ptrCast(at)).*;
}

fn store(comptime T: type, at: Address, value: T) void {
    @as(*align(1) T, @ptrCast(at)).* = value;
}

fn liftText(at: Address) []const u8 {
    const size = load(usize, at + 4);
    return if (size == 0) "" else load(Address, at)[0..size];
}

/// The address of an empty slice may be any; the host wants one within the memory.
fn storeText(at: Address, text: []const u8) void {
    store(usize, at, if (text.len == 0) 0 else @intFromPtr(text.ptr));
    store(usize, at + 4, text.len);
}

fn liftPair(at: Address) sdk.Pair {
    return .{ .name = liftText(at), .value = liftText(at + 8) };
}

fn storePair(at: Address, pair: sdk.Pair) void {
    storeText(at, pair.name);
    storeText(at + 8, pair.value);
}

fn liftList(comptime T: type, at: Address, size: usize, comptime lift: fn (Address) T) []const T {
    const list = arena.allocator().alloc(T, load(usize, at + 4)) catch @trap();
    var item = load(Address, at);
    for (list) |*value| {
        value.* = lift(item);
        item += size;
    }
    return list;
}

fn storeList(comptime T: type, at: Address, list: []const T, size: usize, comptime storeItem: fn (Address, T) void) void {
    const items = block(list.len * size);
    store(Address, at, items);
    store(usize, at + 4, list.len);
    var item = items;
    for (list) |value| {
        storeItem(item, value);
        item += size;
    }
}

pub fn Result(comptime Ok: type, comptime Err: type) type {
    return union(enum) { ok: Ok, err: Err };
}

pub const CheckpointError = union(enum) {
    too_large: u64,
    unavailable: []const u8,
};

pub const EnqueueError = union(enum) {
    denied,
    too_large: u64,
    too_many: u32,
    unknown_topic,
};

pub const LinkedError = union(enum) {
    denied,
    too_large: u64,
    too_many: u32,
    unknown_topic,
    invalid_links: []const u8,
};

pub const HttpError = union(enum) {
    denied: []const u8,
    invalid: []const u8,
    timeout,
    too_large: u64,
    too_many: u32,
    @"unreachable": []const u8,
};

pub const StateError = union(enum) {
    no_key,
    too_large: u64,
    unavailable: []const u8,
};

pub const Priority = enum(u8) { high, normal, low };

pub const AfterFailed = enum(u8) { dead, run };

pub const Links = struct {
    after: []const []const u8,
    after_failed: AfterFailed,
    batch: ?[]const u8,
    open: bool,
};

pub const Level = enum(u8) { trace, debug, info, warn, err };

pub const Outcome = union(enum) {
    complete: ?sdk.Payload,
    snooze: u64,
};

pub const FailureDetail = struct {
    code: []const u8,
    message: []const u8,
    context: ?sdk.Payload,
};

pub const FailureRetryValue = struct {
    value0: FailureDetail,
    value1: ?u64,
};

pub const Failure = union(enum) {
    retry: FailureRetryValue,
    reject: FailureDetail,
};

fn liftCheckpointError(at: Address) CheckpointError {
    return switch (load(u8, at)) {
        0 => .{ .too_large = load(u64, at + 8) },
        else => .{ .unavailable = liftText(at + 8) },
    };
}

fn liftEnqueueError(at: Address) EnqueueError {
    return switch (load(u8, at)) {
        0 => .denied,
        1 => .{ .too_large = load(u64, at + 8) },
        2 => .{ .too_many = load(u32, at + 8) },
        else => .unknown_topic,
    };
}

fn liftLinkedError(at: Address) LinkedError {
    return switch (load(u8, at)) {
        0 => .denied,
        1 => .{ .too_large = load(u64, at + 8) },
        2 => .{ .too_many = load(u32, at + 8) },
        3 => .unknown_topic,
        else => .{ .invalid_links = liftText(at + 8) },
    };
}

fn liftResponse(at: Address) sdk.Response {
    return .{
        .status = load(u16, at),
        .headers = liftList(sdk.Pair, at + 4, 16, liftPair),
        .body = liftText(at + 12),
        .url = liftText(at + 20),
    };
}

fn liftHttpError(at: Address) HttpError {
    return switch (load(u8, at)) {
        0 => .{ .denied = liftText(at + 8) },
        1 => .{ .invalid = liftText(at + 8) },
        2 => .timeout,
        3 => .{ .too_large = load(u64, at + 8) },
        4 => .{ .too_many = load(u32, at + 8) },
        else => .{ .@"unreachable" = liftText(at + 8) },
    };
}

fn liftStateError(at: Address) StateError {
    return switch (load(u8, at)) {
        0 => .no_key,
        1 => .{ .too_large = load(u64, at + 8) },
        else => .{ .unavailable = liftText(at + 8) },
    };
}

fn liftPayload(at: Address) sdk.Payload {
    return .{
        .data = liftText(at),
        .content_type = if (load(bool, at + 8)) liftText(at + 12) else null,
    };
}

fn liftJob(at: Address) sdk.Job {
    return .{
        .id = liftText(at),
        .tenant = liftText(at + 8),
        .topic = liftText(at + 16),
        .body = liftPayload(at + 24),
        .metadata = liftList(sdk.Pair, at + 44, 16, liftPair),
        .key = if (load(bool, at + 52)) liftText(at + 56) else null,
        .attempt = load(u32, at + 64),
        .max_attempts = load(u32, at + 68),
        .enqueued_at = load(u64, at + 72),
        .due_at = load(u64, at + 80),
        .deadline = load(u64, at + 88),
        .checkpoint = if (load(bool, at + 96)) liftText(at + 100) else null,
    };
}

fn storePayload(at: Address, value: sdk.Payload) void {
    storeText(at, value.data);
    store(bool, at + 8, value.content_type != null);
    if (value.content_type) |some| storeText(at + 12, some);
}

fn storeNewJob(at: Address, value: sdk.NewJob) void {
    storeText(at, value.topic);
    storePayload(at + 8, value.body);
    storeList(sdk.Pair, at + 28, value.metadata, 16, storePair);
    store(bool, at + 36, value.key != null);
    if (value.key) |some| storeText(at + 40, some);
    store(bool, at + 48, value.not_before != null);
    if (value.not_before) |some| store(u64, at + 56, some);
    store(bool, at + 64, value.unique != null);
    if (value.unique) |some| storeText(at + 68, some);
    store(u8, at + 76, @intFromEnum(value.priority));
    store(bool, at + 80, value.unique_window != null);
    if (value.unique_window) |some| store(u64, at + 88, some);
}

fn storeLinks(at: Address, value: Links) void {
    storeList([]const u8, at, value.after, 8, storeText);
    store(u8, at + 8, @intFromEnum(value.after_failed));
    store(bool, at + 12, value.batch != null);
    if (value.batch) |some| storeText(at + 16, some);
    store(bool, at + 24, value.open);
}

fn storeRequest(at: Address, value: sdk.Request) void {
    storeText(at, value.method);
    storeText(at + 8, value.url);
    storeList(sdk.Pair, at + 16, value.headers, 16, storePair);
    store(bool, at + 24, value.body != null);
    if (value.body) |some| storeText(at + 28, some);
    store(bool, at + 40, value.timeout != null);
    if (value.timeout) |some| store(u64, at + 48, some);
    store(u32, at + 56, value.redirects);
}

fn storeOutcome(at: Address, value: Outcome) void {
    switch (value) {
        .complete => |case| {
            store(u8, at, 0);
            store(bool, at + 8, case != null);
            if (case) |some| storePayload(at + 12, some);
        },
        .snooze => |case| {
            store(u8, at, 1);
            store(u64, at + 8, case);
        },
    }
}

fn storeFailureDetail(at: Address, value: FailureDetail) void {
    storeText(at, value.code);
    storeText(at + 8, value.message);
    store(bool, at + 16, value.context != null);
    if (value.context) |some| storePayload(at + 20, some);
}

fn storeFailureRetryValue(at: Address, value: FailureRetryValue) void {
    storeFailureDetail(at, value.value0);
    store(bool, at + 40, value.value1 != null);
    if (value.value1) |some| store(u64, at + 48, some);
}

fn storeFailure(at: Address, value: Failure) void {
    switch (value) {
        .retry => |case| {
            store(u8, at, 0);
            storeFailureRetryValue(at + 8, case);
        },
        .reject => |case| {
            store(u8, at, 1);
            storeFailureDetail(at + 8, case);
        },
    }
}

pub const context = struct {
    const imports = struct {
        extern "gristmill:job/context@0.1.0" fn @"fuel-remaining"() u64;
        extern "gristmill:job/context@0.1.0" fn now() u64;
        extern "gristmill:job/context@0.1.0" fn @"is-cancelled"() bool;
        extern "gristmill:job/context@0.1.0" fn checkpoint(usize, usize, usize) void;
        extern "gristmill:job/context@0.1.0" fn progress(u32, u32, usize, usize) void;
    };

    pub fn fuelRemaining() u64 {
        return imports.@"fuel-remaining"();
    }

    pub fn now() u64 {
        return imports.now();
    }

    pub fn isCancelled() bool {
        return imports.@"is-cancelled"();
    }

    pub fn checkpoint(state_: []const u8) Result(void, CheckpointError) {
        var params: [8]u8 align(8) = undefined;
        const at: Address = &params;
        storeText(at, state_);
        var result: [24]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.checkpoint(load(usize, at), load(usize, at + 4), @intFromPtr(answer));
        return if (load(bool, answer)) .{ .err = liftCheckpointError(answer + 8) } else .{ .ok = {} };
    }

    pub fn progress(basis_points: u32, note: ?[]const u8) void {
        var params: [16]u8 align(8) = undefined;
        const at: Address = &params;
        store(bool, at + 4, note != null);
        if (note) |some| storeText(at + 8, some);
        imports.progress(basis_points, load(u8, at + 4), load(usize, at + 8), load(usize, at + 12));
    }
};

pub const queue = struct {
    const imports = struct {
        extern "gristmill:job/queue@0.1.0" fn enqueue(usize, usize) void;
        extern "gristmill:job/queue@0.1.0" fn @"enqueue-linked"(usize, usize) void;
    };

    pub fn enqueue(job: sdk.NewJob) Result([]const u8, EnqueueError) {
        var params: [96]u8 align(8) = undefined;
        const at: Address = &params;
        storeNewJob(at, job);
        var result: [24]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.enqueue(@intFromPtr(at), @intFromPtr(answer));
        return if (load(bool, answer)) .{ .err = liftEnqueueError(answer + 8) } else .{ .ok = liftText(answer + 8) };
    }

    pub fn enqueueLinked(job: sdk.NewJob, links: Links) Result([]const u8, LinkedError) {
        var params: [128]u8 align(8) = undefined;
        const at: Address = &params;
        storeNewJob(at, job);
        storeLinks(at + 96, links);
        var result: [24]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.@"enqueue-linked"(@intFromPtr(at), @intFromPtr(answer));
        return if (load(bool, answer)) .{ .err = liftLinkedError(answer + 8) } else .{ .ok = liftText(answer + 8) };
    }
};

pub const log = struct {
    const imports = struct {
        extern "gristmill:job/log@0.1.0" fn emit(u32, usize, usize, usize, usize) void;
        extern "gristmill:job/log@0.1.0" fn enabled(u32) bool;
    };

    pub fn emit(level: Level, message: []const u8, fields: []const sdk.Pair) void {
        var params: [20]u8 align(8) = undefined;
        const at: Address = &params;
        storeText(at + 4, message);
        storeList(sdk.Pair, at + 12, fields, 16, storePair);
        imports.emit(@intFromEnum(level), load(usize, at + 4), load(usize, at + 8), load(usize, at + 12), load(usize, at + 16));
    }

    pub fn enabled(level: Level) bool {
        return imports.enabled(@intFromEnum(level));
    }
};

pub const config = struct {
    const imports = struct {
        extern "gristmill:job/config@0.1.0" fn get(usize, usize, usize) void;
        extern "gristmill:job/config@0.1.0" fn secret(usize, usize, usize) void;
    };

    pub fn get(name: []const u8) ?[]const u8 {
        var params: [8]u8 align(8) = undefined;
        const at: Address = &params;
        storeText(at, name);
        var result: [12]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.get(load(usize, at), load(usize, at + 4), @intFromPtr(answer));
        return if (load(bool, answer)) liftText(answer + 4) else null;
    }

    pub fn secret(name: []const u8) ?[]const u8 {
        var params: [8]u8 align(8) = undefined;
        const at: Address = &params;
        storeText(at, name);
        var result: [12]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.secret(load(usize, at), load(usize, at + 4), @intFromPtr(answer));
        return if (load(bool, answer)) liftText(answer + 4) else null;
    }
};

pub const http = struct {
    const imports = struct {
        extern "gristmill:job/http@0.1.0" fn send(usize, usize, usize, usize, usize, usize, u32, usize, usize, u32, u64, u32, usize) void;
    };

    pub fn send(request: sdk.Request) Result(sdk.Response, HttpError) {
        var params: [64]u8 align(8) = undefined;
        const at: Address = &params;
        storeRequest(at, request);
        var result: [40]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.send(
            load(usize, at),
            load(usize, at + 4),
            load(usize, at + 8),
            load(usize, at + 12),
            load(usize, at + 16),
            load(usize, at + 20),
            load(u8, at + 24),
            load(usize, at + 28),
            load(usize, at + 32),
            load(u8, at + 40),
            load(u64, at + 48),
            load(u32, at + 56),
            @intFromPtr(answer),
        );
        return if (load(bool, answer)) .{ .err = liftHttpError(answer + 8) } else .{ .ok = liftResponse(answer + 8) };
    }
};

pub const state = struct {
    const imports = struct {
        extern "gristmill:job/state@0.1.0" fn get(usize) void;
        extern "gristmill:job/state@0.1.0" fn set(u32, usize, usize, usize) void;
    };

    pub fn get() Result(?[]const u8, StateError) {
        var result: [24]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.get(@intFromPtr(answer));
        return if (load(bool, answer)) .{ .err = liftStateError(answer + 8) } else .{ .ok = if (load(bool, answer + 8)) liftText(answer + 12) else null };
    }

    pub fn set(value: ?[]const u8) Result(void, StateError) {
        var params: [12]u8 align(8) = undefined;
        const at: Address = &params;
        store(bool, at, value != null);
        if (value) |some| storeText(at + 4, some);
        var result: [24]u8 align(8) = undefined;
        const answer: Address = &result;
        imports.set(load(u8, at), load(usize, at + 4), load(usize, at + 8), @intFromPtr(answer));
        return if (load(bool, answer)) .{ .err = liftStateError(answer + 8) } else .{ .ok = {} };
    }
};

pub const handler = struct {
    pub fn exportHandle(comptime handle: fn (sdk.Job) Result(Outcome, Failure)) void {
        const exports = struct {
            var result: [72]u8 align(8) = undefined;

            fn call(at: Address) callconv(.c) Address {
                const answer: Address = &result;
                switch (handle(liftJob(at))) {
                    .ok => |ok| {
                        store(bool, answer, false);
                        storeOutcome(answer + 8, ok);
                    },
                    .err => |err| {
                        store(bool, answer, true);
                        storeFailure(answer + 8, err);
                    },
                }
                return answer;
            }

            /// Called once the host has read the answer.
            fn post(_: Address) callconv(.c) void {
                _ = arena.reset(.retain_capacity);
            }
        };
        @export(&exports.call, .{ .name = "gristmill:job/handler@0.1.0#handle" });
        @export(&exports.post, .{ .name = "cabi_post_gristmill:job/handler@0.1.0#handle" });
    }
};

pub const self_test = struct {
    pub fn exportCheck(comptime check: fn () Result(void, []const u8)) void {
        const exports = struct {
            var result: [12]u8 align(8) = undefined;

            fn call() callconv(.c) Address {
                const answer: Address = &result;
                switch (check()) {
                    .ok => {
                        store(bool, answer, false);
                    },
                    .err => |err| {
                        store(bool, answer, true);
                        storeText(answer + 4, err);
                    },
                }
                return answer;
            }

            /// Called once the host has read the answer.
            fn post(_: Address) callconv(.c) void {
                _ = arena.reset(.retain_capacity);
            }
        };
        @export(&exports.call, .{ .name = "gristmill:job/self-test@0.1.0#check" });
        @export(&exports.post, .{ .name = "cabi_post_gristmill:job/self-test@0.1.0#check" });
    }
};
