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
