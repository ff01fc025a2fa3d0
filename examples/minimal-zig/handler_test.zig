const std = @import("std");
const fake = @import("gristmill").fake;
const greet = @import("handler.zig").greet;

test "it greets" {
    defer fake.reset();
    const ending = fake.run(greet,
        \\{"name": "Ada"}
    , 1);
    try std.testing.expectEqualStrings("{\"hello\":\"Ada\"}", ending.complete.?.data);
}
