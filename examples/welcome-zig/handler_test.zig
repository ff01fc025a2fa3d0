const std = @import("std");
const handle = @import("handler.zig").handle;
const gristmill = @import("gristmill");
const fake = gristmill.fake;
const expect = std.testing.expect;
const expectEqual = std.testing.expectEqual;
const expectEqualStrings = std.testing.expectEqualStrings;

const ada =
    \\{"email":"ada@example.org","name":"Ada"}
;

fn signup(comptime fields: []const u8) []const u8 {
    return "{\"email\":\"ada@example.org\",\"name\":\"Ada\"," ++ fields ++ "}";
}

fn expectResult(json: []const u8, ending: gristmill.Ending) !void {
    const result = ending.complete.?;
    try expectEqualStrings(json, result.data);
    try expectEqualStrings("application/json", result.content_type.?);
}

test "a signup is greeted" {
    defer fake.reset();
    const body =
        \\{"email":" Ada@Example.ORG\n","name":"\tAda  King ","plan":"pro","x":[{}]}
    ;
    try expectResult(
        \\{"email":"ada@example.org","name":"Ada King","plan":"pro","greeting":"Welcome, Ada King!"}
    , fake.run(handle, body, 1));
}

test "text stays as it is" {
    defer fake.reset();
    const body = signup("\"name\":\"\\u017dofie 🦀\\ud83e\\udd80\\u2028\\/\\b\\u001F<\"");
    const name = "Žofie 🦀🦀\u{2028}/\\b\\u001f<";
    try expectResult(
        "{\"email\":\"ada@example.org\",\"name\":\"" ++ name ++ "\",\"plan\":\"free\",\"greeting\":\"Welcome, " ++ name ++ "!\"}",
        fake.run(handle, body, 1),
    );
}

test "a reminder is asked for" {
    defer fake.reset();
    fake.state.now = 1000;
    _ = fake.run(handle, ada, 1);
    try expectEqual(1, fake.state.enqueued.items.len);
    const job = fake.state.enqueued.items[0];
    try expectEqualStrings("test", job.topic);
    try expectEqualStrings(
        \\{"email":"ada@example.org","name":"Ada","plan":"free","reminder":true}
    , job.body.data);
    try expectEqualStrings("application/json", job.body.content_type.?);
    try expectEqual(259_201_000, job.not_before);
    try expectEqualStrings("reminder:ada@example.org", job.unique.?);
    try expectEqual(.low, job.priority);
    try expect(job.key == null and job.unique_window == null and job.metadata.len == 0);
}

test "a reminder asks for none" {
    defer fake.reset();
    const ending = fake.run(handle, signup("\"reminder\":true"), 1);
    try expectResult(
        \\{"email":"ada@example.org","name":"Ada","plan":"free","greeting":"Still there, Ada?"}
    , ending);
    try expectEqual(0, fake.state.enqueued.items.len);
    try expectEqualStrings("reminder", fake.state.lines.items[0].message);
}

test "a reminder that is refused is rejected" {
    defer fake.reset();
    fake.state.enqueue_error = error.EnqueueDenied;
    try expectEqualStrings("enqueue-failed", fake.run(handle, ada, 1).reject.code);
}

test "the log keeps the address out" {
    defer fake.reset();
    _ = fake.run(handle, ada, 1);
    try expectEqual(1, fake.state.lines.items.len);
    const line = fake.state.lines.items[0];
    try expectEqual(.info, line.level);
    try expectEqualStrings("signup", line.message);
    try expectEqual(2, line.fields.len);
    try expectEqualStrings("domain", line.fields[0].name);
    try expectEqualStrings("example.org", line.fields[0].value);
    try expectEqualStrings("plan", line.fields[1].name);
    try expectEqualStrings("free", line.fields[1].value);
}

test "a greylisted domain is taken at the second try" {
    defer fake.reset();
    fake.state.settings = &.{.{ .name = "greylist", .value = "example.net, example.org ," }};
    const failure = fake.run(handle, ada, 1).retry;
    try expectEqualStrings("greylisted", failure.code);
    try expectEqualStrings("example.org takes new senders at the second try", failure.message);
    try expectEqual(30_000, failure.after);
    try expect(fake.run(handle, ada, 2).complete != null);
}

test "a bad signup is rejected" {
    const cases = [_]struct { []const u8, []const u8 }{
        .{ "", "bad-payload" },
        .{ "null", "bad-payload" },
        .{ "[]", "bad-payload" },
        .{ ada ++ ada, "bad-payload" },
        .{ "{\"email\":\"\xff\"}", "bad-payload" },
        .{ signup("\"x\":\"\\ud800\""), "bad-payload" },
        .{ signup("\"x\":01"), "bad-payload" },
        .{ signup("\"x\":[1,]"), "bad-payload" },
        .{ &@as([100_000]u8, @splat('[')), "bad-payload" },
        .{ "{\"x\":" ++ @as([500]u8, @splat('[')) ++ @as([500]u8, @splat(']')) ++ "}", "bad-payload" },
        .{ signup("\"reminder\":null"), "bad-payload" },
        .{ signup("\"reminder\":\"true\""), "bad-payload" },
        .{ "{}", "invalid-email" },
        .{ "{\"email\":1,\"name\":\"\",\"plan\":1}", "invalid-email" },
        .{ signup("\"email\":\"ada\""), "invalid-email" },
        .{ signup("\"email\":\"@example.org\""), "invalid-email" },
        .{ signup("\"email\":\"a@b@example.org\""), "invalid-email" },
        .{ signup("\"email\":\"a@org\""), "invalid-email" },
        .{ signup("\"email\":\"a@.org\""), "invalid-email" },
        .{ signup("\"email\":\"a@example.\""), "invalid-email" },
        .{ signup("\"name\":[]"), "invalid-name" },
        .{ signup("\"name\":\" \\t\",\"plan\":1"), "invalid-name" },
        .{ signup("\"plan\":null"), "invalid-plan" },
        .{ signup("\"plan\":\"Free\",\"reminder\":\"x\""), "invalid-plan" },
    };
    for (cases) |case| {
        defer fake.reset();
        const body, const code = case;
        errdefer std.debug.print("with {s}\n", .{body[0..@min(body.len, 80)]});
        try expectEqualStrings(code, fake.run(handle, body, 1).reject.code);
        try expectEqual(0, fake.state.lines.items.len + fake.state.enqueued.items.len);
    }
}

fn failing(_: std.mem.Allocator, _: gristmill.Job) !gristmill.Ending {
    return error.NoSuchLuck;
}

test "an error is a retry" {
    defer fake.reset();
    const failure = fake.run(failing, ada, 1).retry;
    try expectEqualStrings("error", failure.code);
    try expectEqualStrings("NoSuchLuck", failure.message);
}

fn keeping(arena: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    const before = try gristmill.getState() orelse "";
    try gristmill.setState(try std.mem.concat(arena, u8, &.{ before, job.body.data }));
    return if (std.mem.eql(u8, job.body.data, "!")) error.NoSuchLuck else gristmill.complete(null);
}

test "a completed job leaves a state to the next one of its key" {
    defer fake.reset();
    fake.state.key = "k";
    for ([_][]const u8{ "a", "!", "b" }) |body| _ = fake.run(keeping, body, 1);
    try expectEqualStrings("ab", fake.state.kept.?);
    fake.state.kept_limit = 2;
    try expectEqualStrings("state-too-large", fake.run(keeping, "c", 1).reject.code);
    try expectEqualStrings("ab", fake.state.kept.?);
    fake.state.key = null;
    try expectEqualStrings("no-key", fake.run(keeping, "c", 1).reject.code);
}

fn fanOut(_: std.mem.Allocator, job: gristmill.Job) !gristmill.Ending {
    const report = try gristmill.enqueue(.{ .topic = "report", .after_jobs = &.{job.id}, .after_failed = .run });
    _ = try gristmill.enqueue(.{ .topic = "row", .batch = report });
    return gristmill.complete(null);
}

test "a follow-up waits for the job that runs, and is a batch of others" {
    defer fake.reset();
    _ = fake.run(fanOut, "", 1);
    const report = fake.state.enqueued.items[0];
    try expectEqualStrings("01K00000000000000000000000", report.after_jobs[0]);
    try expect(report.after_jobs.len == 1 and report.after_failed == .run and report.batch == null and !report.open);
    const row = fake.state.enqueued.items[1];
    try expectEqualStrings("01K10000000000000000000001", row.batch.?);
    try expect(row.after_jobs.len == 0 and row.after_failed == .dead);
}

fn ask(_: std.mem.Allocator, _: gristmill.Job) !gristmill.Ending {
    const answer = try gristmill.send(.{ .url = "https://api.example.org" });
    return gristmill.complete(.text(answer.header("X-Kept").?));
}

test "a request is answered" {
    defer fake.reset();
    fake.state.response = .{ .status = 200, .headers = &.{.{ .name = "x-kept", .value = "fine" }} };
    try expectEqualStrings("fine", fake.run(ask, "", 1).complete.?.data);
    try expectEqualStrings("https://api.example.org", fake.state.requests.items[0].url);
}

test "a request that is not granted is rejected" {
    defer fake.reset();
    try expectEqualStrings("http-denied", fake.run(ask, "", 1).reject.code);
}

fn askTwice(_: std.mem.Allocator, _: gristmill.Job) !gristmill.Ending {
    const first = try gristmill.send(.{ .url = "https://api.example.org" });
    if (first.status != 503) return error.NoSuchLuck;
    _ = try gristmill.send(.{ .url = "https://api.example.org" });
    return gristmill.complete(null);
}

test "requests are answered one after the other" {
    defer fake.reset();
    fake.state.answers = &.{ .{ .status = 503 }, error.HttpTimeout };
    try expectEqualStrings("http-timeout", fake.run(askTwice, "", 1).retry.code);
    try expectEqual(2, fake.state.requests.items.len);
}

fn saving(_: std.mem.Allocator, _: gristmill.Job) !gristmill.Ending {
    try gristmill.checkpoint("half");
    _ = try gristmill.enqueue(.{ .topic = "report" });
    return gristmill.complete(null);
}

test "a refusal is retried if that may help" {
    defer fake.reset();
    for ([_]gristmill.EnqueueError{ error.EnqueueTooLarge, error.EnqueueTooMany, error.InvalidLinks }) |cause| {
        fake.state.enqueue_error = cause;
        try expectEqualStrings("enqueue-failed", fake.run(saving, "", 1).reject.code);
    }
    fake.state.enqueue_error = error.UnknownTopic;
    try expectEqualStrings("enqueue-failed", fake.run(saving, "", 1).retry.code);
    fake.state.checkpoint_error = error.CheckpointTooLarge;
    try expectEqualStrings("checkpoint-failed", fake.run(saving, "", 1).reject.code);
    fake.state.checkpoint_error = error.CheckpointUnavailable;
    try expectEqualStrings("checkpoint-failed", fake.run(saving, "", 1).retry.code);
}
