//! The handler of signups: checks one, greets, and sees to a reminder three days later.

const std = @import("std");
const gristmill = @import("gristmill");
const Allocator = std.mem.Allocator;
const Ending = gristmill.Ending;

pub const panic = gristmill.panic;

comptime {
    gristmill.exportHandler(handle);
}

const greylist_delay_ms = 30 * std.time.ms_per_s;
const reminder_delay_ms = 3 * std.time.ms_per_day;

/// What the body says, checked.
const Signup = struct {
    email: []const u8,
    domain: []const u8,
    name: []const u8,
    plan: []const u8,
    reminder: bool,
};

const Parsed = union(enum) { signup: Signup, refused: Ending };

pub fn handle(arena: Allocator, job: gristmill.Job) !Ending {
    const signup = switch (try parse(arena, job)) {
        .signup => |signup| signup,
        .refused => |ending| return ending,
    };
    if (job.attempt == 1 and isGreylisted(signup.domain)) return .{ .retry = .{
        .code = "greylisted",
        .message = try concat(arena, &.{ signup.domain, " takes new senders at the second try" }),
        .after = greylist_delay_ms,
    } };
    if (signup.reminder) {
        gristmill.info("reminder", .{ .domain = signup.domain, .plan = signup.plan });
        return welcome(arena, signup, try concat(arena, &.{ "Still there, ", signup.name, "?" }));
    }
    gristmill.info("signup", .{ .domain = signup.domain, .plan = signup.plan });
    try remind(arena, job.topic, signup);
    return welcome(arena, signup, try concat(arena, &.{ "Welcome, ", signup.name, "!" }));
}

fn parse(arena: Allocator, job: gristmill.Job) !Parsed {
    const body = try job.json(std.json.Value, arena) orelse return refused("bad-payload", "the body is not JSON");
    if (body != .object) return refused("bad-payload", "the body is not a JSON object");
    const fields = body.object;

    const given_email = text(fields.get("email")) orelse return refused("invalid-email", "email is not a string");
    const email = try std.ascii.allocLowerString(arena, std.mem.trim(u8, given_email, whitespace));
    const domain = domainOf(email) orelse return refused("invalid-email", "email is not of the form name@domain.tld");

    const given_name = text(fields.get("name")) orelse return refused("invalid-name", "name is not a string");
    const name = try singleSpaced(arena, given_name);
    if (name.len == 0) return refused("invalid-name", "name is empty");

    const plan = text(fields.get("plan") orelse .{ .string = "free" }) orelse "";
    if (!std.mem.eql(u8, plan, "free") and !std.mem.eql(u8, plan, "pro")) {
        return refused("invalid-plan", "plan is neither free nor pro");
    }
    const reminder = fields.get("reminder") orelse std.json.Value{ .bool = false };
    if (reminder != .bool) return refused("bad-payload", "reminder is neither true nor false");
    return .{ .signup = .{ .email = email, .domain = domain, .name = name, .plan = plan, .reminder = reminder.bool } };
}

fn refused(code: []const u8, message: []const u8) Parsed {
    return .{ .refused = gristmill.reject(code, message) };
}

fn text(value: ?std.json.Value) ?[]const u8 {
    const some = value orelse return null;
    return if (some == .string) some.string else null;
}

/// What is behind the only @ of an address.
fn domainOf(email: []const u8) ?[]const u8 {
    const local, const domain = std.mem.cutScalar(u8, email, '@') orelse return null;
    if (local.len == 0 or domain.len < 3) return null;
    const dot_inside = std.mem.findScalar(u8, domain[1 .. domain.len - 1], '.') != null;
    return if (dot_inside and std.mem.findScalar(u8, domain, '@') == null) domain else null;
}

/// JSON's: the rules must not depend on a language's idea of it.
const whitespace = " \t\r\n";

/// Trims, and makes one space of several.
fn singleSpaced(arena: Allocator, name: []const u8) ![]const u8 {
    var words: std.ArrayList([]const u8) = .empty;
    var rest = std.mem.tokenizeAny(u8, name, whitespace);
    while (rest.next()) |word| try words.append(arena, word);
    return std.mem.join(arena, " ", words.items);
}

/// The setting is a list of domains with commas between them.
fn isGreylisted(domain: []const u8) bool {
    var entries = std.mem.splitScalar(u8, gristmill.config("greylist") orelse return false, ',');
    while (entries.next()) |entry| {
        if (std.mem.eql(u8, std.mem.trim(u8, entry, whitespace), domain)) return true;
    }
    return false;
}

/// Asks for the reminder, once for each address.
fn remind(arena: Allocator, topic: []const u8, signup: Signup) !void {
    const body = .{ .email = signup.email, .name = signup.name, .plan = signup.plan, .reminder = true };
    _ = try gristmill.enqueue(.{
        .topic = topic,
        .body = try .json(arena, body),
        .not_before = gristmill.now() + reminder_delay_ms,
        .unique = try concat(arena, &.{ "reminder:", signup.email }),
        .priority = .low,
    });
}

fn welcome(arena: Allocator, signup: Signup, greeting: []const u8) !Ending {
    const result = .{ .email = signup.email, .name = signup.name, .plan = signup.plan, .greeting = greeting };
    return gristmill.complete(try .json(arena, result));
}

fn concat(arena: Allocator, parts: []const []const u8) ![]const u8 {
    return std.mem.concat(arena, u8, parts);
}
